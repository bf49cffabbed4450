"""What counts of arithmetic are compared with: matrix products written out by their shapes."""

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

from torch import Tensor

from course_lib.exercises.old_trial import Trial, value_trial
from course_lib.exercises.outcomes import describe
from course_lib.transformer import TransformerConfig


def counted(answer: Any) -> int | float:
    """Take a count of any kind of number for what it is worth.

    Raises:
        TypeError: If it is no number.
    """
    if isinstance(answer, Tensor) and answer.numel() == 1:
        answer = answer.item()
    if isinstance(answer, Real) and not isinstance(answer, bool):
        return int(answer) if float(answer).is_integer() else float(answer)
    raise TypeError(f"a count should come out, and not {describe(answer)}")


def written(count: int | float) -> str:
    """Write a count with commas, to compare it exactly."""
    return f"{count:,}"


def kind(candidate: Callable, *given: Any) -> dict[str, str]:
    """Name what comes out."""
    answer = candidate(*given)
    try:
        counted(answer)
    except TypeError:
        return {"what comes out": describe(answer)}
    return {"what comes out": "a number"}


def kind_case(label: str, says: str, *given: Any) -> Trial:
    """Ask for one number."""
    wanted = {"what comes out": "a number"}
    return value_trial(label, lambda c: kind(c, *given), wanted, stage="shape", says=says)


def counts_case(
    label: str, trials: Mapping[str, tuple], reference: Callable[..., int], says: str
) -> Trial:
    """Compare the counts of several trials, each a tuple of inputs and a dict of options."""

    def told(candidate: Callable) -> dict[str, str]:
        """Count in every trial."""
        return {
            f"the count with {name}": written(counted(candidate(*given, **options)))
            for name, (given, options) in trials.items()
        }

    return value_trial(label, told, told(reference), stage="equality", says=says)


def products(*shapes: tuple[int, int, int]) -> int:
    """Count what products (a, b) @ (b, c) take."""
    return sum(2 * a * b * c for a, b, c in shapes)


def attention(
    d_model: int, H: int, T: int, S: int, d_k: int | None = None, d_v: int | None = None
) -> int:
    """Count one attention by the shapes of its products, all heads side by side."""
    d_k, d_v = d_k or d_model // H, d_v or d_model // H
    keys, values = H * d_k, H * d_v
    projections = (T, d_model, keys), (S, d_model, keys), (S, d_model, values), (T, values, d_model)
    return products(*projections) + H * products((T, d_k, S), (T, S, d_v))


def model(config: TransformerConfig, src_len: int, tgt_len: int) -> int:
    """Count a whole model, layer by layer."""
    c, total = config, 0

    def layer(length: int, *sources: int) -> int:
        """Count an attention to each of these, and the feed-forward."""
        sizes = c.d_model, c.num_heads, length
        heard = sum(attention(*sizes, source, c.d_k, c.d_v) for source in sources)
        return heard + products((length, c.d_model, c.d_ff), (length, c.d_ff, c.d_model))

    for _ in range(c.num_encoder_layers):
        total += layer(src_len, src_len)
    for _ in range(c.num_decoder_layers):
        total += layer(tgt_len, tgt_len, src_len)
    return total + products((tgt_len, c.d_model, c.tgt_vocab_size))
