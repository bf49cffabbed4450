"""Exercises for chapter 14: trials, known mistakes and correct answers."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.trial import (
    Trial,
    as_trial,
    function_trial,
    normal,
    outputs_only,
)

B, K, V = 2, 3, 11
EOS, PAD = 4, 7  # neither has its usual id
NAMES = ("parents", "tokens", "totals", "ended")
TOTALS = torch.tensor([[-1.0, -1.2, -1.9], [-2.0, -2.1, -4.0]])
FIRST = torch.tensor([[0.0, -math.inf, -math.inf]] * B)
OF_ALL = (
    "A continuation's total is its hypothesis's total plus the log-probability of the token. Keep "
    "the K best for each sentence."
)
ENDS = (
    "An end is not kept in the beam. Its total is returned in `ended` if it is among the K best of "
    "all continuations of its sentence, ends included."
)


def logits_for(name: str, raised: dict[tuple[int, ...], float]) -> Tensor:
    """Return random logits (B, K, V); ``raised`` adds to some, by sentence, hypothesis, token."""
    logits = normal(name, B, K, V)
    logits[..., [EOS, PAD]] -= 3
    for place, amount in raised.items():
        logits[place] += amount
    return logits


def extended(label: str, logits: Tensor, totals: Tensor, says: str) -> Trial:
    """Compare the continuations that are kept, and the ends."""
    inputs = {"logits": logits, "totals": totals, "eos_id": EOS, "pad_id": PAD}
    return outputs_only(function_trial(label, inputs, NAMES, says=says))


def language(
    label: str, words: tuple[str, ...], beam: list[str], probs: list[list[float]], says: str
) -> Trial:
    """Describe what exists of the next beam and of the ends, for one sentence with likely ends.

    ``probs`` has the probability of each hypothesis, and then those of its next words.
    """

    @as_trial(label, says)
    def measure(candidate: Callable[..., Any]) -> dict[str, str]:
        table = torch.tensor(probs).log()[None]  # (1, K, 1 + V)
        parents, tokens, totals, ended = (
            x[0].tolist() for x in candidate(table[..., 1:], table[..., 0], words.index("end"), 0)
        )
        kept = [
            f"{beam[parent]} {words[token]} {math.exp(total):.2f}"
            for parent, token, total in zip(parents, tokens, totals, strict=True)
            if total > -math.inf
        ]
        finished = [
            f"{line} {math.exp(total):.2f}"
            for line, total in zip(beam, ended, strict=True)
            if total > -math.inf
        ]
        return {"kept": ", ".join(kept), "finished": ", ".join(finished) or "nothing"}

    return measure


EXERCISES = (
    Exercise(
        "beam_step",
        25,
        core={
            "continuations": (
                extended("unlikely ends", logits_for("plain", {}), TOTALS, OF_ALL),
                language(
                    "step 2 of the chapter's table",
                    ("pad", "end", "is", "rains", "falls"),
                    ["it", "rain"],
                    [[0.5, 0, 0.2, 0.5, 0.3, 0], [0.3, 0, 0.1, 0, 0, 0.9]],
                    "*rain falls* (0.27) overtakes *it is* (0.25), and nothing finishes: *it* end "
                    "(0.10) is not among the two best.",
                ),
                extended(
                    "the first step, with one hypothesis", logits_for("first", {}), FIRST, OF_ALL
                ),
            ),
            "padding": (
                extended(
                    "padding that is likely",
                    logits_for("padded", {(0, 1, PAD): 6, (1, 0, PAD): 5}),
                    TOTALS,
                    "Padding is never chosen, but it keeps its probability: set its total to -inf "
                    "after the log-softmax.",
                ),
            ),
            "ends": (
                extended(
                    "one end among the K best",
                    logits_for("one end", {(0, 0, EOS): 8, (0, 2, EOS): 5, (1, 1, EOS): 4}),
                    TOTALS,
                    ENDS,
                ),
                extended(
                    "K ends in a sentence",
                    logits_for("all end", {(1, k, EOS): 9 for k in range(K)}),
                    torch.tensor([[-1.0, -1.2, -1.9], [-2.0, -2.1, -2.2]]),
                    ENDS,
                ),
                language(
                    "an end in the third place, of two",
                    ("pad", "end", "is", "rains"),
                    ["it", "snow"],
                    [[0.5, 0, 0.3, 0.5, 0.2], [0.3, 0, 0.9, 0.1, 0]],
                    ENDS,
                ),
            ),
            "any beam": (
                language(
                    "more hypotheses than words",
                    ("pad", "end", "ha"),
                    ["ha", "nothing", "nothing", "nothing"],
                    [[0.7, 0, 0.2, 0.8], *3 * [[0, 0, 0.3, 0.7]]],
                    "A hypothesis whose total is -inf does not exist, and K can be larger than V.",
                ),
                extended(
                    "float64",
                    logits_for("double", {(0, 0, EOS): 6}).double(),
                    TOTALS.double(),
                    "The totals must have the dtype of the logits.",
                ),
            ),
        },
        hints=(
            "`totals.unsqueeze(-1) + logits.log_softmax(dim=-1)` has shape (B, K, V): the totals "
            "of all continuations. Which of them may never be chosen?",
            "Copy the column of `eos_id` with `clone`, and then set it and the column of `pad_id` "
            "to -inf. `sums.flatten(1).topk(K)` finds the K best of each sentence, and their "
            "places in the flat row. A place is parent · V + token.",
            "The K best of all continuations are among the K best that go on and the K ends. Join "
            "these 2K numbers with `torch.cat`. The K-th best of them is the lowest total with "
            "which an end counts.",
        ),
    ),
)


# known mistakes


SUMS = "totals.unsqueeze(-1) + logits.log_softmax(dim=-1)"
NO_PAD = 'sums[..., pad_id] = float("-inf")'
NO_END = 'sums[..., eos_id] = float("-inf")'
BEST = "best, places = sums.flatten(1).topk(K)"
BAR = "torch.cat([best, ended], dim=1).topk(K).values[:, -1:]"
UNLESS = 'ended.masked_fill(ended < bar, float("-inf"))'
OUT = "return places // V, places % V, best, ended"

MISTAKES = {
    "beam_step": {
        "totals_not_added: a continuation is judged by its last token alone, because the total of "
        "its hypothesis is "
        "not added": (SUMS, "0 * totals.unsqueeze(-1).clamp(min=-9) + logits.log_softmax(dim=-1)"),
        "totals_multiplied: the log-probabilities are multiplied, but a product of probabilities "
        "is a sum of logarithms": (SUMS, "totals.unsqueeze(-1) * logits.log_softmax(dim=-1)"),
        "softmax_for_log_softmax: probabilities are added to the totals, but the totals are "
        "log-probabilities": (SUMS, SUMS.replace("log_softmax", "softmax")),
        "logits_added: the logits are added without a log-softmax, so a hypothesis whose logits "
        "are all larger wins": (SUMS, "totals.unsqueeze(-1) + logits"),
        "softmax_over_hypotheses: the log-softmax runs over the K hypotheses instead of the V "
        "tokens": (SUMS, SUMS.replace("dim=-1", "dim=1")),
        "softmax_over_the_beam: one log-softmax runs over all K · V continuations, but every "
        "hypothesis has its own": (
            SUMS,
            "totals.unsqueeze(-1) + logits.flatten(1).log_softmax(dim=-1).view_as(logits)",
        ),
        "parents_and_tokens_exchanged: // and % are mixed up, so the parents are tokens and the "
        "tokens are parents": (OUT, "return places % V, places // V, best, ended"),
        "divided_by_K: a place in the flat row is divided by K, but each hypothesis has V places": (
            OUT,
            "return places // K, places % K, best, ended",
        ),
        "flattened_by_token: the flat row lists the K hypotheses of each token, so // V and % V "
        "read "
        "it wrongly": (BEST, BEST.replace("sums.flatten(1)", "sums.transpose(1, 2).flatten(1)")),
        "sentences_mixed: the beam of one sentence leaks into another's, because all sentences are "
        "sorted together": (
            BEST,
            "best, places = (x.view(-1, K) for x in sums.flatten().topk(K * len(sums)))",
        ),
        "rows_of_the_batch: the parents count the rows of the whole batch, but each sentence "
        "numbers its hypotheses from 0": (
            OUT,
            "rows = K * torch.arange(len(sums)).unsqueeze(1)\n    "
            "return places // V + rows, places % V, best, ended",
        ),
        "every_hypothesis_stays: each hypothesis is continued by its own best token, so these are "
        "K greedy searches": (
            BEST,
            "best, places = sums.max(dim=-1)\n    places = places + V * torch.arange(K)\n    "
            "best, order = best.sort(dim=1, descending=True)\n    places = places.gather(1, order)",
        ),
        "largest_of_each: the largest total of each hypothesis is taken, but the K best of a "
        "sentence are among all its K · V totals": (BEST, "best, places = sums.max(dim=-1)"),
        "worst_first: the K best continuations are returned in ascending order": (
            OUT,
            "return (places // V).flip(1), (places % V).flip(1), best.flip(1), ended",
        ),
        "ends_stay: a continuation that has ended stays in the beam, where it would be continued": (
            NO_END,
            "pass",
        ),
        "every_end_finishes: every hypothesis finishes in every step, even where its end is not "
        "among the K best continuations": (UNLESS, "ended"),
        "ends_of_2K_finish: ends among the 2K best continuations finish, as in tensor2tensor, "
        "instead of those among the "
        "K best": (BAR, "torch.cat([sums.flatten(1), ended], dim=1).topk(2 * K).values[:, -1:]"),
        "ends_not_counted: an end is compared only with continuations that go on, but other ends "
        "also take places among the K best": (BAR, "best[:, -1:]"),
        "ends_follow_the_new_order: `ended` is ordered like the new hypotheses, but it belongs to "
        "the old ones, "
        "which end": (OUT, "return places // V, places % V, best, ended.gather(1, places // V)"),
        "padding_chosen: padding can be chosen as the next token": (NO_PAD, "pass"),
        "padding_before_the_softmax: padding is removed before the log-softmax, which gives its "
        "probability to the other tokens": (
            SUMS,
            "totals.unsqueeze(-1) + "
            "logits.index_fill(2, torch.tensor(pad_id), -torch.inf).log_softmax(dim=-1)",
        ),
        "probabilities_returned: the totals are returned as probabilities instead of "
        "log-probabilities": (OUT, "return places // V, places % V, best.exp(), ended.exp()"),
        "kth_best_lost: an end that is the K-th best is left out": ("ended < bar", "ended <= bar"),
        "only_the_best_ends: an end finishes only if it is the best of all, not among the K best": (
            BAR,
            BAR.replace("-1:", ":1"),
        ),
        "better_than_all: an end finishes only if it is better than all that go on": (
            BAR,
            "best[:, :1]",
        ),
        "not_copied: `ended` is a view of the totals, so it becomes -inf, too": (".clone()", ""),
        "ends_without_totals: `ended` has only the log-probability of the end token, without "
        "the total of its hypothesis": ("ended = sums[", "ended = logits.log_softmax(dim=-1)["),
    },
}


# right answers

AFTER_SUMS = """sums[..., pad_id] = float("-inf")
    ended = sums[..., eos_id].clone()  # (B, K)
    sums[..., eos_id] = float("-inf")
    best, places = sums.flatten(1).topk(K)  # (B, K)
    bar = torch.cat([best, ended], dim=1).topk(K).values[:, -1:]  # (B, 1): the K-th best of all
    ended = ended.masked_fill(ended < bar, float("-inf"))
    return places // V, places % V, best, ended"""
RANKS = """sums[:, :, pad_id] = -torch.inf
    flat = sums.view(-1, K * V)
    ended = sums[:, :, eos_id]
    better = (flat.unsqueeze(1) > ended.unsqueeze(2)).sum(dim=2)
    ended = torch.where(better < K, ended, torch.full_like(ended, -torch.inf))
    is_end = torch.arange(K * V, device=flat.device).remainder(V) == eos_id
    best, places = flat.masked_fill(is_end, -torch.inf).sort(dim=1, descending=True)
    best, places = best[:, :K], places[:, :K]
    return torch.div(places, V, rounding_mode="floor"), places.remainder(V), best, ended"""
ANSWERS = {
    "beam_step": {
        "by_ranks: an end counts if fewer than K continuations are better": (AFTER_SUMS, RANKS),
    },
}
