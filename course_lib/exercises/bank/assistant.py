"""Exercises for chapter 23: trials, known mistakes and correct answers."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from course_lib.assistant import ChatTokens
from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.outcomes import Outcome
from course_lib.exercises.checking.trial import Trial, as_trial, function_trial, normal, observe

TOKENS = ChatTokens(user=7, assistant=8, end=9)
CHATS = torch.tensor([[7, 3, 4, 5, 8, 2, 1, 9, 0, 0], [7, 6, 3, 8, 1, 2, 4, 2, 5, 9],
                      [7, 5, 8, 4, 9, 0, 0, 0, 0, 0]])  # fmt: skip
TURNS = torch.tensor(  # an answer may contain id 0, which is not always padding
    [[7, 3, 8, 2, 9, 7, 4, 5, 8, 0, 6, 9, 0], [7, 1, 2, 8, 6, 4, 9, 7, 5, 8, 3, 9, 0]]
)
CUT_OFF = torch.tensor([[7, 3, 4, 8, 2, 1, 5], [7, 6, 2, 8, 4, 9, 0]])  # no room for [end]
REOPENED = torch.tensor([[7, 3, 8, 2, 7, 1, 8, 4, 9, 7, 5, 6]])  # the first answer is cut off
COUNTED = (
    "Column t refers to token t + 1. It is True if that token belongs to an answer, from the token "
    "after [assistant] through [end]."
)
PAIRS = {name: normal(name, 5) - 6 for name in ("chosen", "rejected")}
REFERENCE = [normal(name, 5) - 6 for name in ("ref_chosen", "ref_rejected")]
DPO = (
    "The loss is the mean of -log σ(β · difference), where the difference is the log-ratio of the "
    "chosen answer minus that of the rejected one."
)
MASK = torch.tensor([[0, 1, 1, 1, 0], [0, 0, 1, 1, 1], [1, 1, 0, 0, 0]]).bool()  # (B, L - 1)
ADVANTAGES = torch.tensor([1.5, -0.5, -1.0])
OLD, REF = (0.4 * normal(name, *MASK.shape) - 2 for name in ("old", "reference"))
REWARDS = torch.tensor(
    [[1.0, 0.0, 0.0, 1.0, 1.0], [0.5, 0.0, 2.0, 0.0, 0.0], [3.0, 4.0, 3.0, 1.0, 2.0]]
)
GRPO = (
    "A token's gain is the smaller of ratio · advantage and clipped ratio · advantage. Subtract "
    "kl_weight · KL, take the mean over each answer's tokens, then over the answers, and negate "
    "the result."
)


def masks(label: str, ids: Tensor) -> Trial:
    """Compare the masks for some chats."""
    return function_trial(label, {"ids": ids, "tokens": TOKENS}, ("mask",), says=COUNTED)


def learned(
    label: str, given: Mapping[str, Tensor], fixed: list, says: str, **options: Any
) -> Trial:
    """Compare a loss and its gradients; the fixed inputs may or may not be detached."""

    def measure(candidate: Callable[..., Tensor]) -> Outcome:
        others = [x.clone() for x in fixed]
        return observe(lambda now: candidate(*now.values(), *others, **options), given, ("loss",))

    return Trial(label, measure, says=says)


def preferred(label: str, size: float = 1.0, **options: Any) -> Trial:
    """Compare the DPO loss, and its gradients with respect to the model's log-probabilities."""
    given = {name: size * x for name, x in PAIRS.items()}
    return learned(label, given, REFERENCE, DPO, **options)


def reinforced(
    label: str, distance: float, mask: Tensor = MASK, garbage: bool = False, **options: Any
) -> Trial:
    """Compare the losses after an update; ``garbage`` puts -inf where the mask is False."""
    now = OLD + distance * normal("update", *MASK.shape)
    log_probs, *others = (x.masked_fill(~mask & garbage, -math.inf) for x in (now, OLD, REF))
    return learned(label, {"log_probs": log_probs}, [*others, ADVANTAGES, mask], GRPO, **options)


@as_trial("the reference model itself", "Both rewards are then 0, so the loss is ln 2.")
def same_model(candidate: Callable[..., Tensor]) -> dict[str, float]:
    return {"loss": float(candidate(*REFERENCE, *(x.clone() for x in REFERENCE)))}


def compared(label: str, rewards: Tensor, **options: Any) -> Trial:
    """Compare the advantages for some rewards."""
    says = "Subtract the mean of each row, and divide by the row's standard deviation + eps."
    return Trial(
        label,
        lambda candidate: Outcome({"advantages": candidate(rewards.clone(), **options).detach()}),
        says=says,
    )


EXERCISES = (
    Exercise(
        "answer_mask",
        15,
        core={
            "answers": (masks("three chats with padding", CHATS),),
            "several turns": (masks("two turns", TURNS),),
        },
        hints=(
            "An answer is open if the latest [assistant] comes after the latest [end].",
            "With places 1, 2, 3, …, `(place * (ids == tokens.assistant)).cummax(dim=1).values` is "
            "the place of the latest [assistant]. Compare it with the same for [end].",
            "Column t of the mask refers to token t + 1. Nothing follows the last token, so leave "
            "out the last column.",
        ),
        extras={
            "cut-off answer": (
                masks("an answer without [end]", CUT_OFF),
                masks("an answer without [end] before another", REOPENED),
                masks("[assistant] as the first token", CHATS[1:2, 3:]),
            ),
        },
    ),
    Exercise(
        "dpo_loss",
        10,
        core={
            "formula": (preferred("five pairs"), same_model),
            "beta": (preferred("beta=0.7", beta=0.7),),
        },
        hints=(
            "The implicit reward of an answer is beta times its log-ratio: the log-probability "
            "under the model minus the log-probability under the reference.",
            "The loss is the mean of `-F.logsigmoid(chosen_reward - rejected_reward)`.",
        ),
        extras={"large margins": (preferred("answers that are very unlikely", 400.0, beta=2.0),)},
        rejects=("(torch.ones(3), torch.ones(3), torch.ones(3), torch.ones(1))",),
    ),
    Exercise(
        "group_advantages",
        8,
        core={
            "groups": (compared("three groups of five", REWARDS),),
            "equal rewards": (compared("a group with equal rewards", REWARDS.clone().fill_(1.0)),),
        },
        hints=(
            "Each row is a group. Its mean is the baseline. Keep the axis so that the mean "
            "broadcasts.",
            "`(rewards - rewards.mean(dim=1, keepdim=True))`, divided by the row's `std` plus eps.",
        ),
        extras={
            "eps": (
                compared("eps=0.7", REWARDS, eps=0.7),
                compared("tiny rewards", REWARDS[:1] / 1e4),
            ),
        },
        rejects=("(torch.tensor([[0, 1]]))", "(torch.ones(3, 1))"),
    ),
    Exercise(
        "clipped_policy_loss",
        25,
        core={
            "first update": (reinforced("the model that sampled the answers", 0.0),),
            "clipping": (reinforced("a model after large updates", 0.5),),
        },
        hints=(
            "The ratio compares the model with the one that sampled the answers. You get "
            "log-probabilities from both, so subtract them and take the exponential.",
            "`torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages)`, where "
            "`advantages[:, None]` gives every token of an answer the same advantage.",
            "With r = ref_log_probs - log_probs, the KL term of a token is exp(r) - r - 1. "
            "Multiply by the mask, and divide each row's sum by its number of counted tokens.",
        ),
        extras={
            "clip": (reinforced("clip=0.05", 0.5, clip=0.05),),
            "kl_weight": (reinforced("kl_weight=0", 0.5, kl_weight=0.0),),
            "not counted": (
                reinforced("-inf where the mask is False", 0.5, garbage=True),
                reinforced("an answer without a counted token", 0.5, MASK & MASK[:, 1:2]),
            ),
        },
        rejects=(
            "(*3 * [torch.ones(2, 3)], torch.ones(2), torch.ones(2, 1) > 0)",
            "(*3 * [torch.ones(2, 3)], torch.ones(1), torch.ones(2, 3) > 0)",
        ),
    ),
)


# known mistakes


OPEN = "(opened > closed)[:, :-1]"
MARGIN = "chosen_reward - rejected_reward"
MEAN_STD = "rewards.mean(dim=1, keepdim=True), rewards.std(dim=1, keepdim=True)"
CLAMPED = "ratio.clamp(1 - clip, 1 + clip) * advantages"
GAIN = f"torch.min(ratio * advantages, {CLAMPED})"
PER_ANSWER = "(objective.sum(dim=1) / mask.sum(dim=1).clamp(min=1)).mean()"

MISTAKES = {
    "answer_mask": {
        "prompt_counted: the tokens of the question are counted, "
        "because counting begins at [user]": ("ids == tokens.assistant", "ids == tokens.user"),
        "everything_counted: every token is counted, including questions and padding": (
            OPEN,
            "torch.ones_like(ids[:, 1:], dtype=torch.bool)",
        ),
        "shifted_by_one: the first column is left out instead of the last one, so the mask is "
        "shifted by one: "
        "it leaves out the [end] of each answer and counts [assistant]": ("[:, :-1]", "[:, 1:]"),
        "not_shifted: the mask has L columns, but it needs L - 1, because nothing predicts the "
        "first token": (OPEN, "opened > closed"),
        "padding_counted: the mask never stops at the end of an answer, so padding and later "
        "questions are counted": ("opened > closed", "opened > 0"),
        "end_left_out: [end] is not counted, so the model does not learn when to stop": (
            OPEN,
            f"{OPEN} & (ids[:, 1:] != tokens.end)",
        ),
        "first_answer_only: only the first answer of a chat is counted": (
            "opened > closed",
            "(opened > 0) & (closed == 0)",
        ),
        "places_from_zero: places count from 0, so an [assistant] in place 0 is not noticed": (
            "torch.arange(1, ids.size(1) + 1,",
            "torch.arange(ids.size(1),",
        ),
        "open_from_the_start: >= lets an answer be open "
        "before the first mark, where both places are 0": ("opened > closed", "opened >= closed"),
        "inverted: everything but the answers is counted": ("opened > closed", "opened <= closed"),
        "marks_counted: marks are counted, so one answer without [end] leaves all later "
        "tokens open": (("(place * (ids", "((ids"), (".cummax(dim=1).values", ".cumsum(dim=1)")),
        "numbers_returned: the mask contains the numbers 0 and 1, but it must be boolean": (
            OPEN,
            f"{OPEN}.long()",
        ),
    },
    "dpo_loss": {
        "sign_flipped: the sign is wrong (rejected minus chosen, or reference minus model), so the "
        "model learns to prefer the wrong answers": (MARGIN, "rejected_reward - chosen_reward"),
        "reference_missing: the log-probabilities of the reference are never subtracted": (
            ("(chosen - ref_chosen)", "chosen"),
            ("(rejected - ref_rejected)", "rejected"),
        ),
        "reference_added: the log-probabilities of the reference are added, not subtracted": (
            ("chosen - ref_chosen", "chosen + ref_chosen"),
            ("(rejected - ref_rejected)", "(rejected + ref_rejected)"),
        ),
        "beta_outside: beta multiplies the loss instead of the difference inside the sigmoid": (
            ("beta * (chosen", "(chosen"),
            ("beta * (rejected", "(rejected"),
            ("-F.logsigmoid", "-beta * F.logsigmoid"),
        ),
        "log_missing: the loss is minus the sigmoid, without the log": (
            "F.logsigmoid",
            "torch.sigmoid",
        ),
        "log_of_sigmoid: the log is taken after the sigmoid, which is rounded to 0 for large "
        "margins, so the loss becomes "
        "inf; use F.logsigmoid": (f"F.logsigmoid({MARGIN})", f"torch.sigmoid({MARGIN}).log()"),
        "averaged_before_the_sigmoid: the differences are averaged first, and then the sigmoid "
        "is applied": (f"F.logsigmoid({MARGIN}).mean()", f"F.logsigmoid(({MARGIN}).mean())"),
        "minus_missing: the minus before the loss is missing": ("-F.logsigmoid", "F.logsigmoid"),
        "beta_once: beta multiplies only the chosen log-ratio": ("beta * (rejected", "(rejected"),
        "summed_up: the losses of the pairs are added up instead of averaged": (
            ".mean()",
            ".sum()",
        ),
        "not_averaged: the function returns a loss for each pair instead of the mean loss": (
            ".mean()",
            "",
        ),
        **ignored(
            ("beta", ("beta * (chosen", "0.1 * (chosen"), ("beta * (rejected", "0.1 * (rejected"))
        ),
    },
    "group_advantages": {
        "whole_batch: the mean and the standard deviation are taken over the whole batch instead "
        "of over each group": (MEAN_STD, "rewards.mean(), rewards.std()"),
        "mean_of_the_batch: the mean is taken over the whole batch, so an answer to a hard "
        "question is compared "
        "with answers to other questions": ("rewards.mean(dim=1, keepdim=True)", "rewards.mean()"),
        "std_of_the_batch: the standard deviation is taken over the whole batch": (
            "rewards.std(dim=1, keepdim=True)",
            "rewards.std()",
        ),
        "columns_compared: the mean and the standard deviation are taken over the questions (axis "
        "0) instead of over the answers to one question (axis "
        "1)": (MEAN_STD, "rewards.mean(dim=0, keepdim=True), rewards.std(dim=0, keepdim=True)"),
        "std_missing: the mean is subtracted, but the result is not divided by the standard "
        "deviation": (" / (std + eps)", ""),
        "mean_missing: the rewards are divided by the standard deviation, but the mean is not "
        "subtracted": ("(rewards - mean)", "rewards"),
        "variance: the rewards are divided by the variance instead of its square root": (
            "std + eps",
            "std**2 + eps",
        ),
        "population_std: the sum of squares is divided by G, but it should be divided by G - 1, as "
        "in torch.std": ("rewards.std(dim=1, ", "rewards.std(dim=1, correction=0, "),
        "eps_missing: eps is not added, so a group with equal rewards leads to 0 / 0": (
            " + eps)",
            ")",
        ),
        "eps_after_the_division: eps is added after the division instead of to the standard "
        "deviation": ("(std + eps)", "std + eps"),
        "mean_alone_divided: only the mean is divided": ("(rewards - mean)", "rewards - mean"),
        "eps_inside: eps is added to the variance instead of to its root": (
            "std + eps",
            "(std**2 + eps).sqrt()",
        ),
        "clamped: the standard deviation is raised "
        "to eps where it is smaller, but eps is not added": ("(std + eps)", "std.clamp(min=eps)"),
        "other_default: eps is 1e-8 by default instead of 1e-4": (
            "eps: float = 1e-4",
            "eps: float = 1e-8",
        ),
        **ignored(("eps", ("std + eps", "std + 1e-4"))),
    },
    "clipped_policy_loss": {
        "ratio_inverted: the ratio is old / new instead of new / old": (
            "log_probs - old_log_probs",
            "old_log_probs - log_probs",
        ),
        "ratio_to_the_reference: the ratio is to the reference, not to the model that sampled the "
        "answers": ("log_probs - old_log_probs", "log_probs - ref_log_probs"),
        "exp_missing: the ratio is a difference of log-probabilities; take its exponential": (
            "(log_probs - old_log_probs).exp()",
            "log_probs - old_log_probs",
        ),
        "clip_missing: the ratio is never clipped, so a single batch may move the model too far": (
            GAIN,
            "ratio * advantages",
        ),
        "clipped_only: the gain always uses the clipped ratio; take the smaller of the two gains, "
        "so that the model can still correct a bad step": (GAIN, CLAMPED),
        "larger_gain: the larger of the two gains is taken instead of the smaller one": (
            "torch.min",
            "torch.max",
        ),
        "gain_clipped: the product of the ratio and the advantage is "
        "clipped instead of the ratio": (CLAMPED, "(ratio * advantages).clamp(1 - clip, 1 + clip)"),
        "not_negated: the objective is not negated, so the optimizer minimizes it instead of "
        "maximizing it": ("return -(", "return ("),
        "kl_rewarded: the KL term is added to the objective, which rewards moving away from the "
        "reference": ("gain - kl_weight", "gain + kl_weight"),
        "kl_reversed: the log-ratio in the KL term is new - reference; "
        "it must be reference - new": ("ref_log_probs - log_probs", "log_probs - ref_log_probs"),
        "kl_difference: the KL term is the difference of the log-probabilities, which can be "
        "negative": ("log_ratio.exp() - log_ratio - 1", "-log_ratio"),
        "kl_to_the_old_model: the KL term compares the model with the one that sampled the answers "
        "instead of the reference": ("ref_log_probs - log_probs", "old_log_probs - log_probs"),
        "mask_ignored: questions and padding are included in the sum": (" * mask", ""),
        "mean_over_all_positions: each row's sum is divided by the number of positions, so short "
        "answers count less": (PER_ANSWER, "objective.mean()"),
        "mean_over_tokens: the mean is taken over the tokens of all answers, so a long answer "
        "counts more than a short one": (PER_ANSWER, "(objective.sum() / mask.sum())"),
        "sum_over_answers: the answers' means are added up instead of averaged": (
            PER_ANSWER,
            PER_ANSWER.replace(").mean()", ").sum()"),
        ),
        "not_cleared: the numbers where the mask is "
        "False are not set to 0 first, and -inf times 0 is nan": ("x.masked_fill(~mask, 0.0)", "x"),
        "empty_answers_left_out: the mean leaves out answers without a counted "
        "token, but they count 0": (PER_ANSWER, f"{PER_ANSWER[:-7]}[mask.any(dim=1)].mean()"),
        "divided_by_none: an answer without a counted token gives 0 / 0": (".clamp(min=1)", ""),
        "sum_over_tokens: the terms for an answer's tokens are added up instead of averaged": (
            PER_ANSWER,
            "objective.sum(dim=1).mean()",
        ),
        **ignored(
            ("clip", ("clamp(1 - clip, 1 + clip)", "clamp(0.8, 1.2)")),
            ("kl_weight", ("kl_weight * kl", "0.04 * kl")),
        ),
    },
}


# right answers

ANSWERS = {
    "clipped_policy_loss": {
        "by_rows: the real tokens of one answer are averaged at a time": (
            (" * mask", ""),
            (
                PER_ANSWER,
                "sum(x[m].sum() / max(1, m.sum()) for x, m in zip(objective, mask)) / len(mask)",
            ),
            ("old_log_probs", "old"),
            ("ref_log_probs", "ref"),
            ("log_probs", "new"),
        ),
    },
}
