"""What learners write a test for beside exercises, each with its mistakes and other right ways."""

import torch
from torch import Tensor

from course_lib.exercises.mistake_catalogue import known


def softmax(scores: Tensor) -> Tensor:
    """Share out 1 over the last axis."""
    return scores.softmax(dim=-1)


def rotate(x: Tensor, start: int = 0) -> Tensor:
    """Turn each pair of columns by the angle of its position, counted from ``start``."""
    T, d_k = x.shape[-2:]  # in float64: chapter 03's table is rounded to float32
    speeds = 10000.0 ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    angle = torch.outer(torch.arange(start, start + T, dtype=torch.float64), speeds)
    even, odd = x[..., 0::2].double(), x[..., 1::2].double()
    cosine, sine = angle.cos(), angle.sin()
    pair = [even * cosine - odd * sine, even * sine + odd * cosine]
    return torch.stack(pair, dim=-1).flatten(-2).to(x)


share = known("exercises.definitions_to_test", "softmax")
turn = known("exercises.definitions_to_test", "rotate")
penalty = known("beam_search", "length_penalty")
RETURNED = "return torch.stack(pair, dim=-1).flatten(-2).to(x)"
RIGHT_WAYS = (
    share(
        "by_exponentials",
        "e to each score is divided by their sum",
        ("scores.softmax(dim=-1)", "scores.exp() / scores.exp().sum(dim=-1, keepdim=True)"),
    ),
    turn("backwards", "every pair turns the other way round", ("angle.sin()", "-angle.sin()")),
    turn(
        "halves_paired",
        "columns i and i + d_k / 2 are a pair",
        (
            "even, odd = x[..., 0::2].double(), x[..., 1::2].double()",
            "even, odd = x.double().chunk(2, dim=-1)",
        ),
        (RETURNED, "return torch.cat(pair, dim=-1).to(x)"),
    ),
)
MISTAKES = (
    share(
        "over_columns",
        "softmax runs over the columns (dim=0): then the columns add up to 1",
        ("dim=-1", "dim=0"),
    ),
    share(
        "over_everything",
        "softmax runs over the whole table at once",
        ("scores.softmax(dim=-1)", "scores.flatten().softmax(dim=0).view_as(scores)"),
    ),
    share(
        "not_shared_out",
        "the exponentials are not divided by their sum",
        ("scores.softmax(dim=-1)", "scores.exp()"),
    ),
    turn(
        "code_added",
        "a code is added to every vector, which changes its length",
        ("even * cosine - odd * sine, even * sine + odd * cosine", "even + sine, odd + cosine"),
    ),
    turn(
        "twice_as_long",
        "every vector comes out twice as long: the scores know the distance "
        "alone, but a rotation keeps lengths",
        ("return ", "return 2 * "),
    ),
    turn(
        "sign_lost",
        "a sign is wrong in one of the two formulas, so that it is no rotation",
        ("even * cosine - odd", "even * cosine + odd"),
    ),
    turn(
        "start_ignored",
        "`start` is ignored: call it with rows from a later place on as well",
        ("torch.arange(start, start + T", "torch.arange(0, T"),
    ),
    turn(
        "along_another_axis",
        "positions run along another axis than the last but one: the rows "
        "of a head are all turned alike",
        ("torch.arange(start, start + T,", "torch.full((T,), start,"),
    ),
    penalty(
        "exponent_negative",
        "the exponent has the wrong sign: dividing by this favours short sentences even more",
        ("** alpha", "** -alpha"),
    ),
    penalty(
        "alpha_multiplied",
        "alpha is a factor: it is an exponent, and 0 must give 1",
        ("** alpha", "* alpha"),
    ),
)
