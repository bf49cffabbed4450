"""What is asked of beam_search: the beams that lists of sentences give, whoever scores."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome, describe
from course_lib.exercises.trial import Trial, value_trial
from course_lib.exercises.trials.decoding_fixtures import (
    BOS,
    EOS,
    LONG,
    MAX_LEN,
    PAD,
    SHORT,
    SOURCES,
    SPECIAL,
    script,
    side_by_side,
    told,
    write_alone,
)
from course_lib.exercises.trials.small_models import SmallModel, small_model, talkative_transformer


def quick() -> nn.Module:
    """Build the quick model."""
    return small_model(SmallModel, PAD, MAX_LEN)


class Remembering:
    """Score the opposite, read only what is new, and remember the rest: rows must stay in step.

    Args:
        model: What scores.
        src: Its source.
    """

    def __init__(self, model: nn.Module, src: Tensor) -> None:
        self.model, self.src, self.memory = model, src, model.encode(src)
        self.read = src.new_zeros(len(src), 0)  # (B, T)

    def __call__(self, tgt: Tensor) -> Tensor:
        """Score the last place: ``(B, 1, V)``."""
        self.read = torch.cat([self.read, tgt[:, self.read.size(1) :]], dim=1)
        return -self.model.decode(self.read, self.memory, self.src)[:, -1:]

    def reorder(self, rows: Tensor) -> None:
        """Reorder all that is remembered."""
        self.src, self.memory, self.read = self.src[rows], self.memory[rows], self.read[rows]


def search_alone(
    model: nn.Module, sentence: list[int], K: int, alpha: float, limit: int, sign: int
) -> list:
    """Keep a list of the best beginnings of one sentence: the whole model again for each."""
    src, beams = torch.tensor([sentence]), [(0.0, 0.0, [BOS])]
    for _ in range(limit):
        pool = []
        for score, total, line in beams:
            if EOS in line:
                pool.append((score, total, line))
                continue
            with torch.no_grad():
                scores = sign * model(src, torch.tensor([line]))[0, -1]  # (V,)
            steps = scores.log_softmax(dim=-1).tolist()
            for token, step in enumerate(steps):
                if token != PAD:
                    new = ((5 + len(line)) / 6) ** alpha
                    pool.append(((total + step) / new, total + step, [*line, token]))
        beams = sorted(pool, key=lambda one: -one[0])[:K]
    return beams


def shown(result: Any) -> dict[str, Any]:
    """Write every beam down, and its score."""
    if not isinstance(result, tuple | list) or len(result) != 2:
        return {"returned": describe(result)}
    ids, scores = result
    if not isinstance(ids, Tensor) or ids.dim() != 3 or not isinstance(scores, Tensor):
        return {"ids": describe(ids), "scores": describe(scores)}
    names = {BOS: "bos", EOS: "eos", PAD: "pad"}
    rows = [[" ".join(names.get(i, str(i)) for i in beam) for beam in row] for row in ids.tolist()]
    return {"ids": rows, "scores": scores.detach().float()}


def searched_case(
    label: str,
    build: Callable[[], nn.Module],
    src: Tensor,
    says: str,
    K: int = 3,
    alpha: float = 0.6,
    **options: Any,
) -> Trial:
    """Compare the beams with those that each sentence gives alone."""
    sign = -1 if "scorer" in options else 1
    limit = options.get("max_new_tokens", MAX_LEN)

    def act(candidate: Callable) -> Outcome:
        """Search, and look whether the source is as it was."""
        given, how = src.clone(), dict(beam_size=K, alpha=alpha) | SPECIAL | options
        with torch.enable_grad():
            values = shown(candidate(build(), given, **how))
        return Outcome(values, {}, () if torch.equal(given, src) else ("src",))

    def wanted() -> Outcome:
        """Search for every sentence by itself."""
        model = build().eval()
        rows = [[i for i in row if i != PAD] for row in src.tolist()]
        found = [search_alone(model, row, K, alpha, limit, sign) for row in rows]
        longest = max(len(line) for beams in found for *_, line in beams)
        ids = [[line[1:] + [PAD] * (longest - len(line)) for *_, line in one] for one in found]
        scores = torch.tensor([[score for score, *_ in one] for one in found])
        return Outcome(shown((torch.tensor(ids), scores)))

    return Trial(label, act, wanted, says=says)


def one_beam(candidate: Callable) -> dict[str, Any]:
    """Search with one beam."""
    model = quick().train()
    result = candidate(model, FEW.clone(), **SPECIAL, beam_size=1)
    ids = result[0] if isinstance(result, tuple | list) else result
    return told(ids[:, 0] if isinstance(ids, Tensor) and ids.dim() == 3 else ids)


def traces(candidate: Callable) -> dict[str, bool]:
    """Look for dropout and gradients, during and after."""
    model = script(training=True)
    with torch.enable_grad():
        candidate(model, SOURCES.clone(), **SPECIAL, beam_size=2)
        after = torch.is_grad_enabled()
    return {
        "it writes in training mode": any(sum(model.modes.values(), [])),
        "gradients are kept": any(model.with_gradients),
        "it comes back in training mode": model.training,
        "gradients are on again": after,
    }


SEARCHED = (
    "Each sentence's K best beginnings, round by round: what ended stays, the rest goes on; best "
    "first, padding behind eos, and the score is the log-probability divided by the penalty."
)

FEW = SHORT[:3]
GREEDY = side_by_side(
    [write_alone(quick().eval(), [i for i in row if i != PAD]) for row in FEW.tolist()]
)

SEARCH = (
    Exercise(
        "beam_search",
        "decoding",
        40,
        (
            searched_case("three beams", quick, FEW, SEARCHED),
            searched_case("alpha=0", quick, FEW, SEARCHED, max_new_tokens=5, alpha=0.0),
            searched_case("alpha=4", quick, FEW, SEARCHED, alpha=4.0),
            searched_case(
                "max_new_tokens=2",
                quick,
                FEW,
                "No more than max_new_tokens are written, and no fewer while a beam goes on.",
                max_new_tokens=2,
            ),
            value_trial(
                "one beam",
                one_beam,
                GREEDY,
                stage="equality",
                says="One beam is greedy decoding.",
            ),
            searched_case(
                "a scorer that remembers what it read",
                quick,
                FEW,
                "`scorer(model, src)` makes what scores; where a beam goes on from another row, "
                "tell it: `score.reorder(rows)`.",
                scorer=Remembering,
                max_new_tokens=5,
            ),
            searched_case(
                "a Transformer",
                lambda: talkative_transformer(PAD, MAX_LEN).eval(),
                LONG,
                SEARCHED,
                K=2,
                max_new_tokens=6,
            ),
            value_trial(
                "a look at what it leaves behind",
                traces,
                {
                    "it writes in training mode": False,
                    "gradients are kept": False,
                    "it comes back in training mode": True,
                    "gradients are on again": True,
                },
                stage="train and eval",
                says="The search stands in the frame: `with generation_mode(…) as limit:`.",
            ),
        ),
        (
            "Inside `generation_mode`: a scorer for B rows, and `score.reorder` with every row K "
            "times; `tgt` `(B, K, 1)` of bos; totals 0 for the first beam, -inf for the others.",
            "Each round: score `tgt.flatten(0, 1)`, take the last place's `log_softmax`, `(B, K, "
            "V)`, then `beam_step`, then `score.reorder(rows)`.",
            "Stop at the limit, or when all beams have written eos. The scores are the totals "
            "divided by the penalty of the tokens that are no padding.",
        ),
    ),
)
