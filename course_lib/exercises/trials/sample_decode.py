"""What is asked of sample_decode: that all it is given arrives where it belongs."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import Trial, value_trial
from course_lib.exercises.trials.decoding_fixtures import (
    ENDS,
    EOS,
    PAD,
    SOURCES,
    SPECIAL,
    Rigged,
    script,
    side_by_side,
    told,
)
from course_lib.exercises.trials.small_models import small_config

ROWS = 6000


class Even(nn.Module):
    """Like one token better than nine others, always, and padding best of all."""

    config = small_config(PAD, 9)

    def encode(self, src: Tensor) -> Tensor:
        """Keep the ids."""
        return src

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Score: ``(B, T, V)``."""
        logits = torch.zeros(11)
        logits[7], logits[PAD] = 1.0, 2.0
        return logits.expand(*tgt.shape, 11)


def first_words(candidate: Callable) -> dict[str, Any]:
    """Write one token for many equal sentences, and look how often it is the one."""
    shown, sources = {}, torch.full((ROWS, 1), 6)
    for how in ({}, dict(temperature=0.33), dict(top_k=3), dict(top_p=0.2)):
        ids = candidate(Even(), sources, **SPECIAL, max_new_tokens=1, **how)
        often = (ids[:, 0] == 7).float().mean().item() if isinstance(ids, Tensor) else -1
        shown[", ".join(f"{k}={v}" for k, v in how.items()) or "as it is"] = f"about {often:.1f}"
    return shown


def greedily(label: str, lines: list[list[int]], says: str, **options: Any) -> Trial:
    """Leave one choice only: what comes is what greedy decoding writes."""
    return value_trial(
        label,
        lambda candidate: told(candidate(script(), SOURCES.clone(), **SPECIAL, top_k=1, **options)),
        side_by_side(lines),
        stage="equality",
        says=says,
    )


def sentences(candidate: Callable) -> dict[str, bool]:
    """Write with generators of the same seed, and of another; look at the ends."""
    rows = SOURCES.repeat(20, 1)

    def write(seed: int) -> Tensor:
        """Write with a generator of one's own."""
        dice = torch.Generator().manual_seed(seed)
        return candidate(script(), rows, **SPECIAL, generator=dice)

    first, again, other = write(1), write(1), write(2)
    late = [row[row.index(EOS) + 1 :] for row in first.tolist() if EOS in row]
    return {
        "the same generator writes the same": torch.equal(first, again),
        "another one writes other sentences": not torch.equal(first, other),
        "padding only behind the end": bool(late) and all(set(x) <= {PAD} for x in late),
    }


SENTENCES = (
    Exercise(
        "sample_decode",
        "decoding",
        10,
        (
            greedily(
                "top_k=1",
                ENDS,
                "Where one choice is left, it writes what greedy decoding writes.",
            ),
            value_trial(
                "one token, many times",
                first_words,
                {
                    "as it is": "about 0.2",
                    "temperature=0.33": "about 0.7",
                    "top_k=3": "about 0.6",
                    "top_p=0.2": "about 1.0",
                },
                says="temperature, top_k and top_p all go to `sample_tokens`.",
            ),
            value_trial(
                "generators",
                sentences,
                {
                    "the same generator writes the same": True,
                    "another one writes other sentences": True,
                    "padding only behind the end": True,
                },
                says="The random numbers come from `generator`; rows end as in greedy decoding.",
            ),
            greedily(
                "max_new_tokens=2",
                [line[:2] for line in ENDS],
                "All other options go to `greedy_decode`.",
                max_new_tokens=2,
            ),
            greedily(
                "a scorer of another kind",
                ENDS[1:] + ENDS[:1],
                "All other options go to `greedy_decode`.",
                scorer=Rigged,
            ),
        ),
        (
            "Nothing of the loop is written again: `greedy_decode(…, choose=…)`.",
            "`partial(sample_tokens, temperature=temperature, …)` is `sample_tokens` with some "
            "arguments filled in.",
        ),
    ),
)
