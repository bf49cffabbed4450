"""What is asked of beams: the penalty, one round, and the search, beside lists of candidates."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trial import Trial, normal, observe, value_trial
from course_lib.exercises.trials.beam_search import SEARCH

EOS, PAD, BOS = 4, 3, 5
PENALTY = "((5 + lengths) / 6) ** alpha: the length counts twice over, α is an exponent."


def penalties(candidate: Callable) -> dict[str, Any]:
    """Ask for some penalties, of whole numbers and of others."""
    lengths = torch.tensor([[1, 2, 7], [13, 25, 49]])
    return {
        "alpha=0.6": candidate(lengths, 0.6),
        "alpha=1": candidate(lengths.float(), 1.0),
        "alpha=0": candidate(lengths, 0.0),
    }


def right_penalties() -> dict[str, Tensor]:
    """Work the same out number by number."""
    rows = [[1, 2, 7], [13, 25, 49]]
    return {
        name: torch.tensor([[math.exp(a * math.log((5 + n) / 6)) for n in row] for row in rows])
        for name, a in (("alpha=0.6", 0.6), ("alpha=1", 1.0), ("alpha=0", 0.0))
    }


def round_by_lists(
    log_probs: Tensor, tgt: Tensor, totals: Tensor, eos_id: int, pad_id: int, *, alpha: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Write every continuation of every beam into a list, and sort it."""
    rows, written, sums = [], [], []
    K, V = log_probs.shape[1:]
    for b, beams in enumerate(tgt.tolist()):
        candidates = []
        for k, line in enumerate(beams):
            length = sum(token != pad_id for token in line[1:])
            if eos_id in line:
                steps, length = [(pad_id, 0.0)], length
            else:
                steps, length = list(enumerate(log_probs[b, k].tolist())), length + 1
                del steps[pad_id]
            for token, step in steps:
                total = totals[b, k].item() + step
                score = total / ((5 + length) / 6) ** alpha
                candidates.append((score, k, token, total))
        best = sorted(candidates, key=lambda one: -one[0])[:K]
        rows += [b * K + k for _, k, _, _ in best]
        written.append([[*beams[k], token] for _, k, token, _ in best])
        sums.append([total for *_, total in best])
    return torch.tensor(rows), torch.tensor(written), torch.tensor(sums)


def beams_of(lines: list[list[list[int]]]) -> Tensor:
    """Fill beams up with padding, bos before each: ``(B, K, T)``."""
    longest = max(len(line) for beams in lines for line in beams)
    return torch.tensor(
        [[[BOS, *x, *[PAD] * (longest - len(x))] for x in beams] for beams in lines]
    )


def round_case(
    label: str, lines: list, totals: list, says: str, alpha: float = 0.6, V: int = 7, **liked: float
) -> Trial:
    """Compare one round with the lists.

    Args:
        label: What is special about it.
        lines: What the beams have written.
        totals: Their log-probabilities.
        says: What a wrong value means here.
        alpha: Strength of the penalty.
        V: Size of the vocabulary.
        **liked: How much likelier than others eos and padding are made.
    """
    tgt = beams_of(lines)
    logits = normal(label, *tgt.shape[:2], V)
    logits[..., EOS] += liked.get("eos", 0.0)
    logits[..., PAD] += liked.get("pad", 2.0)
    given = {
        "log_probs": logits.log_softmax(dim=-1),
        "tgt": tgt,
        "totals": torch.tensor(totals),
        "eos_id": EOS,
        "pad_id": PAD,
    }

    def act(candidate: Callable) -> Outcome:
        """Call it on copies; gradients do not matter."""
        names = ("rows", "tgt", "totals")
        seen = observe(lambda now: candidate(*now.values(), alpha=alpha), given, names)
        return Outcome(seen.values, {}, seen.changed)

    return Trial(label, act, lambda: act(round_by_lists), says=says)


def many_case(label: str, alpha: float, says: str) -> Trial:
    """Let many beams of all lengths compete whose scores lie close together."""
    B, K, V, T = 8, 5, 9, 6
    ends = normal(f"ends of {label}", B, K, T).argmax(dim=-1)  # 0: goes on
    tgt = torch.full((B, K, T), 6)
    tgt[..., 0] = BOS
    place = torch.arange(T)
    tgt[(place == ends.unsqueeze(-1)) & (ends.unsqueeze(-1) > 0)] = EOS
    tgt[(place > ends.unsqueeze(-1)) & (ends.unsqueeze(-1) > 0)] = PAD
    lengths = torch.where(ends > 0, ends, T)
    totals = -(((5 + lengths) / 6) ** alpha) * (2 + 0.3 * normal(f"totals of {label}", B, K))
    totals[ends == 0] += 0.6
    logits = 2 * normal(label, B, K, V)
    given = dict(log_probs=logits.log_softmax(dim=-1), tgt=tgt, totals=totals)

    def act(candidate: Callable) -> Outcome:
        """Call it on copies."""
        names = ("rows", "tgt", "totals")
        how = dict(eos_id=EOS, pad_id=PAD, alpha=alpha)
        seen = observe(lambda now: candidate(*now.values(), **how), given, names)
        return Outcome(seen.values, {}, seen.changed)

    return Trial(label, act, lambda: act(round_by_lists), says=says)


ROUND = (
    "All continuations of all beams of a sentence compete, by the sum over the whole beginning "
    "divided by the penalty; rows, beginnings and sums of the best come out, best first."
)
STAYS = (
    "A beam that has ended stays: padding is its one continuation and costs nothing, and its "
    "length stays, too."
)
GOING = [[[6, 1, 2], [6, 0, 1], [0, 2, 2]], [[1, 1, 6], [2, 6, 0], [6, 2, 0]]]
MIXED = [[[6, 1, 2], [6, EOS], [EOS]], [[1, EOS], [2, 6, EOS], [6, 2, 0]]]
NONE = -math.inf


def never_padding(candidate: Callable) -> dict[str, bool]:
    """Let padding be the likeliest by far, and look where it comes."""
    tgt = beams_of(MIXED)
    logits = normal("padding is liked", 2, 3, 7)
    logits[..., PAD] += 9.0
    totals = torch.tensor([[-3.0, -4.0, -5.0], [-3.0, -4.0, -5.0]])
    _, new, _ = candidate(logits.log_softmax(dim=-1), tgt, totals, EOS, PAD, alpha=0.6)
    over = (new[..., :-1] == EOS).any(dim=-1)
    return {
        "a beam that goes on gets padding": bool((new[..., -1][~over] == PAD).any()),
        "a beam that has ended gets words": bool((new[..., -1][over] != PAD).any()),
    }


EXERCISES = (
    Exercise(
        "length_penalty",
        "decoding",
        5,
        (
            value_trial(
                "some lengths", penalties, right_penalties(), stage="equality", says=PENALTY
            ),
        ),
        (
            "Five more than the length, divided by six: 1 for a single token.",
            "The exponent is alpha: `((5 + lengths) / 6) ** alpha`.",
        ),
    ),
    Exercise(
        "beam_step",
        "decoding",
        40,
        (
            round_case("beams that go on", GOING, [[-2.0, -2.2, -2.9], [-1.0, -3.0, -3.1]], ROUND),
            round_case("alpha=0", GOING, [[-2.0, -2.2, -2.3], [-3.0, -3.2, -3.3]], ROUND, 0.0),
            round_case(
                "beams that end in this round",
                GOING,
                [[-2.0, -2.2, -2.3], [-3.0, -3.2, -3.3]],
                ROUND,
                1.0,
                eos=3.0,
            ),
            many_case("many beams", 0.6, STAYS),
            many_case("many beams and alpha=2", 2.0, STAYS),
            round_case(
                "beams that have ended",
                MIXED,
                [[-6.0, -3.5, -3.0], [-4.0, -4.1, -4.4]],
                STAYS,
                pad=0.0,
            ),
            round_case(
                "beams that have ended, and alpha=1",
                MIXED,
                [[-6.0, -6.5, -5.0], [-7.0, -7.1, -7.4]],
                STAYS,
                1.0,
                eos=1.0,
            ),
            value_trial(
                "a look at padding",
                never_padding,
                dict.fromkeys(
                    ("a beam that goes on gets padding", "a beam that has ended gets words"), False
                ),
                says="Padding is for beams that have ended, and only for them.",
            ),
            round_case(
                "the first round, with one beam",
                [[[], [], []], [[], [], []]],
                [[0.0, NONE, NONE], [0.0, NONE, NONE]],
                ROUND,
            ),
            round_case("one beam", [[[6, 1]], [[0, 2]]], [[-3.0], [-2.0]], ROUND),
            round_case(
                "sizes that are all equal",
                [[[6, 1, k, 0]] * 5 for k in (0, 1, 2, 6, 0)],
                [[-2.0 - 0.3 * k for k in range(5)]] * 5,
                ROUND,
                V=5,
            ),
        ),
        (
            "Make the sums `(B, K, V)` first: each beam's total plus the log-probability of each "
            "token. For a beam that has ended: padding costs 0, everything else is `-inf`.",
            "Divide by `length_penalty` of the lengths with the new token. Flatten K and V "
            "into one axis, and take `topk(K)`: `best // V` is the beam, `best % V` the token.",
            "Row `rows[i]` of the B·K rows is beam `best // V` of sentence b: `b * K + beam`. Take "
            "`tgt` from there, put the token behind it, and `gather` the *sums*, not the scores.",
        ),
    ),
    *SEARCH,
)
