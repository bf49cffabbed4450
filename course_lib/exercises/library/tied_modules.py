"""Let two modules with different structures share their parameters."""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

MODULES, PARAMETERS, BUFFERS = "_modules", "_parameters", "_buffers"
PLAIN = {"Module", "object", "Dropout", "ReLU", "Identity"}


@dataclass
class Slot:
    """The place where an answer stores a part of the course's module.

    In the answer, the part has the key ``name`` in the dictionary ``kind`` of the module ``owner``.
    In the course's module, the part is at ``path``, in the dictionary ``source``.
    """

    owner: nn.Module
    name: str
    kind: str
    source: str
    path: str

    def filled(self, modules: Mapping[str, nn.Module]) -> bool:
        """Put the course's current part into the answer; return whether there is one."""
        above, _, name = self.path.rpartition(".")
        parts = getattr(modules.get(above), self.source, {})
        if name not in parts:
            return False
        mine, part = getattr(self.owner, self.kind), parts[name]
        is_table = self.source == BUFFERS
        mine[self.name] = part.reshape(mine[self.name].shape) if is_table else part
        return True


@dataclass
class Tie:
    """An answer that uses the parameters of the course's module.

    The modules in ``own`` are only in the answer; those in ``rest``, only in the course's module.
    """

    answer: nn.Module
    slots: list[Slot]
    own: list[nn.Module]
    rest: dict[str, nn.Module]

    def __deepcopy__(self, memo: dict[int, Any]) -> "Tie":
        """Copy the answer, without the autograd graphs of tensors from its last call."""
        for module in self.own:
            graphs = {n: x for n, x in vars(module).items() if isinstance(x, Tensor) and x.grad_fn}
            vars(module).update({name: x.detach() for name, x in graphs.items()})
        return Tie(*(deepcopy(part, memo) for part in vars(self).values()))

    def renewed(self, course: nn.Module) -> bool:
        """Pass the parts of the course's module to the answer; return whether that worked."""
        modules = dict(course.named_modules(remove_duplicate=False))
        if any(modules.get(path) is not module for path, module in self.rest.items()):
            return False
        if not all(slot.filled(modules) for slot in self.slots):
            return False
        for module in self.own:
            module.training = course.training
        return True


def tie(course: nn.Module, answer: nn.Module) -> Tie:
    """Make an answer use the parameters and layers of the course's module.

    If a part of the answer comes from another exercise, it replaces the course's own part and
    takes over its weights.

    Raises:
        ValueError: If the two modules do not have the same parameters.
    """
    names = _counterparts(course, answer)
    slots: list[Slot] = []
    done: tuple[str, ...] = ()
    for path, part in list(answer.named_modules(remove_duplicate=False)):
        place = _place(course, part, path, names) if path and not path.startswith(done) else ""
        if place:
            _share(course, part, answer, path, place)
            slots.append(Slot(*_owner(answer, path), MODULES, MODULES, place))
            done += (f"{path}.",)
    for mine, name in names.items():
        if not mine.startswith(done):
            slots.append(Slot(*_owner(answer, mine), PARAMETERS, PARAMETERS, name))
    tops = [course.get_submodule(slot.path) for slot in slots if slot.source == MODULES]
    shared = {module for top in tops for module in top.modules()}
    own = [module for module in answer.modules() if module not in shared]
    rest = {name: m for name, m in course.named_modules() if name and m not in shared}
    return Tie(answer, [*slots, *_tables(course, own)], own, rest)


def _tables(course: nn.Module, own: Sequence[nn.Module]) -> Iterator[Slot]:
    """Find an answer's copies of the course's buffers (such as a position table), of any shape."""
    for name, table in course.named_buffers():
        for module in own:
            for kind in (BUFFERS, "__dict__"):
                for place, mine in getattr(module, kind).items():
                    if isinstance(mine, Tensor) and _same_numbers(mine, table):
                        yield Slot(module, place, kind, BUFFERS, name)


def _same_numbers(mine: Tensor, table: Tensor) -> bool:
    """Return whether two tables contain the same numbers; meta tensors do not contain any."""
    if mine.numel() != table.numel() or mine.is_meta or table.is_meta:
        return False
    return torch.allclose(mine.detach().flatten().to(table), table.flatten(), atol=1e-4)


def _counterparts(course: nn.Module, answer: nn.Module) -> dict[str, str]:
    """Return the course's name for each of the answer's parameters."""
    renamed = vars(answer).get("course_names", {})
    mine = {name: p.shape for name, p in answer.named_parameters(remove_duplicate=False)}
    shapes = {name: p.shape for name, p in course.named_parameters(remove_duplicate=False)}
    names = {name: renamed.get(name, name) for name in mine}
    if shapes != {names[name]: shape for name, shape in mine.items()}:
        raise ValueError("its parameters have different shapes")
    return names


def _place(course: nn.Module, part: nn.Module, path: str, names: dict[str, str]) -> str:
    """Find the part of the course's module that a part of an answer can replace, if any."""
    kinds = {kind.__name__ for kind in type(part).__mro__}
    inside = [name.removeprefix(f"{path}.") for name in names if name.startswith(f"{path}.")]
    if not inside:
        places = [n for n, m in course.named_modules() if type(m).__name__ in kinds - PLAIN]
        return places[0] if len(places) == 1 else ""
    place = names[f"{path}.{inside[0]}"].removesuffix(inside[0])
    if any(names[f"{path}.{name}"] != place + name for name in inside) or place[-1:] != ".":
        return ""
    target = course.get_submodule(place[:-1])
    whole = {name for name, _ in target.named_parameters(remove_duplicate=False)} == set(inside)
    return place[:-1] if whole and type(target).__name__ in kinds else ""


def _share(course: nn.Module, part: nn.Module, answer: nn.Module, path: str, place: str) -> None:
    """Share one layer: the course's layer if its class comes from torch, or else the answer's."""
    target = course.get_submodule(place)
    owner, name = _owner(course, place)
    if type(part) is type(target) and not list(part.children()):
        owner, name = _owner(answer, path)
        part = target
    else:
        part.load_state_dict(target.state_dict(), strict=False)
    owner._modules[name] = part


def _owner(module: nn.Module, path: str) -> tuple[nn.Module, str]:
    """Return the module that holds a part or a parameter, and its name there."""
    above, _, name = path.rpartition(".")
    return module.get_submodule(above), name
