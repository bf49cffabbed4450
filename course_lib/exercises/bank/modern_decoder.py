"""Exercises of chapter 21: trials, known mistakes and right answers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import known
from course_lib.exercises.trial import (
    D_K,
    D_V,
    B,
    T,
    Trial,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

SIZES = dict(d_model=D_K, d_ff=D_V)
X = 3 + 2 * normal("x", B, T, D_K)  # the mean is not 0, and the mean square is not 1
Y = normal("y", B, T, D_K)
TAKEN = "Your code calls torch's own norm. Compute the squares, their mean and the root yourself."
GAINS = "Register one nn.Parameter, the gains `weight` of shape (d_model,), and no bias."
LAYERS = "Register three nn.Linear layers without biases: linear1, gate and linear2."
ALONE = "Average the squares of each vector by itself, over the last axis."
UNDER_THE_ROOT = "Add eps, which is 1e-5 by default, under the root."
FACTORS = "`F.silu` acts on the output of `gate`, and linear1's output is multiplied unchanged."


def norm(label: str, x: Tensor, says: str = "", **build: Any) -> Trial:
    """Compare outputs and gradients of a norm with random gains."""
    return module_trial(label, {"d_model": x.size(-1)} | build, {"x": x}, says=says)


def gated(label: str, x: Tensor, d_ff: int = D_V, says: str = "") -> Trial:
    """Compare outputs and gradients of a gated feed-forward."""
    return module_trial(label, dict(d_model=x.size(-1), d_ff=d_ff), {"x": x}, says=says)


@looks("a new norm", "A new norm keeps the direction of each vector. Its mean square becomes 1.")
def directions(candidate: Callable) -> dict[str, Tensor]:
    """Compare the direction of every vector before and after a new norm."""
    output = candidate(D_K)(X.clone()).detach()
    return {
        "cosine of each vector with its input": F.cosine_similarity(output, X, dim=-1),
        "mean square of each vector": output.square().mean(dim=-1),
    }


EXERCISES = (
    Exercise(
        "RMSNorm",
        "modern_decoder",
        10,
        core={
            "parameters": (parameters_trial({"d_model": D_K}, GAINS),),
            "formula": (directions, norm("different sizes", X)),
            "each vector alone": (
                norm("equal sizes", 3 + normal("even", D_K, D_K, D_K), ALONE),
                norm("a single vector", normal("one", D_K)),
            ),
        },
        hints=(
            "Read the name backwards: take the square of every number, the mean over the last "
            "axis, and then the root. `keepdim=True` keeps the axis for the division.",
            "Add eps to the mean of the squares *before* the root. `rsqrt()` is 1 divided by the "
            "root, so multiply by it.",
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
            "names": (names_trial({"d_model": D_K}),),
        },
        unnamed=(".rsqrt()", ".pow(-0.4)"),
    ),
    Exercise(
        "SwiGLU",
        "modern_decoder",
        10,
        core={
            "parameters": (parameters_trial(SIZES, LAYERS),),
            "gate": (gated("different sizes", Y, says=FACTORS), gated("large numbers", 20 * Y)),
            "each vector alone": (
                gated("equal sizes", normal("even", D_K, D_K, D_K), D_K),
                gated("a single vector", normal("one", D_K)),
            ),
        },
        hints=(
            "Both projections up to d_ff read x. SiLU of one of them is the gate, which multiplies "
            "the features that the other one computes.",
            "You need `nn.Linear(…, bias=False)` three times, and `F.silu` of `self.gate(x)`.",
            "Return `self.linear2(F.silu(self.gate(x)) * self.linear1(x))`.",
        ),
        extras={"names": (names_trial(SIZES),)},
        unnamed=("F.silu(self.gate(x))", "F.silu(self.gate(x)).square()"),
    ),
)


# known mistakes

norm_mistake = known("modern_decoder", "RMSNorm")
gated_mistake = known("modern_decoder", "SwiGLU")

SQUARES = "x.square().mean(dim=-1, keepdim=True)"
ROOT = f"({SQUARES} + self.eps).rsqrt()"
CENTRED = "x = x - x.mean(dim=-1, keepdim=True)\n        "

FIRST = "self.linear1 = nn.Linear(d_model, d_ff, bias=False)"
GATE = "self.gate = nn.Linear(d_model, d_ff, bias=False)"
SILU = "F.silu(self.gate(x))"
INSIDE = f"{SILU} * self.linear1(x)"

MISTAKES = (
    norm_mistake(
        "mean_subtracted",
        "the mean is subtracted first, as in LayerNorm, but RMSNorm subtracts no mean",
        ("return self", f"{CENTRED}return self"),
    ),
    norm_mistake(
        "variance_for_mean_square",
        "x.var() is used, which subtracts the mean and divides by d_model - 1",
        (SQUARES, "x.var(dim=-1, keepdim=True)"),
    ),
    norm_mistake(
        "std_for_root_mean_square",
        "x is divided by x.std() + eps, which subtracts the mean and has eps outside the root",
        (f"* {ROOT}", "/ (x.std(dim=-1, keepdim=True) + self.eps)"),
    ),
    norm_mistake(
        "sum_for_mean",
        "the sum of the squares is not divided by d_model, so every vector gets length 1",
        (SQUARES, "x.square().sum(dim=-1, keepdim=True)"),
        seen="CASL/Futility #92",
    ),
    norm_mistake(
        "multiplied_by_the_root",
        "x is divided by rsqrt(), which is already 1 divided by the root, so multiply by it",
        ("* x * (", "* x / ("),
        seen="mosaicml/llm-foundry #371",
    ),
    norm_mistake(
        "eps_outside_root",
        "eps is added to the root instead of under it",
        (f"* {ROOT}", f"/ ({SQUARES}.sqrt() + self.eps)"),
        seen="allenai/OLMo #281, EleutherAI/gpt-neox #1342, tile-ai/tilelang #1243",
    ),
    norm_mistake(
        "eps_missing",
        "eps is not used, so a vector of zeros is divided by 0",
        (" + self.eps", ""),
        seen="tenstorrent/tt-metal #55347",
    ),
    norm_mistake(
        "over_the_sequence",
        "the mean of the squares runs along the sequence (dim=-2) instead of over the features",
        ("dim=-1", "dim=-2"),
        seen="kyegomez/zeta #180",
    ),
    norm_mistake(
        "over_sequence_and_features",
        "one mean is taken over a whole sequence instead of one for each vector",
        ("dim=-1", "dim=(-2, -1)"),
        seen="bkitano/llama-from-scratch #4",
    ),
    norm_mistake(
        "one_plus_gain",
        "x is multiplied by 1 + weight, but weight starts at 1, so the output is twice too large",
        ("self.weight * x", "(1 + self.weight) * x"),
        seen="huggingface/transformers #40449",
    ),
    gated_mistake(
        "gate_and_features_exchanged",
        "SiLU acts on linear1's features instead of the gate",
        (INSIDE, "F.silu(self.linear1(x)) * self.gate(x)"),
        seen="ml-explore/mlx-lm #767, ooples/AiDotNet.Tensors #46",
    ),
    gated_mistake(
        "silu_of_the_product",
        "SiLU acts on the product instead of the gate, because a parenthesis closes too late",
        (INSIDE, "F.silu(self.gate(x) * self.linear1(x))"),
        seen="Nijikadesu/breakdown-minimind #3",
    ),
    gated_mistake(
        "features_of_the_gate",
        "linear1 reads the output of the gate instead of x",
        (
            "nn.Linear(d_model, d_ff, bias=False)\n        self.gate",
            "nn.Linear(d_ff, d_ff, bias=False)\n        self.gate",
        ),
        (INSIDE, "self.linear1(F.silu(self.gate(x)))"),
    ),
    gated_mistake(
        "sigmoid_gate",
        "the gate's activation is a sigmoid instead of SiLU, which is z times the sigmoid of z",
        ("F.silu", "torch.sigmoid"),
    ),
    gated_mistake(
        "relu_gate",
        "the gate's activation is ReLU instead of SiLU",
        ("F.silu", "F.relu"),
    ),
    gated_mistake(
        "no_activation",
        "the gate has no activation, so two projections are multiplied",
        (SILU, "self.gate(x)"),
    ),
    gated_mistake(
        "gate_unused",
        "the gate is created but not used, which leaves a feed-forward with SiLU",
        (INSIDE, "F.silu(self.linear1(x))"),
        seen="google-research/timesfm #493",
    ),
    gated_mistake(
        "biases_on",
        "the layers have biases, because bias=False is missing",
        (", bias=False", ""),
    ),
    gated_mistake(
        "two_in_one_matrix",
        "one matrix of width 2 · d_ff replaces linear1 and gate",
        (FIRST, FIRST.replace("d_ff", "2 * d_ff")),
        (f"        {GATE}\n", ""),
        (
            f"return self.linear2({INSIDE})",
            "gate, features = self.linear1(x).chunk(2, dim=-1)\n"
            "        return self.linear2(F.silu(gate) * features)",
        ),
    ),
    gated_mistake(
        "two_thirds_taken_inside",
        "the class reduces d_ff to two thirds, but d_ff is already the final width",
        ("super().__init__()", "super().__init__()\n        d_ff = 2 * d_ff // 3"),
    ),
    gated_mistake(
        "projection_down_missing",
        "linear2 is not called, so the output has width d_ff",
        (f"self.linear2({INSIDE})", INSIDE),
        seen="bkitano/llama-from-scratch #7",
    ),
)


# right answers


class NormByLength(nn.Module):
    """Compute the root mean square from the length of the vector."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.full((d_model,), 1.0)))
        self.eps = eps

    def forward(self, x):
        """Normalize each vector."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        return x / torch.sqrt(length**2 / x.shape[-1] + self.eps) * self.weight


class NormOfLlama(nn.Module):
    """Split the work as Llama's code does; the argument is called ``dim``."""

    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def _norm(self, x):
        """Scale to mean square 1."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        """Compute in float32."""
        return self._norm(x.float()).type_as(x) * self.weight


class GateBySigmoid(nn.Module):
    """Write SiLU out."""

    def __init__(self, d_model, d_ff):
        super().__init__()
        self.linear2 = nn.Linear(d_ff, d_model, bias=False)
        self.gate, self.linear1 = (nn.Linear(d_model, d_ff, bias=False) for _ in range(2))

    def forward(self, x):
        """Multiply the features by the gate."""
        z = self.gate(x)
        features = self.linear1(x)
        features = features * (z * torch.sigmoid(z))
        return self.linear2(features)


class GateOfLlama(nn.Module):
    """Name the three layers as Llama's code does: w1 is the gate, w3 the features."""

    def __init__(self, dim: int, hidden_dim: int):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False)

    def forward(self, x):
        """Gate the features, and project down."""
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


ANSWERS = {"RMSNorm": (NormByLength, NormOfLlama), "SwiGLU": (GateBySigmoid, GateOfLlama)}
