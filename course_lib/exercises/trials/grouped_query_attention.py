"""What is asked of chapter 19's shared keys: head by head, each with the set of its group."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trial import (
    B,
    T,
    Trial,
    by_name,
    filled,
    module_trial,
    normal,
    parameters_trial,
    refuses,
    value_trial,
)
from course_lib.exercises.trials.causal_attention import FUTURE
from course_lib.exercises.trials.decoder_layer import asked, by_place
from course_lib.exercises.trials.layer_formulas import TORCHS
from course_lib.exercises.trials.rotary_attention import LEAKS, PARTS
from course_lib.modern_decoder import GroupedQueryAttention

SIX = dict(d_model=30, num_heads=6, num_groups=2)  # three heads to a set, each 5 wide
X = normal("grouped x", B, T, 30)
UNEVEN = {
    "6 heads, 4 sets": (30, 6, 4),
    "2 heads, 4 sets": (20, 2, 4),
    "6 heads, 0 sets": (30, 6, 0),
    "6 heads, -2 sets": (30, 6, -2),
    "7 numbers for 3 heads": (7, 3, 1),
}
DROPS = dict(
    stage="train and eval",
    says="Dropout acts on the attention weights, in training only: hand it to super().__init__.",
)


def head(p: dict[str, Tensor], x: Tensor, place: int, d_k: int) -> Tensor:
    """Compute one head's worth of columns: of all queries, then keys, then values."""
    rows = slice(place * d_k, (place + 1) * d_k)
    return F.linear(x, p["w_qkv.weight"][rows], p["w_qkv.bias"][rows])  # (B, T, d_k)


def parts_of(p: dict[str, Tensor], x: Tensor, heads: int, groups: int) -> list[Tensor]:
    """Gather queries, and for each head the keys and the values of its group."""
    d_k = x.size(-1) // heads
    sets = [i // (heads // groups) for i in range(heads)]
    places = (range(heads), [heads + g for g in sets], [heads + groups + g for g in sets])
    return [torch.stack([head(p, x, n, d_k) for n in part], dim=1) for part in places]


def tried(label: str, build: dict, x: Tensor, **more: Any) -> Trial:
    """Compare output and gradients with torch's kernel, head by head."""

    def reference(p: dict[str, Tensor], x: Tensor) -> Tensor:
        """Let each head look back alone; put the answers abreast, and mix them."""
        parts = parts_of(p, x, build["num_heads"], build["num_groups"])
        each = zip(*(part.unbind(1) for part in parts), strict=True)
        answers = [F.scaled_dot_product_attention(*qkv, is_causal=True) for qkv in each]
        return F.linear(torch.cat(answers, dim=-1), p["w_o.weight"], p["w_o.bias"])

    case = module_trial(label, GroupedQueryAttention, build, {"x": x}, reference, **more)
    return by_place(case, *build)


def parts(candidate: Callable) -> dict[str, Any]:
    """Look at queries, keys and values."""
    with torch.no_grad():
        found = filled(candidate(*SIX.values())).eval().project(X.clone())
    return dict(zip(PARTS, found, strict=False)) if len(found) == 3 else {"parts": len(found)}


def parts_wanted() -> dict[str, Tensor]:
    """Compute them from the same numbers."""
    with torch.no_grad():
        found = parts_of(by_name(filled(GroupedQueryAttention(**SIX))), X, 6, 2)
    return dict(zip(PARTS, found, strict=True))


def shared(candidate: Callable) -> dict[str, str]:
    """Look which heads have the same keys, and which the same values."""
    found = {}
    with torch.no_grad():
        _, *read = filled(candidate(*SIX.values())).eval().project(X.clone())
    for name, part in zip(PARTS[1:], read, strict=True):
        firsts = [
            next(n for n in range(i + 1) if torch.equal(part[:, n], part[:, i]))
            for i in range(part.size(1))
        ]
        found[f"{name}: the first head that has the same"] = str(firsts)
    return found


def leaks(candidate: Callable) -> dict[str, bool]:
    """Change the last tokens, and look whether the first ones notice."""
    layer, later = filled(candidate(*SIX.values())), X.clone()
    later[:, 2:] += 3
    found = {}
    for name, training in zip(LEAKS, (True, False), strict=True):
        layer.train(training)
        before, after = (asked(layer, {"x": x.clone()})[:, :2] for x in (X, later))
        found[name] = not torch.allclose(before, after, atol=1e-4)
    return found


def refused(candidate: Callable) -> dict[str, str]:
    """Ask for sets that heads cannot share evenly."""
    return {name: refuses(candidate, *sizes) for name, sizes in UNEVEN.items()}


def random(candidate: Callable) -> dict[str, Any]:
    """Ask twice in eval mode, and once while all weights are dropped."""
    layer = filled(candidate(*SIX.values(), 0.5)).eval()
    silent = filled(candidate(*SIX.values(), 1.0)).train()
    with torch.no_grad():
        return {
            "in eval mode both answers are the same": torch.equal(layer(X.clone()), layer(X + 0)),
            "output of weights that are all dropped": silent(X.clone()) - silent.w_o.bias,
        }


EXERCISES = (
    Exercise(
        "GroupedQueryAttention",
        "modern_decoder",
        20,
        (
            by_place(
                parameters_trial(
                    GroupedQueryAttention,
                    SIX,
                    "w_qkv is a new nn.Linear with a bias, as wide as H heads of queries and G "
                    "each of keys and values: (H + 2 · G) · d_k. w_o stays.",
                ),
                *SIX,
            ),
            tried("six heads, two sets", SIX, X),
            tried("six heads, three sets", SIX | dict(num_groups=3), X),
            tried("six heads, one set", SIX | dict(num_groups=1), X),
            tried("as many sets as heads", SIX | dict(num_groups=6), X),
            tried(
                "sizes that are all equal",
                dict(d_model=16, num_heads=4, num_groups=4),
                normal("even", 4, 4, 16),
            ),
            tried(
                "as many heads to a set as sets",
                dict(d_model=16, num_heads=4, num_groups=2),
                normal("even", 4, 4, 16),
            ),
            tried("one token", SIX, X[:, :1]),
            value_trial(
                "a look at who shares",
                shared,
                {f"{n}: the first head that has the same": "[0, 0, 0, 3, 3, 3]" for n in PARTS[1:]},
                says="With six heads and two sets, heads 0, 1 and 2 share the first set of keys "
                "and of values, heads 3, 4 and 5 the second.",
            ),
            Trial(
                "queries, keys and values",
                lambda candidate: Outcome(parts(candidate)),
                lambda: Outcome(parts_wanted()),
                says="Of the product's columns the first H · d_k are queries, the next G · d_k "
                "keys, the last G · d_k values; `project` gives each three times (B, H, T, d_k).",
            ),
            value_trial("a later token", leaks, dict.fromkeys(LEAKS, False), says=FUTURE),
            value_trial(
                "sets that heads cannot share evenly",
                refused,
                dict.fromkeys(UNEVEN, "a ValueError"),
                says="Sets that do not divide the heads, and fewer than one, are a ValueError.",
            ),
            value_trial(
                "dropout",
                random,
                {
                    "in eval mode both answers are the same": True,
                    "output of weights that are all dropped": torch.zeros(B, T, 30),
                },
                **DROPS,
            ),
        ),
        (
            "`super().__init__` makes a w_qkv that is too wide: put a narrower one in its place. "
            "How many heads' worth of columns does it need, if G sets of keys and of values do?",
            "Cut the product into H + 2 · G pieces of d_k, move them in front of the tokens, and "
            "`split((H, G, G), dim=1)`.",
            "Head i reads set i // (H / G): set 0 several times, then set 1. "
            "`repeat_interleave(H // G, dim=1)` does that; `repeat` would begin again with 0.",
        ),
        TORCHS,
    ),
)
