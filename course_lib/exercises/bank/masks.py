"""Exercises for chapter 06: trials, known mistakes and correct answers."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.trial import Trial, as_trial, function_trial

RIGHT = [[5, 0, 7, 3, 3], [4, 6, 0, 9, 8]]  # padding is 3, and 0 is a normal token
LEFT = [[0, 0, 4, 5, 6], [0, 2, 3, 4, 5]]  # padding is 0 and comes first


def padded(label: str, rows: list[list[int]], pad_id: int) -> Trial:
    """Compare the padding masks for some sentences."""
    return function_trial(label, {"ids": torch.tensor(rows), "pad_id": pad_id}, ("mask",))


@as_trial("the visible tokens", "True means *may look*, so only padding may be False.")
def visible_tokens(candidate: Callable[..., Tensor]) -> dict[str, str]:
    mask = candidate(torch.tensor(RIGHT), 3)
    return {
        f"visible tokens of {row}, where 3 is padding": str(
            [token for token, seen in zip(row, flags.flatten().tolist(), strict=True) if seen]
        )
        for row, flags in zip(RIGHT, mask, strict=True)
    }


@as_trial("three positions", "Every position may look only at itself and at earlier positions.")
def visible_positions(candidate: Callable[..., Tensor]) -> dict[str, str]:
    mask = candidate(3)
    return {
        f"position {t} may look at": str(mask[t].nonzero().flatten().tolist()) for t in range(3)
    }


@as_trial(
    'device="meta"',
    "Create the mask on `device`, because torch cannot combine tensors on different devices.",
)
def device_asked(candidate: Callable[..., Tensor]) -> dict[str, str]:
    return {"device of the mask": str(candidate(3, device="meta").device)}


EXERCISES = (
    Exercise(
        "causal_mask",
        10,
        core={
            "triangle": (visible_positions, function_trial("length 4", {"length": 4}, ("mask",))),
            "one token": (function_trial("length 1", {"length": 1}, ("mask",)),),
        },
        formula="Token i may look at token j if j is not later than i.",
        hints=(
            "Rows are queries and columns are keys. Draw the 3 by 3 mask on paper. Which triangle "
            "is True, and is the diagonal part of it?",
            "`torch.ones(length, length, dtype=torch.bool, device=device)` is True everywhere. "
            "`tril` keeps the lower triangle, and `triu` keeps the upper one. Both return a new "
            "tensor.",
        ),
        extras={"device": (device_asked,)},
        rejects=("(0)", "(-1)"),
    ),
    Exercise(
        "padding_mask",
        10,
        core={
            "real tokens": (padded("sentences padded at the end", RIGHT, 3), visible_tokens),
            "any batch": (
                padded("sentences padded at the start", LEFT, 0),
                padded("a single sentence", RIGHT[:1], 3),
            ),
        },
        formula="The mask is True wherever there is a real token.",
        hints=(
            "A single comparison of the ids with `pad_id` handles all tokens of all sentences. "
            "Should it be `==` or `!=` if True means *may look*?",
            "The result has the shape (B, S). The attention scores have the shape (B, H, T, S), "
            "and the mask must hide keys, which are on the last axis. Insert two axes of size 1 "
            "with `None` or `unsqueeze`.",
        ),
        rejects=("(torch.ones(3), 0)", "(torch.ones(2, 1, 3), 0)"),
    ),
)


# known mistakes


KEYS = "(ids != pad_id)[:, None, None, :]"
LOWER = "torch.ones(length, length, dtype=torch.bool, device=device).tril()"

MISTAKES = {
    "padding_mask": {
        "padding_inverted: padding is True and real tokens "
        "are False, but True must mean *may look*": (KEYS, "(ids == pad_id)[:, None, None, :]"),
        "padding_on_queries: the mask has shape (B, 1, S, 1) and hides queries; it must have shape "
        "(B, 1, 1, S) "
        "and hide keys [hyunwoongko/transformer #40]": (KEYS, "(ids != pad_id)[:, None, :, None]"),
        "padding_rows_and_columns: padding is hidden in rows and columns, so a query at a padding "
        "position cannot attend to any key [hyunwoongko/transformer "
        "#1]": (KEYS, "(ids != pad_id)[:, None, :, None] & (ids != pad_id)[:, None, None, :]"),
        "padding_one_axis_short: an axis is missing, so broadcasting lines up the batch axis of "
        "(B, 1, S) with the heads": (KEYS, "(ids != pad_id)[:, None, :]"),
        "padding_of_numbers: the mask contains 1 and 0 instead of True and False, but torch's "
        "kernel adds the numbers in a mask to the scores "
        "[vllm-project/speculators #691]": (KEYS, "(ids != pad_id).long()[:, None, None, :]"),
        "padding_is_zero: the ids are compared with 0 instead of pad_id "
        "[wzhouad/RE_improved_baseline "
        "#3; kpe/bert-for-tf2 #68]": (KEYS, "(ids != 0)[:, None, None, :]"),
        "padding_by_length: the code counts the real tokens and keeps that many from the start, "
        "which is wrong if the padding comes first [TransformerLensOrg/TransformerLens #390; "
        "NVIDIA-NeMo/Automodel #3704]": (
            KEYS,
            "(torch.arange(ids.size(1)) < (ids != pad_id).sum(1, keepdim=True))[:, None, None]",
        ),
    },
    "causal_mask": {
        "causal_sees_next: the triangle is one diagonal too large (diagonal=1), so every position "
        "sees the next one": (".tril()", ".tril(diagonal=1)"),
        "causal_without_itself: the diagonal is missing (diagonal=-1), so no position may look at "
        "itself": (".tril()", ".tril(diagonal=-1)"),
        "causal_transposed: the mask is the upper triangle (triu), so every position sees later "
        "ones [pytorch/pytorch #29546]": (".tril()", ".triu()"),
        "causal_inverted: True marks hidden positions, but in this course True means *may look* "
        "[rasbt/LLMs-from-scratch "
        "#1061; hkproj/pytorch-transformer #19]": (".tril()", ".triu(diagonal=1)"),
        "causal_of_numbers: the mask contains 1.0 and 0.0 instead of True and False, but torch's "
        "kernel adds the numbers "
        "in a mask to the scores": (LOWER, "torch.ones(length, length, device=device).tril()"),
        "causal_additive: the mask is meant to be added to the scores: it contains 0 and -inf "
        "instead of True "
        "and False": (LOWER, 'torch.full((length, length), float("-inf"), device=device).triu(1)'),
        "causal_leading_axes: the mask has an additional axis, but its shape must be (T, T)": (
            LOWER,
            f"{LOWER}[None]",
        ),
        "causal_device_ignored: `device` is ignored, so the mask is created on the default device "
        "[mlverse/torch #1473; databrickslabs/dolly #180]": (", device=device", ""),
    },
}


# right answers

ANSWERS = {
    "causal_mask": {
        "by_comparing: the positions of the queries are compared with those of the keys": (
            f"return {LOWER}",
            "at = torch.arange(length, device=device)\n    return at[:, None] >= at",
        ),
    },
}
