"""Definitions that learners write tests for, along with wrong versions and other correct ones."""

from functools import partial

from torch import Tensor

from course_lib.exercises.checking.mistake import mistake_of
from course_lib.modern_decoder import apply_rope, rope_angles


def softmax(scores: Tensor) -> Tensor:
    """Turn scores into probabilities over the last axis."""
    return scores.softmax(dim=-1)


def rotate(x: Tensor, start: int = 0) -> Tensor:
    """Rotate each pair of columns by the angle for the row's position, counted from ``start``."""
    T, d_k = x.shape[-2:]
    angles = rope_angles(start + T, d_k)[start:]  # (T, d_k / 2)
    return apply_rope(x, angles)


softmax_version = partial(mistake_of, "exercises.questions.tested_definitions", "softmax")
rotation = partial(mistake_of, "exercises.questions.tested_definitions", "rotate")
places = partial(mistake_of, "positions", "PositionalEncoding")
cache = partial(mistake_of, "kv_cache", "AttentionCache")
ROWS = "self.encoding[start:end]"
ROTATED = "apply_rope(x, angles)"
RIGHT_WAYS = (
    softmax_version(
        "by_exponentials: the exponentials are divided by their sum",
        ("scores.softmax(dim=-1)", "scores.exp() / scores.exp().sum(dim=-1, keepdim=True)"),
    ),
    rotation("backwards: every pair rotates backwards", (ROTATED, "apply_rope(x, -angles)")),
    rotation(
        "halves_paired: columns i and i + d_k / 2 form a pair",
        ("return", "x = x.unflatten(-1, (2, -1)).mT.flatten(-2)\n    return"),
        (ROTATED, f"{ROTATED}.unflatten(-1, (-1, 2)).mT.flatten(-2)"),
    ),
)
MISTAKES = (
    softmax_version(
        "over_columns: the softmax runs over dim=0, so the columns add up to 1 instead of the rows",
        ("dim=-1", "dim=0"),
    ),
    softmax_version(
        "over_everything: the softmax runs over all entries of the table",
        ("scores.softmax(dim=-1)", "scores.flatten().softmax(dim=0).view_as(scores)"),
    ),
    softmax_version(
        "not_shared_out: the exponentials are not divided by their sum",
        ("scores.softmax(dim=-1)", "scores.exp()"),
    ),
    rotation(
        "code_added: a positional encoding is added to every vector, which changes its length",
        (ROTATED, "x + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(x)"),
    ),
    rotation(
        "twice_as_long: every vector becomes twice as long, but a rotation does not change lengths",
        ("return ", "return 2 * "),
    ),
    rotation(
        "sign_lost: one of the two formulas has the wrong sign, so the result is not a rotation",
        (
            ROTATED,
            "torch.stack([apply_rope(x, -angles)[..., 0::2], apply_rope(x, angles)[..., 1::2]], "
            "dim=-1).flatten(-2)",
        ),
    ),
    rotation(
        "start_ignored: `start` is ignored (test it with the later rows of a sequence)",
        ("[start:]", "[:T]"),
    ),
    rotation("unrotated: nothing is rotated", (ROTATED, "x.clone()")),
    rotation(
        "squared: the angles are squared, so a score depends on more than the distance",
        (ROTATED, "apply_rope(x, angles.square())"),
    ),
    rotation(
        "along_another_axis: all rows of a head are rotated by the same angles",
        (ROTATED, "apply_rope(x, angles[:1].expand_as(angles))"),
    ),
    places(
        "one_row_for_all: all words of a sentence get the same row of the table",
        (ROWS, "self.encoding[start]"),
    ),
    places(
        "rows_shifted_by_sentence: each sentence starts one row later than the sentence before it",
        (ROWS, "torch.stack([self.encoding.roll(-b, 0)[start:end] for b in range(len(x))])"),
    ),
    cache(
        "keys_stay: `reorder` reorders the values but not the keys",
        (
            "(self.keys, self.values), self.spare = self.spare, before",
            "self.values, self.spare = self.spare[1], (self.spare[0], before[1])",
        ),
    ),
)
