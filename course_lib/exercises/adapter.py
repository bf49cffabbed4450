"""Call an answer whose signature or attribute names differ from the course's."""

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cache, wraps
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

SYNONYMS = {  # what textbooks, and code that many have read, call the arguments
    "d_model": ("size", "dim", "embed_dim", "n_embd", "num_hiddens", "hidden_size", "features"),
    "num_heads": ("h", "heads", "n_heads", "n_head", "nhead"),
    "d_ff": ("hidden", "d_hidden", "ffn_num_hiddens", "dim_feedforward"),
    "dropout": ("p", "drop", "dropout_p", "drop_prob", "dropout_rate", "dropout_prob"),
    "dropout_p": ("p", "dropout", "drop"),
    "mask": ("attn_mask", "attention_mask", "src_mask"),
    "self_mask": ("tgt_mask", "trg_mask"),
    "cross_mask": ("src_mask", "memory_mask"),
    "max_len": ("block_size", "max_length", "max_seq_len", "num_positions"),
    "num_layers": ("n", "N", "n_layers", "n_layer", "num_blks"),
    "eps": ("epsilon",),
}

PARAMETERS = dict.fromkeys(("weight", "gamma", "a_2", "a2", "gain", "scale", "g"), "weight")
PARAMETERS |= dict.fromkeys(("bias", "beta", "b_2", "b2", "shift", "b"), "bias")
LAYERS = {  # what they call layers of one shape, which order alone would mix up
    "w_q": ("query",),
    "w_k": ("key",),
    "w_v": ("value",),
    "gate": ("w1",),
    "linear1": ("up", "w3"),
}


class MissingOption(TypeError):
    """An argument of the course's definition that an answer does not take yet."""


@cache
def _signature(function: Callable[..., Any], method: bool) -> inspect.Signature | None:
    """Return a signature, a method's without ``self``; or nothing where Python knows none."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return signature.replace(parameters=list(signature.parameters.values())[method:])


def fit(
    answer: Callable[..., Any],
    given: Callable[..., Any],
    args: tuple,
    kwargs: dict[str, Any],
    *,
    method: bool = False,
) -> tuple[tuple, dict[str, Any]]:
    """Translate the arguments of a call of the course's definition into those of an answer.

    What has the same name, or a synonym, goes there; what is left goes by its place. An option
    at its default is left out where the answer does not take it.

    Raises:
        MissingOption: If an option with another value has no place.
    """
    mine, theirs = _signature(answer, method), _signature(given, method)
    if mine is None or theirs is None or mine == theirs:
        return args, kwargs
    try:
        bound = theirs.bind(*args, **kwargs).arguments
    except TypeError:
        return args, kwargs  # a call that is wrong for the course's definition, too
    kinds = {parameter.kind for parameter in mine.parameters.values()}
    loose = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} & kinds
    if loose or (mine.parameters.keys() >= bound.keys() and _binds(mine, theirs, args, kwargs)):
        return args, kwargs
    if list(mine.parameters)[-1] in ("config", "cfg") and "config" not in theirs.parameters:
        return (*args[: len(mine.parameters) - 1], _config(theirs, bound)), {}
    return (), _placed(mine, theirs, bound, len(args))


def _binds(
    mine: inspect.Signature, theirs: inspect.Signature, args: tuple, kwargs: dict[str, Any]
) -> bool:
    """Say whether a call fits as it is: nothing else is asked for, nothing stands elsewhere."""
    first = [list(s.parameters)[: len(args)] for s in (mine, theirs)]
    try:
        mine.bind(*args, **kwargs)
    except TypeError:
        return False
    return first[0] == first[1]


def _placed(
    mine: inspect.Signature, theirs: inspect.Signature, bound: Mapping[str, Any], by_place: int
) -> dict[str, Any]:
    """Find a place for every argument, by name, by synonym, or by order where it came so."""
    placed, rest = {}, []
    for name in bound:
        known = [n for n in (name, *SYNONYMS.get(name, ())) if n in mine.parameters]
        if known and known[0] not in placed:
            placed[known[0]] = bound[name]
        else:
            rest.append(name)
    free = [name for name in mine.parameters if name not in placed]
    for name in rest:
        default = theirs.parameters[name].default
        ordered = default is inspect.Parameter.empty or list(bound).index(name) < by_place
        if ordered and free:
            placed[free.pop(0)] = bound[name]
        elif default is inspect.Parameter.empty or not _same(bound[name], default):
            raise MissingOption(f"There is no argument `{name}` yet: add `{name}={default!r}`.")
    for name in free:  # what the answer asks for, and the course's definition has a default for
        near = [n for n in theirs.parameters if name in (n, *SYNONYMS.get(n, ()))]
        if mine.parameters[name].default is inspect.Parameter.empty and near:
            placed[name] = theirs.parameters[near[0]].default
    return placed


def _config(theirs: inspect.Signature, bound: Mapping[str, Any]) -> SimpleNamespace:
    """Gather the arguments of a constructor as one object, under all their names."""
    values = {n: p.default for n, p in theirs.parameters.items()} | dict(bound)
    names = {other: values[name] for name in values for other in SYNONYMS.get(name, ())}
    return SimpleNamespace(**(names | values))


def _same(value: Any, default: Any) -> bool:
    """Compare an argument with a default; tensors are never a default."""
    return value is default or (isinstance(value, type(default)) and bool(value == default))


def adapt(answer: Any, given: Any) -> Any:
    """Make an answer callable as the course's definition is, wherever that has one meaning.

    Args:
        answer: A function or a class.
        given: The course's own definition.

    Returns:
        A function or a subclass that fits the arguments of each call, and under which
        parameters of other names are found by the course's, matched by shape and order.
    """
    if not inspect.isclass(given):

        @wraps(answer)
        def fitted(*args: Any, **kwargs: Any) -> Any:
            """Call the answer with its own names."""
            args, kwargs = fit(answer, given, args, kwargs)
            return answer(*args, **kwargs)

        return fitted
    return _adapted(answer, given) if issubclass(answer, nn.Module) else answer


def _adapted(answer: type[nn.Module], given: type[nn.Module]) -> type[nn.Module]:
    """Make the subclass."""

    class Adapted(answer):
        """Fit the arguments of constructor and ``forward``."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            fitted, options = fit(answer, given, args, kwargs)
            super().__init__(*fitted, **options)
            if isinstance(self, nn.Module) and "_parameters" in vars(self):
                recognise(self, given, args, kwargs)

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Call the answer's with its own names."""
            args, kwargs = fit(answer.forward, given.forward, args, kwargs, method=True)
            return super().forward(*args, **kwargs)

    Adapted.__name__, Adapted.__qualname__ = answer.__name__, answer.__qualname__
    Adapted.__module__, Adapted.__doc__ = answer.__module__, answer.__doc__
    return Adapted


def recognise(module: nn.Module, given: type[nn.Module], args: tuple, kwargs: dict) -> None:
    """Match parameters of other names with the course's, and make them known under both."""
    profile = sys.getprofile()
    sys.setprofile(None)  # that the course's own class runs here is no cheating
    try:
        wanted = _shapes(given, args, kwargs)
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


def _shapes(given: type[nn.Module], args: tuple, kwargs: dict) -> dict[str, torch.Size]:
    """Return the course's names and shapes for one construction; the random state stays."""
    try:
        with torch.random.fork_rng(devices=[]):
            built = given(*args, **kwargs)
    except Exception:  # a call that the course's class refuses has no names to offer
        return {}
    return {name: p.shape for name, p in built.named_parameters(remove_duplicate=False)}


def _letters(name: str) -> str:
    """Keep what two spellings of a name share."""
    return name.replace("_", "").lower()
