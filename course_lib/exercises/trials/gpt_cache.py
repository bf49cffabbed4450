"""What is asked of GPTCache: in any portions, the model's own logits, and nothing twice."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trial import Trial, refuses, value_trial
from course_lib.exercises.trials.gpt_formulas import WRITER, says, writer

TEXT = torch.tensor([[5, 7, 1, 8, 10, 2, 3], [0, 9, 9, 6, 4, 5, 8]])  # as long as max_len
SAME = "Each step gives the logits of `model(ids)` at the places that are new."


def steps_case(
    label: str, steps: Sequence[int], text: Tensor = TEXT, double: bool = False, **build: Any
) -> Trial:
    """Read a text in steps, and compare with the formulas on all of it.

    Args:
        label: What is special about it.
        steps: How many tokens are new in each step.
        text: Of two rows, or one.
        double: Whether the model is one of float64.
        build: What the model's config has instead of the usual.
    """
    config = replace(WRITER, **build)

    def act(candidate: Callable) -> Outcome:
        """Hand over all that is there so far, in every step."""
        model = writer(config).double() if double else writer(config)
        cache, shown, end = candidate(model), {}, 0
        for step, new in enumerate(steps, start=1):
            end += new
            shown[f"step {step}"] = cache(text[:, :end].clone()).detach()
        return Outcome(shown)

    def wanted() -> Outcome:
        """Read everything at once; cut it up."""
        logits = says(writer(config), text[:, : sum(steps)]).split(list(steps), dim=1)
        return Outcome({f"step {step}": part for step, part in enumerate(logits, start=1)})

    return Trial(label, act, wanted, says=SAME)


def places(candidate: Callable) -> dict[str, Any]:
    """Count the places that go through each layer."""
    model, passed = writer(), []
    for layer in model.layers:
        layer.feed_forward.register_forward_pre_hook(lambda _, x: passed.append(x[0].size(1)))
    cache = candidate(model)
    for end in (2, 3, 4, 6):
        cache(TEXT[:, :end])
    return {"places computed for six tokens and two layers": sum(passed), "length": cache.length}


def two_texts(candidate: Callable) -> dict[str, bool]:
    """Let two caches of one model read in turns, and compare with one that reads alone."""
    model = writer()
    alone, one, other = candidate(writer()), candidate(model), candidate(model)
    for end in range(1, 5):
        single, mixed = alone(TEXT[:, :end]), one(TEXT[:, :end])
        other(TEXT[:, :end].flip(0))
    return {"a second cache of the same model disturbs the first": not torch.equal(single, mixed)}


def gradients(candidate: Callable) -> dict[str, bool]:
    """Look for a graph behind the logits, and for gradients that stay off."""
    with torch.enable_grad():
        logits = candidate(writer())(TEXT[:, :2])
        after = torch.is_grad_enabled()
    return {"gradients are kept": logits.requires_grad, "gradients stay off": not after}


def bad_calls(candidate: Callable) -> dict[str, str]:
    """Ask for what cannot be done."""
    cache = candidate(writer())
    cache(TEXT[:, :2])
    return {
        "a model in training mode": refuses(candidate, writer().train()),
        "no new token": refuses(cache, TEXT[:, :2]),
        "fewer tokens than were read": refuses(cache, TEXT[:, :1]),
        "another number of rows": refuses(cache, TEXT[:1, :3]),
        "more than max_len tokens": refuses(cache, TEXT.repeat(1, 2)),
        "ids that the vocabulary does not have": refuses(cache, TEXT[:, :3] + 11),
    }


REFUSED = (
    "a model in training mode",
    "no new token",
    "fewer tokens than were read",
    "another number of rows",
    "more than max_len tokens",
    "ids that the vocabulary does not have",
)

EXERCISES = (
    Exercise(
        "GPTCache",
        "gpt",
        30,
        (
            steps_case("seven tokens, one by one", [1] * 7),
            steps_case("three tokens, then one, then two", [3, 1, 2]),
            steps_case("the whole window at once", [7]),
            steps_case(
                "one row, three layers, and no biases",
                [2, 1, 1],
                TEXT[:1],
                num_layers=3,
                bias=False,
            ),
            steps_case("a model in float64", [2, 1], double=True),
            value_trial(
                "a look at what is computed",
                places,
                {"places computed for six tokens and two layers": 12, "length": 6},
                says="Every token goes through each layer once.",
            ),
            value_trial(
                "two caches of one model",
                two_texts,
                {"a second cache of the same model disturbs the first": False},
                says="What is kept belongs to one text: keep it in `self`, not in the model.",
            ),
            value_trial(
                "a look at gradients",
                gradients,
                {"gradients are kept": False, "gradients stay off": False},
                says="A cache predicts: nothing is kept for gradients (`@torch.no_grad()`).",
            ),
            value_trial(
                "calls that cannot be right",
                bad_calls,
                dict.fromkeys(REFUSED, "a ValueError"),
                says="A ValueError, before anything is computed; `check_ids` knows two of them.",
            ),
        ),
        (
            "Only `ids[:, start:]` goes through the model. Which rows of the table of positions "
            "belong to them? `model.positions.weight[start:T]`, not the first ones.",
            "In each layer the new keys and values are put where the old ones end, and the new "
            "queries ask all of them. Of the causal mask, `causal_mask(end)[start:]` are their "
            "rows; `is_causal=True` would give them the first rows.",
            "`attention.project(x)` makes queries, keys and values, `attention.merge` ends it. The "
            "layer's AddNorms are called as in `GPTLayer`, with `partial(self.attend_cached, "
            "layer.self_attn, kept)` for the attention. `self.length = T` comes last.",
        ),
    ),
)
