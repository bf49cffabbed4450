"""What is asked of chapter 06."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import Trial, function_trial, looks

RIGHT = [[5, 0, 7, 3, 3], [4, 6, 0, 9, 8]]  # padded with 3; 0 is a word like any other
LEFT = [[0, 0, 4, 5, 6], [0, 2, 3, 4, 5]]  # padded with 0, in front


def padded(label: str, rows: list[list[int]], pad_id: int) -> Trial:
    """Compare the padding mask of some sentences."""
    return function_trial(label, {"ids": torch.tensor(rows), "pad_id": pad_id}, ("mask",))


@looks("a look at what stays", "True means *may look*: real tokens stay, only padding is hidden.")
def kept_tokens(candidate: Callable[..., Tensor]) -> dict[str, str]:
    """List the tokens of each sentence that may be looked at."""
    mask = candidate(torch.tensor(RIGHT), 3)
    return {
        f"of {row}, padded with 3, stay": str(
            [token for token, seen in zip(row, flags.flatten().tolist(), strict=True) if seen]
        )
        for row, flags in zip(RIGHT, mask, strict=True)
    }


@looks(
    "a look at three positions",
    "Every position sees itself and what came before, and nothing else.",
)
def sights(candidate: Callable[..., Tensor]) -> dict[str, str]:
    """List for each of three positions where it may look."""
    mask = candidate(3)
    return {
        f"position {t} may look at": str(mask[t].nonzero().flatten().tolist()) for t in range(3)
    }


@looks(
    'device="meta"',
    "The mask has to be made on the device that is asked for: torch cannot combine tensors of two "
    "devices.",
)
def device_asked(candidate: Callable[..., Tensor]) -> dict[str, str]:
    """Ask for the device without storage."""
    return {"device of the mask": str(candidate(3, device="meta").device)}


EXERCISES = (
    Exercise(
        "padding_mask",
        "masks",
        10,
        core={
            "real tokens": (padded("sentences padded at the end", RIGHT, 3), kept_tokens),
            "any batch": (
                padded("sentences padded in front", LEFT, 0),
                padded("a single sentence", RIGHT[:1], 3),
            ),
        },
        hints=(
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
        core={
            "triangle": (sights, function_trial("length 4", {"length": 4}, ("mask",))),
            "one token": (function_trial("length 1", {"length": 1}, ("mask",)),),
        },
        hints=(
            "Rows are those who look, columns what they look at. Draw the 3 by 3 mask on paper: "
            "which triangle is True, and is the diagonal part of it?",
            "`torch.ones(length, length, dtype=torch.bool, device=device)` is True everywhere; "
            "`tril` keeps the lower triangle, `triu` the upper one. Both return a new tensor.",
        ),
        extras={"device": (device_asked,)},
    ),
)
