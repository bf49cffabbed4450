"""What is asked of chapter 08."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import TORCHS, dropout_trials, sees_later
from course_lib.exercises.trial import (
    D_K,
    B,
    H,
    S,
    T,
    Trial,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

SIZES = dict(d_model=H * D_K, num_heads=H, d_ff=11)
LAYER_SAYS = (
    "A layer owns two attentions, self_attn and cross_attn, a feed_forward, and three AddNorms: "
    "add_norm1, add_norm2, add_norm3."
)


def masks(length: int = T) -> dict[str, Tensor]:
    """Make a causal mask and paddings: the target's within the first, the source's apart."""
    real = torch.ones(B, 1, 1, length, dtype=torch.bool)
    real[1, ..., -1] = False
    source = torch.ones(B, 1, 1, S, dtype=torch.bool)
    source[0, ..., -2:] = False
    past = torch.ones(length, length).tril().bool()
    return {"self_mask": past & real, "cross_mask": source}


def inputs(length: int = T, masked: bool = True) -> dict[str, Tensor]:
    """Make vectors of the target, the memory, and masks if there are any."""
    x, memory = normal("x", B, length, H * D_K), normal("memory", B, S, H * D_K)
    return {"x": x, "memory": memory} | (masks(length) if masked else {})


def called(label: str, build: Mapping[str, Any], **how: Any) -> Trial:
    """Compare the output and all gradients, with both masks."""
    return module_trial(label, build, inputs(), **how)


@looks("a later word", "A later word must not change what stands before it.")
def leaks(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Change the last words, and look whether the first answers change."""
    module, other = filled(candidate(**SIZES)), inputs()
    other["x"][:, 2:] += 3
    return sees_later(module, 2, tuple(inputs().values()), tuple(other.values()))


EXERCISES = (
    Exercise(
        "DecoderLayer",
        "decoder",
        25,
        core={
            "formula": (module_trial("no masks", SIZES, inputs(masked=False)),),
            "parameters": (parameters_trial(SIZES, LAYER_SAYS),),
            "self_mask": (
                leaks,
                module_trial("self_mask alone", SIZES, inputs() | {"cross_mask": None}),
            ),
            "cross_mask": (
                called(
                    "both masks",
                    SIZES,
                    says="Every position of the target reads the memory, but not what `cross_mask` "
                    "hides.",
                ),
                module_trial("a target as long as the source", SIZES, inputs(S)),
            ),
        },
        hints=(
            "Six parts: two `MultiHeadAttention`s, a `FeedForward`, three `AddNorm`s. Who asks in "
            "cross-attention, and who answers?",
            "`AddNorm` is called with x and a function of one argument; an attention returns two "
            "things, and the sum needs the first. Look at your EncoderLayer: two of the three "
            "lines are there.",
            "The new line is "
            "`x = self.add_norm2(x, lambda y: self.cross_attn(y, memory, memory, cross_mask)[0])`. "
            "The two dropouts at the end of the signature go into the attentions and into "
            "`FeedForward`.",
        ),
        shortcuts=TORCHS,
        extras={
            "norm_first": (called("norm_first=True", SIZES | {"norm_first": True}),),
            "activation, d_k, d_v": (
                called('activation="gelu"', SIZES | {"activation": "gelu"}),
                called("d_k=5 and d_v=7", SIZES | {"d_k": 5, "d_v": 7}),
            ),
            **dropout_trials(SIZES, inputs(), ("self_attn", "cross_attn", "feed_forward")),
            "names": (names_trial(SIZES),),
        },
    ),
)
