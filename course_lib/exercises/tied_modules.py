"""Two modules of different structure that compute with the same parameters."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

MODULES, PARAMETERS, BUFFERS = "_modules", "_parameters", "_buffers"


@dataclass
class Slot:
    """Say where an answer keeps a part of the course's module.

    Args:
        owner: The answer's module that holds it.
        kind: Where it does: ``_modules``, ``_parameters``, ``_buffers``, or ``__dict__``.
        name: Under which name.
        source: Where the course's module holds it, one of the first three.
        path: The course's name, in parts.
    """

    owner: nn.Module
    kind: str
    name: str
    source: str
    path: Sequence[str]

    def filled(self, course: nn.Module) -> bool:
        """Put what the course's module has now into the answer; say if it has any."""
        holder, mine = _find(course, self.path[:-1]), getattr(self.owner, self.kind)
        if holder is None or self.path[-1] not in getattr(holder, self.source):
            return False
        found = getattr(holder, self.source)[self.path[-1]]
        mine[self.name] = found.reshape(mine[self.name].shape) if self.source == BUFFERS else found
        return True


@dataclass
class Tie:
    """Hold an answer whose parameters are those of the course's module.

    Args:
        answer: The module whose methods compute.
        slots: Where the answer keeps a part of the course's module, and where that is.
        own: The modules that only the answer has.
        rest: The modules that only the course's has, by path.
    """

    answer: nn.Module
    slots: list[Slot]
    own: list[nn.Module]
    rest: dict[tuple[str, ...], nn.Module]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tie":
        """Copy the answer, and forget the graphs of what it keeps from its last call."""
        for module in self.own:
            kept = {n: x for n, x in vars(module).items() if isinstance(x, Tensor) and x.grad_fn}
            vars(module).update({name: x.detach() for name, x in kept.items()})
        parts = (self.answer, self.slots, self.own, self.rest)
        return Tie(*(deepcopy(part, memo) for part in parts))

    def renewed(self, course: nn.Module) -> bool:
        """Give the answer the parts that the course's module has now; say if that can be done."""
        for path, module in self.rest.items():
            if _find(course, path) is not module:
                return False
        if not all(slot.filled(course) for slot in self.slots):
            return False
        for module in self.own:
            module.training = course.training
        return True


def tie(course: nn.Module, answer: nn.Module) -> Tie:
    """Let an answer compute with the parameters of the course's module, and with its layers.

    Parts of the answer that are an exercise's class go into the course's module, with its numbers.

    Raises:
        ValueError: If a parameter of one has no counterpart in the other.
    """
    names = _counterparts(course, answer)
    slots: list[Slot] = []
    done: list[str] = []
    for path, part in list(answer.named_modules(remove_duplicate=False)):
        if path and not any(f"{path}.".startswith(f"{above}.") for above in done):
            place = _place(course, part, path, names)
            if place:
                _share(course, part, answer, path, place)
                slots.append(Slot(*_owner(answer, MODULES, path), MODULES, place.split(".")))
                done.append(path)
    for mine, name in names.items():
        if not any(mine.startswith(f"{path}.") for path in done):
            slots.append(Slot(*_owner(answer, PARAMETERS, mine), PARAMETERS, name.split(".")))
    tops = [_find(course, slot.path) for slot in slots if slot.source == MODULES]
    shared = {id(module) for top in tops for module in top.modules()}
    own = [module for module in answer.modules() if id(module) not in shared]
    rest = {tuple(n.split(".")): m for n, m in course.named_modules() if n and id(m) not in shared}
    return Tie(answer, [*slots, *_tables(course, own)], own, rest)


def _tables(course: nn.Module, own: Sequence[nn.Module]) -> Iterator[Slot]:
    """Find the course's buffers in an answer, whatever their shape: a table of positions."""
    for name, table in course.named_buffers():
        for module in own:
            for kind in (BUFFERS, "__dict__"):
                for place, mine in getattr(module, kind).items():
                    if isinstance(mine, Tensor) and _same_numbers(mine, table):
                        yield Slot(module, kind, place, BUFFERS, name.split("."))


def _same_numbers(mine: Tensor, table: Tensor) -> bool:
    """Compare two tables but for their shape; on the meta device there are no numbers."""
    if mine.numel() != table.numel() or mine.is_meta or table.is_meta:
        return False
    return torch.allclose(mine.detach().flatten().to(table), table.flatten(), atol=1e-4)


def _counterparts(course: nn.Module, answer: nn.Module) -> dict[str, str]:
    """Return the course's name of each of the answer's parameters."""
    renamed = vars(answer).get("course_names", {})
    mine = dict(answer.named_parameters(remove_duplicate=False))
    theirs = dict(course.named_parameters(remove_duplicate=False))
    names = {name: renamed.get(name, name) for name in mine}
    fitting = all(n in theirs and theirs[n].shape == mine[m].shape for m, n in names.items())
    if not fitting or set(names.values()) != set(theirs):
        raise ValueError("its parameters have other shapes")
    return names


def _place(course: nn.Module, part: nn.Module, path: str, names: dict[str, str]) -> str:
    """Find the part of the course's module that a part of an answer can stand for, if any."""
    kinds = {kind.__name__ for kind in type(part).__mro__}
    inside = [name.removeprefix(f"{path}.") for name in names if name.startswith(f"{path}.")]
    if not inside:
        places = [n for n, m in course.named_modules() if type(m).__name__ in kinds - PLAIN]
        return places[0] if len(places) == 1 else ""
    place = names[f"{path}.{inside[0]}"].removesuffix(inside[0])
    if any(names[f"{path}.{name}"] != place + name for name in inside) or place[-1:] != ".":
        return ""
    theirs = _find(course, place[:-1].split("."))
    whole = {name for name, _ in theirs.named_parameters(remove_duplicate=False)} == set(inside)
    return place[:-1] if whole and type(theirs).__name__ in kinds else ""


PLAIN = {"Module", "object", "Dropout", "ReLU", "Identity"}


def _share(course: nn.Module, part: nn.Module, answer: nn.Module, path: str, place: str) -> None:
    """Let both modules have one layer: torch's own of the course's, or else the answer's."""
    theirs = course.get_submodule(place)
    owner, _, name = _owner(course, MODULES, place)
    if type(part) is type(theirs) and not list(part.children()):
        owner, _, name = _owner(answer, MODULES, path)
        part = theirs
    else:
        part.load_state_dict(theirs.state_dict(), strict=False)
    owner._modules[name] = part


def _owner(module: nn.Module, kind: str, path: str) -> tuple[nn.Module, str, str]:
    """Return the module that holds a part or a parameter, and its name there."""
    above, _, name = path.rpartition(".")
    return module.get_submodule(above), kind, name


def _find(module: Any, path: Sequence[str]) -> Any:
    """Return the part of a module at a path; nothing if there is none."""
    for name in path:
        module = module._modules.get(name) if module is not None else None
    return module
