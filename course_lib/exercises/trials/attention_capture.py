"""What is asked of `capture_attention`: the weights of the very pass, and no trace of it."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trial import D_K, B, H, S, T, Trial, by_name, filled, normal, value_trial
from course_lib.exercises.trials.layer_formulas import attend
from course_lib.multi_head import MultiHeadAttention

D_MODEL = H * D_K


class Broken(RuntimeError):
    """Stand for whatever may go wrong in the middle of a pass."""


class Pass:
    """Run three attentions in a row, two of one place and one of another.

    Args:
        breaks: Whether it stops with an error on the way.
    """

    def __init__(self, breaks: bool = False) -> None:
        places = {"encoder": 2, "cross": 1}
        layers = {
            place: nn.ModuleList(MultiHeadAttention(D_MODEL, H) for _ in range(count))
            for place, count in places.items()
        }
        self.module = filled(nn.ModuleDict(layers)).eval()
        self.attentions = {place: list(layers) for place, layers in layers.items()}
        self.src, self.tgt = normal("src", B, S, D_MODEL), normal("tgt", B, T, D_MODEL)
        self.mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
        self.mask[0, ..., -2:] = False
        self.breaks, self.runs = breaks, 0
        self.said: Tensor | None = None

    def __call__(self) -> str:
        """Run all layers once, with masks by place and by name."""
        self.runs += 1
        (first, second), (third,) = self.attentions.values()
        x = first(self.src, self.src, self.src, self.mask)[0]
        if self.breaks:
            raise Broken("stopped on the way")
        memory = second(x, x, x, mask=self.mask)[0]
        self.said = third(self.tgt, memory, memory, self.mask)[0].detach()
        return "what run returns is of no interest"

    def hooks(self) -> int:
        """Count the hooks on all layers."""
        parts = list(self.module.modules())
        return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in parts)


def recorded(candidate: Callable) -> Outcome:
    """Record a pass; keep what came back, by place."""
    one = Pass()
    with torch.no_grad():
        result = candidate(one.attentions, one)
    return Outcome(dict(result) if isinstance(result, Mapping) else {"returned": result})


def weights() -> Outcome:
    """Compute the weights of the same pass by the formulas."""
    one, seen = Pass(), {}
    with torch.no_grad():
        p, x = by_name(one.module), one.src
        for at in ("encoder.0", "encoder.1"):
            x = attend(p, at, None, one.mask, seen, x)
        attend(p, "cross.0", x, one.mask, seen, one.tgt)
    encoder = torch.stack([seen["encoder.0"], seen["encoder.1"]])
    return Outcome({"encoder": encoder, "cross": seen["cross.0"][None]})


def recorded_alone(candidate: Callable) -> Outcome:
    """Record one place only; what else runs is nobody's business."""
    one = Pass()
    with torch.no_grad():
        result = candidate({"cross": one.attentions["cross"]}, one)
    return Outcome(dict(result) if isinstance(result, Mapping) else {"returned": result})


def traces(candidate: Callable) -> dict[str, Any]:
    """Record a pass, and look what has become of the layers."""
    one, other = Pass(), Pass()
    with torch.no_grad():
        candidate(one.attentions, one)
        other()
        again = one.attentions["cross"][0](one.tgt, one.src, one.src)
    ran = one.said is not None and other.said is not None
    return {
        "hooks left": one.hooks(),
        "times run was called": one.runs,
        "the layers said the same as ever": ran and torch.allclose(one.said, other.said, atol=1e-4),
        "a later pass still gets weights": again[1] is not None,
    }


def after_an_error(candidate: Callable) -> dict[str, Any]:
    """Let the pass break, and look what is left."""
    one, through = Pass(breaks=True), False
    try:
        candidate(one.attentions, one)
    except Broken:
        through = True
    return {"hooks left": one.hooks(), "the error comes through": through}


EXERCISES = (
    Exercise(
        "capture_attention",
        "transformer",
        25,
        (
            Trial("two layers of one place and one of another", recorded, weights),
            Trial(
                "one place only",
                recorded_alone,
                lambda: Outcome({"cross": weights().values["cross"]}),
            ),
            value_trial(
                "a look at the layers afterwards",
                traces,
                {
                    "hooks left": 0,
                    "times run was called": 1,
                    "the layers said the same as ever": True,
                    "a later pass still gets weights": False,
                },
                says="Afterwards everything must be as before: no hook is left, and run ran once.",
            ),
            value_trial(
                "a run that stops with an error",
                after_an_error,
                {"hooks left": 0, "the error comes through": True},
                says="The hooks must go even when run raises; the error itself goes on its way.",
            ),
        ),
        (
            "Two hooks for each layer: one before its forward, which adds `need_weights=True` to "
            "the arguments, one after it, which keeps the second thing returned.",
            "`layer.register_forward_pre_hook(hook, with_kwargs=True)`: the hook gets `(layer, "
            "args, kwargs)` and returns `(args, kwargs)`. `layer.register_forward_hook(hook)`: it "
            "gets `(layer, args, output)`. A lambda in a loop sees the loop's *last* value, unless "
            "it takes it as a default: `place=place`.",
            "Both calls return a handle with a `remove()`. `try … finally`, or "
            "`contextlib.ExitStack`, removes them whatever happens. At the end "
            "`torch.stack(weights)` for each place.",
        ),
    ),
)
