"""Exercises for chapter 01: trials, known mistakes and correct answers."""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.mistake import Edits
from course_lib.exercises.checking.trial import (
    D_K,
    D_V,
    B,
    H,
    S,
    T,
    Trial,
    as_trial,
    function_trial,
    half_precision,
    normal,
    outputs_only,
)


def inputs(
    leading=(B, H), lengths=(T, S), widths=(D_K, D_V), mask: Tensor | None = None, scale: int = 1
) -> dict:
    """Return queries and keys (multiplied by *scale*), values and, if there is one, the mask."""
    named = {
        "query": scale * normal("query", *leading, lengths[0], widths[0]),
        "key": scale * normal("key", *leading, lengths[1], widths[0]),
        "value": normal("value", *leading, lengths[1], widths[1]),
    }
    return named if mask is None else named | {"mask": mask}


def some_mask(*shape: int, blocked: int | None = None) -> Tensor:
    """Return a mask that is not triangular; it blocks every key for the query *blocked*."""
    mask = normal("mask", *shape) > 0
    mask[..., 0], mask[..., 1] = False, True  # no other row is all False, or all True
    if blocked is not None:
        mask[blocked] = False
    return mask


def called(label: str, **which: Any) -> Trial:
    """Compare the output, the weights and the gradients for some inputs."""
    return function_trial(label, inputs(**which), ("output", "weights"))


@as_trial("the sums of the weights", "The weights of each query must add up to 1.")
def row_sums(candidate: Callable) -> dict[str, Tensor]:
    return {"sum of each row": candidate(*inputs().values())[1].sum(dim=-1)}


@as_trial(
    "a key that is blocked for every query",
    "True means *may look*, and a blocked key must not affect the output.",
)
def hidden_keys(candidate: Callable) -> dict[str, bool]:
    mask = some_mask(T, S)
    mask[:, 0] = False
    plain = inputs(mask=mask)
    other = {name: x.clone() for name, x in plain.items()}
    other["key"][..., 0, :] += 3
    other["value"][..., 0, :] -= 3
    outputs = [candidate(*each.values())[0] for each in (plain, other)]
    weights = candidate(*plain.values())[1]
    return {
        "a blocked key changes the output": not torch.allclose(*outputs, atol=1e-5),
        "each row adds up to": round(weights.sum(dim=-1).min().item(), 3),
    }


@as_trial("a query that may not attend to any key", "Its weights and its output must all be zero.")
def fully_blocked_row(candidate: Callable) -> dict[str, Tensor]:
    output, weights = candidate(*inputs(mask=some_mask(T, S, blocked=2)).values())
    return {"its weights": weights[..., 2, :], "its output": output[..., 2, :]}


@as_trial(
    "a second call",
    "The same inputs must give the same output every time, and the dtype must not change.",
)
def called_again(candidate: Callable) -> dict[str, Any]:
    tensors = inputs().values()
    one, other = (candidate(*tensors)[0] for _ in range(2))
    double = candidate(*(x.double() for x in tensors))[0]
    return {"two calls differ": not torch.equal(one, other), "float64 comes back": double.dtype}


def attends(candidate: Callable, dtype: torch.dtype) -> Tensor:
    """Return the output for entries of 40, whose products add up to 102,400 before the scale."""
    large, value = (normal(name, T, 64).half().to(dtype) for name in ("large", "value"))
    return candidate(40 * large.sign(), 40 * large.sign(), value)[0]


EXERCISES = (
    Exercise(
        "scaled_dot_product_attention",
        25,
        core={
            "formula": (
                called("sizes that all differ"),
                called("sizes that are all equal", lengths=(S, S), widths=(S, S)),
                called("no batch and no heads", leading=()),
                row_sums,
                called_again,
            ),
            "mask": (
                hidden_keys,
                called("a mask for every query", mask=some_mask(T, S)),
                called("a mask for every head", mask=some_mask(B, H, T, S)),
                called("a padding mask (B, 1, 1, S)", mask=some_mask(B, 1, 1, S)),
                outputs_only(
                    called("a mask and scores in the hundreds", mask=some_mask(T, S), scale=12)
                ),
            ),
        },
        formula="Equation (1) is softmax(QKᵀ/√d_k) V. The softmax runs over the keys that each "
        "query may see.",
        hints=(
            "Three lines mirror the formula: the scores, the weights, and the weighted average of "
            "the values. Which axis of `key` has to move so that `query @ …` compares every query "
            "with every key?",
            "Divide by the square root of the size of `query`'s last axis. Set the scores to "
            "`float('-inf')` where the mask is `False`. Then apply the softmax over the keys, "
            "which are on the last axis.",
            "If every key in a row is blocked, all the row's scores are `-inf` and their softmax "
            "is nan, so set the blocked weights to 0 after the softmax.",
        ),
        shortcuts={
            F.scaled_dot_product_attention: "This calls torch's own kernel, but here you build "
            "that function yourself. Write the formula out; from chapter 02 on you may call it."
        },
        extras={
            "fully masked row": (
                fully_blocked_row,
                called("one row with every key blocked", mask=some_mask(T, S, blocked=2)),
            ),
            "large scores": (called("scores of several thousand", scale=60),),
            "half precision": (
                half_precision(
                    "A float16 ends at 65,504, so divide the queries by √d_k before the product.",
                    attends,
                ),
            ),
        },
        rejects=(
            "(torch.ones(3, 4), torch.ones(3, 5), torch.ones(3, 5))",
            "(torch.ones(2, 4), torch.ones(3, 4), torch.ones(4, 4))",
            "(torch.ones(2, 4), *2 * [torch.ones(3, 4)], torch.ones(2, 3))",
        ),
    ),
)


# known mistakes


SCALE = "/ math.sqrt(d_k)"
MASKED = 'scores = scores.masked_fill(~mask, float("-inf"))'
ZEROED = """    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)  # a row of only -inf has no softmax
"""
AVERAGE = "weights @ value, weights"
TWO_ROOTS = r"sqrt|\*\* ?-?0?\.5"  # code that divides directly by d_k has no root
WRONG_SCALES = {  # the divisor for the scores of q and k, and the sentence
    "scale_missing": ("1", "the scores are not divided by √d_k"),
    "scale_d_k": ("{q}.size(-1)", "the scores are divided by d_k instead of √d_k"),
    "scale_twice": ("{q}.size(-1) ** 0.5 * {q}.size(-1) ** 0.5",
                    "the scores are divided by √d_k twice"),
    "scale_multiplied": ("{q}.size(-1) ** -0.5",
                         "the scores are multiplied by √d_k instead of divided by it"),
    "scale_num_heads": ("{q}.size(1) ** 0.5",
                        "the scores are divided by √H, where H is the number of heads, instead of "
                        "√d_k"),
    "scale_queries": ("{q}.size(-2) ** 0.5",
                      "the scores are divided by √T, where T is the number of queries, instead of "
                      "√d_k"),
    "scale_keys": ("{k}.size(-2) ** 0.5",
                   "the scores are divided by √S, where S is the number of keys, instead of √d_k"),
}  # fmt: skip


def wrongly_scaled(
    edit: Callable[[str], tuple[str, str]],
    without: Collection[str] = (),
    q: str = "q",
    k: str = "k",
    **seen: str,
) -> dict[str, Edits]:
    """Define the mistakes in which the scores are divided by a number other than √d_k.

    ``edit`` divides the scores by an expression in which ``q`` and ``k`` are the queries and keys;
    ``seen`` maps the names of mistakes to public code that contains them.
    """
    return {
        f"{name}: {sentence}{seen.get(name, '')}": edit(by.format(q=q, k=k))
        for name, (by, sentence) in WRONG_SCALES.items()
        if name not in without
    }


MISTAKES = {
    "scaled_dot_product_attention": {
        **wrongly_scaled(
            lambda by: (SCALE, f"/ ({by})"),
            q="query",
            k="key",
            scale_missing=" [mlc-ai/mlc-llm #3426]",
            scale_d_k=" [delzac/cntkx #10]",
        ),
        "scale_d_v: the scores are divided by √d_v instead of √d_k": (
            SCALE,
            "/ math.sqrt(value.size(-1))",
        ),
        "softmax_over_queries: the softmax runs over the queries instead of the keys "
        "[labmlai/annotated_deep_learning_paper_implementations "
        "#146]": ("scores.softmax(dim=-1)", "scores.softmax(dim=-2)"),
        "softmax_over_heads: the softmax runs over the heads (dim=1) instead of the keys "
        "[FudanNLP/fastNLP "
        "#254]": ("scores.softmax(dim=-1)", "scores.softmax(dim=min(1, scores.dim() - 1))"),
        "softmax_missing: the values are weighted by the raw scores, without a softmax": (
            "scores.softmax(dim=-1)",
            "scores.clone()",
        ),
        "mask_inverted: the mask is inverted, so that True blocks a key; here True means *may "
        "look* [lucidrains/halonet-pytorch #4; InseeFrLab/torchTextClassifiers #92]": (
            (MASKED, 'scores = scores.masked_fill(mask, float("-inf"))'),
            (ZEROED, "    weights = weights.nan_to_num(0.0)\n"),
        ),
        "mask_ignored: the mask is not used at all": ((MASKED, "pass"), (ZEROED, "")),
        "mask_result_dropped: masked_fill is called but its result is not used; masked_fill does "
        "not change its input [huggingface/transformers #35162; facebookresearch/ParlAI #3068]": (
            (MASKED, 'scores.masked_fill(~mask, float("-inf"))'),
            (ZEROED, ""),
        ),
        "mask_after_softmax: the mask is applied after the softmax, so the weights no longer add "
        "up to 1 [huggingface/pytorch-image-models #2236]": (MASKED, "pass"),
        "mask_filled_with_zero: blocked scores become 0, but exp(0) is 1, so blocked keys still "
        "get weight; use -inf [allenai/allennlp #105; georg-wolflein/good-features #1; "
        "THUwangcy/ReChorus #8]": (
            (MASKED, "scores = scores.masked_fill(~mask, 0.0)"),
            (ZEROED, ""),
        ),
        "mask_large_negative: blocked scores are set to -1e9, so a fully blocked row becomes a "
        "uniform average [EleutherAI/gpt-neox #966]": (('float("-inf")', "-1e9"), (ZEROED, "")),
        "blocked_row_nan: a row in which every key is blocked has only scores of -inf, and their "
        "softmax is nan [pytorch/pytorch #41508, #25110]": (ZEROED, ""),
        "key_transposed_by_view: view or reshape is used to transpose the keys, so the rows and "
        "columns get mixed up": ("key.mT", "key.reshape(*key.shape[:-2], d_k, -1)"),
        "gradient_cut: the weights are detached, so queries and keys get no gradient": (
            AVERAGE,
            "weights.detach() @ value, weights",
        ),
        "scores_returned: the scores are returned in place of the weights": (
            AVERAGE,
            AVERAGE.replace(", weights", ", scores"),
        ),
        "scale_after_softmax: the weights are divided by √d_k after the softmax instead of the "
        "scores before it, so they no longer "
        "add up to 1": ((SCALE, ""), ("scores.softmax(dim=-1)", f"scores.softmax(dim=-1) {SCALE}")),
        "infinity_times_zero: the mask is multiplied by -inf, but 0 · -inf is nan; use "
        "`masked_fill`": ((MASKED, 'scores = scores + ~mask * float("-inf")'), (ZEROED, "")),
        "mask_added: the boolean mask is added to the scores, so True adds 1 to a score, and "
        "nothing is hidden": ((MASKED, "scores = scores + mask"), (ZEROED, "")),
    },
}
PATTERNS = {
    "scale_twice": TWO_ROOTS,
    "mask_result_dropped": r"^ *\w+\.masked_fill\(",
}


# right answers

EMPTY = """scores = scores + torch.zeros(mask.shape).masked_fill(~mask, -math.inf)
        empty = ~mask.expand(scores.shape).any(dim=-1, keepdim=True)
        scores = scores.masked_fill(empty, 0.0)"""

ANSWERS = {
    "scaled_dot_product_attention": {
        "by_bias: 0 or -inf is added to the scores, and fully blocked rows are treated "
        "separately": (
            (f"(query {SCALE}) @ key.mT", f"query.matmul(key.transpose(-2, -1)) {SCALE}"),
            (MASKED, EMPTY),
            ("weights.masked_fill(~mask, 0.0)", "weights.masked_fill(empty, 0.0)"),
            (AVERAGE, "weights.matmul(value), weights"),
        ),
    },
}
