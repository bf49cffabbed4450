"""What is asked of chapter 03."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import keeps_still, survivors
from course_lib.exercises.trial import (
    D_K,
    B,
    H,
    T,
    Trial,
    function_trial,
    looks,
    module_trial,
    normal,
)
from course_lib.positions import sinusoidal_encoding

MAX_LEN = 9
BUILD = {"d_model": D_K, "max_len": MAX_LEN}
X = {"x": normal("x", B, T, D_K)}


def table(label: str, max_len: int, d_model: int) -> Trial:
    """Compare a table, number by number."""
    return function_trial(label, {"max_len": max_len, "d_model": d_model}, ("table",))


@looks(
    "a look at the type",
    "The table is added to vectors of torch's default type, and has it too.",
    kind="shape",
)
def kind(candidate: Callable[..., Tensor]) -> dict[str, str]:
    """Return the type of the numbers."""
    return {"the type of the numbers": str(candidate(H, D_K).dtype)}


@looks(
    "a look at what is learned",
    "The waves are computed: training must not change them.",
    kind="parameters",
)
def learned(candidate: Callable[..., nn.Module]) -> dict[str, int]:
    """Count what an optimizer would change."""
    module = candidate(**BUILD)
    return {"learned numbers": sum(p.numel() for p in module.parameters() if p.requires_grad)}


@looks(
    "a look at what is saved",
    "The table can be computed again: no file has to hold it.",
    kind="parameters",
)
def saved(candidate: Callable[..., nn.Module]) -> dict[str, int]:
    """Count what a file of weights would hold."""
    return {"saved tensors": len(candidate(**BUILD).state_dict())}


@looks(
    "a layer that moves",
    "The table must move and change type with the layer: a buffer does, a plain attribute stays "
    "behind.",
)
def moved(candidate: Callable[..., nn.Module]) -> dict[str, str]:
    """Change type and device of a layer, and look whether its table follows."""
    layer, x = candidate(**BUILD).eval(), X["x"]
    found = {"type after .bfloat16()": str(layer.bfloat16()(x.bfloat16()).dtype)}
    return found | {"device after .to('meta')": str(layer.to("meta")(x.to("meta")).device)}


@looks(
    "dropout=0.2 in training",
    "Dropout acts on each number of the sum by itself, in training only, and divides the rest by "
    "1 - dropout (§5.4).",
    kind="train and eval",
)
def dropped(candidate: Callable[..., nn.Module]) -> dict[str, Any]:
    """Add words to the table so that every sum is 2, and look what is left of it."""
    words = (2 - sinusoidal_encoding(MAX_LEN, D_K)).repeat(4, 1, 1)
    output = candidate(**BUILD, dropout=0.2).train()(words).detach()
    return {"a sum of 2": survivors(output, "sentences", "positions", "features")}


SHAPES = {
    "sizes that differ": (B, T, D_K),
    "as many sentences as words": (T, T, D_K),
    "a sentence as long as the table": (B, MAX_LEN, D_K),
    "a single word": (B, 1, D_K),
}
SUM = (
    *(module_trial(label, BUILD, {"x": normal("x", *shape)}) for label, shape in SHAPES.items()),
)
DROPOUT = (
    dropped,
    keeps_still(BUILD, X, dropout=0.5),
)
MOVED = (module_trial("start=3", BUILD, X, options={"start": 3}),)


EXERCISES = (
    Exercise(
        "sinusoidal_encoding",
        "positions",
        15,
        core={
            "formula": (
                table("sizes that differ", 5, 4),  # small: large angles differ by rounding
                table("as many positions as columns", 4, 4),
                table("ten columns", 4, 10),
                kind,
            )
        },
        hints=(
            "Make one angle for each position and each *pair* of columns: positions as a column "
            "`(max_len, 1)`, one frequency per pair as a row; broadcasting makes the table.",
            "`torch.arange(0, d_model, 2)` is the 2i of the formula. Divide the position by "
            "10000 ** (2i / d_model).",
            "`torch.stack([angle.sin(), angle.cos()], dim=-1)` puts each cosine beside its sine; "
            "`flatten(1)` lays the pairs out in a row. Cut off a last column that is too many.",
        ),
        extras={
            "odd width": (table("d_model=5, which is odd", MAX_LEN, 5), table("d_model=1", T, 1))
        },
    ),
    Exercise(
        "PositionalEncoding",
        "positions",
        10,
        core={"sum": SUM, "not learned": (learned,)},
        extras={"dropout": DROPOUT, "start": MOVED, "device": (moved,), "saved file": (saved,)},
        hints=(
            "Compute the table once, in `__init__`, and keep it as a *buffer*: "
            "it moves with the layer and is not learned. Which sizes come first, the table's or "
            "the layer's?",
            "`self.register_buffer('encoding', table, persistent=False)`; the last word keeps it "
            "out of saved files.",
            "In `forward`, cut the table to the length of the sentence, `x.size(-2)`; broadcasting "
            "adds the rows to every sentence. Dropout comes after the sum.",
        ),
    ),
)
