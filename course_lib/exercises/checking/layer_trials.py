"""Trials for layers from several chapters."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.checking.trial import (
    H,
    Trial,
    as_trial,
    by_name,
    filled,
    half_precision,
    module_trial,
)

MODES = {"in training": True, "in eval mode": False}
TORCH_ATTENTION = {  # what the exercises from the encoder layer on must not call
    F.multi_head_attention_forward: "This calls torch's own attention layer. Use the parts that "
    "you built in earlier chapters, because later chapters rely on the names of their parameters."
}


def loudness(matrix: Tensor) -> float:
    """Return an embedding's standard deviation times √d_model, to one decimal place."""
    return round(float(matrix.detach().std()) * math.sqrt(matrix.size(1)), 1)


def glorot_ratio(matrix: Tensor) -> float:
    """Return the largest entry divided by Glorot and Bengio's bound, to one decimal place."""
    return round(float(matrix.detach().abs().max()) / math.sqrt(6 / sum(matrix.shape)), 1)


def rounded(x: Tensor) -> str:
    """If a tensor has at most three distinct numbers, list them to two decimal places."""
    numbers = sorted({round(value, 2) + 0.0 for value in x.flatten().tolist()})  # + 0.0: no -0
    return " or ".join(f"{value:g}" for value in numbers) if len(numbers) < 4 else "many numbers"


def survivors(x: Tensor, *axes: str) -> dict[str, str]:
    """Say what dropout does to a constant tensor, and along which axes it drops all or nothing.

    ``axes`` says what each axis of ``x`` represents.
    """
    gone = x.abs() < 1e-2
    firsts = [gone.narrow(axis, 0, 1).expand_as(gone) for axis in range(gone.dim())]
    together = [name for name, first in zip(axes, firsts, strict=True) if gone.equal(first)]
    together_for = " and ".join(together) or "none"
    return {"becomes": rounded(x), "is dropped together for all": together_for}


def keeps_still(build: Mapping[str, Any], inputs: Mapping[str, Any], **rates: float) -> Trial:
    """Check that dropout is active in training mode only."""

    @as_trial(
        "dropout in eval mode",
        "Dropout must be active in training mode only. nn.Dropout knows the mode, but F.dropout "
        "needs training=self.training.",
        "train and eval",
    )
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
        layer, outputs = filled(candidate(**build, **rates)).eval(), []
        for _ in range(2):
            answer = layer(*deepcopy(list(inputs.values())))
            outputs.append((answer[0] if isinstance(answer, tuple) else answer).detach())
        same = torch.equal(*outputs)
        return {"random in eval mode": not same, "output": outputs[0] * same}

    return measure


def keeps_double(build: Mapping[str, Any], x: Tensor) -> Trial:
    """Check that the output for an input in float64 is in float64, too."""

    @as_trial("float64", "The output must have the dtype of the input.")
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, str]:
        return {"dtype of the output": str(candidate(**build).double()(x.double()).dtype)}

    return measure


def keeps_half(build: Mapping[str, Any], x: Tensor) -> Trial:
    """Check the output for an input in float16 whose squares are infinite in float16."""
    says = "A float16 ends at 65,504, so compute the squares and their mean in float32."
    return half_precision(says, lambda kind, dtype: kind(**build).to(dtype)(x.half().to(dtype)))


def outputs_in(
    training: bool, module: nn.Module, inputs: Iterable[tuple[Tensor | None, ...]]
) -> list[Tensor]:
    """Call a module in one mode with several inputs; dropout drops the same entries each time."""
    outputs = []
    for each in inputs:
        torch.default_generator.manual_seed(0)
        answer = module.train(training)(*each)
        outputs.append(answer[0] if isinstance(answer, tuple) else answer)
    return outputs


def sees_later(
    module: nn.Module,
    first: int,
    *pair: tuple[Tensor, ...],
    what: str = "a later token affects earlier outputs",
) -> dict[str, bool]:
    """Return whether two inputs have different outputs before position *first*, in each mode."""
    effects = {}
    for mode, training in MODES.items():
        plain, other = (output[:, :first] for output in outputs_in(training, module, pair))
        effects[f"{what} {mode}"] = not torch.allclose(plain, other, atol=1e-4)
    return effects


def added_in_training(
    candidate: Callable[..., nn.Module],
    speaker: str,
    *inputs: Tensor,
    bias: float = 0.0,
    **rates: float,
) -> dict[str, str]:
    """Make one sub-layer of a pre-norm layer return 2 everywhere; list what is added to x."""
    width = inputs[0].size(-1)
    layer = candidate(d_model=width, num_heads=H, d_ff=width, norm_first=True, **rates).train()
    ends = ("linear1.bias", "linear2.weight", "linear2.bias", "w_v.bias", "w_o.weight", "w_o.bias")
    with torch.no_grad():
        for name, parameter in by_name(layer).items():
            speaks = name.startswith(speaker) and name.endswith(ends)
            ones = torch.eye(width) if parameter.dim() == 2 else torch.ones_like(parameter)
            if "norm" not in name:
                parameter.copy_(ones if speaks else torch.zeros_like(parameter))
        answers = (layer(*inputs) - inputs[0] - bias).unflatten(-1, (H, -1))
    return survivors(answers, "sentences", "positions", "heads", "features of a head")


def dropout_trials(
    build: Mapping[str, Any], inputs: Mapping[str, Tensor], speakers: Sequence[str]
) -> dict[str, tuple[Trial, ...]]:
    """Return trials for a layer's three dropout rates; *speakers* names the sub-layers."""
    vectors = [x for x in inputs.values() if x.is_floating_point()]
    outer = module_trial(
        "dropout=1.0 in training",
        {**build, "dropout": 1.0},
        inputs,
        training=True,
        kind="train and eval",
        says="`dropout` acts on each sub-layer's output, before it is added to the input.",
    )
    still = keeps_still(build, inputs, attention_dropout=0.5, activation_dropout=0.5)
    return {
        "dropout": (outer, keeps_still(build, inputs, dropout=0.5)),
        "inner dropouts": (nowhere_else(vectors, speakers), inside(vectors, speakers), still),
    }


def nowhere_else(inputs: Sequence[Tensor], speakers: Sequence[str]) -> Trial:
    """Check that ``dropout`` is applied to the sub-layers' outputs, and nowhere else."""

    @as_trial(
        "dropout=0.2 in training, norm_first=True",
        "`dropout` drops each entry of a sub-layer's output independently, and acts nowhere else.",
        "train and eval",
    )
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, dict[str, str]]:
        return {
            f"an output of 2 from {name}": added_in_training(candidate, name, *inputs, dropout=0.2)
            for name in speakers
        }

    return measure


def inside(inputs: Sequence[Tensor], speakers: Sequence[str]) -> Trial:
    """Check that the two inner dropouts are applied to attention weights and to features."""
    alone = [x[:, :1].repeat(16, 1, 1) for x in inputs]  # a single key: its weight is 1

    @as_trial(
        "the inner dropouts at 0.2 in training",
        "`attention_dropout` acts on each attention weight, and `activation_dropout` on each of "
        "the d_ff features. Both divide what they keep by 1 - dropout.",
        "train and eval",
    )
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, dict[str, str]]:
        weights = {}
        for name in speakers:
            rate = "activation_dropout" if name == "feed_forward" else "attention_dropout"
            weight = added_in_training(candidate, name, *alone, bias=1.0, **{rate: 0.2})
            weights[f"a weight or feature of 1 in {name}"] = weight
        return weights

    return measure


def first_reading(model: nn.Module, call: Callable[[nn.Module], Any]) -> Tensor:
    """Return the embedded tokens: the first floating-point input to a part that has parameters."""
    read: list[Tensor] = []

    def note(module: nn.Module, args: tuple[Any, ...]) -> None:
        """Record a floating-point input to a part that has parameters."""
        learns = next(module.parameters(), None) is not None
        if learns and args and isinstance(args[0], Tensor) and args[0].is_floating_point():
            read.append(args[0])

    hooks = [part.register_forward_pre_hook(note) for part in model.modules()]
    call(model)
    for hook in hooks:
        hook.remove()
    return read[0]


def embedding_dropout(config: Any, **calls: Callable[[nn.Module], Any]) -> Trial:
    """Check that dropout drops each number of the embedded tokens independently.

    ``config`` sets dropout to 0.2. Each function in ``calls`` makes a model read one of its inputs.
    """

    @as_trial(
        "dropout=0.2 in training",
        "Dropout drops each number of the embedded tokens independently, and divides the other "
        "numbers by 1 - dropout.",
        "train and eval",
    )
    def measure(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
        model, size = filled(candidate(config)).train(), 1e6
        with torch.no_grad():
            for name, weight in by_name(model).items():
                if "embedding" in name:
                    weight.fill_(size / math.sqrt(weight.size(1)))
            read = {side: first_reading(model, call) / size for side, call in calls.items()}
        axes = ("sentences", "positions", "features")
        return {f"a token of the {side}": survivors(x, *axes) for side, x in read.items()}

    return measure
