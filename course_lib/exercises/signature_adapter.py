"""Call an answer whose signature or attribute names differ from the course's."""

import inspect
from collections.abc import Callable, Mapping
from functools import cache, wraps
from types import SimpleNamespace
from typing import Any

from torch import nn

from course_lib.exercises.parameter_names import recognise

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


class MissingOption(TypeError):
    """An argument of the course's definition that an answer does not take yet."""


@cache
def _signature(function: Callable[..., Any], method: bool = False) -> inspect.Signature | None:
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
    if _is_loose(mine) or (
        mine.parameters.keys() >= bound.keys() and _binds(mine, theirs, args, kwargs)
    ):
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
            told = getattr(default, "__name__", repr(default))
            raise MissingOption(f"There is no argument `{name}` yet: add `{name}={told}`.")
    for name in free:  # what the answer takes beyond the call: at the course's default
        near = [n for n in theirs.parameters if name in (n, *SYNONYMS.get(n, ()))]
        needed = mine.parameters[name].default is inspect.Parameter.empty
        if name not in placed and near and (needed or name in theirs.parameters):
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


def _adapted(answer: Any, given: type[nn.Module]) -> type[nn.Module]:
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

    return named_like(answer, Adapted)


def named_like(answer: type[nn.Module], made: Any) -> Any:
    """Give a subclass the name, the module and the docstring of the answer it is made of."""
    made.__name__, made.__qualname__ = answer.__name__, answer.__qualname__
    made.__module__, made.__doc__ = answer.__module__, answer.__doc__
    return made


def _is_loose(signature: inspect.Signature) -> bool:
    """Say whether a signature takes whatever comes."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    return bool({inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} & kinds)
