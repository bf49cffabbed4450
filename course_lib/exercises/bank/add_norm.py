"""Exercises of chapter 04: trials, known mistakes and right answers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.exercise_bank import Exercise
from course_lib.exercises.mistake_catalogue import ignored, known
from course_lib.exercises.module_checks import keeps_still, survivors
from course_lib.exercises.trial import (
    D_K,
    B,
    T,
    Trial,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

BUILD = {"d_model": D_K}
PRE = BUILD | {"norm_first": True}
TAKEN = (
    "This lets torch normalize, the very thing you are building here. `AddNorm` may use it, "
    "a few cells further down; write out mean, variance and root first."
)


def numbers(*shape: int) -> Tensor:
    """Draw vectors whose mean is not 0 and whose variance is not 1."""
    return 3 + 2 * normal("x", *shape)


def normed(label: str, x: Tensor, **options: Any) -> Trial:
    """Compare outputs and gradients of a norm, for a gain and a shift of any kind."""
    return module_trial(label, {"d_model": x.size(-1), **options}, {"x": x})


@looks(
    "a look at mean and variance",
    "After a fresh norm, each vector has mean 0 and variance 1, where the sum of squares is "
    "divided by d_model.",
)
def moments(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Take mean and variance of every normalized vector, dividing by its width."""
    variance, mean = torch.var_mean(candidate(D_K)(numbers(B, T, D_K)), dim=-1, correction=0)
    return {"mean of each vector": mean.detach(), "variance of each vector": variance.detach()}


@looks(
    "other vectors around it",
    "Every vector is normalized by its own numbers alone: mean over the last axis.",
)
def company(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Change all vectors but one, and look whether that one comes out as before."""
    norm, x = candidate(D_K), numbers(B, T, D_K)
    others = normal("others", B, T, D_K)
    others[1, 2] = x[1, 2]
    same = torch.allclose(norm(x.clone())[1, 2], norm(others)[1, 2], atol=1e-5)
    return {"other vectors change the answer": not same}


@looks(
    "a vector of equal numbers", "A vector of equal numbers becomes zeros; eps keeps 0 / 0 away."
)
def flat(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Normalize a vector of equal numbers."""
    return {"output": candidate(D_K)(torch.full((1, 1, D_K), 0.5)).detach()}


def sublayer(x: Tensor) -> Tensor:
    """Answer something that depends on all numbers of a vector, and is not 0 at 0."""
    return torch.tanh(x @ normal("sub-layer", x.size(-1), x.size(-1)) + 0.5)


def around(label: str, build: dict, *shape: int, **how: Any) -> Trial:
    """Compare outputs and gradients around a sub-layer."""
    given = {"x": normal("x", *shape), "sublayer": sublayer}
    return module_trial(label, build | {"d_model": shape[-1]}, given, **how)


def reads(build: dict, says: str) -> Trial:
    """Look at what the sub-layer is given."""

    @looks("a look at what the sub-layer reads", says)
    def act(candidate: Callable[..., nn.Module]) -> dict[str, Tensor | None]:
        """Keep the first reading."""
        seen = []

        def note(x: Tensor) -> Tensor:
            """Keep a copy, and answer."""
            seen.append(x.detach().clone())
            return sublayer(x)

        candidate(**build).eval()(normal("x", B, T, D_K), note)
        return {"what the sub-layer reads": seen[0] if seen else None}

    return act


@looks(
    "a sub-layer that answers zeros",
    "The residual path is free: x itself arrives, whatever the norm does.",
)
def silent(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Look at what comes around a sub-layer that answers zeros, in pre-norm."""
    module = candidate(**PRE).eval()
    return {"output": module(normal("x", B, T, D_K), torch.zeros_like).detach()}


@looks(
    "a look at the result",
    "What a fresh post-norm returns has mean 0 and variance 1: the norm acts last, on the sum.",
)
def one_scale(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    """Take mean and variance of what post-norm returns."""
    output = candidate(**BUILD).eval()(normal("x", B, T, D_K), sublayer).detach()
    return {"means": output.mean(dim=-1), "variances": output.var(dim=-1, correction=0)}


def dropped(norm_first: bool) -> Trial:
    """Drop some of the sub-layer's answers: the first two numbers, 0 and 10, undo the norm."""

    @looks(
        f"dropout=0.2 in training, norm_first={norm_first}",
        "Dropout acts on each number of the sub-layer's answer by itself, before the sum, in "
        "training only, and divides the rest by 1 - dropout (§5.4).",
        "train and eval",
    )
    def act(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
        """Answer 3, but 0 in the first two columns."""
        x, answer = torch.zeros(4, 8, 12), torch.full((4, 8, 12), 3.0)
        x[..., 1], answer[..., :2] = 10.0, 0.0
        layer = candidate(d_model=12, dropout=0.2, norm_first=norm_first).train()
        output = layer(x, lambda _: answer.clone()).detach()
        zero, ten = output[..., :1], output[..., 1:2]
        added = 10 * (output[..., 2:] - zero) / (ten - zero)
        found = {"zeros come out": bool((output == 0).any())}
        return found | {"an answer of 3": survivors(added, "sentences", "positions", "features")}

    return act


EXERCISES = (
    Exercise(
        "LayerNorm",
        "add_norm",
        20,
        core={
            "parameters": (
                parameters_trial(
                    BUILD,
                    "Gain and shift are learned, one number for each feature: nn.Parameters "
                    "`weight` and `bias`, each of shape (d_model,).",
                ),
            ),
            "mean and variance": (company, moments),
            "formula": (
                normed("sizes that differ", numbers(B, T, D_K)),
                normed("sizes that are all equal", numbers(D_K, D_K, D_K)),
                flat,
            ),
        },
        hints=(
            "Mean and variance are taken over the last axis, one of each per vector. "
            "What does `keepdim=True` keep?",
            "The variance is the mean of the squared distances from the mean; `x.var()` divides "
            "by one less, unless told `correction=0`.",
            "Divide the centred vector by `(variance + self.eps).sqrt()`, then `self.weight * … + "
            "self.bias`; these two are `nn.Parameter`s, ones and zeros of shape `(d_model,)`.",
        ),
        shortcuts=dict.fromkeys((F.layer_norm, torch.layer_norm, torch.native_layer_norm), TAKEN),
        extras={
            "one vector": (normed("one vector and no more axes", numbers(D_K)),),
            "eps": (
                normed("eps=0.5", numbers(B, T, D_K), eps=0.5),
                normed("vectors with hardly any spread", 1e-3 * numbers(B, T, D_K)),
            ),
            "large mean": (
                normed("vectors around 10,000", 1e4 + (8 * normal("x", B, T, 8)).round()),
            ),
            "names": (names_trial(BUILD),),
        },
        unnamed=("self.weight * centred", "self.weight.abs() * centred"),
    ),
    Exercise(
        "AddNorm",
        "add_norm",
        15,
        core={
            "parameters": (
                parameters_trial(
                    BUILD,
                    "One norm, an attribute called `norm`, with a gain and a shift for each "
                    "feature.",
                ),
            ),
            "sub-layer": (reads(BUILD, "In post-norm the sub-layer reads x as it is."),),
            "sum and norm": (
                one_scale,
                around("sizes that differ", BUILD, B, T, D_K),
                around("sizes that are all equal", BUILD, D_K, D_K, D_K),
            ),
        },
        hints=(
            "There are two orders. Post-norm: run, drop, add, norm. Pre-norm: norm, run, drop, "
            "add. What goes *around* the sub-layer is `x` in both.",
            "`__init__` needs an `nn.LayerNorm(d_model)` called `norm`, an `nn.Dropout`, and has "
            "to keep `norm_first`.",
            "Post-norm is `self.norm(x + self.dropout(sublayer(x)))`. For pre-norm the norm moves "
            "to the inside: around the x that the sub-layer reads.",
        ),
        extras={
            "norm_first": (
                reads(PRE, "In pre-norm the sub-layer reads norm(x)."),
                silent,
                around("norm_first=True", PRE, B, T, D_K),
            ),
            "dropout": (
                dropped(False),
                keeps_still(
                    BUILD, {"x": normal("x", B, T, D_K), "sublayer": sublayer}, dropout=0.5
                ),
            ),
            "dropout in pre-norm": (dropped(True),),
            "names": (names_trial(BUILD),),
        },
        unnamed=("total = x + ", "total = x * "),
    ),
)


# known mistakes

norm = known("add_norm", "LayerNorm")
add_norm = known("add_norm", "AddNorm")

GAIN, SHIFT = "nn.Parameter(torch.ones(d_model))", "nn.Parameter(torch.zeros(d_model))"
START = f"""        self.weight = {GAIN}
        self.bias = {SHIFT}
"""
CHECK = "        check_width(x, self.weight.numel())\n"
MEAN = "x.mean(dim=-1, keepdim=True)"
VARIANCE = "centred.square().mean(dim=-1, keepdim=True)"
ROOT = "(variance + self.eps).sqrt()"


def over(axes: str) -> Sequence[tuple[str, str]]:
    """Edit the axes over which mean and variance are taken."""
    return (MEAN, f"x.mean({axes})"), (VARIANCE, f"centred.square().mean({axes})")


OVER = (
    (
        "the_sequence",
        "along the sentence (dim=1) instead of over the features",
        "jadore801120/attention-is-all-you-need-pytorch #17, OpenNMT/OpenNMT-tf #6",
        "dim=1, keepdim=True",
    ),
    (
        "the_batch",
        "over the sentences of the batch (dim=0)",
        "code for rows (B, features), where dim=0 is batch normalization",
        "dim=0, keepdim=True",
    ),
    ("all_axes", "over the whole batch at once", "mean() and var() without dim", ""),
    (
        "whole_sentences",
        "over a whole sentence: over words and features together",
        "reczoo/FuxiCTR #23, Qualcomm-AI-research/geometric-algebra-transformer #8",
        "dim=(-2, -1), keepdim=True",
    ),
    (
        "each_feature",
        "over all words, for each feature: that is batch normalization",
        "Kyubyong/transformer #40",
        "dim=(0, 1), keepdim=True",
    ),
)
READ = "self.norm(x) if self.norm_first else x"
RUN = f"answer = sublayer({READ})"
SUM = "total = x + self.dropout(answer)"
LAST = "return total if self.norm_first else self.norm(total)"
NORM = "self.norm = nn.LayerNorm(d_model, bias=bias)"

MISTAKES = (
    norm(
        "unbiased_variance",
        "the squares are divided by d_model - 1: that is what var() does, unless told correction=0",
        (VARIANCE, "x.var(dim=-1, keepdim=True)"),
        seen="allenai/allennlp pull request #953, FluxML/Flux.jl #529",
    ),
    norm(
        "unbiased_std_plus_eps",
        "std() divides by d_model - 1, and eps is added to the root instead of under it",
        (ROOT, "(x.std(dim=-1, keepdim=True) + self.eps)"),
        seen="harvardnlp/annotated-transformer #119 and #122, hyunwoongko/transformer #7",
    ),
    norm(
        "eps_outside_root",
        "eps is added to the root instead of under it",
        (ROOT, "(variance.sqrt() + self.eps)"),
        seen="hkproj/pytorch-transformer pull request #31, callummcdougall/ARENA_3.0 #228",
    ),
    norm(
        "eps_missing",
        "eps is not used: equal numbers have variance 0, and 0 / 0 is nan",
        (ROOT, "variance.sqrt()"),
        seen="torchcvnn/torchcvnn #32, deeplearning4j #8241",
    ),
    norm(
        "root_missing",
        "the centred vector is divided by the variance, not by its root",
        (ROOT, "(variance + self.eps)"),
    ),
    *(
        norm(f"over_{name}", f"mean and variance are taken {words}", *over(axes))
        for name, words, seen, axes in OVER
    ),
    norm(
        "keepdim_missing",
        "keepdim=True is missing: without the last axis the means meet the wrong numbers",
        *over("dim=-1"),
        seen="a comment on jadore801120/attention-is-all-you-need-pytorch #17",
    ),
    norm(
        "root_mean_square",
        "the mean is not taken away, neither above nor below the line: that is RMSNorm",
        (f"centred = x - {MEAN}", "centred = x"),
    ),
    *ignored(norm, ("eps", ("variance + self.eps", "variance + 1e-5"))),
    norm(
        "scalar_gain_and_shift",
        "gain and shift are single numbers, shared by all features",
        (GAIN, "nn.Parameter(torch.ones(1))"),
        (SHIFT, "nn.Parameter(torch.zeros(1))"),
        (CHECK, ""),
        seen="AChiranth/SmallFormer, IoTDataAtelier/mtsa and many others on GitHub",
    ),
    norm(
        "no_gain_and_shift",
        "gain and shift are missing: the norm cannot choose its scale",
        (START, ""),
        (CHECK, ""),
        ("self.weight * centred", "centred"),
        (" + self.bias", ""),
    ),
    norm(
        "not_registered",
        "gain and shift are plain tensors: the optimizer does not see them, and they are not saved",
        (GAIN, "torch.ones(d_model)"),
        (SHIFT, "torch.zeros(d_model)"),
        tells=r"=\s*torch\.(ones|zeros)\(",
    ),
    norm(
        "variance_squared",
        "the centered vector is divided by the square of variance plus eps instead of its root",
        (ROOT, "(variance + self.eps) ** 2"),
    ),
    norm(
        "one_plus_gain",
        "the vector is multiplied by 1 + weight although weight starts at 1, so a new norm "
        "returns vectors that are twice too long",
        ("self.weight * centred", "(1 + self.weight) * centred"),
    ),
    norm(
        "gain_around_zero",
        "weight starts at 0 and the vector is multiplied by 1 + weight, as in Gemma; here "
        "weight starts at 1 and multiplies alone",
        (GAIN, SHIFT),
        ("self.weight * centred", "(1 + self.weight) * centred"),
    ),
    add_norm(
        "residual_missing",
        "x is not added: what the sub-layer says replaces x",
        (SUM, "total = self.dropout(answer)"),
        seen="kyegomez/BitNet #32 (the other half is lost there)",
    ),
    add_norm(
        "norm_on_answer",
        "in post-norm the norm acts on the answer alone, before x is added",
        (SUM, "total = x + self.dropout(answer if self.norm_first else self.norm(answer))"),
        (LAST, "return total"),
        seen="harvardnlp/annotated-transformer #110, google-research/tuning_playbook #50",
    ),
    add_norm(
        "norm_on_path",
        "in post-norm the norm acts on x, before the answer is added, and not on the sum",
        (SUM, "total = (x if self.norm_first else self.norm(x)) + self.dropout(answer)"),
        (LAST, "return total"),
        seen="SHI-Labs/Compact-Transformers #25",
    ),
    add_norm(
        "residual_after_norm",
        "in pre-norm the normed x goes around the sub-layer: the path is not free any more",
        (RUN, "x = self.norm(x) if self.norm_first else x\n        answer = sublayer(x)"),
        seen="pytorch/pytorch #61165, tracel-ai/burn #1056, faster-trajectory-transformer #3",
    ),
    add_norm(
        "post_norm_missing",
        "the norm is missing in post-norm: the sum is returned as it is",
        (LAST, "return total"),
        seen="agentdr1/LA_MIL #3",
    ),
    add_norm(
        "always_post_norm",
        "norm_first is ignored: the norm always comes last",
        (READ, "x"),
        (LAST, "return self.norm(total)"),
        seen="k2-fsa/snowfall pull request #184 (an argument that is not passed on)",
    ),
    add_norm(
        "always_pre_norm",
        "norm_first is ignored: the norm always comes first, also where the paper's order is asked",
        (READ, "self.norm(x)"),
        (LAST, "return total"),
        seen="harvardnlp/annotated-transformer #1, #13, #92, #100; hkproj/pytorch-transformer #14",
    ),
    add_norm(
        "normed_twice",
        "pre-norm norms twice: before the sub-layer, and the sum again",
        (LAST, "return self.norm(total)"),
        seen="k2-fsa/snowfall pull request #184",
    ),
    add_norm(
        "dropout_always_on",
        "dropout is on in eval mode too: F.dropout does not know the mode, unless told so",
        ("self.dropout(answer)", "nn.functional.dropout(answer, self.dropout.p)"),
        seen="pytorch/pytorch #11999, delip/PyTorchNLPBook #28",
    ),
    add_norm(
        "dropout_on_sum",
        "dropout acts on the sum, and puts holes into the path around the sub-layer",
        (SUM, "total = self.dropout(x + answer)"),
        seen="codertimo/BERT-pytorch #85, soobinseo/Transformer-TTS #11",
    ),
    add_norm(
        "dropout_last",
        "dropout acts on the result, after everything else",
        (SUM, "total = x + answer"),
        (LAST, "return self.dropout(total if self.norm_first else self.norm(total))"),
        seen="hyunwoongko/transformer #8, FGiuliari/Trajectory-Transformer #22",
    ),
    add_norm(
        "dropout_missing",
        "the argument dropout is not used",
        (SUM, "total = x + answer"),
        seen="neulab/xnmt pull request #544, lucidrains/x-transformers #318",
    ),
    add_norm(
        "batch_norm",
        "the norm is an nn.BatchNorm1d: it mixes the words of a batch, and saves their averages",
        (NORM, "self.norm = nn.BatchNorm1d(d_model)"),
        ("self.norm(x)", "self.norm(x.transpose(1, 2)).transpose(1, 2)"),
        ("self.norm(total)", "self.norm(total.transpose(1, 2)).transpose(1, 2)"),
        seen="DeepRec-AI/DeepRec #810 (asked about there)",
    ),
    add_norm(
        "in_place",
        "`x += …` adds in place, and changes the vectors of whoever called",
        (SUM, "total = x.add_(self.dropout(answer))"),
        seen="microsoft/unilm pull request #999, iMED-Lab/ER-Net pull request #3",
    ),
)


# right answers


class NormByVar(nn.Module):
    """Let torch compute the variance, and tell it by what to divide."""

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Take both statistics at once."""
        var, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
        return torch.addcmul(self.bias, (x - mean) * torch.rsqrt(var + self.eps), self.weight)


class NormWithA2AndB2(nn.Module):
    """Take the Annotated Transformer's names, and a deviation divided by d_model."""

    def __init__(self, features, eps=1e-6):
        super().__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        """Add eps to the deviation."""
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True, unbiased=False)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class NormWithGammaAndBeta(nn.Module):
    """Take the names of the formula, and no eps as an argument."""

    def __init__(self, hidden_size):
        super().__init__()
        self.beta = nn.Parameter(torch.zeros(hidden_size))
        self.gamma = nn.Parameter(torch.ones(hidden_size))

    def forward(self, x):
        """Centre with a matrix."""
        d = x.size(-1)
        centred = x @ (torch.eye(d) - torch.ones(d, d) / d)
        return self.gamma * centred / (centred.pow(2).mean(-1, True) + 1e-5).sqrt() + self.beta


class AddNormInTwoLines(nn.Module):
    """Write each order as one line."""

    def __init__(self, d_model, dropout=0.0, norm_first=False):
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.drop = nn.Dropout(dropout)
        self.pre = norm_first

    def forward(self, x, sublayer):
        """Choose the line."""
        if self.pre:
            return x + self.drop(sublayer(self.norm(x)))
        return self.norm(x + self.drop(sublayer(x)))


class SublayerConnection(nn.Module):
    """Take the Annotated Transformer's arguments, in the paper's order: the norm comes last."""

    def __init__(self, size, dropout):
        super().__init__()
        self.layer_norm = NormWithA2AndB2(size)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, sublayer):
        """Add in place, to a copy."""
        residual = x.clone()
        residual += self.dropout(sublayer(x))
        return self.layer_norm(residual)


ANSWERS = {
    "LayerNorm": (NormByVar, NormWithA2AndB2, NormWithGammaAndBeta),
    "AddNorm": (AddNormInTwoLines, SublayerConnection),
}
