"""Exercises for chapter 02: trials, known mistakes and correct answers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.bank.attention import TWO_ROOTS, some_mask, wrongly_scaled
from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import keeps_still, sees_later, survivors
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.trial import (
    D_K,
    D_V,
    B,
    H,
    S,
    T,
    Trial,
    as_trial,
    by_name,
    filled,
    function_trial,
    module_trial,
    names_trial,
    normal,
    outputs_only,
    parameters_trial,
)

D_MODEL = H * D_K
PLAIN = dict(d_model=D_MODEL, num_heads=H)
WIDE = PLAIN | dict(d_k=5, d_v=D_V)
UNEVEN = dict(d_model=10, num_heads=3, d_k=4, d_v=2)  # d_model need not be a multiple of 3
EVEN = dict(d_model=16, num_heads=4)  # 4 heads of width 4: four tokens in four sentences
FOUR = "There are four nn.Linear layers for all heads together: w_q, w_k, w_v and w_o."
SPLIT = "Head i must get the columns i·width to (i+1)·width - 1 of every vector."
ITSELF = (
    "Your code calls torch's own multi-head attention, but in this exercise you build that layer "
    "yourself. You may call F.scaled_dot_product_attention inside it."
)


def inputs(batch: int, lengths=(T, S), width: int = D_MODEL, mask: Tensor | None = None) -> dict:
    """Return queries, keys, values and the mask, if there is one."""
    sizes = dict(zip(("query", "key", "value"), (*lengths, lengths[1]), strict=True))
    named = {name: normal(f"many {name}", batch, length, width) for name, length in sizes.items()}
    return named if mask is None else named | {"mask": mask}


def split(label: str, *shape: int) -> Trial:
    """Compare how a tensor of a given shape is split into heads."""
    return function_trial(label, {"x": normal(label, *shape), "num_heads": H}, says=SPLIT)


def called(label: str, build: dict, tensors: dict) -> Trial:
    """Compare the output and its gradients, but not the weights."""
    return module_trial(label, build, tensors, ("output", None))


def with_weights(label: str, build: dict, tensors: dict) -> Trial:
    """Compare the output and the weights, with ``need_weights=True``."""
    names, options = ("output", "weights"), dict(need_weights=True)
    return module_trial(label, build, tensors, names, options=options)


LOUD = {name: 10 * x for name, x in inputs(B).items()} | {"mask": some_mask(T, S)}


@as_trial("a causal mask", "Each output must join the heads of its own token, in order.")
def first_output(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    past = torch.ones(T, T, dtype=torch.bool).tril()
    x = normal("first", B, T, D_MODEL)
    y = torch.cat([x[:, :1], -x[:, 1:]], dim=1)
    pair, what = ((z, z, z, past) for z in (x, y)), "later tokens change the first output"
    return sees_later(filled(candidate(**PLAIN)), 1, *pair, what=what)


def dropped(label: str, **options: Any) -> Trial:
    """Return a trial that shows which of the equal attention weights dropout removes."""

    @as_trial(
        f"dropout=0.2 in training{label}",
        "Dropout must drop each weight independently and divide the remaining ones by 1 - dropout. "
        "The layer returns the weights as they were before.",
        kind="train and eval",
    )
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
        layer, twice = candidate(**PLAIN, dropout=0.2).train(), torch.eye(3).repeat(1, 2 * H)
        query, value = normal("query", 4, 8, D_MODEL), twice.expand(4, 3, D_MODEL)
        with torch.no_grad():
            for name, weight in by_name(layer).items():
                whole = name in ("w_v.weight", "w_o.weight")
                weight.copy_(whole * torch.eye(*weight.shape) if weight.dim() == 2 else 0 * weight)
            output, weights = layer(query, value, value.clone(), **options)[:2]
        one, again = (3 * output).unflatten(-1, (H, 2, 3)).unbind(-2)
        returned = {"the returned weights are": weights} if options else {}
        return returned | {
            "a dropped weight removes the whole value vector": torch.allclose(one, again),
            "a weight": survivors(one, "sentences", "queries", "heads", "keys"),
        }

    return measure


EXERCISES = (
    Exercise(
        "split_heads",
        10,
        core={
            "heads": (
                split("a batch of vectors", B, T, H * D_K),
                split("as many tokens as heads", 3, 3, 9),
            )
        },
        hints=(
            "Split the last axis into two axes, heads and width. Then move the heads in front of "
            "the tokens.",
            "`x.unflatten(-1, (num_heads, -1))` splits the last axis, and `transpose(-3, -2)` "
            "swaps tokens and heads.",
        ),
        extras={"no batch": (split("one sentence, no batch", T, H * D_K),)},
    ),
    Exercise(
        "MultiHeadAttention",
        40,
        core={
            "parameters": (parameters_trial(PLAIN, FOUR),),
            "heads": (
                called("sizes that all differ", PLAIN, inputs(B)),
                called("sizes that are all equal", EVEN, inputs(4, (4, 4), 16)),
                called("one head", dict(d_model=6, num_heads=1), inputs(B, width=6)),
            ),
            "mask": (
                first_output,
                called("a mask for every query", PLAIN, inputs(B, mask=some_mask(T, S))),
                called("a mask for every head", PLAIN, inputs(B, mask=some_mask(B, H, T, S))),
                called("a padding mask (B, 1, 1, S)", PLAIN, inputs(B, mask=some_mask(B, 1, 1, S))),
                outputs_only(called("a mask and scores in the hundreds", PLAIN, LOUD)),
            ),
        },
        formula="Project query, key and value and split them into heads. Every head attends "
        "with the mask. Then join the heads, and project the result.",
        hints=(
            "In `__init__`, use `head_width(d_model, num_heads)` for a width that the caller did "
            "not pass. Then build four `nn.Linear` layers: w_q, w_k, w_v and w_o.",
            "Project first, then split: `split_heads(self.w_q(query), self.num_heads)`, and do "
            "the same for keys and values. A single call to attention then handles all heads.",
            "Before `w_o`, undo the split with `join_heads`, which swaps heads and tokens back "
            "and merges the last two axes.",
            "With `need_weights`, call `scaled_dot_product_attention` from chapter 01, which "
            "returns the heads' outputs and the weights. In training, drop some of these weights: "
            "`F.dropout(weights, self.dropout) @ v`. Otherwise call `attention_output`, which "
            "drops them itself; its `dropout_p` is 0 unless `self.training`.",
        ),
        shortcuts=dict.fromkeys(
            (F.multi_head_attention_forward, torch._native_multi_head_attention), ITSELF
        ),
        extras={
            "need_weights": (
                with_weights("need_weights=True", PLAIN, inputs(B)),
                with_weights("a mask and need_weights", PLAIN, inputs(B, mask=some_mask(T, S))),
                module_trial("need_weights=False", PLAIN, inputs(B), ("output", "weights")),
            ),
            "bias": (called("bias=False", PLAIN | dict(bias=False), inputs(B)),),
            "d_k, d_v": (
                parameters_trial(WIDE, FOUR + " Their sizes depend on d_k and d_v."),
                called("d_k=5 and d_v=7", WIDE, inputs(B)),
                called("d_model=10, d_k=4 and three heads", UNEVEN, inputs(B, width=10)),
            ),
            "dropout": (
                keeps_still(PLAIN, inputs(B), dropout=0.5),
                dropped(""),
                dropped(", need_weights=True", need_weights=True),
            ),
            "names": (names_trial(PLAIN),),
        },
        rejects=("(10, 3)", "(6, 0)", "(6, 3, dropout=1.5)"),
    ),
)


# known mistakes


CHECK = "check_widths(self.w_q.in_features, query, key, value)"
Q = "split_heads(self.w_q(query), self.num_heads)"
K = "split_heads(self.w_k(key), self.num_heads)"
V = "split_heads(self.w_v(value), self.num_heads)"
W_Q = "self.w_q = nn.Linear(d_model, num_heads * d_k, bias=bias)"
W_K = "self.w_k = nn.Linear(d_model, num_heads * d_k, bias=bias)"
W_V = "self.w_v = nn.Linear(d_model, num_heads * d_v, bias=bias)"
W_O = "self.w_o = nn.Linear(num_heads * d_v, d_model, bias=bias)"
JOIN = "join_heads(heads)"
OUT = "self.w_o(join_heads(heads)), weights"
ATTENDED = """weights = None
        if need_weights:
            heads, weights = scaled_dot_product_attention(q, k, v, mask)
            if dropout_p > 0:  # the weights that we return stay whole
                heads = F.dropout(weights, dropout_p) @ v  # (B, H, T, d_v)
        else:
            heads = attention_output(q, k, v, mask, dropout_p)"""
DROP = "self.dropout if self.training else 0.0"


def attended(
    by: str = "q.size(-1) ** 0.5",
    masked: str = 'scores.masked_fill(~mask, float("-inf"))',
    axis: int = -1,
) -> tuple[str, str]:
    """Return an edit that spells out the steps of attention, with one of them changed."""
    written = f"""scores = q @ k.mT / ({by})
        if mask is not None:
            scores = {masked}
        weights = scores.softmax(dim={axis})
        heads, weights = F.dropout(weights, dropout_p) @ v, weights if need_weights else None"""
    return ATTENDED, written


MISTAKES = {
    "split_heads": {
        "cut_without_transpose: view or reshape moves the heads in front of the tokens, so the "
        "tokens are mixed; use transpose [reczoo/FuxiCTR #30]": (
            (
                "x.unflatten(-1, (num_heads, -1))",
                "x.reshape(*x.shape[:-2], num_heads, x.size(-2), -1)",
            ),
            (".transpose(-3, -2)", ""),
        ),
        "heads_left_behind: the head axis comes after the token axis, because the two are not "
        "swapped": (".transpose(-3, -2)", ""),
        "heads_interleaved: every head takes every num_heads-th column instead of its own block of "
        "columns": (
            "x.unflatten(-1, (num_heads, -1))",
            "x.unflatten(-1, (-1, num_heads)).transpose(-1, -2)",
        ),
    },
    "MultiHeadAttention": {
        "scale_d_model: the scores are divided by √d_model instead of √d_k, the width of one head "
        "[karpathy/ng-video-lecture #6; aladdinpersson/Machine-Learning-Collection #65]": (
            Q,
            f"{Q} * (self.w_q.out_features / self.num_heads / query.size(-1)) ** 0.5",
        ),
        **wrongly_scaled(attended, scale_missing=" [PAIR-code/tiny-transformers #71]"),
        "heads_split_without_transpose: view or reshape splits the heads without a transpose, so "
        "the tokens are mixed [reczoo/FuxiCTR #30; "
        "649453932/Chinese-Text-Classification-Pytorch #10]": (
            (Q, "self.w_q(query).reshape(len(query), self.num_heads, query.size(1), -1)"),
            (K, "self.w_k(key).reshape(len(key), self.num_heads, key.size(1), -1)"),
            (V, "self.w_v(value).reshape(len(value), self.num_heads, value.size(1), -1)"),
        ),
        "heads_joined_without_transpose: view or reshape joins the heads without a transpose, so "
        "every output mixes several tokens [jsbaan/transformer-from-scratch #6; "
        "hackiey/QAnet-pytorch #2]": (JOIN, "heads.reshape(*query.shape[:-1], -1)"),
        "w_o_missing: W^O is missing, so the heads are concatenated but never mixed "
        "[Kyubyong/transformer "
        "#117; d2l-ai/d2l-en #439]": ((W_O, "pass"), (OUT, "join_heads(heads), weights")),
        "w_o_unused: w_o is built but not used [JohnGiorgi/seq2rel #224]": (
            OUT,
            "join_heads(heads), weights",
        ),
        "value_through_w_k: the values go through w_k instead of w_v "
        "[stevezheng23/sequence_labeling_tf "
        "#81]": (V, "split_heads(self.w_k(value), self.num_heads)"),
        "key_through_w_q: the keys go through w_q instead of w_k": (K, K.replace("w_k", "w_q")),
        "query_asks_itself: queries, keys and values all come from `query`, so `key` and `value` "
        "are not read": ((K, K.replace("(key)", "(query)")), (V, V.replace("(value)", "(query)"))),
        "keys_and_values_swapped: attention gets the values as keys and the keys as values": (
            (f"k = {K}", f"v = {K}"),
            (f"v = {V}", f"k = {V}"),
        ),
        "value_is_key: w_v projects the keys instead of the values [snu-comparch/InfiniGen #5; "
        "tensorflow/tensorflow #35859]": (V, "split_heads(self.w_v(key), self.num_heads)"),
        "value_not_projected: w_v is built but not used, so the values are split into heads as "
        "they are": (V, "split_heads(value, self.num_heads)"),
        "one_layer_for_three: w_q, w_k and w_v are the same layer "
        "[stevezheng23/reading_comprehension_tf "
        "#284]": ((W_K, "self.w_k = self.w_q"), (W_V, "self.w_v = self.w_q")),
        "layers_in_a_list: the layers are in a plain Python list, so torch neither trains nor "
        "saves them [pytorch/pytorch #666, #715, #72580; shenwzh3/RGAT-ABSA #9]": (
            (W_Q, "self.w = [nn.Linear(d_model, num_heads * d_k, bias=bias)]"),
            (W_K, "self.w.append(nn.Linear(d_model, num_heads * d_k, bias=bias))"),
            (W_V, "self.w.append(nn.Linear(d_model, num_heads * d_v, bias=bias))"),
            (Q, "split_heads(self.w[0](query), self.num_heads)"),
            (K, "split_heads(self.w[1](key), self.num_heads)"),
            (V, "split_heads(self.w[2](value), self.num_heads)"),
            (CHECK, "pass"),
        ),
        "mask_inverted: the mask is inverted before it is passed to attention, where True already "
        "means *may look* [cnzzx/GeMap #1; "
        "InseeFrLab/torchTextClassifiers #92]": (CHECK, "mask = mask if mask is None else ~mask"),
        "only_the_output: only the output is returned, but the caller expects the output and the "
        "weights": (OUT, "self.w_o(join_heads(heads))"),
        "dropout_always_on: dropout is also active in eval mode, because the code does not check "
        "self.training [karpathy/nanoGPT #240; wenet-e2e/wenet #2699]": (DROP, "self.dropout"),
        "weights_after_dropout: the weights are returned after dropout": (
            (
                "scaled_dot_product_attention(q, k, v, mask)\n            if dropout_p > 0:",
                "scaled_dot_product_attention(q, k, v, mask)\n            "
                "weights = F.dropout(weights, dropout_p)\n            if dropout_p > 0:",
            ),
            ("F.dropout(weights, dropout_p) @ v  #", "weights @ v  #"),
        ),
        "weights_always_returned: the weights are returned even if `need_weights` is False, but "
        "the caller expects None": ("if need_weights:", "if True:"),
        "softmax_over_heads: the softmax runs over the heads (dim=1) instead of the keys": attended(
            axis=1
        ),
        "softmax_over_queries: the softmax runs over the queries instead of the keys "
        "[labmlai/annotated_deep_learning_paper_implementations #146]": attended(axis=-2),
        "query_and_key_swapped: query and key are swapped, so w_q projects the keys and w_k "
        "projects the queries": (
            (Q, "split_heads(self.w_q(key), self.num_heads)"),
            (K, "split_heads(self.w_k(query), self.num_heads)"),
        ),
        **ignored(
            ("mask", (CHECK, "mask = None")),
            ("dropout", (DROP, "0.0")),
            (
                "d_k",
                ("head_width(d_model, num_heads, d_k)", "head_width(d_model, num_heads)"),
                ("head_width(d_model, num_heads, d_v)", "head_width(d_model, num_heads)"),
            ),
        ),
        "mask_added: the boolean mask is added "
        "to the scores, so True adds 1 and nothing is hidden": attended(masked="scores + mask"),
        "heads_joined_number_by_number: the columns of the heads are interleaved, as after "
        "`permute(0, 2, 3, 1)`, even though "
        "each head needs its own block of columns": (JOIN, "heads.permute(0, 2, 3, 1).flatten(-2)"),
        "heads_joined_by_another_axis: the token and width axes are swapped before the heads are "
        "joined; swap tokens and heads instead, "
        "with `transpose(1, 2)`": (JOIN, "heads.transpose(-2, -1).reshape(*query.shape[:-1], -1)"),
        "residual_inside: the query is added to the output here, even though AddNorm does that "
        "later": (OUT, "query + self.w_o(join_heads(heads)), weights"),
        "norm_inside: a LayerNorm normalizes the output here, even though AddNorm does that "
        "later": (
            (W_O, f"{W_O}\n        self.norm = nn.LayerNorm(d_model)"),
            (OUT, "self.norm(self.w_o(join_heads(heads))), weights"),
        ),
        "add_and_norm_inside: the query is added and the sum is normalized here, even though "
        "AddNorm does that later": (
            (W_O, f"{W_O}\n        self.norm = nn.LayerNorm(d_model)"),
            (OUT, "self.norm(query + self.w_o(join_heads(heads))), weights"),
        ),
    },
}

PATTERNS = {"scale_twice": TWO_ROOTS}


# right answers

EINSUM = """scores = torch.einsum("bhtd,bhsd->bhts", q, k) / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = scores.softmax(dim=-1).nan_to_num()
        heads = torch.einsum("bhts,bhsd->bthd", F.dropout(weights, dropout_p), v)
        weights = weights if need_weights else None"""

ANSWERS = {
    "MultiHeadAttention": {
        "by_einsum: einsum computes the products, and the attributes have other names": (
            (ATTENDED, EINSUM),
            (JOIN, "heads.flatten(2)"),
            ("self.num_heads", "self.h"),
            ("self.dropout", "self.p"),
        ),
    },
}
