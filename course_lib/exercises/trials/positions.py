"""What is asked of chapter 03's layers: rows added along the sentence, computed or learned."""

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.exercises.check import Exercise
from course_lib.exercises.dropout_detector import HALF, what_is_dropped
from course_lib.exercises.old_trial import (
    D_K,
    B,
    T,
    Trial,
    by_name,
    normal,
    observe,
    parameters_trial,
    value_trial,
)
from course_lib.exercises.trials import sinusoidal_encoding
from course_lib.exercises.trials.sinusoidal_encoding import MAX_LEN, table_by_loops
from course_lib.positions import LearnedPositionalEmbedding, PositionalEncoding

SMALL = 0.2  # rows are to start far below 1, the size of a word's numbers


def ready(candidate: Callable, d_model: int = D_K, max_len: int = MAX_LEN, dropout: float = 0.0):
    """Build a layer; rows that are learned get known numbers."""
    layer = candidate(d_model=d_model, max_len=max_len, dropout=dropout)
    if isinstance(getattr(layer, "weight", None), Tensor):
        with torch.no_grad():
            layer.weight.copy_(normal("weight", *layer.weight.shape))
    return layer


def rows_of(learned: bool, d_model: int = D_K, max_len: int = MAX_LEN) -> Tensor:
    """Return the rows that a layer from ``ready`` has to add, computed another way."""
    return normal("weight", max_len, d_model) if learned else table_by_loops(max_len, d_model)


def placed(
    label: str,
    learned: bool,
    shape: tuple[int, ...] = (B, T, D_K),
    max_len: int = MAX_LEN,
) -> Trial:
    """Compare what a layer makes of some vectors with a lookup of each place."""
    x = {"x": normal("x", *shape)}

    def act(candidate: Callable[..., nn.Module]) -> Any:
        """Build it, call it."""
        layer = ready(candidate, shape[-1], max_len)
        named = by_name(layer) if learned else {}
        return observe(lambda now: layer(now["x"]), x, ("output",), named)

    def wanted() -> Any:
        """Look the rows up in torch's embedding."""
        rows = rows_of(learned, shape[-1], max_len).requires_grad_(learned)
        found = {"weight": rows} if learned else {}
        places = F.embedding(torch.arange(shape[1]), rows)
        return observe(lambda now: now["x"] + places, x, ("output",), found)

    return Trial(label, act, wanted)


def sentences(candidate: Callable) -> dict[str, bool]:
    """Look whether equal sentences stay equal."""
    with torch.no_grad():
        output = ready(candidate)(torch.zeros(T, T, D_K))
    return {"every sentence gets the same rows": torch.allclose(output, output[:1])}


def words(candidate: Callable) -> dict[str, Tensor]:
    """Take away what is added to a sentence of zeros; the words are to be left."""
    layer, x = ready(candidate), normal("x", B, MAX_LEN, D_K)
    with torch.no_grad():
        return {"what is left of the words": layer(x.clone()) - layer(torch.zeros_like(x))}


def at_rest(candidate: Callable) -> dict[str, Tensor]:
    """Call a layer with dropout that is not being trained."""
    with torch.no_grad():
        return {"output": ready(candidate, dropout=HALF).eval()(normal("x", B, T, D_K))}


def dropped(learned: bool) -> Callable:
    """Return what tells which numbers dropout removes in training."""
    x, rows = normal("x", B, T, D_K), rows_of(learned)[:T]
    guesses = {
        "the sum": lambda mask: mask * (x + rows),
        "the rows before the sum": lambda mask: x + mask * rows,
        "the words before the sum": lambda mask: mask * x + rows,
    }

    def act(candidate: Callable) -> dict[str, str]:
        """Call a layer that is being trained."""
        with torch.no_grad():
            output = ready(candidate, dropout=HALF).train()(x.clone())
        return {"dropout acts on": what_is_dropped(output, x + rows, guesses)}

    return act


def moved(candidate: Callable) -> dict[str, Any]:
    """Change the type and the device of a layer, and look whether its table follows."""
    layer = candidate(d_model=D_K, max_len=MAX_LEN)
    found = {"`encoding` wants a gradient": layer.encoding.requires_grad}
    found |= {"type of `encoding` after .double()": str(layer.double().encoding.dtype)}
    return found | {"device after .to('meta')": str(layer.to("meta").encoding.device)}


@contextmanager
def visible_gaps():
    """Let torch fill with nan what a program leaves unfilled; otherwise chance decides."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


def start(candidate: Callable) -> dict[str, str]:
    """Say how the rows of a fresh layer look."""
    with visible_gaps():
        rows = candidate(d_model=64, max_len=100).weight.detach()
    found = "small, and no two alike"
    if not rows.isfinite().all():
        found = "never filled"
    elif not rows.any():
        found = "all 0"
    elif rows.dim() < 2 or rows.unique(dim=0).size(0) < rows.size(0):
        found = "alike"
    elif rows.std() > SMALL:
        found = "as large as the words"
    return {"the rows start": found}


def sums(learned: bool) -> tuple[Trial, ...]:
    """List what is asked of the sum, in both layers."""
    return (
        placed("sizes that differ", learned),
        placed("sizes that are all equal", learned, (D_K, D_K, D_K), D_K),
        placed("as many sentences as words", learned, (T, T, D_K)),
        placed("a sentence as long as the table", learned, (B, MAX_LEN, D_K)),
        placed("a single word", learned, (B, 1, D_K)),
        placed("a single sentence", learned, (1, T, D_K)),
        value_trial(
            "a look at the words",
            words,
            {"what is left of the words": normal("x", B, MAX_LEN, D_K)},
            says="The rows are added: take them away, and the words are left as they were.",
        ),
        value_trial(
            "sentences that are all alike",
            sentences,
            {"every sentence gets the same rows": True},
            says="Places are counted along the sentence (axis 1), not along the batch (axis 0).",
        ),
    )


def dropouts(learned: bool) -> tuple[Trial, ...]:
    """List what is asked of dropout, in both layers."""
    return (
        value_trial(
            "dropout=0.5 in eval mode",
            at_rest,
            {"output": normal("x", B, T, D_K) + rows_of(learned)[:T]},
            stage="train and eval",
            says="In eval mode nothing is dropped.",
        ),
        value_trial(
            "dropout=0.5 in training",
            dropped(learned),
            {"dropout acts on": "the sum"},
            stage="train and eval",
            says="Dropout acts on the sum of word and place, in training only (§5.4).",
        ),
    )


def layer_exercise(
    given: type[nn.Module], cases: tuple[Trial, ...], says: str, hints: tuple[str, ...]
) -> Exercise:
    """Put together the exercise of one of the two layers."""
    build: Mapping[str, int] = {"d_model": D_K, "max_len": MAX_LEN}
    learned = given is LearnedPositionalEmbedding
    asked = (parameters_trial(given, build, says), *cases, *sums(learned), *dropouts(learned))
    return Exercise(given.__name__, "positions", 10, asked, hints)


EXERCISES = (
    *sinusoidal_encoding.EXERCISES,
    layer_exercise(
        PositionalEncoding,
        (
            value_trial(
                "a layer that moves",
                moved,
                {
                    "`encoding` wants a gradient": False,
                    "type of `encoding` after .double()": "torch.float64",
                    "device after .to('meta')": "meta",
                },
                says="The table must move and change type with the layer: a buffer does, "
                "a plain attribute stays behind.",
            ),
        ),
        "The waves are computed: no parameter, and nothing that a file has to hold.",
        (
            "Compute the table once, in `__init__`, and keep it as a *buffer*: "
            "it moves with the layer and is not learned. Which sizes come first, the table's or "
            "the layer's?",
            "`self.register_buffer('encoding', table, persistent=False)`; the last word keeps it "
            "out of saved files.",
            "In `forward`, cut the table to the length of the sentence, `x.size(-2)`; broadcasting "
            "adds the rows to every sentence. Dropout comes after the sum.",
        ),
    ),
    layer_exercise(
        LearnedPositionalEmbedding,
        (
            value_trial(
                "a fresh layer",
                start,
                {"the rows start": "small, and no two alike"},
                says="The rows start as small random numbers.",
            ),
        ),
        "One learned row for every place: an nn.Parameter called `weight`, (max_len, d_model).",
        (
            "Only `__init__` differs from `PositionalEncoding`: the rows are an `nn.Parameter` "
            "called `weight`, `(max_len, d_model)`.",
            "`torch.empty` fills nothing in. `nn.init.normal_(self.weight, std=0.02)` does.",
            "In `forward`: the first `x.size(-2)` rows, added to `x`; then dropout.",
        ),
    ),
)
