"""What is asked of LayerCache: in any portions, the words of what the whole layer says."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.decoder import DecoderLayer
from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trial import D_K, B, H, S, T, Trial, by_name, filled, normal, value_trial
from course_lib.exercises.trials.layer_formulas import TORCHS, decoder

D_MODEL, D_FF = H * D_K, 11
LAYER = dict(d_model=D_MODEL, num_heads=H, d_ff=D_FF)
SAME = "What comes out is what the whole layer says at these places, all tokens read at once."


def portions(old: Tensor, new: Tensor, steps: Sequence[int], after: int) -> Outcome:
    """Cut two answers into steps; take the new one from step ``after`` on."""
    parts = zip(old.split(list(steps), 1), new.split(list(steps), 1), strict=True)
    return Outcome({f"step {n + 1}": pair[n >= after] for n, pair in enumerate(parts)})


def words(length: int, rows: int = B) -> dict[str, Tensor]:
    """Make a target, its memory, and their masks: causal with padding, and the source's."""
    real, source = (torch.ones(rows, 1, 1, n, dtype=torch.bool) for n in (length, S))
    real[-1, ..., 1] = source[0, ..., -2:] = False
    past = torch.ones(length, length).tril().bool()
    return {
        "x": normal("x", rows, length, D_MODEL),
        "memory": normal("memory", rows, S, D_MODEL),
        "self_mask": past & real,
        "cross_mask": source,
    }


def portion(given: Mapping[str, Tensor], start: int, end: int, masked: bool) -> list[Tensor]:
    """Cut out new words, and the masks that belong to them, if they are asked for."""
    masks = [given["self_mask"][:, :, start:end, :end], given["cross_mask"]]
    return [given["x"][:, start:end].clone(), *(masks if masked else ())]


def layer_of(build: Mapping) -> nn.Module:
    """Build the course's decoder layer, filled, in eval mode."""
    return filled(DecoderLayer(**(LAYER | dict(build)))).eval()


def whole(given: Mapping[str, Tensor], build: Mapping, masked: bool) -> Tensor:
    """Run the layer's formulas over all words at once."""
    options = {name: build[name] for name in ("norm_first", "activation") if name in build}
    past = torch.ones(given["x"].size(1), given["x"].size(1)).tril().bool()
    masks = [given["self_mask"], given["cross_mask"]] if masked else [past]
    named = {name: p.detach() for name, p in by_name(layer_of(build)).items()}
    return decoder(named, [""], given["x"], given["memory"], *masks, **options)


def read_on(
    cache: Any,
    given: Sequence[Mapping],
    kept: Tensor,
    steps: Sequence[int],
    after: int,
    masked: bool,
) -> Outcome:
    """Read the first words given in steps; from step ``after`` on the second, rows kept."""
    shown, start = {}, 0
    for step, new in enumerate(steps):
        if step == after:
            cache.reorder(kept)
        now = portion(given[step >= after], start, start + new, masked)
        shown[f"step {step + 1}"] = cache(*now)
        start += new
    return Outcome(shown)


def steps_case(
    label: str,
    steps: Sequence[int],
    build: Mapping | None = None,
    masked: bool = True,
    rows: Sequence[int] = (),
    after: int = 0,
    **more: Any,
) -> Trial:
    """Read words in steps, and compare with all of them read at once.

    Args:
        label: What is special about it.
        steps: How many words are new in each step; causal masks are needed where it is several.
        build: Options of the layer.
        masked: Whether masks are handed over.
        rows: Which rows are kept, if any.
        after: After how many steps.
        more: What ``Trial`` takes.
    """
    build, length, after = build or {}, sum(steps), after if rows else len(steps)
    kept = torch.tensor(rows or range(B))
    given = {name: x[kept] for name, x in words(length).items()}

    def act(candidate: Callable) -> Outcome:
        """Begin with the old rows, and go on with those that were kept."""
        with torch.no_grad():
            cache = candidate(layer_of(build), words(length)["memory"])
            return read_on(cache, [words(length), given], kept, steps, after, masked)

    def wanted() -> Outcome:
        """Cut what the formulas say into the steps."""
        return portions(
            *(whole(now, build, masked) for now in (words(length), given)), steps, after
        )

    return Trial(label, act, wanted, **({"says": SAME} | more))


def what_is_kept(candidate: Callable) -> dict[str, Any]:
    """Read three words in two steps, and look at what is kept."""
    given, layer = words(3), layer_of({})
    with torch.no_grad():
        cache = candidate(layer, given["memory"])
        cache(given["x"][:, :2])
        cache(given["x"][:, 2:])
        kept = [x.clone() for x in (*cache.source, *(x[:, :, :3] for x in cache.target))]
    names = ("source's keys", "source's values", "target's keys", "target's values")
    return {"length": int(cache.length)} | dict(zip(names, kept, strict=True))


def kept_by_formula() -> dict[str, Any]:
    """Project the memory and the words, and share the numbers out among the heads."""
    given, named = words(3), by_name(layer_of({}))
    shown = {"length": 3}
    for who, at, x in (("source", "cross", given["memory"]), ("target", "self", given["x"])):
        for what, w in (("keys", "w_k"), ("values", "w_v")):
            weight, bias = (named[f"{at}_attn.{w}.{part}"].detach() for part in ("weight", "bias"))
            heads = zip(weight.chunk(H), bias.chunk(H), strict=True)
            parts = [x @ head.T + one for head, one in heads]
            shown[f"{who}'s {what}"] = torch.stack(parts, dim=1)
    return shown


def two_sentences(candidate: Callable) -> dict[str, bool]:
    """Let two caches of one layer read in turns, and compare with one that reads alone."""
    given, layer = words(3), layer_of({})
    memory, read = given["memory"], given["x"].split(1, dim=1)
    with torch.no_grad():
        alone = candidate(layer_of({}), memory)
        single = [alone(x) for x in read][-1]
        one, other = candidate(layer, memory), candidate(layer, memory)
        mixed = [(one(x), other(x + 1))[0] for x in read][-1]
    return {"a second cache of the same layer disturbs the first": not torch.equal(mixed, single)}


ROWS = "After `reorder(rows)`, row i goes on from what was row rows[i]: its source and its target."
DROPS = dict(dropout=0.5, attention_dropout=0.5, activation_dropout=0.5)

EXERCISES = (
    Exercise(
        "LayerCache",
        "kv_cache",
        25,
        (
            steps_case("four words, one by one", [1] * T),
            steps_case("no masks", [1] * T, masked=False),
            Trial(
                "a look at what is kept",
                lambda candidate: Outcome(what_is_kept(candidate)),
                lambda: Outcome(kept_by_formula()),
                says="Keys and values of the memory in `source`, of the words in `target`.",
            ),
            steps_case("two words, then one, then three", [2, 1, 3]),
            steps_case("norm_first=True", [1, 2], dict(norm_first=True, activation="gelu")),
            steps_case("reorder([1, 0])", [2, 1, 1], rows=(1, 0), after=1, says=ROWS),
            steps_case("reorder([1, 1, 0]) first of all", [1, 2], rows=(1, 1, 0), says=ROWS),
            value_trial(
                "two caches of one layer",
                two_sentences,
                {"a second cache of the same layer disturbs the first": False},
                says="What is kept belongs to one sentence: keep it in `self`, not in the layer.",
            ),
            steps_case(
                "dropout=0.5 in eval mode",
                [1, 1],
                DROPS,
                stage="train and eval",
                says="In eval mode nothing is dropped.",
            ),
        ),
        (
            "What does a decoder layer compute from the memory alone? That is done in `__init__`, "
            "with the projections of `cross_attn`, and never again.",
            "In `attend_cached`: the keys and values of the new vectors go behind the kept ones "
            "(`torch.cat` along axis 2 will do), and `attend` asks all of them.",
            "`__call__` is DecoderLayer's `forward`, with `attend_cached` and `attend` inside the "
            "lambdas. `reorder` picks rows of all four tensors: `kept[rows]`.",
        ),
        TORCHS,
    ),
)
