"""What is asked of chapter 18: windows of a text, and a decoder without an encoder."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.module_checks import TORCHS, keeps_still, loudness, reach, sees_later
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trial import (
    Trial,
    by_name,
    filled,
    looks,
    module_trial,
    names_trial,
    normal,
    parameters_trial,
)
from course_lib.exercises.trials.transformer import APART, WIDE
from course_lib.transformer import TransformerConfig

TEXT = normal("a text", 40).argsort() + 50  # 40 tokens, 50 … 89, no two alike
READ, PREDICTED = "what is read", "what is to be predicted"

SINES = replace(APART, num_decoder_layers=2, max_len=6)  # pad_id is a token like any other
PRE_NORM = replace(SINES, norm_first=True, activation="gelu")
IDS = torch.tensor([[1, 4, 0, 6, 3], [3, 7, 8, 2, 9]])
PARTS = (
    "The parts are embedding, positions, stack (an `Encoder` of num_decoder_layers) and output, "
    "which has no bias and shares the embedding's matrix."
)


def drawn(candidate: Callable, size: int, batch: int, length: int, *more: Any) -> list[Tensor]:
    """Draw windows of a text, and say where in it their tokens stand; far off, for strangers."""
    answer = candidate(TEXT[:size].clone(), batch, length, *more)
    pair = list(answer) if isinstance(answer, tuple | list) else [answer]
    if len(pair) != 2 or not all(isinstance(x, Tensor) for x in pair):
        raise TypeError(f"two tensors should come out, and not {describe(answer)}")
    where = torch.full((100,), -1000)
    where[TEXT] = torch.arange(len(TEXT))
    return [where[x.long().clamp(0, 99)] for x in pair]


@looks(
    "a text of tokens that all differ",
    "A window is a part of the text as it stands there; the target of every position is the token "
    "that follows.",
)
def steps(candidate: Callable) -> dict[str, str]:
    """Measure from token to token, in many windows."""
    read, predicted = drawn(candidate, 12, 300, 4)
    different = {"one token to the next": read.diff(dim=1), "a token to its target":
                 predicted - read}  # fmt: skip
    found = {name: sorted(set(x.flatten().tolist())) for name, x in different.items()}
    return {f"steps from {name}": str(n) if len(n) < 4 else "many" for name, n in found.items()}


@looks(
    "2,000 windows of 4 from a text of 9",
    "Every window that fits is equally likely, whatever the others are: each row draws a start of "
    "its own, from 0 … len(ids) - length - 1.",
)
def starts(candidate: Callable) -> dict[str, str]:
    """Count where in a text of 9 tokens windows of 4 start, in tenths."""
    first = drawn(candidate, 9, 2000, 4)[0][:, 0].clamp(0, 9).tolist()
    found = {f"windows that start at {n}": f"{first.count(n) / 2000:.1f}" for n in range(10)}
    return found | {"different pairs of neighbours": str(len({*zip(first, first[1:])}))}  # noqa: B905


@looks(
    "a text as long as one window",
    "A window takes length + 1 tokens; here that is the whole text.",
    kind="equality",
)
def whole_text(candidate: Callable) -> dict[str, Tensor]:
    """Draw from a text that holds one window."""
    return dict(zip((READ, PREDICTED), drawn(candidate, 5, 2, 4), strict=True))


@looks("generators", "The random numbers come from `generator`, as it stands.")
def generators(candidate: Callable) -> dict[str, bool]:
    """Draw with generators of the same seed, with another, and twice with one."""
    one = torch.Generator().manual_seed(1)
    first, later = (drawn(candidate, 40, 30, 8, one)[0] for _ in range(2))
    again, other = (
        drawn(candidate, 40, 30, 8, torch.Generator().manual_seed(seed))[0] for seed in (1, 2)
    )
    return {
        "the same generator gives the same windows": first.equal(again),
        "another one gives others": not first.equal(other),
        "a second call gives others": not first.equal(later),
    }


def scored(label: str, config: TransformerConfig, ids: Tensor = IDS, **build: Any) -> Trial:
    """Compare logits, and the gradients of all parameters."""
    return module_trial(label, {"config": config} | build, {"ids": ids}, ("logits",))


@looks(
    "a look at who sees whom",
    "A row sees what stands before it, in its order, and never what comes later, in training and "
    "in eval mode.",
)
def who_sees_whom(candidate: Callable) -> dict[str, bool]:
    """Change later tokens, an earlier one, and the order of earlier ones; look who notices."""
    model = filled(candidate(replace(SINES, num_decoder_layers=1)))
    later, earlier, swapped = IDS.clone(), IDS.clone(), IDS[:, [1, 0, 2, 3, 4]]
    later[:, 3:] = (IDS[:, 3:] + 1) % 10
    earlier[:, 0] = (IDS[:, 0] + 1) % 10
    found = sees_later(model, 3, (IDS,), (later,))
    for what, ids in (("an earlier token", earlier), ("the order of earlier tokens", swapped)):
        change = (model(ids) - model(IDS))[:, -1].abs().amax(dim=-1)
        found[f"{what} is seen"] = bool((change > 1e-4).all())
    return found


@looks("a new model", "Every matrix starts as `initialize` says, the tied one as an embedding.")
def new_model(candidate: Callable) -> dict[str, float]:
    """Measure how a new model starts, to a tenth of what is right."""
    named = by_name(candidate(WIDE))
    table = named["embedding.weight"].detach()
    linear = named["stack.layers.0.feed_forward.linear1.weight"].detach()
    return {
        "standard deviation of the embedding": loudness(table),
        "largest weight of a linear layer": reach(linear),
    }


EXERCISES = (
    Exercise(
        "random_windows",
        "decoder_only",
        12,
        core={"windows": (steps, whole_text), "start": (starts,)},
        hints=(
            "How many tokens does a window take out of the text, if `length` are read and each of "
            "them has a successor? Where can the last such window begin?",
            "`torch.randint(end, (batch_size, 1), generator=generator)` draws a column of "
            "positions, 0 … end - 1. Add `torch.arange(length + 1)`: every row counts on from its "
            "own.",
            "A tensor of positions is an index: `ids[starts + torch.arange(length + 1)]`. All "
            "columns but the last are read, all but the first are to be predicted.",
        ),
        extras={"generator": (generators,)},
    ),
    Exercise(
        "DecoderOnly",
        "decoder_only",
        20,
        core={
            "parameters": (parameters_trial({"config": SINES}, PARTS),),
            "logits": (
                who_sees_whom,
                scored("sines and post-norm", SINES),
                scored("one token", SINES, IDS[:, :1]),
                scored("max_len tokens", SINES, torch.cat([IDS, IDS[:, :1]], dim=1)),
            ),
            "norm_first": (
                parameters_trial({"config": PRE_NORM}, PARTS),
                scored("norm_first and gelu in the config", PRE_NORM),
            ),
            "initialization": (new_model,),
        },
        hints=(
            "It is chapter 09's `Transformer` without its left half: four parts, embedding, "
            "positions, stack, output. What hides the future, if there is no padding?",
            "`Encoder(c.num_decoder_layers, c.d_model, c.num_heads, c.d_ff, c.dropout, "
            "c.norm_first, c.activation, d_k=c.d_k, d_v=c.d_v)`; then tie "
            "`self.output.weight = self.embedding.weight`, and `initialize(self)` last.",
            "In `forward`: `check_ids`, look up, times √d_model, positions, the stack under "
            "`causal_mask(ids.size(1), ids.device)`, and `self.output`.",
        ),
        shortcuts=TORCHS,
        extras={
            "learned_positions": (
                scored("learned_positions=True", PRE_NORM, learned_positions=True),
            ),
            "d_k, d_v": (scored("d_k=5 and d_v=7", replace(SINES, d_k=5, d_v=7)),),
            "dropout": (
                keeps_still({"config": replace(SINES, dropout=0.5)}, {"ids": IDS}),
                module_trial(
                    "dropout=1.0 in training",
                    {"config": replace(SINES, dropout=1.0)},
                    {"ids": IDS},
                    training=True,
                    kind="train and eval",
                    says="Dropout acts on embeddings with their positions, and on the output of "
                    "every sub-layer.",
                ),
            ),
            "names": (names_trial({"config": SINES}),),
        },
    ),
)
