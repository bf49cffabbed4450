"""What is asked of chapter 08: a decoder layer equals its formulas, whatever it is given."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.decoder import DecoderLayer
from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    D_K,
    B,
    H,
    S,
    T,
    Trial,
    filled,
    module_trial,
    normal,
    parameters_trial,
    value_trial,
)
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trials.layer_formulas import TORCHS, add_norms, decoder

D_MODEL, D_FF = H * D_K, 11
LAYER = dict(d_model=D_MODEL, num_heads=H, d_ff=D_FF)
SAME = "Without dropout, training mode and eval mode must give the same numbers."
FUTURE = "A later word must not change what stands before it, while training and afterwards."


def masks(length: int = T) -> dict[str, Tensor]:
    """Make a causal mask and paddings: the target's within the first, the source's apart."""
    real = torch.ones(B, 1, 1, length, dtype=torch.bool)
    real[1, ..., -1] = False
    source = torch.ones(B, 1, 1, S, dtype=torch.bool)
    source[0, ..., -2:] = False
    past = torch.ones(length, length).tril().bool()
    return {"self_mask": past & real, "cross_mask": source}


def inputs(length: int = T, **masked: Tensor) -> dict[str, Tensor]:
    """Make vectors of the target, the memory, and masks if there are any."""
    x, memory = normal("x", B, length, D_MODEL), normal("memory", B, S, D_MODEL)
    return {"x": x, "memory": memory} | masked


def layer_case(label: str, options: Mapping | None = None, given: Any = None, **more: Any) -> Trial:
    """Compare a layer with its formulas: output, and gradients of everything."""

    def formulas(p: dict, *given: Any) -> Tensor:
        """Run one layer; its parameters have no prefix."""
        return decoder(p, [""], *given, **(options or {}))

    build = LAYER | dict(options or {})
    given = inputs(**masks()) if given is None else given
    return module_trial(label, DecoderLayer, build, given, formulas, **more)


def silent(p: dict[str, Tensor], x: Tensor, *_: Any) -> Tensor:
    """Normalize three times: what is left when all that the sub-layers say is dropped."""
    return add_norms(p, "", x, [torch.zeros_like] * 3, norm_first=False)


def biases(p: dict[str, Tensor], x: Tensor, *_: Any) -> Tensor:
    """Let every sub-layer say its last bias only: what is left without weights and features."""
    lasts = ("self_attn.w_o.bias", "cross_attn.w_o.bias", "feed_forward.linear2.bias")
    return add_norms(p, "", x, [p[name].expand_as for name in lasts], norm_first=False)


def trained(case: Trial) -> Trial:
    """Look at the numbers alone: where they are wrong, gradients say nothing new."""
    return replace(
        case, wanted=lambda: replace(case.wanted(), gradients={}), stage="train and eval"
    )


def asked(module: Any, given: Mapping[str, Tensor]) -> Tensor:
    """Call a module, with the same random numbers every time."""
    torch.manual_seed(0)
    with torch.no_grad():
        return module(*given.values())


def leaks(candidate: Callable, build: Mapping) -> dict[str, bool]:
    """Change the last words, and look whether the first ones notice."""
    module, found = filled(candidate(**build)), {}
    other = inputs(**masks())
    other["x"][:, 2:] += 3
    for mode, training in (("while training", True), ("afterwards", False)):
        module.train(training)
        before, after = asked(module, inputs(**masks())), asked(module, other)
        found[f"a later word is heard {mode}"] = not torch.allclose(
            before[:, :2], after[:, :2], atol=1e-4
        )
    return found


def hears(candidate: Callable, build: Mapping) -> dict[str, bool]:
    """Change the memory: where it may be seen, then only where it is padding."""
    module = filled(candidate(**build)).eval()
    words, padding = inputs(**masks()), inputs(**masks())
    words["memory"][:, 0] += 3
    padding["memory"][0, -2:] += 3
    plain, heard, hidden = (asked(module, given) for given in (inputs(**masks()), words, padding))
    moved = ((heard - plain).abs().amax(dim=-1) > 1e-4).all()
    return {
        "every position hears the memory": bool(moved),
        "the memory's padding is heard": not torch.allclose(plain, hidden, atol=1e-4),
    }


def dropped_inside(candidate: Callable) -> dict[str, bool]:
    """Ask every sub-layer twice while training, and look whether something was dropped."""
    layer = filled(candidate(**LAYER, dropout=0.5)).train()
    x = normal("x", B, T, D_MODEL)
    with torch.no_grad():
        questions = {
            "self_attn": lambda: layer.self_attn(x, x, x)[0],
            "cross_attn": lambda: layer.cross_attn(x, x, x)[0],
            "feed_forward": lambda: layer.feed_forward(x),
        }
        return {
            f"{name} drops something": not torch.equal(ask(), ask())
            for name, ask in questions.items()
        }


def by_place(case: Trial, *names: str) -> Trial:
    """Build with these arguments given by place, the others by name."""

    def act(candidate: Callable) -> Outcome:
        """Hand over a constructor that takes names and gives places."""
        return case.act(lambda **build: candidate(*[build.pop(name) for name in names], **build))

    return replace(case, act=act)


def no_leak(build: Mapping) -> Trial:
    """Ask that no word hears a later one, in either mode."""
    nobody = dict.fromkeys(
        ("a later word is heard while training", "a later word is heard afterwards"), False
    )
    case = value_trial("a later word", lambda c: leaks(c, build), nobody, says=FUTURE)
    return by_place(case, *build)


def good_ears(build: Mapping) -> Trial:
    """Ask that every word hears the memory, and none its padding."""
    case = value_trial(
        "another memory",
        lambda candidate: hears(candidate, build),
        {"every position hears the memory": True, "the memory's padding is heard": False},
        says="Every position of the target reads the memory, but not what `cross_mask` hides.",
    )
    return by_place(case, *build)


LAYER_CASES = (
    layer_case("both masks"),
    layer_case("no masks", given=inputs()),
    layer_case("a target as long as the source", given=inputs(S, **masks(S))),
    parameters_trial(
        DecoderLayer,
        LAYER | dict(d_k=5, d_v=7),
        "A layer owns two attentions, self_attn and cross_attn, of heads d_k and d_v wide, a "
        "feed_forward, and three AddNorms: add_norm1, add_norm2, add_norm3.",
    ),
    layer_case("norm_first=True", dict(norm_first=True, activation="gelu")),
    no_leak(LAYER),
    good_ears(LAYER),
    trained(layer_case("training mode", training=True, says=SAME)),
    trained(
        module_trial(
            "dropout=1.0 while training",
            DecoderLayer,
            LAYER | dict(dropout=1.0),
            inputs(**masks()),
            silent,
            training=True,
            says="All that the sub-layers say is dropped then: x remains, normalized three times.",
        )
    ),
    trained(
        module_trial(
            "all attention weights and features dropped",
            DecoderLayer,
            LAYER | dict(attention_dropout=1.0, activation_dropout=1.0),
            inputs(**masks()),
            biases,
            training=True,
            says="Both attentions take `attention_dropout`, feed_forward `activation_dropout`.",
        )
    ),
    value_trial(
        "dropout=0.5 while training",
        dropped_inside,
        {f"{name} drops something": False for name in ("self_attn", "cross_attn", "feed_forward")},
        stage="train and eval",
        says="`dropout` acts on what a sub-layer says (AddNorm does it), not inside it.",
    ),
)

EXERCISES = (
    Exercise(
        "DecoderLayer",
        "decoder",
        25,
        LAYER_CASES,
        (
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
        TORCHS,
    ),
)
