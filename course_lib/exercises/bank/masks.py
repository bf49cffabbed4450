"""Exercises of chapter 06: trials, known mistakes and right answers."""

from collections.abc import Callable

import torch
from torch import Tensor

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import known
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
        unnamed=("(ids != pad_id)", "(ids != pad_id).roll(1, 1)"),
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
        unnamed=(".tril()", ".tril().fliplr()"),
    ),
)


# known mistakes

padding = known("masks", "padding_mask")
causal = known("masks", "causal_mask")

KEYS = "(ids != pad_id)[:, None, None, :]"
LOWER = "torch.ones(length, length, dtype=torch.bool, device=device).tril()"

MISTAKES = (
    padding(
        "padding_inverted",
        "padding is True and words are False: True has to mean *may look*",
        (KEYS, "(ids == pad_id)[:, None, None, :]"),
        seen="mix-ups of torch's two conventions, as in pytorch/pytorch #170415",
    ),
    padding(
        "padding_on_queries",
        "the mask hides query rows, (B, 1, S, 1), instead of keys, (B, 1, 1, S)",
        (KEYS, "(ids != pad_id)[:, None, :, None]"),
        seen="hyunwoongko/transformer #40",
    ),
    padding(
        "padding_rows_and_columns",
        "padding is hidden in rows and columns: a padded query then has nothing to look at",
        (KEYS, "(ids != pad_id)[:, None, :, None] & (ids != pad_id)[:, None, None, :]"),
        seen="asked for in bentrevett/pytorch-seq2seq #119 and Biohub/esm #299",
    ),
    padding(
        "padding_one_axis_short",
        "there is one axis too few: in (B, 1, S) the sentences fall on the axis of the heads",
        (KEYS, "(ids != pad_id)[:, None, :]"),
    ),
    padding(
        "padding_of_numbers",
        "the mask holds 1 and 0 instead of True and False: torch's kernel would add such numbers "
        "to the scores",
        (KEYS, "(ids != pad_id).long()[:, None, None, :]"),
        seen="tokenizers, whose attention_mask is one of integers; vllm-project/speculators #691",
    ),
    padding(
        "padding_is_zero",
        "the ids are compared with 0 instead of pad_id",
        (KEYS, "(ids != 0)[:, None, None, :]"),
        seen="wzhouad/RE_improved_baseline #3; kpe/bert-for-tf2 #68",
    ),
    padding(
        "padding_by_length",
        "the words are counted, and the first ones kept: padding in front is taken for words",
        (KEYS, "(torch.arange(ids.size(1)) < (ids != pad_id).sum(1, keepdim=True))[:, None, None]"),
        seen="TransformerLensOrg/TransformerLens #390; NVIDIA-NeMo/Automodel #3704",
    ),
    causal(
        "causal_sees_next",
        "the triangle reaches one too far (diagonal=1): every position sees the next one",
        (".tril()", ".tril(diagonal=1)"),
        seen="asked about in TransformerLensOrg/TransformerLens #284",
    ),
    causal(
        "causal_without_itself",
        "the diagonal is missing (diagonal=-1): no position sees itself, the first one nothing",
        (".tril()", ".tril(diagonal=-1)"),
        seen="pbloem/former #10, a post whose first row became nan",
    ),
    causal(
        "causal_transposed",
        "it is the upper triangle (triu): every position sees what comes after it",
        (".tril()", ".triu()"),
        seen="pytorch/pytorch #29546; asked in karpathy/nanoGPT #170",
    ),
    causal(
        "causal_inverted",
        "True stands for what is hidden: in this course True means *may look*",
        (".tril()", ".triu(diagonal=1)"),
        seen="rasbt/LLMs-from-scratch #1061; hkproj/pytorch-transformer #19",
    ),
    causal(
        "causal_of_numbers",
        "the mask holds 1.0 and 0.0 instead of True and False: torch's kernel would add such "
        "numbers to the scores",
        (LOWER, "torch.ones(length, length, device=device).tril()"),
    ),
    causal(
        "causal_additive",
        "the mask holds 0 and -inf, to be added to the scores, instead of True and False",
        (LOWER, 'torch.full((length, length), float("-inf"), device=device).triu(1)'),
    ),
    causal(
        "causal_leading_axes",
        "there are axes in front; the mask for all sentences and heads is (T, T)",
        (LOWER, f"{LOWER}[None]"),
    ),
    causal(
        "causal_device_ignored",
        "the mask is made on the default device instead of the one that is asked for",
        (", device=device", ""),
        seen="mlverse/torch #1473; databrickslabs/dolly #180",
    ),
)


# right answers


def padding_by_unsqueeze(ids: Tensor, pad_id: int) -> Tensor:
    """Invert what is padding, as d2l and many tutorials do."""
    return ids.eq(pad_id).logical_not().unsqueeze(1).unsqueeze(1)


def causal_by_comparing(length: int, device=None) -> Tensor:
    """Compare the positions of those who look with what they look at."""
    position = torch.arange(length, device=device)
    return position[:, None] >= position


ANSWERS = {
    "padding_mask": (padding_by_unsqueeze,),
    "causal_mask": (causal_by_comparing,),
}
