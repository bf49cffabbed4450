"""What is asked of chapter 01."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import survivors
from course_lib.exercises.trial import D_K, D_V, B, H, S, T, Trial, function_trial, looks, normal


def inputs(leading=(B, H), lengths=(T, S), widths=(D_K, D_V), mask: Tensor | None = None) -> dict:
    """Make queries, keys and values, and a mask if there is one."""
    named = {
        "query": normal("query", *leading, lengths[0], widths[0]),
        "key": normal("key", *leading, lengths[1], widths[0]),
        "value": normal("value", *leading, lengths[1], widths[1]),
    }
    return named if mask is None else named | {"mask": mask}


def some_mask(*shape: int, blocked: int | None = None) -> Tensor:
    """Make a mask that is no triangle; one row, if any, may look at nothing."""
    mask = normal("mask", *shape) > 0
    mask[..., 0], mask[..., 1] = False, True  # read the other way round, no row is blocked
    if blocked is not None:
        mask[blocked] = False
    return mask


def called(label: str, **which: Any) -> Trial:
    """Compare output, weights and gradients on some inputs."""
    return function_trial(label, inputs(**which), ("output", "weights"))


@looks(
    "a look at the weights", "Every query shares out one unit of attention: each row adds up to 1."
)
def row_sums(candidate: Callable) -> dict[str, Tensor]:
    """Add up every row of the weights."""
    return {"sum of each row": candidate(*inputs().values())[1].sum(dim=-1)}


@looks(
    "a key that nobody may look at",
    "True means *may look*; what is blocked must have no say in the output.",
)
def hidden_keys(candidate: Callable) -> dict[str, bool]:
    """Change what is blocked, and look whether the answer changes."""
    mask = some_mask(T, S)
    mask[:, 0] = False
    plain = inputs(mask=mask)
    other = {name: x.clone() for name, x in plain.items()}
    other["key"][..., 0, :] += 3
    other["value"][..., 0, :] -= 3
    outputs = [candidate(*given.values())[0] for given in (plain, other)]
    weights = candidate(*plain.values())[1]
    return {
        "a blocked key changes the output": not torch.allclose(*outputs, atol=1e-5),
        "each row adds up to": round(weights.sum(dim=-1).min().item(), 3),
    }


@looks("a query that may look at nothing", "Such a query gets zeros: no weights, no output.")
def nothing_to_see(candidate: Callable) -> dict[str, Tensor]:
    """Block a whole row, and return what comes out of it."""
    output, weights = candidate(*inputs(mask=some_mask(T, S, blocked=2)).values())
    return {"its weights": weights[..., 2, :], "its output": output[..., 2, :]}


@looks(
    "no word about dropout", "Nothing is dropped unless asked for, and numbers keep their dtype."
)
def asked_plainly(candidate: Callable) -> dict[str, Any]:
    """Call it twice without a word about dropout, and once in float64."""
    given = inputs().values()
    one, other = (candidate(*given)[0] for _ in range(2))
    double = candidate(*(x.double() for x in given))[0]
    return {"two calls differ": not torch.equal(one, other), "float64 comes back": double.dtype}


@looks(
    "dropout_p=0.2",
    "Dropout acts on each weight that blends by itself, and divides what is left by 1 - dropout_p; "
    "the weights returned stay whole.",
    kind="train and eval",
)
def dropped(candidate: Callable) -> dict[str, Any]:
    """Drop some of the weights; values that are two identities show which are left."""
    twice = torch.eye(S).repeat(1, 2).expand(B, H, S, 2 * S)
    given = inputs() | {"value": twice}
    _, whole = candidate(*given.values())
    output, weights = candidate(*given.values(), dropout_p=0.2)
    output, again = output.split(S, dim=-1)
    return {
        "a dropped weight is dropped for the whole value": torch.equal(output, again),
        "a weight": survivors(output / whole, "sentences", "heads", "queries", "keys"),
        "weights are those before dropout": torch.allclose(weights, whole),
    }


EXERCISES = (
    Exercise(
        "scaled_dot_product_attention",
        "attention",
        25,
        core={
            "formula": (
                called("sizes that all differ"),
                called("sizes that are all equal", lengths=(S, S), widths=(S, S)),
                called("no batch and no heads", leading=()),
                row_sums,
                asked_plainly,
            ),
            "mask": (
                hidden_keys,
                called("a mask for every query", mask=some_mask(T, S)),
                called("a mask for every head", mask=some_mask(B, H, T, S)),
                called("a padding mask (B, 1, 1, S)", mask=some_mask(B, 1, 1, S)),
            ),
        },
        hints=(
            "Three lines mirror the formula: scores, weights, and what the weights make of the "
            "values. Which axis of `key` has to move so that `query @ …` compares every query "
            "with every key?",
            "Divide by the square root of the last size of `query`. Where the mask is `False`, put "
            "`float('-inf')` before the softmax, which runs over the keys: the last axis.",
            "A row that is blocked everywhere is all `-inf`, and its softmax is nan: after the "
            "softmax, set the blocked weights to 0. `F.dropout(weights, dropout_p)` does the rest.",
        ),
        shortcuts={
            F.scaled_dot_product_attention: "This calls torch's own kernel, the very thing you "
            "are building here. It has its place in chapter 02; write the formula out first."
        },
        extras={
            "fully masked row": (
                nothing_to_see,
                called("a blocked row among others", mask=some_mask(T, S, blocked=2)),
            ),
            "large scores": (
                function_trial(
                    "scores in the thousands",
                    {n: 60 * x if n != "value" else x for n, x in inputs().items()},
                    ("output", "weights"),
                ),
            ),
            "dropout": (dropped,),
        },
    ),
)
