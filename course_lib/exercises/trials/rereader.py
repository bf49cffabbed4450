"""What is asked of Rereader: the model's own logits, row by row, also where rows change places."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome, describe
from course_lib.exercises.trial import Trial, value_trial
from course_lib.exercises.trials.small_models import SmallModel, small_model, talkative_transformer

PAD, MAX_LEN = 3, 9
SRC = torch.tensor([[6, 8, PAD, PAD], [7, 9, 10, 4], [8, 1, 2, PAD]])
TGT = torch.tensor([[5, 7, 8], [5, 6, 10], [5, 9, 9]])
MORE = torch.tensor([[5, 6, 2], [5, 10, 7], [5, 8, 1], [5, 6, 6], [5, 4, 7]])  # of five rows
LIKE_FORWARD = "The logits of the last place are those of `model(src, tgt)`."
KEPT = "After `reorder(rows)`, row i is what was row `rows[i]`: its source and its memory."


def last(logits: Any) -> Any:
    """Cut the last place out, of which alone something is asked."""
    if not isinstance(logits, Tensor) or logits.dim() != 3:
        return describe(logits)
    return logits[:, -1].detach()  # (B, V)


def scorer_case(label: str, build: Callable, says: str, *orders: Sequence[int]) -> Trial:
    """Compare the scores of a growing target, after rows have changed places, with forward's."""
    rows = torch.arange(len(SRC))
    for order in orders:
        rows = rows[torch.tensor(order)]
    tgt = MORE[: len(rows)] if orders else TGT

    def act(candidate: Callable) -> Outcome:
        """Build a scorer, reorder, and score; look whether the source is as it was."""
        given = SRC.clone()
        score = candidate(build(), given)
        for order in orders:
            score.reorder(torch.tensor(order))
        values = {f"logits after {T} tokens": last(score(tgt[:, :T])) for T in (1, 2, 3)}
        return Outcome(values, {}, () if torch.equal(given, SRC) else ("src",))

    def wanted() -> Outcome:
        """Run the whole model on every row by itself."""
        model, values = build(), {}
        for T in (1, 2, 3):
            alone = [model(SRC[i : i + 1], tgt[n : n + 1, :T]) for n, i in enumerate(rows.tolist())]
            values[f"logits after {T} tokens"] = torch.cat(alone)[:, -1].detach()
        return Outcome(values)

    return Trial(label, act, wanted, says=says)


def encodings(candidate: Callable) -> dict[str, int]:
    """Count how often the encoder runs while three tokens are scored."""
    model = small_model(SmallModel, PAD, MAX_LEN)
    score = candidate(model, SRC.clone())
    for T in (1, 2, 3):
        score(TGT[:, :T])
    return {"how often the encoder ran": len(model.modes["encoder"])}


def quick() -> SmallModel:
    """Build the quick model."""
    return small_model(SmallModel, PAD, MAX_LEN)


EXERCISES = (
    Exercise(
        "Rereader",
        "decoding",
        10,
        (
            scorer_case("a small model", quick, LIKE_FORWARD),
            value_trial(
                "a look at the encoder",
                encodings,
                {"how often the encoder ran": 1},
                says="The source does not change: encode it once, in `__init__`.",
            ),
            scorer_case("reorder([2, 0, 1])", quick, KEPT, [2, 0, 1]),
            scorer_case("more rows than before", quick, KEPT, [1, 1, 0, 2, 2]),
            scorer_case(
                "reorder([2, 0, 1]), and then reorder([2, 2])", quick, KEPT, [2, 0, 1], [2, 2]
            ),
            scorer_case(
                "a Transformer",
                lambda: talkative_transformer(PAD, MAX_LEN).eval(),
                LIKE_FORWARD,
                [0, 2, 1, 0],
            ),
        ),
        (
            "`__init__` keeps model and source, and calls `model.encode(src)`; a call is one "
            "`model.decode(tgt, memory, src)`.",
            "A tensor of row numbers is an index: `x[rows]` holds row `rows[i]` of x at place i. "
            "`reorder` does so with the source and with the memory.",
        ),
    ),
)
