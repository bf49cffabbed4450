"""What is asked of chapter 07's layer: two sub-layers in order, equal to torch's own layer."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.encoder import EncoderLayer
from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    B,
    H,
    S,
    Trial,
    by_name,
    filled,
    module_trial,
    normal,
    parameters_trial,
    value_trial,
)
from course_lib.exercises.trials import layer_formulas
from course_lib.exercises.trials.feed_forward import keeps_quiet, numbers
from course_lib.exercises.trials.torch_encoder_reference import torch_encoder_layer

SIZES = dict(d_model=6, num_heads=H, d_ff=10)
PADDING = torch.tensor([[True, True, True, False, False], [True] * S])[:, None, None, :]
HEADS = (normal("mask", B, H, S, S) > 0) | torch.eye(S, dtype=torch.bool)
ALL = "[0, 1, 2, 3, 4]"
X = normal("x", B, S, 6)


def by_sums(named: Mapping[str, Tensor], x: Tensor) -> Tensor:
    """Write the post-norm layer out, for heads of any width."""
    return layer_formulas.encoder(named, [""], x)


def tried(label: str, build: Mapping[str, Any], mask: Tensor | None = None, **which: Any) -> Trial:
    """Compare output and gradients with torch's layer."""
    inputs = {"x": X} if mask is None else {"x": X, "mask": mask}
    reference = which.pop("reference", torch_encoder_layer)
    return module_trial(label, EncoderLayer, SIZES | build, inputs, reference, **which)


def moved(layer: nn.Module, mask: Tensor | None, place: int) -> str:
    """Change one position of the first sentence; list the positions whose answer changes."""
    masks = (None, None) if mask is None else (mask.clone(), mask.clone())
    other = X.clone()
    other[0, place] = 1 - other[0, place]
    gap = (layer(other, masks[0]) - layer(X.clone(), masks[1]))[0].abs().amax(dim=-1)
    return str((gap > 1e-5).nonzero().flatten().tolist())


def who_hears(candidate: Callable[..., nn.Module], build: Mapping[str, Any]) -> dict[str, str]:
    """Change a word, and padding, and look who hears of it."""
    layer = filled(candidate(**build)).eval()
    return {
        "a change of word 2 is heard at": moved(layer, None, 2),
        "a change of word 2 beside hidden padding is heard at": moved(layer, PADDING, 2),
        "a change of padding 3, hidden, is heard at": moved(layer, PADDING, 3),
    }


HEARD = {
    "a change of word 2 is heard at": ALL,
    "a change of word 2 beside hidden padding is heard at": ALL,
    "a change of padding 3, hidden, is heard at": "[3]",
}


def shuffled(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Shuffle the words, and look whether the answers are shuffled alike."""
    layer, order = filled(candidate(**SIZES)).eval(), [3, 0, 4, 2, 1]
    same = torch.allclose(layer(X[:, order]), layer(X.clone())[:, order], atol=1e-4)
    return {"shuffled words give shuffled answers": same}


def answer(candidate: Callable[..., nn.Module], speaker: str, **rates: float) -> Tensor:
    """Let one sub-layer answer 2 everywhere and the other 0; return what training adds to x."""
    layer = candidate(d_model=6, num_heads=H, d_ff=6, norm_first=True, **rates).train()
    sayings = {
        "self_attn": ("w_v.bias", "w_o.weight", "w_o.bias"),
        "feed_forward": ("linear1.bias", "linear2.weight", "linear2.bias"),
    }
    with torch.no_grad():
        for name, parameter in by_name(layer).items():
            if "norm" not in name:
                parameter.zero_()
        named = by_name(layer)
        for name in (f"{speaker}.{part}" for part in sayings[speaker]):
            named[name].copy_(torch.eye(6) if name.endswith("weight") else torch.ones(6))
        return layer(X.clone()) - X


def answers_dropped(candidate: Callable[..., nn.Module]) -> dict[str, str]:
    """List what dropout makes of sub-layers that answer 2 everywhere."""
    return {
        "answers of 2 from attention become": numbers(answer(candidate, "self_attn", dropout=0.2)),
        "answers of 2 from feed_forward become": numbers(
            answer(candidate, "feed_forward", dropout=0.2)
        ),
    }


def weights_dropped(candidate: Callable[..., nn.Module]) -> dict[str, bool]:
    """Count from what attention answers how many of the keys each head still hears."""
    said = answer(candidate, "self_attn", attention_dropout=0.5)  # 1 + 2 · share of keys heard
    keys = ((said - 1) / 2 * S).unflatten(-1, (H, -1))  # (B, S, H, d_v)
    return {
        "a head hears a whole number of keys": torch.allclose(keys, keys.round(), atol=1e-3),
        "and the same for all of its numbers": torch.allclose(keys, keys[..., :1], atol=1e-3),
    }


def features_dropped(candidate: Callable[..., nn.Module]) -> dict[str, str]:
    """List what comes of features of 1, to which linear2 adds 1."""
    said = answer(candidate, "feed_forward", activation_dropout=0.2)
    return {"features of 1, and a bias of 1, give": numbers(said)}


EXERCISES = (
    Exercise(
        "EncoderLayer",
        "encoder",
        25,
        (
            parameters_trial(
                EncoderLayer,
                SIZES,
                "A layer has four parts: self_attn, feed_forward, add_norm1 and add_norm2, each "
                "with parameters of its own.",
            ),
            value_trial(
                "one position changed",
                partial(who_hears, build=SIZES),
                HEARD,
                says="Without a mask all words hear each other; hidden padding is heard by "
                "nobody else.",
            ),
            value_trial(
                "shuffled words",
                shuffled,
                {"shuffled words give shuffled answers": True},
                says="The layer knows no order: shuffled words must give shuffled answers.",
            ),
            tried("sizes that all differ", {}),
            module_trial(
                "sizes that are all equal",
                EncoderLayer,
                dict(d_model=4, num_heads=4, d_ff=4),
                {"x": normal("x", 4, 4, 4)},
                partial(torch_encoder_layer, num_heads=4),
            ),
            tried("a padding mask", {}, PADDING),
            tried("a mask for every head", {}, HEADS),
            tried(
                "norm_first=True and a padding mask",
                dict(norm_first=True),
                PADDING,
                reference=partial(torch_encoder_layer, norm_first=True),
            ),
            tried(
                'activation="gelu"',
                dict(activation="gelu"),
                reference=partial(torch_encoder_layer, activation="gelu"),
            ),
            tried("d_k=4 and d_v=7", dict(d_k=4, d_v=7), reference=by_sums),
            keeps_quiet(SIZES, dropout=0.5, attention_dropout=0.5, activation_dropout=0.5),
            value_trial(
                "dropout=0.2 in training mode",
                answers_dropped,
                {
                    "answers of 2 from attention become": "0 or 2.5",
                    "answers of 2 from feed_forward become": "0 or 2.5",
                },
                stage="train and eval",
                says="`dropout` acts on the answer of each sub-layer, before the sum, and "
                "nowhere else.",
            ),
            value_trial(
                "attention_dropout=0.5 in training mode",
                weights_dropped,
                dict.fromkeys(
                    ("a head hears a whole number of keys", "and the same for all of its numbers"),
                    True,
                ),
                stage="train and eval",
                says="`attention_dropout` acts on the attention weights: a key is heard by a "
                "head twice as loud, or not at all.",
            ),
            value_trial(
                "activation_dropout=0.2 in training mode",
                features_dropped,
                {"features of 1, and a bias of 1, give": "1 or 2.25"},
                stage="train and eval",
                says="`activation_dropout` acts on the features inside feed_forward.",
            ),
        ),
        (
            "Four parts come from earlier chapters: `MultiHeadAttention`, `FeedForward`, and an "
            "`AddNorm` for each of them. Which arguments of the layer does each part need?",
            "`AddNorm` adds, drops and normalizes already: `forward` only says what is wrapped. "
            "It wants a function of one tensor that returns one tensor; a lambda makes one of "
            "attention, which takes three and a mask, and returns a pair.",
            "Inside the lambda use its own argument three times, and close over the mask: "
            "`lambda y: self.self_attn(y, y, y, mask)[0]`. What add_norm1 returns is what "
            "add_norm2 gets, together with `self.feed_forward`.",
        ),
        layer_formulas.TORCHS,
    ),
)
