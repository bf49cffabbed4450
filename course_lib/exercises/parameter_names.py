"""Match a module's parameters with the course's, whatever they are called."""

import sys
from collections.abc import Callable, Mapping

import torch
from torch import nn

PARAMETERS = dict.fromkeys(("weight", "gamma", "a_2", "a2", "gain", "scale", "g"), "weight")
PARAMETERS |= dict.fromkeys(("bias", "beta", "b_2", "b2", "shift", "b"), "bias")
LAYERS = {  # what they call layers of one shape, which order alone would mix up
    "w_q": ("query",),
    "w_k": ("key",),
    "w_v": ("value",),
    "gate": ("w1",),
    "linear1": ("up", "w3"),
    "src_embedding": ("src", "source", "encoder"),
    "tgt_embedding": ("tgt", "trg", "target", "decoder"),
}


def recognise(module: nn.Module, given: type[nn.Module], args: tuple, kwargs: dict) -> None:
    """Match parameters of other names with the course's, and make them known under both."""
    profile = sys.getprofile()
    sys.setprofile(None)  # that the course's own class runs here is no cheating
    try:
        wanted = _shapes(given, repr((args, kwargs)), lambda: given(*args, **kwargs))
    finally:
        sys.setprofile(profile)
    mine = {n: p.shape for n, p in module.named_parameters(remove_duplicate=False)}
    names = vars(module)["course_names"] = matched(mine, wanted)
    for theirs, name in names.items():
        own, course = theirs.split("."), name.split(".")
        while len(own) > 1 and len(course) > 1 and own[-1] == course[-1]:
            own.pop()
            course.pop()
        if len(course) == 1 and not hasattr(module, course[0]):
            found = module
            for part in own:
                found = getattr(found, part)
            vars(module)[course[0]] = found  # an alias, not registered a second time


def matched(mine: Mapping[str, torch.Size], wanted: Mapping[str, torch.Size]) -> dict[str, str]:
    """Give parameters of other names the course's: whole layers first, then what is left.

    A linear layer and a norm hold vectors of one width; layer by layer, they are not mixed up.
    """
    strange = {name: shape for name, shape in mine.items() if name not in wanted}
    missing = {name: shape for name, shape in wanted.items() if name not in mine}
    names: dict[str, str] = {}
    for group in (True, False):
        ours, theirs = _grouped(strange, group), _grouped(missing, group)
        for layer, parts in theirs.items():
            fitting = [o for o in ours if [*ours[o].values()] == [*parts.values()]]
            if fitting:
                best = max(fitting, key=lambda o: _likeness(layer, o))
                names |= zip(_ordered(ours.pop(best), list(parts)), parts, strict=True)
        strange = {name: shape for name, shape in strange.items() if name not in names}
        missing = {name: shape for name, shape in missing.items() if name not in names.values()}
    return names


def _grouped(shapes: Mapping[str, torch.Size], group: bool) -> dict[str, dict[str, torch.Size]]:
    """Put the parameters of one layer together, or each apart."""
    layers: dict[str, dict[str, torch.Size]] = {}
    for name, shape in shapes.items():
        layers.setdefault(name.rpartition(".")[0] if group else name, {})[name] = shape
    return layers


def _ordered(ours: Mapping[str, torch.Size], theirs: list[str]) -> list[str]:
    """Put gain and shift in the course's order, whichever was registered first."""
    known = [PARAMETERS.get(name.rpartition(".")[2].lower()) for name in ours]
    wanted = [name.rpartition(".")[2] for name in theirs]
    if sorted(map(str, known)) != sorted(wanted):
        return list(ours)
    return [name for _, name in sorted(zip(map(wanted.index, known), ours, strict=True))]


def _likeness(course: str, other: str) -> int:
    """Count the parts of a name that stand in another, too."""
    return sum(
        any(word in _letters(other) for word in (_letters(part), *LAYERS.get(part, ())))
        for part in course.split(".")
    )


_SHAPES: dict[tuple[type[nn.Module], str], dict[str, torch.Size]] = {}


def _shapes(
    given: type[nn.Module], arguments: str, build: Callable[[], nn.Module]
) -> dict[str, torch.Size]:
    """Return the course's names and shapes, once for each set of arguments."""
    if (given, arguments) not in _SHAPES:
        try:
            with torch.random.fork_rng(devices=[]):
                named = build().named_parameters(remove_duplicate=False)
        except Exception:  # a call that the course's class refuses has no names to offer
            named = iter(())
        _SHAPES[given, arguments] = {name: p.shape for name, p in named}
    return _SHAPES[given, arguments]


def _letters(name: str) -> str:
    """Keep what two spellings of a name share."""
    return name.replace("_", "").lower()
