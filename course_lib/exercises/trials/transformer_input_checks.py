"""What is asked of the guards of chapter 09: refuse in words, and let pass what is right."""

from collections.abc import Callable
from dataclasses import fields, make_dataclass
from typing import Any

import torch

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import B, S, T, refuses, value_trial
from course_lib.transformer import TransformerConfig

SIZES = (
    "src_vocab_size tgt_vocab_size d_model num_heads num_encoder_layers num_decoder_layers "
    "d_ff max_len"
).split()
REFUSED = "What does not fit needs a ValueError whose words hold the name and the value."
SILENT = "What fits must pass in silence."
# the same fields and defaults, but nothing looks at the numbers
Unchecked = make_dataclass("Unchecked", [(f.name, f.type, f) for f in fields(TransformerConfig)],
                           kw_only=True)  # fmt: skip


def config(**changes: Any) -> Any:
    """Describe a model without any check."""
    return Unchecked(**(dict(src_vocab_size=13, tgt_vocab_size=10) | changes))


def passes(candidate: Callable, *args: Any) -> str:
    """Say what becomes of a good call."""
    try:
        candidate(*args)
    except ValueError:
        return "refused"
    return "passes"


def sizes_accepted(candidate: Callable) -> dict[str, str]:
    """Give sizes that a model can be built with, at their limits too."""
    good = {
        "the paper's sizes": {},
        "every size 1": dict.fromkeys(SIZES, 1),
        "dropout=0.0": dict(dropout=0.0),
        "dropout=1.0": dict(dropout=1.0),
        "activation='gelu'": dict(activation="gelu"),
    }
    return {what: passes(candidate, config(**changes)) for what, changes in good.items()}


def sizes_refused(candidate: Callable) -> dict[str, Any]:
    """Give one wrong number or name at a time."""
    bad: list[tuple[str, Any]] = [(name, 0) for name in SIZES]
    bad += [("d_ff", -2), ("d_model", 512.0), ("num_heads", 2.5)]
    found = {
        f"{name}={value}": refuses(candidate, config(**{name: value}), words=[name, value])
        for name, value in bad
    }
    for name, value in [("dropout", -0.25), ("dropout", 1.5), ("activation", "swish")]:
        answer = refuses(candidate, config(**{name: value}), words=[value])
        found[f"{name}={value}"] = answer
    return found


BAD_SIZES = [f"{name}=0" for name in SIZES]
BAD_SIZES += "d_ff=-2 d_model=512.0 num_heads=2.5 dropout=-0.25 dropout=1.5".split()
BAD_SIZES += ["activation=swish"]


def ids_accepted(candidate: Callable) -> dict[str, str]:
    """Give ids from 0 to the last of the vocabulary, few and many, in both kinds of integers."""
    ids = torch.tensor([[0, 5, 12], [12, 1, 0]])
    good = {
        "all ids from the first to the last": ids,
        "ids of 32 bits": ids.int(),
        "a single id": ids[:1, :1],
        "as many tokens as max_len": ids.repeat(1, 3),
        "more sentences than max_len": ids.repeat(5, 1),
    }
    return {what: passes(candidate, each, 13, 9, "source") for what, each in good.items()}


def ids_refused(candidate: Callable) -> dict[str, Any]:
    """Give what an embedding cannot look up."""
    ids = torch.tensor([[0, 5, 12], [12, 1, 0]])
    bad = {
        "an id far beyond the vocabulary": (ids + 70, [82]),
        "an id one beyond the vocabulary": (ids + 1, []),
        "a negative id": (ids - 21, [-21]),
        "floats": (ids.float(), ["float32"]),
        "a single row": (ids[0], ["(3,)"]),
        "three axes": (ids[None], ["(1, 2, 3)"]),
        "no tokens": (ids[:, :0], ["(2, 0)"]),
        "one token too many": (ids.repeat(1, 4)[:, :10], [10, 9]),
    }
    return {
        what: refuses(candidate, given, 13, 9, "hieroglyphs", words=["hieroglyphs", *words])
        for what, (given, words) in bad.items()
    }


BAD_IDS = (
    "an id far beyond the vocabulary, an id one beyond the vocabulary, a negative id, floats, "
    "a single row, three axes, no tokens, one token too many"
).split(", ")


def together(tgt: tuple, memory: tuple, src: tuple) -> tuple:
    """Make a target, a memory and a source of these sizes."""
    return torch.ones(tgt).long(), torch.zeros(*memory, 6), torch.ones(src).long()


def batches_accepted(candidate: Callable) -> dict[str, str]:
    """Give what belongs together: long and short targets, a batch of one."""
    good = {
        "a target shorter than the source": ((B, T), (B, S), (B, S)),
        "a target as long as the source": ((B, S), (B, S), (B, S)),
        "a batch of one, with a long target": ((1, S), (1, T), (1, T)),
    }
    return {what: passes(candidate, *together(*each)) for what, each in good.items()}


def batches_refused(candidate: Callable) -> dict[str, Any]:
    """Change one of the sizes to 7."""
    sizes = {
        "a target of another batch": ((7, T), (B, S), (B, S)),
        "a memory of another batch": ((B, T), (7, S), (B, S)),
        "a source of another batch": ((B, T), (B, S), (7, S)),
        "a memory of another length": ((B, T), (B, 7), (B, S)),
        "a source of another length": ((B, T), (B, S), (B, 7)),
    }
    return {what: refuses(candidate, *together(*each), words=[7]) for what, each in sizes.items()}


BAD_BATCHES = (
    "a target of another batch, a memory of another batch, a source of another batch, "
    "a memory of another length, a source of another length"
).split(", ")


GOOD_SIZES = ("the paper's sizes, every size 1, dropout=0.0, dropout=1.0, activation='gelu'").split(
    ", "
)
GOOD_IDS = (
    "all ids from the first to the last, ids of 32 bits, a single id, as many tokens as max_len, "
    "more sentences than max_len"
).split(", ")
GOOD_BATCHES = (
    "a target shorter than the source; a target as long as the source; "
    "a batch of one, with a long target"
).split("; ")


def guard(name: str, minutes: int, accepts: Any, refuses: Any, says: str, hints: tuple) -> Exercise:
    """Ask a guard to pass some things and to refuse others; both come with their names."""
    (passing, good), (refusing, bad) = accepts, refuses
    silent = value_trial("what fits", passing, dict.fromkeys(good, "passes"), says=SILENT)
    loud = value_trial("what does not fit", refusing, dict.fromkeys(bad, "a ValueError"), says=says)
    return Exercise(name, "transformer", minutes, (silent, loud), hints)


EXERCISES = (
    guard(
        "check_sizes",
        10,
        (sizes_accepted, GOOD_SIZES),
        (sizes_refused, BAD_SIZES),
        REFUSED,
        (
            "Eight fields are sizes. Go through their names with `getattr(config, name)` rather "
            "than write eight `if`s.",
            "`isinstance(value, int)` says whether a number is whole; 512.0 is not. Dropout may be "
            "0 and may be 1. The names of the activations are the keys of `ACTIVATIONS`.",
        ),
    ),
    guard(
        "check_ids",
        10,
        (ids_accepted, GOOD_IDS),
        (ids_refused, BAD_IDS),
        "What does not fit needs a ValueError whose words hold the name given and the numbers.",
        (
            "Kind, shape, length, range, in this order: each question makes sense only after the "
            "one before. Put `name` into every message.",
            "`ids.dtype` is `torch.int64` or `torch.int32`; `ids.dim()` is 2; `0 in ids.shape` "
            "finds an empty one; `ids.size(1)` is the length; the largest id allowed is "
            "`vocab_size - 1`.",
        ),
    ),
    guard(
        "check_same_batch",
        5,
        (batches_accepted, GOOD_BATCHES),
        (batches_refused, BAD_BATCHES),
        "What does not belong together needs a ValueError whose words hold the sizes.",
        (
            "Which sizes must be equal? B appears three times, S twice, and T may be anything.",
            "`memory.shape[:2]` is what `src.shape` must be; of the target, compare `size(0)`.",
        ),
    ),
)
