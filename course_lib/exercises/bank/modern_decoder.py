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
X = 3 + 2 * normal("x", B, T, D_K)  # the mean is not 0, the mean square not 1
Y = normal("y", B, T, D_K)
TAKEN = (
    "This lets torch normalize, the very thing you are building here: write out the squares, "
    "their mean and the root."
)


def norm(label: str, x: Tensor, says: str = "", **build: Any) -> Trial:
    """Compare outputs and gradients, for gains of any kind."""
    return module_trial(label, {"d_model": x.size(-1)} | build, {"x": x}, says=says)


def gated(label: str, x: Tensor, d_ff: int = D_V, says: str = "") -> Trial:
    """Compare outputs and gradients of a gated feed-forward."""
    return module_trial(label, dict(d_model=x.size(-1), d_ff=d_ff), {"x": x}, says=says)


@looks(
    "a fresh norm",
    "A fresh norm keeps the direction of each vector, as no mean is subtracted, and the squares of "
    "each average 1.",
)
def directions(candidate: Callable) -> dict[str, Tensor]:
    """Compare the direction of every vector before and after a fresh norm."""
    output = candidate(D_K)(X.clone()).detach()
    return {
        "cosine of each vector with what it was": F.cosine_similarity(output, X, dim=-1),
        "mean square of each vector": output.square().mean(dim=-1),
    }


EXERCISES = (
    Exercise(
        "RMSNorm",
        "modern_decoder",
        10,
        core={
            "parameters": (
                parameters_trial(
                    {"d_model": D_K},
                    "One nn.Parameter is learned: the gains `weight`, of shape (d_model,). There "
                    "is no shift.",
                ),
            ),
            "formula": (directions, norm("sizes that differ", X)),
            "each vector alone": (
                norm(
                    "sizes that are all equal",
                    3 + normal("even", D_K, D_K, D_K),
                    "Every vector is normalized by its own numbers alone: the mean of the squares "
                    "is taken over the last axis.",
                ),
                norm("one vector and no more axes", normal("one", D_K)),
            ),
        },
        hints=(
            "Read the name from the right: square every number, take the mean over the last "
            "axis, and of that the root. `keepdim=True` keeps the axis for the division.",
            "eps is added to the mean of the squares, *before* the root. `rsqrt()` is one over "
            "the root, so it is multiplied with.",
            "`self.weight * x * (x.square().mean(dim=-1, keepdim=True) + self.eps).rsqrt()`",
        ),
        shortcuts=dict.fromkeys(
            (F.rms_norm, torch.rms_norm, F.layer_norm, torch.layer_norm), TAKEN
        ),
        extras={
            "small vectors": (
                norm("a vector of zeros", torch.zeros(1, 1, D_K)),
                norm(
                    "vectors that are nearly zero",
                    1e-3 * X,
                    "eps, 1e-5 unless given, is added under the root.",
                ),
            ),
            "eps": (norm("eps=0.5", X, "eps is added under the root.", eps=0.5),),
            "names": (names_trial({"d_model": D_K}),),
        },
        unnamed=(".rsqrt()", ".pow(-0.4)"),
    ),
    Exercise(
        "SwiGLU",
        "modern_decoder",
        10,
        core={
            "parameters": (
                parameters_trial(
                    SIZES,
                    "Three nn.Linear layers without biases: linear1 and gate project from d_model "
                    "up to d_ff, linear2 projects back down.",
                ),
            ),
            "gate": (
                gated(
                    "sizes that differ",
                    Y,
                    says="The features, linear1, come as they are and are multiplied; the SiLU "
                    "stands on what `gate` gives.",
                ),
                gated("large numbers", 20 * Y),
            ),
            "each vector alone": (
                gated("sizes that are all equal", normal("even", D_K, D_K, D_K), D_K),
                gated("one vector and no more axes", normal("one", D_K)),
            ),
        },
        hints=(
            "Both projections up read x. One of them goes through SiLU and says how much of each "
            "feature passes; the other is the feature itself.",
            "`nn.Linear(…, bias=False)`, three times; `F.silu` on what `self.gate` gives.",
            "`self.linear2(F.silu(self.gate(x)) * self.linear1(x))`",
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
        "the mean is subtracted first: that is LayerNorm; RMSNorm leaves it where it is",
        ("return self", f"{CENTRED}return self"),
    ),
    norm_mistake(
        "variance_for_mean_square",
        "x.var() is taken: it subtracts the mean before it squares, and divides by d_model - 1",
        (SQUARES, "x.var(dim=-1, keepdim=True)"),
    ),
    norm_mistake(
        "std_for_root_mean_square",
        "x is divided by x.std() + eps: std() subtracts the mean, and eps belongs under the root",
        (f"* {ROOT}", "/ (x.std(dim=-1, keepdim=True) + self.eps)"),
    ),
    norm_mistake(
        "sum_for_mean",
        "the squares are added up and not divided by d_model: every vector gets length 1",
        (SQUARES, "x.square().sum(dim=-1, keepdim=True)"),
        seen="CASL/Futility #92: a root mean square without its 1/n",
    ),
    norm_mistake(
        "multiplied_by_the_root",
        "x is multiplied by the root: rsqrt() is one over the root already, so divide by sqrt() "
        "or multiply by rsqrt()",
        ("* x * (", "* x / ("),
        seen="mosaicml/llm-foundry #371; asked in hkproj/pytorch-llama #2",
    ),
    norm_mistake(
        "eps_outside_root",
        "eps is added to the root instead of under it",
        (f"* {ROOT}", f"/ ({SQUARES}.sqrt() + self.eps)"),
        seen="allenai/OLMo #281, EleutherAI/gpt-neox #1342, tile-ai/tilelang #1243",
    ),
    norm_mistake(
        "eps_missing",
        "eps is not used: a vector of zeros is divided by 0",
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
        "one mean is taken over a whole sequence: every vector has its own",
        ("dim=-1", "dim=(-2, -1)"),
        seen="bkitano/llama-from-scratch #4",
    ),
    norm_mistake(
        "one_plus_gain",
        "1 + weight multiplies, and weight starts at 1: the answer is twice too large",
        ("self.weight * x", "(1 + self.weight) * x"),
        seen="Gemma's way, whose weight starts at 0: huggingface/transformers #40449",
    ),
    norm_mistake(
        "gain_around_zero",
        "weight starts at 0 and x is multiplied by 1 + weight, as in Gemma; here weight starts "
        "at 1 and multiplies alone",
        ("torch.ones(d_model)", "torch.zeros(d_model)"),
        ("self.weight * x", "(1 + self.weight) * x"),
    ),
    norm_mistake(
        "root_missing",
        "x is divided by the mean of the squares instead of its root",
        (f"* {ROOT}", f"/ ({SQUARES} + self.eps)"),
    ),
    norm_mistake(
        "mean_square_squared",
        "x is divided by the square of the mean of the squares instead of its root",
        (f"* {ROOT}", f"/ ({SQUARES} + self.eps) ** 2"),
    ),
    gated_mistake(
        "gate_and_features_exchanged",
        "SiLU stands on linear1's features, and the gate is multiplied as it is: it is the gate "
        "that goes through SiLU",
        (INSIDE, "F.silu(self.linear1(x)) * self.gate(x)"),
        seen="ml-explore/mlx-lm #767, ooples/AiDotNet.Tensors #46",
    ),
    gated_mistake(
        "silu_of_the_product",
        "SiLU is taken of the product: a parenthesis closes too late",
        (INSIDE, "F.silu(self.gate(x) * self.linear1(x))"),
        seen="Nijikadesu/breakdown-minimind #3",
    ),
    gated_mistake(
        "features_of_the_gate",
        "linear1 reads what the gate gives: both read x",
        (
            "nn.Linear(d_model, d_ff, bias=False)\n        self.gate",
            "nn.Linear(d_ff, d_ff, bias=False)\n        self.gate",
        ),
        (INSIDE, "self.linear1(F.silu(self.gate(x)))"),
        seen="asked in aju22/LLaMA2 #1",
    ),
    gated_mistake(
        "sigmoid_gate",
        "the gate goes through a sigmoid: SiLU is z times its sigmoid",
        ("F.silu", "torch.sigmoid"),
    ),
    gated_mistake(
        "relu_gate",
        "the gate goes through ReLU: SwiGLU has SiLU there",
        ("F.silu", "F.relu"),
    ),
    gated_mistake(
        "no_activation",
        "nothing stands on the gate: two projections are multiplied as they are",
        (SILU, "self.gate(x)"),
    ),
    gated_mistake(
        "gate_unused",
        "the gate is made and not used: what is left is a feed-forward with SiLU",
        (INSIDE, "F.silu(self.linear1(x))"),
        seen="google-research/timesfm #493",
    ),
    gated_mistake(
        "biases_on",
        "the layers have biases: here there are none, bias=False",
        (", bias=False", ""),
        seen="nn.Linear's default; NVIDIA/Megatron-LM #346 met one",
    ),
    gated_mistake(
        "two_in_one_matrix",
        "one matrix makes both, twice as wide, and is cut in two: here there are linear1 and gate",
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
        "the class shrinks d_ff to two thirds by itself: who builds it has done that",
        ("super().__init__()", "super().__init__()\n        d_ff = 2 * d_ff // 3"),
        seen="asked in epfLLM/Megatron-LLM #64",
    ),
    gated_mistake(
        "projection_down_missing",
        "linear2 is not called: the answer is d_ff wide",
        (f"self.linear2({INSIDE})", INSIDE),
        seen="bkitano/llama-from-scratch #7 stops there, at equal widths",
    ),
)


# right answers


class NormByLength(nn.Module):
    """Measure the length, and compare it with that of d_model ones."""

    def __init__(self, d_model, eps=1e-5):
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.full((d_model,), 1.0)))
        self.eps = eps

    def forward(self, x):
        """Divide by the root."""
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
        """Let features pass."""
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
