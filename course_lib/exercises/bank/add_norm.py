"""Exercises for chapter 04: trials, known mistakes and correct answers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.layer_trials import (
    keeps_double,
    keeps_half,
    keeps_still,
    rounded,
    survivors,
)
from course_lib.exercises.checking.mistake import Edits, ignored
from course_lib.exercises.checking.trial import (
    D_K,
    B,
    T,
    Trial,
    as_trial,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

BUILD = {"d_model": D_K}
PRE = BUILD | {"norm_first": True}
TAKEN = (
    "This calls torch's own normalization, but here you build it yourself. Write out the mean, the "
    "variance and the square root. `AddNorm`, later in this chapter, may use torch's version."
)
GAIN_AND_SHIFT = "`weight` and `bias` are nn.Parameters of shape (d_model,)."


def numbers(*shape: int) -> Tensor:
    """Return vectors whose mean is not 0 and whose variance is not 1."""
    return 3 + 2 * normal("x", *shape)


def normed(label: str, x: Tensor, **options: Any) -> Trial:
    """Compare the outputs and gradients of a norm that has a gain and a shift."""
    return module_trial(label, {"d_model": x.size(-1), **options}, {"x": x})


@as_trial(
    "the mean and variance of the output",
    "Before training, each output vector must have mean 0 and variance 1. For the variance, divide "
    "the sum of squares by d_model.",
)
def moments(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    variance, mean = torch.var_mean(candidate(D_K)(numbers(B, T, D_K)), dim=-1, correction=0)
    return {"mean of each vector": mean.detach(), "variance of each vector": variance.detach()}


@as_trial(
    "other vectors in the batch",
    "Normalize every vector with its own mean and variance, over the last axis.",
)
def other_vectors(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    norm, x = candidate(D_K), numbers(B, T, D_K)
    others = normal("others", B, T, D_K)
    others[1, 2] = x[1, 2]
    same = torch.allclose(norm(x.clone())[1, 2], norm(others)[1, 2], atol=1e-5)
    return {"other vectors change the output": not same}


@as_trial(
    "a vector of equal numbers", "A constant vector becomes all zeros, and eps prevents 0 / 0."
)
def flat(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    return {"output": candidate(D_K)(torch.full((1, 1, D_K), 0.5)).detach()}


def sublayer(x: Tensor) -> Tensor:
    """Mix all entries of each vector; the result for a vector of zeros is not zero."""
    return torch.tanh(x @ normal("sub-layer", x.size(-1), x.size(-1)) + 0.5)


def around(label: str, build: dict, *shape: int) -> Trial:
    """Compare the outputs and gradients of a layer wrapped around ``sublayer``."""
    inputs = {"x": normal("x", *shape), "sublayer": sublayer}
    return module_trial(label, build | {"d_model": shape[-1]}, inputs)


def reads(build: dict, says: str) -> Trial:
    """Compare the inputs that the sub-layer receives."""

    @as_trial("the input of the sub-layer", says)
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, Tensor | None]:
        seen = []

        def record(x: Tensor) -> Tensor:
            """Record the input, and call the sub-layer."""
            seen.append(x.detach().clone())
            return sublayer(x)

        candidate(**build).eval()(normal("x", B, T, D_K), record)
        return {"input of the sub-layer": seen[0] if seen else None}

    return measure


@as_trial(
    "a sub-layer that returns zeros",
    "In pre-norm, the output must then be x itself, because nothing changes x on its path.",
)
def zero_sublayer(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    module = candidate(**PRE).eval()
    return {"output": module(normal("x", B, T, D_K), torch.zeros_like).detach()}


@as_trial(
    "the mean and variance of the output",
    "The post-norm output must have mean 0 and variance 1 before training, because the norm is "
    "applied last, to the sum.",
)
def one_scale(candidate: Callable[..., nn.Module]) -> dict[str, Tensor]:
    output = candidate(**BUILD).eval()(normal("x", B, T, D_K), sublayer).detach()
    return {"means": output.mean(dim=-1), "variances": output.var(dim=-1, correction=0)}


def dropped(norm_first: bool) -> Trial:
    """Apply dropout to a constant output; the entries 0 and 10 of x let us undo the norm."""

    @as_trial(
        f"dropout=0.2 in training, norm_first={norm_first}",
        "In training, dropout must drop each entry of the sub-layer's output independently before "
        "x is added, and divide the other entries by 1 - dropout (§5.4).",
        "train and eval",
    )
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
        x, answer = torch.zeros(4, 8, 12), torch.full((4, 8, 12), 3.0)
        x[..., 1], answer[..., :2] = 10.0, 0.0
        layer = candidate(d_model=12, dropout=0.2, norm_first=norm_first).train()
        read: list[Tensor] = []
        output = layer(x, lambda y: read.append(y) or answer.clone()).detach()
        zero, ten = output[..., :1], output[..., 1:2]
        added = 10 * (output[..., 2:] - zero) / (ten - zero)
        found = {"zeros come out": bool((output == 0).any())}
        found |= {"numbers that the sub-layer reads": rounded(read[0])}
        return found | {"an output of 3": survivors(added, "sentences", "positions", "features")}

    return measure


EXERCISES = (
    Exercise(
        "LayerNorm",
        20,
        core={
            "parameters": (parameters_trial(BUILD, GAIN_AND_SHIFT),),
            "mean and variance": (other_vectors, moments),
            "formula": (
                normed("sizes that differ", numbers(B, T, D_K)),
                normed("sizes that are all equal", numbers(D_K, D_K, D_K)),
                flat,
                keeps_double(BUILD, numbers(B, T, D_K)),
            ),
        },
        formula="Subtract each vector's mean, divide by √(variance + eps), and then apply the "
        "gain and the shift.",
        hints=(
            "Compute one mean and one variance per vector, over the last axis. "
            "What does `keepdim=True` keep?",
            "The variance is the mean of the squared distances from the mean. `x.var()` divides "
            "by d_model - 1 unless you pass `correction=0`.",
            "Divide the centered vector by `(variance + self.eps).sqrt()`, then compute "
            "`self.weight * … + self.bias`. These two are `nn.Parameter`s of shape `(d_model,)`, "
            "ones and zeros at first.",
        ),
        shortcuts=dict.fromkeys((F.layer_norm, torch.layer_norm, torch.native_layer_norm), TAKEN),
        extras={
            "one vector": (normed("a single vector", numbers(D_K)),),
            "eps": (
                normed("eps=0.5", numbers(B, T, D_K), eps=0.5),
                normed("vectors of almost equal numbers", 1e-3 * numbers(B, T, D_K)),
            ),
            "large mean": (
                normed("vectors around 10,000", 1e4 + (8 * normal("x", B, T, 8)).round()),
            ),
            "half precision": (keeps_half(BUILD, 300 * normal("x", B, T, D_K)),),
            "names": (names_trial(BUILD),),
        },
        rejects=("(0)", "(4)(torch.ones(2, 1))"),
    ),
    Exercise(
        "AddNorm",
        15,
        core={
            "parameters": (parameters_trial(BUILD, "There is one norm, called `norm`."),),
            "sub-layer": (reads(BUILD, "In post-norm, the sub-layer must read x itself."),),
            "sum and norm": (
                one_scale,
                around("sizes that differ", BUILD, B, T, D_K),
                around("sizes that are all equal", BUILD, D_K, D_K, D_K),
            ),
        },
        formula="Post-norm is norm(x + sublayer(x)), and pre-norm is x + sublayer(norm(x)).",
        hints=(
            "There are two orders. Post-norm runs the sub-layer, applies dropout, adds `x`, and "
            "normalizes. Pre-norm normalizes, runs the sub-layer, applies dropout, and adds `x`.",
            "`__init__` needs an `nn.LayerNorm(d_model)` called `norm` and an `nn.Dropout`, and it "
            "has to store `norm_first`.",
            "Post-norm is `self.norm(x + self.dropout(sublayer(x)))`. In pre-norm, the sub-layer "
            "reads `self.norm(x)`, and nothing normalizes the sum.",
        ),
        extras={
            "norm_first": (
                reads(PRE, "In pre-norm, the sub-layer must read norm(x)."),
                zero_sublayer,
                around("norm_first=True", PRE, B, T, D_K),
            ),
            "dropout": (
                dropped(False),
                keeps_still(BUILD, {"x": numbers(B, T, D_K), "sublayer": sublayer}, dropout=0.5),
            ),
            "dropout in pre-norm": (dropped(True),),
            "bias": (around("bias=False", BUILD | {"bias": False}, B, T, D_K),),
            "names": (names_trial(BUILD),),
        },
        rejects=("(4)(torch.ones(2, 3, 4), lambda y: y[:, :1])",),
    ),
)


# known mistakes


GAIN, SHIFT = "nn.Parameter(torch.ones(d_model))", "nn.Parameter(torch.zeros(d_model))"
START = f"""        self.weight = {GAIN}
        self.bias = {SHIFT}
"""
CHECK = "        check_width(x, self.weight.numel())\n"
MEAN = "x.mean(dim=-1, keepdim=True)"
VARIANCE = "centered.square().mean(dim=-1, keepdim=True)"
ROOT = "(variance + self.eps).sqrt()"


def over(axes: str) -> Edits:
    """Return edits that change the axes of the mean and the variance."""
    return (MEAN, f"x.mean({axes})"), (VARIANCE, f"centered.square().mean({axes})")


OVER = (
    (
        "the_sequence",
        "over the tokens of a sentence (dim=1) instead of over the features "
        "[jadore801120/attention-is-all-you-need-pytorch #17, OpenNMT/OpenNMT-tf #6]",
        "dim=1, keepdim=True",
    ),
    ("the_batch", "over the sentences of the batch (dim=0)", "dim=0, keepdim=True"),
    ("all_axes", "over all entries of the batch", ""),
    (
        "whole_sentences",
        "over all tokens and features of a sentence [reczoo/FuxiCTR #23, "
        "Qualcomm-AI-research/geometric-algebra-transformer #8]",
        "dim=(-2, -1), keepdim=True",
    ),
    (
        "each_feature",
        "over all tokens, for each feature, as in batch normalization",
        "dim=(0, 1), keepdim=True",
    ),
)
READ = "self.norm(x) if self.norm_first else x"
RUN = f"answer = sublayer({READ})"
SUM = "total = x + self.dropout(answer)"
LAST = "return total if self.norm_first else self.norm(total)"
NORM = "self.norm = nn.LayerNorm(d_model, bias=bias)"

MISTAKES = {
    "LayerNorm": {
        "unbiased_variance: the sum of squares is divided by d_model - 1, which is what var() does "
        "unless you pass correction=0 [allenai/allennlp "
        "pull request #953, FluxML/Flux.jl #529]": (VARIANCE, "x.var(dim=-1, keepdim=True)"),
        "unbiased_std_plus_eps: std() divides by d_model - 1, and eps is added after the square "
        "root instead of inside it [harvardnlp/annotated-transformer #119 and #122, "
        "hyunwoongko/transformer #7]": (ROOT, "(x.std(dim=-1, keepdim=True) + self.eps)"),
        "eps_outside_root: eps is added after the square root instead of inside it "
        "[hkproj/pytorch-transformer "
        "pull request #31, callummcdougall/ARENA_3.0 #228]": (ROOT, "(variance.sqrt() + self.eps)"),
        "eps_missing: eps is missing, so a vector of equal numbers, whose variance is 0, becomes "
        "nan "
        "[torchcvnn/torchcvnn #32, deeplearning4j/deeplearning4j #8241]": (ROOT, "variance.sqrt()"),
        "root_missing: the centered vector is divided by the variance instead of its square root": (
            ROOT,
            "(variance + self.eps)",
        ),
        **{
            f"over_{name}: the mean and the variance are computed {where}": over(axes)
            for name, where, axes in OVER
        },
        "keepdim_missing: keepdim=True is missing, so the means broadcast along the wrong axis "
        "[jadore801120/attention-is-all-you-need-pytorch #17]": over("dim=-1"),
        "root_mean_square: the mean is not subtracted, as in RMSNorm": (
            f"centered = x - {MEAN}",
            "centered = x",
        ),
        **ignored(("eps", ("variance + self.eps", "variance + 1e-5"))),
        "scalar_gain_and_shift: the gain and the shift are each a single number, shared by all "
        "features [AChiranth/SmallFormer, IoTDataAtelier/mtsa]": (
            (GAIN, "nn.Parameter(torch.ones(1))"),
            (SHIFT, "nn.Parameter(torch.zeros(1))"),
            (CHECK, ""),
        ),
        "no_gain_and_shift: the gain and the shift are missing, so training cannot change the "
        "scale of the output": (
            (START, ""),
            (CHECK, ""),
            ("self.weight * centered", "centered"),
            (" + self.bias", ""),
        ),
        "not_registered: the gain and the shift are plain tensors, so the optimizer and saved "
        "files "
        "do not include them": ((GAIN, "torch.ones(d_model)"), (SHIFT, "torch.zeros(d_model)")),
        "variance_not_centered: the variance is the mean of the squares of x, but it should "
        "be that of x - mean": (VARIANCE, VARIANCE.replace("centered", "x")),
        "variance_squared: the centered vector is divided by the square of variance + eps instead "
        "of its square root": (ROOT, "(variance + self.eps) ** 2"),
        "one_plus_gain: the vector is multiplied by 1 + weight even though weight starts at 1, so "
        "a new norm returns vectors that are twice "
        "as long as they should be": ("self.weight * centered", "(1 + self.weight) * centered"),
        "gain_around_zero: weight starts at 0 and the vector is multiplied by 1 + weight, as in "
        "Gemma; here weight starts at 1, and the vector is multiplied by "
        "weight alone": ((GAIN, SHIFT), ("self.weight * centered", "(1 + self.weight) * centered")),
        **{
            text: ("self.weight * centered / (variance + self.eps).sqrt() + self.bias", formula)
            for text, formula in (
                (
                    "shift_scaled: the shift is added before the multiplication by the gain",
                    f"self.weight * (centered / {ROOT} + self.bias)",
                ),
                (
                    "gain_unused: weight exists, but the vector is not multiplied by it",
                    f"centered / {ROOT} + self.bias",
                ),
                (
                    "shift_unused: bias exists, but it is not added",
                    f"self.weight * centered / {ROOT}",
                ),
                (
                    "mean_not_subtracted: x itself is divided, although the variance is around the "
                    "mean",
                    f"self.weight * x / {ROOT} + self.bias",
                ),
            )
        },
    },
    "AddNorm": {
        "residual_missing: x is not added, so the sub-layer's output replaces x": (
            SUM,
            "total = self.dropout(answer)",
        ),
        "norm_on_answer: in post-norm, the norm is applied only to the sub-layer's output, before "
        "x is added [keras-team/keras-io #1256, mashrurmorshed/Torch-KWT #13]": (
            (SUM, "total = x + self.dropout(answer if self.norm_first else self.norm(answer))"),
            (LAST, "return total"),
        ),
        "norm_on_path: in post-norm, the norm is applied to x before the sub-layer's output is "
        "added, not to the sum": (
            (SUM, "total = (x if self.norm_first else self.norm(x)) + self.dropout(answer)"),
            (LAST, "return total"),
        ),
        "residual_after_norm: in pre-norm, norm(x) is added to the sub-layer's output; add x "
        "itself instead [pytorch/pytorch #61165, tracel-ai/burn #1056, "
        "Howuhh/faster-trajectory-transformer #3]": (
            RUN,
            "x = self.norm(x) if self.norm_first else x\n        answer = sublayer(x)",
        ),
        "post_norm_missing: the norm is missing in post-norm, so the sum itself is returned "
        "[agentdr1/LA_MIL #3]": (LAST, "return total"),
        "orders_exchanged: the two orders are swapped, so norm_first=False normalizes first and "
        "norm_first=True normalizes last": (
            (READ, "x if self.norm_first else self.norm(x)"),
            (LAST, "return self.norm(total) if self.norm_first else total"),
        ),
        "always_normed_twice: norm_first is ignored, so the norm comes before the sub-layer and "
        "after the sum": ((READ, "self.norm(x)"), (LAST, "return self.norm(total)")),
        "added_after_norm: in post-norm, x is added once more after the norm": (
            LAST,
            "return total if self.norm_first else x + self.norm(total)",
        ),
        "always_post_norm: norm_first is ignored, so the norm always comes last [k2-fsa/snowfall "
        "pull request #184]": ((READ, "x"), (LAST, "return self.norm(total)")),
        "always_pre_norm: the norm always comes first, but the default is post-norm, in which it "
        "comes last [harvardnlp/annotated-transformer #1, #13, #92, #100; "
        "hkproj/pytorch-transformer #14]": ((READ, "self.norm(x)"), (LAST, "return total")),
        "normed_twice: pre-norm normalizes twice, before the sub-layer and after the sum "
        "[k2-fsa/snowfall pull request #184]": (LAST, "return self.norm(total)"),
        "dropout_always_on: F.dropout lacks training=self.training, so it is also active in eval "
        "mode [pytorch/pytorch #11999, delip/PyTorchNLPBook #28]": (
            "self.dropout(answer)",
            "nn.functional.dropout(answer, self.dropout.p)",
        ),
        "dropout_on_sum: dropout is applied to the sum, so it also drops entries of x on the "
        "residual path [codertimo/BERT-pytorch "
        "#85, soobinseo/Transformer-TTS #11]": (SUM, "total = self.dropout(x + answer)"),
        "dropout_last: dropout is applied last, to the result of the whole module "
        "[hyunwoongko/transformer #8, FGiuliari/Trajectory-Transformer #22]": (
            (SUM, "total = x + answer"),
            (LAST, "return self.dropout(total if self.norm_first else self.norm(total))"),
        ),
        "dropout_missing: the module never applies dropout [neulab/xnmt pull request #544, "
        "lucidrains/x-transformers #318]": (SUM, "total = x + answer"),
        "dropout_on_input: dropout is applied to what the sub-layer reads instead of its output": (
            (f"({READ})", f"(self.dropout({READ}))"),
            (SUM, "total = x + answer"),
        ),
        **ignored(("bias", (", bias=bias", ""))),
        "batch_norm: the norm is an nn.BatchNorm1d, which mixes the tokens of a batch and stores "
        "running averages": (
            (NORM, "self.norm = nn.BatchNorm1d(d_model)"),
            ("self.norm(x)", "self.norm(x.transpose(1, 2)).transpose(1, 2)"),
            ("self.norm(total)", "self.norm(total.transpose(1, 2)).transpose(1, 2)"),
        ),
        "in_place: `x += …` adds in place, which changes the caller's tensor [microsoft/unilm pull "
        "request "
        "#999, iMED-Lab/ER-Net pull request #3]": (SUM, "total = x.add_(self.dropout(answer))"),
    },
}
PATTERNS = {
    "not_registered": r"=\s*torch\.(ones|zeros)\(",
}


# right answers

ANSWERS = {
    "LayerNorm": {
        "by_var_mean: torch computes the mean and the variance": (
            (
                f"centered = x - {MEAN}",
                "var, mean = torch.var_mean(x, -1, keepdim=True, correction=0)",
            ),
            (f"variance = {VARIANCE}", "normed = (x - mean) * torch.rsqrt(var + self.eps)"),
            (
                f"self.weight * centered / {ROOT} + self.bias",
                "torch.addcmul(self.bias, normed, self.weight)",
            ),
        ),
    },
}
