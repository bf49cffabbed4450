"""What is asked of chapter 06: True means may look, padding hides keys, nobody sees ahead."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, function_trial, value_trial

RIGHT = [[5, 0, 7, 3, 3], [4, 6, 0, 9, 8]]  # filled up with 3; 0 is a word like any other
LEFT = [[0, 0, 4, 5, 6], [0, 2, 3, 4, 5]]  # filled up with 0, in front


def real_tokens(ids: Tensor, pad_id: int) -> Tensor:
    """Look at one token after another."""
    return torch.tensor([[[[token != pad_id for token in row]]] for row in ids.tolist()])


def not_ahead(length: int) -> Tensor:
    """Look at one pair of positions after another."""
    return torch.tensor([[column <= row for column in range(length)] for row in range(length)])


def padded(label: str, rows: list[list[int]], pad_id: int) -> Trial:
    """Compare the padding mask of some sentences with the one made token by token."""
    return function_trial(label, {"ids": torch.tensor(rows), "pad_id": pad_id}, real_tokens)


def kept_tokens(candidate: Callable[..., Tensor]) -> dict[str, str]:
    """List the tokens of each sentence that may be looked at."""
    mask = candidate(torch.tensor(RIGHT), 3)
    return {
        f"of {row}, filled up with 3, stay": str(
            [token for token, seen in zip(row, flags.flatten().tolist(), strict=True) if seen]
        )
        for row, flags in zip(RIGHT, mask, strict=True)
    }


def sights(candidate: Callable[..., Tensor]) -> dict[str, str]:
    """List for each of three positions where it may look."""
    mask = candidate(3)
    return {
        f"position {t} may look at": str(mask[t].nonzero().flatten().tolist()) for t in range(3)
    }


def device_asked(candidate: Callable[..., Tensor]) -> dict[str, str]:
    """Name a device that does not exist: whoever makes the mask there, hears of it from torch."""
    try:
        candidate(3, device="nowhere")
    except NotImplementedError:  # a stub, and a RuntimeError, too
        raise
    except RuntimeError:
        return {"the device asked for": "used"}
    return {"the device asked for": "not used"}


EXERCISES = (
    Exercise(
        "padding_mask",
        "masks",
        10,
        (
            padded("sentences filled up at the end", RIGHT, 3),
            value_trial(
                "a look at what stays",
                kept_tokens,
                {
                    "of [5, 0, 7, 3, 3], filled up with 3, stay": "[5, 0, 7]",
                    "of [4, 6, 0, 9, 8], filled up with 3, stay": "[4, 6, 0, 9, 8]",
                },
                says="True means *may look*: the real tokens stay, and only the padding is hidden.",
            ),
            padded("sentences filled up in front", LEFT, 0),
            padded("a single sentence", RIGHT[:1], 3),
        ),
        (
            "Compare the ids with `pad_id`: one comparison answers for all tokens of all "
            "sentences. Should it be `==` or `!=`, when True means *may look*?",
            "The result has the shape (B, S). Attention's scores are (B, H, T, S), and padding "
            "hides keys: the last axis. Put two axes of size 1 in between, by indexing with "
            "`None` or by `unsqueeze`.",
        ),
    ),
    Exercise(
        "causal_mask",
        "masks",
        10,
        (
            value_trial(
                "a look at three positions",
                sights,
                {
                    "position 0 may look at": "[0]",
                    "position 1 may look at": "[0, 1]",
                    "position 2 may look at": "[0, 1, 2]",
                },
                says="Every position sees itself and what came before, and nothing else.",
            ),
            function_trial("length 4", {"length": 4}, not_ahead),
            function_trial("length 1", {"length": 1}, not_ahead),
            value_trial(
                "a device that does not exist",
                device_asked,
                {"the device asked for": "used"},
                says="The mask has to be made on the device that is asked for: torch cannot "
                "combine tensors of two devices.",
            ),
        ),
        (
            "Rows are those who look, columns what they look at. Draw the 3 by 3 mask on paper: "
            "which triangle is True, and is the diagonal part of it?",
            "`torch.ones(length, length, dtype=torch.bool, device=device)` is True everywhere; "
            "`tril` keeps the lower triangle, `triu` the upper one. Both return a new tensor.",
        ),
    ),
)
