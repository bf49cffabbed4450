"""Call an answer whose signature or attribute names differ from the course's."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass, make_dataclass
from functools import cache, wraps
from typing import Any, ClassVar, TypeVar

from torch import nn

from course_lib.exercises.checking.parameter_names import recognize, unlike

Named = TypeVar("Named", bound=type)

SYNONYMS = {  # names of the arguments in textbooks and in code that many people have read
    "query": ("q", "queries"),
    "key": ("k", "keys"),
    "value": ("v", "values"),
    "d_model": (
        *("size", "dim", "model_dim", "model_dimension", "dim_model", "embed_dim", "emb_dim"),
        *("embedding_dim", "n_embd", "num_hiddens", "hidden_size", "features", "input_dim"),
    ),
    "num_heads": ("h", "heads", "n_heads", "n_head", "nhead", "number_of_heads", "num_head"),
    "d_ff": (
        *("hidden", "d_hidden", "hidden_dim", "ff_dim", "dim_ff", "mlp_dim", "d_mlp"),
        *("ffn_num_hiddens", "dim_feedforward", "intermediate_size", "inner_dim"),
    ),
    "dropout": (
        *("p", "p_drop", "drop", "dropout_p", "drop_prob", "dropout_rate", "drop_rate"),
        *("dropout_prob", "dropout_probability", "resid_pdrop", "embd_pdrop", "attn_pdrop"),
    ),
    "mask": ("attn_mask", "attention_mask", "src_mask"),
    "self_mask": ("tgt_mask", "trg_mask"),
    "cross_mask": ("src_mask", "memory_mask"),
    "max_len": (
        *("block_size", "max_length", "max_seq_len", "seq_len", "context_length", "n_ctx"),
        *("num_positions", "max_position_embeddings"),
    ),
    "num_layers": ("n", "N", "n_layers", "n_layer", "num_blks", "num_blocks", "number_of_layers"),
    "num_encoder_layers": ("num_layers", "n", "N", "n_layers", "n_layer", "num_blks"),
    "num_decoder_layers": ("num_layers", "n", "N", "n_layers", "n_layer", "num_blks"),
    "vocab_size": ("vocab", "d_vocab", "num_tokens", "n_vocab"),
    "src_vocab_size": ("src_vocab", "source_vocab_size", "input_vocab_size", "vocab_size"),
    "tgt_vocab_size": ("tgt_vocab", "trg_vocab_size", "target_vocab_size", "output_vocab_size"),
    "eps": ("epsilon",),
}
CONFIGS = ("config", "cfg", "args", "conf")
NO_ORDER: Mapping[str, str] = {}


class MissingOption(TypeError):
    """Raised when an answer lacks an argument that the course's definition has."""


@cache
def signature_of(function: Callable[..., Any], method: bool = False) -> inspect.Signature | None:
    """Return a signature (a method's without ``self``), or None if Python cannot find it."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    return signature.replace(parameters=list(signature.parameters.values())[method:])


def fit(
    answer: Callable[..., Any],
    definition: Callable[..., Any],
    args: tuple,
    kwargs: dict[str, Any],
    *,
    method: bool = False,
) -> tuple[tuple, dict[str, Any]]:
    """Translate arguments for the course's definition into arguments for an answer.

    Arguments are matched to parameters by name or synonym, and the remaining ones by position. An
    option with its default value is left out if the answer has no such argument.

    Raises:
        MissingOption: If the answer does not accept an option that differs from its default.
    """
    mine, course = signature_of(answer, method), signature_of(definition, method)
    if mine is None or course is None:
        return args, kwargs
    if args and is_dataclass(args[0]) and mine.parameters.keys().isdisjoint(CONFIGS):
        course, kwargs = inspect.signature(type(args[0])), dict(vars(args[0]))
        args = ()
    args = tuple(_readable(x) if is_dataclass(x) else x for x in args)
    if mine == course:
        return args, kwargs
    try:
        bound = course.bind(*args, **kwargs).arguments
    except TypeError:
        return args, kwargs  # this call is wrong for the course's definition, too
    if _fits_already(mine, list(bound), args, kwargs):
        return args, kwargs
    if list(mine.parameters)[-1] in CONFIGS and "config" not in course.parameters:
        fields = {name: parameter.default for name, parameter in course.parameters.items()} | bound
        config = _readable(make_dataclass("Config", fields)(**fields))
        return (*args[: len(mine.parameters) - 1], config), {}
    return (), _placed(mine, course, bound, len(args))


def _fits_already(
    mine: inspect.Signature, names: list[str], args: tuple, kwargs: dict[str, Any]
) -> bool:
    """Return whether an answer accepts a call unchanged, with the same argument names."""
    kinds = {parameter.kind for parameter in mine.parameters.values()}
    if {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} & kinds:
        return True
    try:
        return list(mine.bind(*args, **kwargs).arguments) == names
    except TypeError:
        return False


def _placed(
    mine: inspect.Signature, course: inspect.Signature, bound: Mapping[str, Any], by_place: int
) -> dict[str, Any]:
    """Find a parameter for every argument, by name, alternative name or position."""
    placed, rest = {}, []
    for name in bound:
        names = [n for n in (name, *SYNONYMS.get(name, ())) if n in mine.parameters]
        fresh = [n for n in names if n not in placed]
        if fresh:
            placed[fresh[0]] = bound[name]
        elif names and isinstance(bound[name], int) and placed[names[0]] == bound[name]:
            continue  # one number sets two of the course's, such as the layers in both stacks
        else:
            rest.append(name)
    free = [name for name in mine.parameters if name not in placed]
    for name in rest:
        default = course.parameters[name].default
        ordered = default is inspect.Parameter.empty or list(bound).index(name) < by_place
        if ordered and free:
            placed[free.pop(0)] = bound[name]
        elif default is inspect.Parameter.empty or not same_value(bound[name], default):
            shown = getattr(default, "__name__", repr(default))
            raise MissingOption(f"Your version has no argument `{name}` yet. Add `{name}={shown}`.")
    for name in free:  # give the answer's other parameters the course's defaults
        near = [n for n in course.parameters if name in (n, *SYNONYMS.get(n, ()))]
        needed = mine.parameters[name].default is inspect.Parameter.empty
        if name not in placed and near and (needed or name in course.parameters):
            placed[name] = course.parameters[near[0]].default
    return placed


def _readable(config: Any) -> Any:
    """Return a configuration that also allows alternative field names and dictionary syntax."""
    original: Any = type(config)

    class Readable(original):
        """A configuration that also knows its fields by their synonyms."""

        def __getattr__(self, name: str) -> Any:
            """Look up a field by a synonym for its name."""
            for field, value in vars(self).items():
                if name in SYNONYMS.get(field, ()):
                    return value
            raise AttributeError(f"the configuration has no field {name}", name=name)

        def __getitem__(self, name: str) -> Any:
            """Return a field by its name, as a dictionary does."""
            return getattr(self, name)

        def get(self, name: str, default: Any = None) -> Any:
            """Return a field or the default, as a dictionary does."""
            return getattr(self, name, default)

        def __eq__(self, other: object) -> bool:
            """Return whether another configuration, of any class, has the same fields."""
            return is_dataclass(other) and vars(self) == vars(other)

        __hash__ = original.__hash__

    return named_like(original, Readable)(**vars(config))


def same_value(value: object, default: object) -> bool:
    """Return whether an argument has its default value; a default is never a tensor."""
    return value is default or (isinstance(value, type(default) | int) and bool(value == default))


def other_defaults(answer: Any, definition: Any) -> Iterator[str]:
    """Describe each default that differs; ``fit`` sets those of an answer with other names."""
    mine, course = signature_of(answer), signature_of(definition)
    if mine is None or course is None or [*mine.parameters] != [*course.parameters]:
        return
    for name, parameter in course.parameters.items():
        value, default = mine.parameters[name].default, parameter.default
        known = isinstance(default, int | float | str | tuple) and value is not parameter.empty
        if known and not same_value(value, default):
            yield f"The default of `{name}` should be {default!r}, but here it is {value!r}."


def adapt(
    answer: Callable[..., Any], definition: Callable[..., Any], order: Mapping[str, str] = NO_ORDER
) -> Callable[..., Any]:
    """Make an answer callable like the course's definition, wherever the meaning is unambiguous.

    Each call passes only arguments that the answer accepts. A module's parameters can be found
    under the course's names. We match them by name, shape and order; if that is ambiguous,
    ``order`` gives the course's name for each of the answer's layers.
    """
    if not inspect.isclass(definition):

        @wraps(answer)
        def fitted(*args: Any, **kwargs: Any) -> Any:
            """Call the answer with its own argument names."""
            args, kwargs = fit(answer, definition, args, kwargs)
            return answer(*args, **kwargs)

        return fitted

    return _adapted(answer, definition, order)


def _adapted(answer: Any, definition: Any, order: Mapping[str, str]) -> Any:
    """Make a subclass of an answer that accepts the arguments of the course's class."""

    class Adapted(answer):
        """An answer whose constructor and ``forward`` accept the course's arguments."""

        orders: ClassVar[list[dict[str, str]]] = []
        latest: ClassVar[tuple[Any, ...]] = ()

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            fitted, options = fit(answer, definition, args, kwargs)
            super().__init__(*fitted, **options)
            if isinstance(self, nn.Module) and "_parameters" in vars(self):
                Adapted.orders = recognize(self, definition, args, kwargs, order)
                Adapted.latest = self, definition, args, kwargs

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            """Call the answer's ``forward`` with its own argument names."""
            args, kwargs = fit(answer.forward, definition.forward, args, kwargs, method=True)
            return super().forward(*args, **kwargs)

        @classmethod
        def unlike(cls) -> str:
            """Say which parameters of the latest module are not stored as the course's are."""
            return unlike(*cls.latest) if cls.latest else ""

    return named_like(answer, Adapted)


def named_like(answer: type, made: Named) -> Named:
    """Give a subclass the name, module and docstring of the answer from which it is derived."""
    made.__name__, made.__qualname__ = answer.__name__, answer.__qualname__
    made.__module__, made.__doc__ = answer.__module__, answer.__doc__
    return made
