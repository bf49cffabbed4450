"""Match a module's parameters with the course's, whatever their names are."""

import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations, product
from operator import attrgetter

import torch
from torch import nn

PARAMETERS = dict.fromkeys(("weight", "gamma", "a_2", "a2", "gain", "scale", "g"), "weight")
PARAMETERS |= dict.fromkeys(("bias", "beta", "b_2", "b2", "shift", "b"), "bias")
LAYERS = {  # words in the names of layers that have the same shape
    "w_q": {"q", "query", "queries"},
    "w_k": {"k", "key", "keys"},
    "w_v": {"v", "value", "values"},
    "w_o": {"o", "out", "output"},
    "gate": {"gate", "w1"},
    "linear1": {"up", "w3"},
    "linear2": {"down", "w2"},
    "src_embedding": {"src", "source", "encoder"},
    "tgt_embedding": {"tgt", "trg", "target", "decoder"},
}
MOST_ORDERS = 120  # at most so many ways to match layers of the same shape are tried
Shapes = Mapping[str, torch.Size]


def recognize(
    module: nn.Module,
    definition: type[nn.Module],
    args: tuple,
    kwargs: dict,
    order: Mapping[str, str],
) -> list[dict[str, str]]:
    """Match differently named parameters to the course's, so that both names work.

    Where the names do not settle the match, ``order`` gives the course's name for each of the
    learner's layers. Returns the other possible orders of these layers.
    """
    wanted = _shapes(definition, args, kwargs)
    mine = {name: p.shape for name, p in module.named_parameters(remove_duplicate=False)}
    strange = {name: shape for name, shape in mine.items() if name not in wanted}
    missing = {name: shape for name, shape in wanted.items() if name not in mine}
    renamed = vars(module)["course_names"] = matched(strange, missing, order)
    for own_name, name in renamed.items():
        top, dot, tail = name.partition(".")
        if own_name.endswith(dot + tail) and not hasattr(module, top):
            part = attrgetter(own_name.removesuffix(dot + tail))(module)
            vars(module)[top] = part  # an alias, not registered a second time
    return list(_orders(strange, missing))


def unlike(module: nn.Module, definition: type[nn.Module], args: tuple, kwargs: dict) -> str:
    """Say which parameters are not stored as the course's are, although the results may be right.

    Returns an empty string if there are none.
    """
    wanted, renamed = _shapes(definition, args, kwargs), vars(module)["course_names"]
    missing, strange, turned = dict(wanted), {}, []
    for name, parameter in module.named_parameters(remove_duplicate=False):
        course, shape = renamed.get(name, name), parameter.shape
        if wanted.get(course) == shape:
            missing.pop(course)
        else:
            strange[name] = shape
        owner = type(module.get_submodule(name.rpartition(".")[0])).__module__
        if len(shape) == 2 and shape[::-1] in wanted.values() and not owner.startswith("torch."):
            turned.append(name)
    if turned:
        return (
            f" The check fills {', '.join(turned)} as nn.Linear stores a weight, with the shape "
            f"(out, in). If your code computes `x @ {turned[0]}`, the mathematics may be right: "
            "use nn.Linear, or transpose the matrix."
        )
    if not strange or not missing:
        return ""
    yours, courses = (
        ", ".join(f"{name} {tuple(shape)}" for name, shape in [*shapes.items()][:2])
        for shapes in (strange, missing)
    )
    return (
        " The mathematics may be right, but the check can only fill parameters that have the "
        f"course's shapes, such as {courses}; yours are {yours}."
    )


def matched(strange: Shapes, missing: Shapes, order: Mapping[str, str]) -> dict[str, str]:
    """Map parameters to the course's names: first whole layers, then single parameters.

    Matching whole layers keeps linear layers and norms apart, even with vectors of the same size.
    """
    names: dict[str, str] = {}
    for group in (True, False):
        ours, courses = _grouped(strange, group), _grouped(missing, group)
        decided = _by_name(ours, courses)
        usual = _matched_by(list(_left(ours, courses, decided)))
        for own, layer in {**decided, **usual, **(order if group else {})}.items():
            if own in ours and layer in courses:
                parts = courses[layer]
                names |= zip(_ordered(ours[own], list(parts)), parts, strict=True)
        strange = {name: shape for name, shape in strange.items() if name not in names}
        missing = {name: shape for name, shape in missing.items() if name not in names.values()}
    return names


def _orders(strange: Shapes, missing: Shapes) -> Iterator[dict[str, str]]:
    """Yield all other ways to match whole layers of the same shape, unless there are too many."""
    ours, courses = _grouped(strange, True), _grouped(missing, True)
    left = [pair for pair in _left(ours, courses, _by_name(ours, courses)) if len(pair[0]) > 1]
    if left and math.prod(math.factorial(len(some)) for some, _ in left) <= MOST_ORDERS:
        ways = product(*(permutations(rest) for _, rest in left))
        for way in list(ways)[1:]:
            yield _matched_by([(some, rest) for (some, _), rest in zip(left, way, strict=True)])


def _by_name(ours: Mapping[str, Shapes], courses: Mapping[str, Shapes]) -> dict[str, str]:
    """Match layers with similar names."""
    decided: dict[str, str] = {}
    for layer, parts in courses.items():
        fitting = [o for o in ours if _fits(ours[o], parts) and o not in decided]
        scores = sorted((_likeness(layer, o) for o in fitting), reverse=True)
        if scores and scores[0] > 0 and scores[1:2] != scores[:1]:
            decided[max(fitting, key=lambda o: _likeness(layer, o))] = layer
    return decided


def _left(
    ours: Mapping[str, Shapes], courses: Mapping[str, Shapes], decided: Mapping[str, str]
) -> Iterator[tuple[list[str], list[str]]]:
    """For each shape, yield the layers on both sides that are not matched by name, in order."""
    rest = [layer for layer in courses if layer not in decided.values()]
    while rest:
        same = [layer for layer in rest if _fits(courses[layer], courses[rest[0]])]
        fitting = [o for o in ours if o not in decided and _fits(ours[o], courses[rest[0]])]
        yield fitting[: len(same)], same[: len(fitting)]
        rest = [layer for layer in rest if layer not in same]


def _matched_by(pairs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> dict[str, str]:
    """Match the layers in each pair of lists one by one."""
    return {one: other for ours, courses in pairs for one, other in zip(ours, courses, strict=True)}


def _fits(ours: Shapes, courses: Shapes) -> bool:
    """Return whether two layers have parameters with the same shapes."""
    return [*ours.values()] == [*courses.values()]


def _grouped(shapes: Mapping[str, torch.Size], group: bool) -> dict[str, dict[str, torch.Size]]:
    """Group the parameters by layer, or put each parameter into a separate group."""
    layers: dict[str, dict[str, torch.Size]] = {}
    for name, shape in shapes.items():
        layers.setdefault(name.rpartition(".")[0] if group else name, {})[name] = shape
    return layers


def _ordered(ours: Mapping[str, torch.Size], courses: list[str]) -> list[str]:
    """Put the gain and the shift in the course's order, whichever was registered first."""
    kinds = [PARAMETERS.get(name.rpartition(".")[2].lower(), "") for name in ours]
    wanted = [name.rpartition(".")[2] for name in courses]
    if sorted(kinds) != sorted(wanted):
        return list(ours)
    return [name for _, name in sorted(zip(map(wanted.index, kinds), ours, strict=True))]


def _likeness(course: str, other: str) -> int:
    """Count the parts of the course's name that the other name contains; synonyms count too."""
    parts = set(re.findall(r"[a-z]+\d*", other.lower()))
    return sum(
        _letters(part) in _letters(other) or bool(parts & LAYERS.get(part, set()))
        for part in course.split(".")
    )


_SHAPES: dict[tuple[type[nn.Module], str], Shapes] = {}


def _shapes(definition: type[nn.Module], args: tuple, kwargs: dict) -> Shapes:
    """Return the names and shapes of the course's parameters, cached for each set of arguments."""
    key = definition, repr((args, kwargs))
    if key not in _SHAPES:
        profile = sys.getprofile()
        sys.setprofile(None)  # running the course's own class here is not cheating
        try:
            with torch.random.fork_rng(devices=[]):
                named = definition(*args, **kwargs).named_parameters(remove_duplicate=False)
        except Exception:  # if the course's class rejects the call, there are no names
            named = iter(())
        finally:
            sys.setprofile(profile)
        _SHAPES[key] = {name: parameter.shape for name, parameter in named}
    return _SHAPES[key]


def _letters(name: str) -> str:
    """Return a name in lowercase and without underscores, which vary between spellings."""
    return name.replace("_", "").lower()
