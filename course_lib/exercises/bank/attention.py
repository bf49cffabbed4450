"""Exercises of chapter 01: trials, known mistakes and right answers."""

import math
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import Mistake, ignored, known
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
        unnamed=("math.sqrt(d_k)", "d_k ** 0.4"),
    ),
)


# known mistakes

attention = known("attention", "scaled_dot_product_attention")

SCALE = "/ math.sqrt(d_k)"
MASKED = 'scores = scores.masked_fill(~mask, float("-inf"))'
ZEROED = """    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)  # a row of only -inf has no softmax
"""
BLEND = "F.dropout(weights, dropout_p) @ value, weights"
TWO_ROOTS = r"sqrt|\*\* ?-?0?\.5"  # code that divides by d_k at once has no root
WRONG_SCALES = {  # what divides the scores of q and k, and the sentence
    "scale_missing": ("1", "the scores are not divided by √d_k"),
    "scale_d_k": ("{q}.size(-1)", "the scores are divided by d_k instead of √d_k"),
    "scale_twice": ("{q}.size(-1) ** 0.5 * {q}.size(-1) ** 0.5",
                    "the scores are divided by √d_k twice"),
    "scale_multiplied": ("{q}.size(-1) ** -0.5",
                         "the scores are multiplied by √d_k instead of divided by it"),
    "scale_num_heads": ("{q}.size(1) ** 0.5",
                        "the scores are divided by √H, where H counts the heads, instead of √d_k"),
    "scale_queries": ("{q}.size(-2) ** 0.5",
                      "the scores are divided by √T, where T counts the queries, instead of √d_k"),
    "scale_keys": ("{k}.size(-2) ** 0.5",
                   "the scores are divided by √S, where S counts the keys, instead of √d_k"),
}  # fmt: skip


def wrongly_scaled(
    make: Callable[..., Mistake],
    edit: Callable[[str], tuple[str, str]],
    without: Collection[str],
    q: str = "q",
    k: str = "k",
) -> list[Mistake]:
    """Make the mistakes in which the scores are divided by another number than √d_k.

    Args:
        make: What ``known`` returned.
        edit: Returns the edit by which an expression divides the scores.
        without: Names that are left out.
        q: The name of the queries in the definition.
        k: The name of the keys.
    """
    return [
        make(name, sentence, edit(by.format(q=q, k=k)), tells=TWO_ROOTS * (name == "scale_twice"))
        for name, (by, sentence) in WRONG_SCALES.items()
        if name not in without
    ]


MISTAKES = (
    attention(
        "scale_missing",
        "the scores are not divided by √d_k",
        (f" {SCALE}", ""),
        seen="mlc-ai/mlc-llm #3426 (cosine with the reference 0.86 in place of 1.00)",
    ),
    attention(
        "scale_d_k",
        "the scores are divided by d_k instead of √d_k",
        (SCALE, "/ d_k"),
        seen="delzac/cntkx #10",
    ),
    attention(
        "scale_d_v",
        "the scores are divided by √d_v instead of √d_k",
        (SCALE, "/ math.sqrt(value.size(-1))"),
        seen="juho-lee/set_transformer #18",
    ),
    attention(
        "softmax_over_queries",
        "softmax runs over the queries instead of the keys",
        ("scores.softmax(dim=-1)", "scores.softmax(dim=-2)"),
        seen="labmlai/annotated_deep_learning_paper_implementations #146",
    ),
    attention(
        "softmax_over_heads",
        "softmax runs over the heads (dim=1) instead of the keys",
        ("scores.softmax(dim=-1)", "scores.softmax(dim=min(1, scores.dim() - 1))"),
        seen="FudanNLP/fastNLP #254 (a fixed dim, right for three axes only)",
    ),
    attention(
        "softmax_missing",
        "the scores blend the values without a softmax",
        ("scores.softmax(dim=-1)", "scores.clone()"),
    ),
    attention(
        "mask_inverted",
        "the mask is read the other way round: True as blocked",
        (MASKED, 'scores = scores.masked_fill(mask, float("-inf"))'),
        (ZEROED, "    weights = weights.nan_to_num(0.0)\n"),
        seen="lucidrains/halonet-pytorch #4; InseeFrLab/torchTextClassifiers #92",
    ),
    attention(
        "mask_ignored",
        "the mask is not used at all",
        (MASKED, "pass"),
        (ZEROED, ""),
    ),
    attention(
        "mask_result_dropped",
        "masked_fill is called and its result dropped: it returns a new tensor",
        (MASKED, 'scores.masked_fill(~mask, float("-inf"))'),
        (ZEROED, ""),
        tells=r"^ *\w+\.masked_fill\(",
        seen="huggingface/transformers #35162; facebookresearch/ParlAI #3068",
    ),
    attention(
        "mask_after_softmax",
        "the mask is applied after the softmax, so the rest no longer adds up to 1",
        (MASKED, "pass"),
        seen="huggingface/pytorch-image-models #2236",
    ),
    attention(
        "mask_filled_with_zero",
        "blocked scores become 0, by fill or by multiplication: a score like any other, not an "
        "impossible one",
        (MASKED, "scores = scores.masked_fill(~mask, 0.0)"),
        (ZEROED, ""),
        seen="allenai/allennlp #105; georg-wolflein/good-features #1; THUwangcy/ReChorus #8",
    ),
    attention(
        "mask_large_negative",
        "blocked scores are set to -1e9: a row with nothing to look at becomes an even blend",
        ('float("-inf")', "-1e9"),
        (ZEROED, ""),
        seen="EleutherAI/gpt-neox #966 (-10000)",
    ),
    attention(
        "blocked_row_nan",
        "a row of only -inf goes through softmax, and becomes nan",
        (ZEROED, ""),
        seen="pytorch/pytorch #41508, #25110",
    ),
    attention(
        "key_transposed_by_view",
        "the keys are turned by view or reshape, which cuts the rows anew instead of turning them",
        ("key.transpose(-2, -1)", "key.reshape(*key.shape[:-2], d_k, -1)"),
    ),
    attention(
        "weights_after_dropout",
        "the weights are returned after dropout",
        (BLEND, "(w := F.dropout(weights, dropout_p)) @ value, w"),
    ),
    attention(
        "gradient_cut",
        "the weights are detached: nothing learns where to look",
        (BLEND, "F.dropout(weights.detach(), dropout_p) @ value, weights"),
        seen="jadore801120/attention-is-all-you-need-pytorch #16 (masking .data)",
    ),
    *ignored(attention, ("dropout_p", (BLEND, "weights @ value, weights"))),
    *wrongly_scaled(
        attention,
        lambda by: (SCALE, f"/ ({by})"),
        without=("scale_missing", "scale_d_k"),
        q="query",
        k="key",
    ),
    attention(
        "mask_added",
        "the boolean mask is added to the scores, so that True adds 1 and nothing is hidden",
        (MASKED, "scores = scores + mask"),
        (ZEROED, ""),
    ),
)


# right answers


def by_bias(query: Tensor, key: Tensor, value: Tensor, mask=None, dropout_p: float = 0.0):
    """Add 0 or -inf to scaled queries, and mend empty rows with where."""
    logits = (query / math.sqrt(query.size(-1))).matmul(key.mT)
    if mask is not None:
        logits = logits + torch.zeros(mask.shape).masked_fill(mask.logical_not(), -math.inf)
        empty = mask.expand(logits.shape).any(-1, keepdim=True).logical_not()
        weights = logits.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    else:
        weights = F.softmax(logits, dim=-1)
    return torch.dropout(weights, dropout_p, dropout_p > 0).matmul(value), weights


def textbook(query, key, value, mask=None, dropout=None):
    """Hold the core alone, as a tutorial writes it: ``dropout`` is a layer or nothing."""
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


ANSWERS = {"scaled_dot_product_attention": (by_bias, textbook)}
