"""What is asked of chapter 07."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import TORCHS, dropout_trials
from course_lib.exercises.trial import (
    B,
    H,
    S,
    Trial,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)

SIZES = dict(d_model=6, num_heads=H, d_ff=10)
STACK = dict(num_layers=3) | SIZES
PRE_NORM = STACK | {"norm_first": True}
PADDING = torch.tensor([[True, True, True, False, False], [True] * S])[:, None, None, :]
HEADS = (normal("mask", B, H, S, S) > 0) | torch.eye(S, dtype=torch.bool)
X = normal("x", B, S, 6)
LAYER_SAYS = "A layer has self_attn, feed_forward, add_norm1 and add_norm2, each of its own."
STACK_SAYS = (
    "Every layer has parameters of its own, in an nn.ModuleList called layers (a plain list hides "
    "them from torch); only in pre-norm there is one more LayerNorm, called norm."
)
FAR = "Without a mask all words attend to each other; nobody attends to hidden padding."


def called(label: str, build: Mapping[str, Any], mask: Tensor | None = None, **how: Any) -> Trial:
    """Compare the output and all gradients."""
    return module_trial(label, build, {"x": X} if mask is None else {"x": X, "mask": mask}, **how)


def moved(layer: nn.Module, mask: Tensor | None, position: int) -> str:
    """Change one position of the first sentence; list the positions whose answer changes."""
    other = X.clone()
    other[0, position] = 1 - other[0, position]
    masks = ([] if mask is None else [mask.clone()] for _ in range(2))
    after, before = (layer(x.clone(), *m) for x, m in zip((other, X), masks, strict=True))
    return str(((after - before)[0].abs().amax(dim=-1) > 1e-5).nonzero().flatten().tolist())


def reach(build: Mapping[str, Any], says: str) -> Trial:
    """Change a word, and padding, and look whose answer changes."""

    @looks("one position changed", says)
    def act(candidate: Callable[..., nn.Module]) -> dict[str, str]:
        """Say where the answers change."""
        layer = filled(candidate(**build)).eval()
        return {
            "a change of word 2 shows at": moved(layer, None, 2),
            "a change of word 2 beside hidden padding shows at": moved(layer, PADDING, 2),
            "a change of padding 3, hidden, shows at": moved(layer, PADDING, 3),
        }

    return act


@looks("a new stack", "Each layer draws its own weights.")
def starts_alike(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Look whether two layers begin with the same matrices."""
    matrices = [p for p in candidate(**STACK).parameters() if p.dim() == 2]
    return {"layers start alike": all(map(torch.equal, matrices, matrices[len(matrices) // 3 :]))}


EXERCISES = (
    Exercise(
        "EncoderLayer",
        "encoder",
        25,
        core={
            "formula": (
                called("sizes that all differ", SIZES),
                module_trial(
                    "sizes that are all equal",
                    dict(d_model=4, num_heads=4, d_ff=4),
                    {"x": normal("x", 4, 4, 4)},
                ),
            ),
            "parameters": (parameters_trial(SIZES, LAYER_SAYS),),
            "mask": (
                reach(SIZES, FAR),
                called("a padding mask", SIZES, PADDING),
                called("a mask for every head", SIZES, HEADS),
            ),
        },
        hints=(
            "Four parts come from earlier chapters: `MultiHeadAttention`, `FeedForward`, and an "
            "`AddNorm` for each of them. Which arguments of the layer does each part need?",
            "`AddNorm` adds, drops and normalizes already: `forward` only says what is wrapped. "
            "It wants a function of one tensor that returns one tensor; a lambda makes one of "
            "attention, which takes three and a mask, and returns a pair.",
            "Inside the lambda use its own argument three times, and close over the mask: "
            "`lambda y: self.self_attn(y, y, y, mask)[0]`. What add_norm1 returns is what "
            "add_norm2 gets, together with `self.feed_forward`.",
        ),
        shortcuts=TORCHS,
        extras={
            "norm_first": (called("norm_first=True", SIZES | {"norm_first": True}, PADDING),),
            "activation, d_k, d_v": (
                called('activation="gelu"', SIZES | {"activation": "gelu"}),
                called("d_k=4 and d_v=7", SIZES | {"d_k": 4, "d_v": 7}),
            ),
            **dropout_trials(SIZES, {"x": X}, ("self_attn", "feed_forward")),
            "names": (names_trial(SIZES),),
        },
    ),
    Exercise(
        "Encoder",
        "encoder",
        15,
        core={
            "layers": (called("three layers", STACK),),
            "parameters": (parameters_trial(STACK, STACK_SAYS),),
            "mask": (
                reach(STACK, "Every layer needs the mask: nobody attends to hidden padding."),
                called("a padding mask", STACK, PADDING),
            ),
        },
        hints=(
            "Make `num_layers` layers, one call of `EncoderLayer` for each, and keep them where "
            "torch finds their parameters. Every argument goes on to the layers.",
            "`nn.ModuleList` takes a list of modules. In `forward` every layer reads what the "
            "layer before it wrote, and gets the mask.",
            "With `norm_first`, `self.norm` is an `nn.LayerNorm(d_model)` that `forward` applies "
            "at the end; otherwise it is `None`.",
        ),
        shortcuts=TORCHS,
        extras={
            "norm_first": (
                parameters_trial(PRE_NORM, STACK_SAYS),
                called("norm_first=True", PRE_NORM, HEADS),
            ),
            "activation, d_k, d_v": (
                called(
                    'activation="gelu", d_k=5 and d_v=7',
                    STACK | {"activation": "gelu", "d_k": 5, "d_v": 7},
                ),
            ),
            "dropout": tuple(
                called(
                    f"{' and '.join(names)} 1.0 in training",
                    STACK | dict.fromkeys(names, 1.0),
                    training=True,
                    kind="train and eval",
                    says="The layers get every argument, the dropouts too.",
                )
                for names in (["dropout"], ["attention_dropout", "activation_dropout"])
            ),
            "drawn anew": (starts_alike,),
            "names": (names_trial(STACK),),
        },
    ),
)
