"""Exercises for chapter 21: trials, known mistakes and correct answers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.bank.gpt import later, projected
from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import keeps_double, keeps_half
from course_lib.exercises.checking.trial import (
    D_K,
    D_V,
    B,
    T,
    Trial,
    as_trial,
    function_trial,
    module_trial,
    names_trial,
    normal,
    outputs_only,
    parameters_trial,
)

SIZES = dict(d_model=D_K, d_ff=D_V)
X = 3 + 2 * normal("x", B, T, D_K)  # the mean is not 0, and the mean square is not 1
Y = normal("y", B, T, D_K)
TAKEN = (
    "Your code calls torch's own norm. Compute the squares, their mean and the square root "
    "yourself."
)
GAINS = "Register one nn.Parameter, the gains `weight` of shape (d_model,), and no bias."
LAYERS = "Register three nn.Linear layers without biases: linear1, gate and linear2."
ALONE = "Average the squares separately for each vector, over the last axis."
UNDER_THE_ROOT = "Add eps, which is 1e-5 by default, inside the square root."
FACTORS = "Apply `F.silu` to the output of `gate`, and multiply the result by linear1's output."


def norm(label: str, x: Tensor, says: str = "", **build: Any) -> Trial:
    """Compare the outputs and gradients of a norm with random gains."""
    return module_trial(label, {"d_model": x.size(-1)} | build, {"x": x}, says=says)


def gated(label: str, x: Tensor, d_ff: int = D_V, says: str = "") -> Trial:
    """Compare the outputs and gradients of a gated feed-forward layer."""
    return module_trial(label, dict(d_model=x.size(-1), d_ff=d_ff), {"x": x}, says=says)


@as_trial("a new norm", "A new norm keeps each vector's direction and makes its mean square 1.")
def directions(candidate: Callable) -> dict[str, Tensor]:
    output = candidate(D_K)(X.clone()).detach()
    return {
        "cosine similarity between each output and its input": F.cosine_similarity(
            output, X, dim=-1
        ),
        "mean square of each output": output.square().mean(dim=-1),
    }


ANGLES = 3 * normal("angles", T, D_K // 2)


def rotation(label: str, *axes: int, angles: Tensor = ANGLES) -> Trial:
    """Compare rotated vectors and their gradients, with any leading axes."""
    x = normal("rotated", *axes, len(angles), 2 * angles.size(1))
    return function_trial(label, {"x": x, "angles": angles})


@as_trial("bfloat16", "Turn the cosines and sines, but not the angles, into the dtype of x.")
def in_half_precision(candidate: Callable) -> dict[str, Any]:
    half, angles = Y.bfloat16(), 100 * ANGLES
    output = candidate(half.clone(), angles.clone())
    gap = (output.float() - candidate(half.float(), angles)).abs().max()
    return {"dtype": str(output.dtype), "an error above 0.1": bool(gap > 0.1)}


GROUPS = dict(d_model=48, num_heads=6, num_kv_heads=2)  # d_k = 8
ROTATES = "`project` returns queries, keys and values, and rotates the queries and the keys."
TOKENS = {"x": normal("tokens", 5, 7, 48), "angles": normal("turns", 7, 4)}


def grouped(label: str, *left_out: str, scale: int = 1, **build: int) -> Trial:
    """Compare the outputs and the gradients of grouped-query attention."""
    tokens = TOKENS | {"x": scale * TOKENS["x"]}
    inputs = {name: x for name, x in tokens.items() if name not in left_out}
    return module_trial(label, GROUPS | build, inputs)


@as_trial(
    "the names of its parameters",
    "Use the course's names, so that the layer can load saved weights.",
    "parameters",
)
def named(candidate: Callable) -> dict[str, str]:
    layer = candidate(**GROUPS)
    layer(*(x.clone() for x in TOKENS.values()))
    return {"names": ", ".join(sorted(name for name, _ in layer.named_parameters()))}


EXERCISES = (
    Exercise(
        "apply_rope",
        15,
        core={
            "rotation": (
                rotation("sizes that all differ", 2, 5),
                rotation("sizes that are all equal", 4, 4, angles=normal("square", 4, 2)),
            ),
            "any leading axes": (
                rotation("one sequence without a batch"),
                function_trial("float64", {"x": Y.double(), "angles": ANGLES}),
            ),
        },
        formula="Rotate columns 2i and 2i + 1 by the angle for their position.",
        hints=(
            "A pair (a, b) becomes (a cos − b sin, a sin + b cos). Which columns of x hold the "
            "first number of each pair, and which hold the second?",
            "`x[..., 0::2]` holds the first numbers, and `x[..., 1::2]` the second ones. Both "
            "have the shape (..., T, d_k / 2), which broadcasts with the cosines and sines of the "
            "angles.",
            "`torch.stack([first, second], dim=-1).flatten(-2)` puts the two columns of each pair "
            "back next to each other.",
        ),
        extras={"half precision": (in_half_precision,)},
        rejects=("(torch.ones(5, 4), torch.ones(1, 2))", "(torch.ones(5, 4), torch.ones(5, 1))"),
    ),
    Exercise(
        "RMSNorm",
        10,
        core={
            "parameters": (parameters_trial({"d_model": D_K}, GAINS),),
            "formula": (directions, norm("different sizes", X), keeps_double({"d_model": D_K}, X)),
            "each vector separately": (
                norm("equal sizes", 3 + normal("even", D_K, D_K, D_K), ALONE),
                norm("a single vector", normal("one", D_K)),
            ),
        },
        formula="Divide each vector by √(mean of its squares + eps), and multiply by the gain.",
        hints=(
            "Read the name RMS backward: take the square of every number, the mean over the last "
            "axis, and then the root. `keepdim=True` keeps the axis for the division.",
            "Add eps to the mean of the squares *before* the root. `rsqrt()` returns 1 divided by "
            "the root, so multiply by the result.",
            "`self.weight * x * (x.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()`",
        ),
        shortcuts=dict.fromkeys(
            (F.rms_norm, torch.rms_norm, F.layer_norm, torch.layer_norm), TAKEN
        ),
        extras={
            "small vectors": (
                norm("a vector of zeros", torch.zeros(1, 1, D_K)),
                norm("vectors that are nearly zero", 1e-3 * X, UNDER_THE_ROOT),
            ),
            "eps": (norm("eps=0.5", X, UNDER_THE_ROOT, eps=0.5),),
            "half precision": (keeps_half({"d_model": D_K}, 100 * X),),
            "names": (names_trial({"d_model": D_K}),),
        },
        rejects=("(4)(torch.ones(2, 1))",),
    ),
    Exercise(
        "SwiGLU",
        10,
        core={
            "parameters": (parameters_trial(SIZES, LAYERS),),
            "gate": (gated("different sizes", Y, says=FACTORS), gated("large numbers", 20 * Y)),
            "each vector separately": (
                gated("equal sizes", normal("even", D_K, D_K, D_K), D_K),
                gated("a single vector", normal("one", D_K)),
            ),
        },
        formula="Multiply silu(gate(x)) by linear1(x), and apply linear2 to the product.",
        hints=(
            "Two layers project x up to d_ff. SiLU turns the output of one into the gate, which "
            "multiplies the output of the other.",
            "You need `nn.Linear(…, bias=False)` three times, and `F.silu` of `self.gate(x)`.",
            "Return `self.linear2(F.silu(self.gate(x)) * self.linear1(x))`.",
        ),
        extras={"names": (names_trial(SIZES),)},
    ),
    Exercise(
        "GroupedQueryAttention",
        20,
        core={
            "project": (projected(ROTATES, GROUPS, *TOKENS.values()),),
            "attention": (
                grouped("sizes that all differ"),
                grouped("one KV head", num_kv_heads=1),
                later(GROUPS, *TOKENS.values()),
                outputs_only(grouped("scores in the hundreds", scale=5)),
            ),
        },
        formula="Each group of query heads shares one key head and one value head. Rotate "
        "queries and keys, and let each token attend to itself and the tokens before "
        "it.",
        hints=(
            "Which of the queries, keys and values have `num_heads` heads, and which have "
            "`num_kv_heads`? Which of them are rotated?",
            "`split_heads(self.w_q(x), self.num_heads)` gives the queries. Keys and values need "
            "`self.num_kv_heads`. Rotate queries and keys if there are angles.",
            "`attend_to_past` hides later tokens and lets neighboring query heads share a KV "
            "head. Then apply `join_heads` and `w_o`.",
        ),
        extras={"without angles": (grouped("no angles", "angles"),), "names": (named,)},
        methods=("project", "forward"),
    ),
)


# known mistakes


SQUARES = "x.square().mean(dim=-1, keepdim=True)"
ROOT = f"({SQUARES} + self.eps).rsqrt()"
SILU = "F.silu(self.gate(x))"
INSIDE = f"{SILU} * self.linear1(x)"


ROTATED = "[even * cosine - odd * sine, even * sine + odd * cosine]"
STACKED = "torch.stack(rotated, dim=-1).flatten(-2)"
BY_HALVES = "turned = torch.cat([-x[..., d_k // 2 :], x[..., : d_k // 2]], dim=-1)\n    "
BY_PAIRS = "turned = torch.stack([-odd, even], dim=-1).flatten(-2)\n    "
SUM = "return x * cosine.repeat_interleave(2, -1) + turned * sine.repeat_interleave(2, -1)"
BLOCK = "return x * torch.cat([cosine, cosine], -1) + turned * torch.cat([sine, sine], -1)"
ATTEND = "heads = attend_to_past(*self.project(x, angles))"
CUT = "q, k, v = self.project(x, angles)\n        heads = attend_to_past("
IN_TURN = "q, *(y.repeat(1, q.size(1) // y.size(1), 1, 1) for y in (k, v)))"

MISTAKES = {
    "RMSNorm": {
        "mean_subtracted: the mean is subtracted first, as in LayerNorm, but RMSNorm does not "
        "subtract "
        "it": ("normed = self", "x = x - x.mean(dim=-1, keepdim=True)\n        normed = self"),
        "variance_for_mean_square: x.var() is used, but it subtracts the mean and divides by "
        "d_model - 1": (SQUARES, "x.var(dim=-1, keepdim=True)"),
        "std_for_root_mean_square: x is divided by x.std() + eps, but std() subtracts the mean, "
        "and eps belongs "
        "inside the square root": (f"* {ROOT}", "/ (x.std(dim=-1, keepdim=True) + self.eps)"),
        "sum_for_mean: the sum of the squares is not divided by d_model, so every vector gets "
        "length 1 [CASL/Futility #92]": (SQUARES, "x.square().sum(dim=-1, keepdim=True)"),
        "multiplied_by_the_root: x is divided by rsqrt(), which is already 1 divided by the root, "
        "so multiply by it [mosaicml/llm-foundry #371]": ("* x * (", "* x / ("),
        "eps_outside_root: eps is added after the square root instead of inside it [allenai/OLMo "
        "#281, EleutherAI/gpt-neox #1342, "
        "tile-ai/tilelang #1243]": (f"* {ROOT}", f"/ ({SQUARES}.sqrt() + self.eps)"),
        "eps_missing: eps is not used, so a vector of zeros is divided by 0 [tenstorrent/tt-metal "
        "#55347]": (" + self.eps", ""),
        "over_the_sequence: the mean of the squares is taken over the sequence (dim=-2) instead of "
        "over the features [kyegomez/zeta #180]": ("dim=-1", "dim=-2"),
        "over_sequence_and_features: one mean is taken over a whole sequence instead of one for "
        "each vector [bkitano/llama-from-scratch #4]": ("dim=-1", "dim=(-2, -1)"),
        "one_plus_gain: x is multiplied by 1 + weight, but weight starts at 1, so the output is "
        "twice as large as it "
        "should be [huggingface/transformers #40449]": ("self.weight * x", "(1 + self.weight) * x"),
        "gain_around_zero: weight starts at 0 and x is multiplied by 1 + weight, as in Gemma, but "
        "here weight starts at 1, and x is multiplied by weight alone": (
            ("torch.ones(d_model)", "torch.zeros(d_model)"),
            ("self.weight * x", "(1 + self.weight) * x"),
        ),
        "gain_unused: the gains are created but not used": ("self.weight * x", "x"),
        "root_missing: x is divided by the mean of the squares instead of its square root": (
            f"* {ROOT}",
            f"/ ({SQUARES} + self.eps)",
        ),
        "mean_square_squared: x is divided by the square of the mean of the squares instead of by "
        "the square root of that mean": (f"* {ROOT}", f"/ ({SQUARES} + self.eps) ** 2"),
    },
    "SwiGLU": {
        "gate_and_features_exchanged: SiLU is applied to linear1's features instead of to the gate "
        "[ml-explore/mlx-lm "
        "#767, ooples/AiDotNet.Tensors #46]": (INSIDE, "F.silu(self.linear1(x)) * self.gate(x)"),
        "silu_of_the_product: SiLU is applied to the product instead of to the gate, because a "
        "closing parenthesis comes too late "
        "[Nijikadesu/breakdown-minimind #3]": (INSIDE, "F.silu(self.gate(x) * self.linear1(x))"),
        "sigmoid_gate: the gate's activation is a sigmoid instead of SiLU, which is z times the "
        "sigmoid of z": ("F.silu", "torch.sigmoid"),
        "relu_gate: the gate's activation is ReLU instead of SiLU": ("F.silu", "F.relu"),
        "gelu_gate: the gate's activation is GELU instead of SiLU": ("F.silu", "F.gelu"),
        "added: the two factors are added": (INSIDE, f"{SILU} + self.linear1(x)"),
        "silu_twice: both factors go through SiLU": ("self.linear1(x)", "F.silu(self.linear1(x))"),
        "no_activation: the gate "
        "has no activation, so the layer multiplies two linear projections": (SILU, "self.gate(x)"),
        "gate_unused: the gate is created but not used, which leaves an ordinary feed-forward "
        "layer with SiLU [google-research/timesfm #493]": (INSIDE, "F.silu(self.linear1(x))"),
        "biases_on: the layers have biases, because bias=False is missing": (", bias=False", ""),
        "two_thirds_taken_inside: the class multiplies d_ff by two thirds, but d_ff is already the "
        "final width": ("super().__init__()", "super().__init__()\n        d_ff = 2 * d_ff // 3"),
        "projection_down_missing: linear2 is not called, so the output has width d_ff "
        "[bkitano/llama-from-scratch #7]": (f"self.linear2({INSIDE})", INSIDE),
    },
    "apply_rope": {
        "halves_paired: column i is paired with column i + d_k / 2, as in the Llama code in "
        "`transformers`, but this chapter pairs the neighboring columns 2i and 2i + 1 "
        "[EleutherAI/gpt-neox #834, karpathy/nanochat #264]": (
            ("even = x[..., 0::2]", "even, odd = x.chunk(2, dim=-1)"),
            ("odd = x[..., 1::2]", ""),
            (STACKED, "torch.cat(rotated, dim=-1)"),
        ),
        "halves_paired_with_neighbors_angles: column i is paired with column i + d_k / 2, but each "
        "angle is repeated for the columns 2i and 2i + 1, so the two columns of a pair rotate by "
        "different angles [raiyanyahya/how-to-train-your-gpt "
        "#6, baidu/ERNIE-Image #6]": (f"return {STACKED}", BY_HALVES + SUM),
        "angles_repeated_as_a_block: columns 2i and 2i + 1 form a pair, but the angles are "
        "repeated as one block, so the two columns of a pair rotate by different angles; use "
        "repeat_interleave(2, "
        "dim=-1) [facebookresearch/vjepa2 #15]": (f"return {STACKED}", BY_PAIRS + BLOCK),
        "pairs_not_put_back: the rotated columns are concatenated, so the columns of a pair are no "
        "longer neighbors [vllm-project/vllm-metal #44]": (STACKED, "torch.cat(rotated, dim=-1)"),
        "rotated_backward: every pair is rotated backward, because the signs of the two sines are "
        "swapped [karpathy/nanochat "
        "#489]": (ROTATED, "[even * cosine + odd * sine, odd * cosine - even * sine]"),
        "minus_lost: the first column is a cos + b sin instead of a cos - b sin": (
            "cosine - odd",
            "cosine + odd",
        ),
        "exchanged: the cosines and the sines are exchanged": ("cosine, sine =", "sine, cosine ="),
        "even_overwritten: the second column of each pair is computed from the first column, which "
        "has already been rotated": (
            "rotated = [even",
            "even, old = even * cosine - odd * sine, even\n    rotated = [old",
        ),
    },
    "GroupedQueryAttention": {
        "kv_heads_in_turn: the query heads read the KV heads in the order 0, 1, 0, 1, … instead of "
        "0, 0, 1, 1, … [onnx/onnx #7274, ekzhang/jax-js #180]": (ATTEND, f"{CUT}{IN_TURN}"),
        "first_kv_head_for_all: all query heads read KV head 0 [PSAL-POSTECH/ONNXim #34]": (
            ATTEND,
            f"{CUT}q, k[:, :1], v[:, :1])",
        ),
        "values_rotated: the values are also rotated": (
            "return q, k, v",
            "return q, k, v if angles is None else apply_rope(v, angles)",
        ),
        "keys_not_rotated: only the queries are rotated, so the scores do not depend on the "
        "positions of the keys": ("apply_rope(k, angles)", "k"),
        "nothing_rotated: the angles are never used, so the scores "
        "do not depend on the positions": ("apply_rope(q, angles), apply_rope(k, angles)", "q, k"),
        "heads_joined_without_transpose: the heads are joined with reshape but without "
        "a transpose, so the tokens are mixed": ("join_heads(heads)", "heads.reshape(x.shape)"),
        "biases_on: the layers have biases, because bias=False is missing": (", bias=False", ""),
        "future_seen: the causal mask is missing, so a token attends to later tokens": (
            "attend_to_past(*",
            "F.scaled_dot_product_attention(enable_gqa=True, *",
        ),
    },
}


# right answers


COPIED = """q, k, v = self.project(x, angles)
        k, v = (y.repeat_interleave(q.size(1) // k.size(1), dim=1) for y in (k, v))
        heads = F.scaled_dot_product_attention(q, k, v, is_causal=True)"""

ANSWERS = {
    "apply_rope": {
        "complex_numbers: complex numbers are multiplied, as in Llama's own code": (
            (
                f"rotated = {ROTATED}",
                "turned = torch.complex(even, odd) * torch.complex(cosine, sine)",
            ),
            (STACKED, "torch.view_as_real(turned).flatten(-2)"),
            ("angles", "freqs"),
        ),
    },
    "GroupedQueryAttention": {
        "groups_of_llama: the KV heads are copied, and the names are those of Llama's code": (
            (ATTEND, COPIED),
            ("angles", "freqs"),
            ("d_model", "dim"),
            ("num_heads", "n_heads"),
            ("num_kv_heads", "n_kv_heads"),
            ("w_", "w"),
        ),
    },
}
