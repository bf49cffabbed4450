"""What is asked of sample: the window, the cache, the draws, and a model handed back as it was."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, refuses, value_trial
from course_lib.exercises.outcomes import Outcome, describe
from course_lib.exercises.trials.gpt_formulas import WRITER, says, writer
from course_lib.exercises.trials.sampling_frequencies import DRAWS
from course_lib.gpt import GPT

PROMPT = torch.tensor([[7, 1, 2], [4, 10, 7]])
LONG = torch.tensor([[5, 7, 1, 8, 10, 2, 3, 6, 0, 4], [0, 9, 9, 6, 4, 5, 8, 1, 2, 7]])
ONE_CHOICE = dict(top_k=1)


def shown(ids: Any) -> dict[str, str]:
    """Write every row out."""
    if not isinstance(ids, Tensor) or ids.dim() != 2 or ids.is_floating_point():
        return {"returned": describe(ids)}
    return {f"row {n}": " ".join(map(str, row)) for n, row in enumerate(ids.tolist())}


def written_case(label: str, ids: Tensor, new: int, what: str, **how: Any) -> Trial:
    """Leave one choice at each step, and compare with the likeliest token after each window."""

    def act(candidate: Callable) -> Outcome:
        """Write, and look whether the prompt is as it was."""
        given = ids.clone()
        seen = shown(candidate(writer(), given, new, **ONE_CHOICE, **how))
        return Outcome(seen, {}, () if given.equal(ids) else ("ids",))

    def wanted() -> Outcome:
        """Score each window by the formulas."""
        text, model = ids, writer()
        for _ in range(new):
            best = says(model, text[:, -WRITER.max_len :])[:, -1].argmax(dim=-1)
            text = torch.cat([text, best.unsqueeze(1)], dim=1)
        return Outcome(shown(text))

    return Trial(label, act, wanted, says=what)


def watched_model(**build: Any) -> tuple[GPT, list[tuple[int, bool, bool]]]:
    """Build a model that notes, at its first layer, how many places pass, and how."""
    model, noted = writer(replace(WRITER, **build)), []

    def note(part: nn.Module, given: tuple) -> None:
        """Take note."""
        noted.append((given[0].size(1), part.training, torch.is_grad_enabled()))

    model.layers[0].feed_forward.register_forward_pre_hook(note)
    return model, noted


def places(candidate: Callable) -> dict[str, int]:
    """Count the places that are computed for four tokens after three."""
    counts = {}
    for what, use_cache in (("with the cache", True), ("with use_cache=False", False)):
        model, noted = watched_model()
        candidate(model, PROMPT.clone(), 4, use_cache=use_cache)
        counts[f"places computed {what}"] = sum(n for n, *_ in noted)
    return counts


def traces(candidate: Callable) -> dict[str, bool]:
    """Look for gradients during and after."""
    kept = False
    with torch.enable_grad():
        for use_cache in (True, False):
            model, noted = watched_model()
            candidate(model, PROMPT.clone(), 2, use_cache=use_cache)
            kept = kept or any(grad for *_, grad in noted)
        after = torch.is_grad_enabled()
    return {"gradients are kept": kept, "gradients stay off": not after}


def modes(candidate: Callable) -> dict[str, str]:
    """Look in which mode the model writes, and in which it comes back."""
    found = {}
    for mode, training in (("training", True), ("eval", False)):
        model, noted = watched_model(dropout=0.5)
        candidate(model.train(training), PROMPT.clone(), 2)
        wrote = {"training" if was else "eval" for _, was, _ in noted}
        back = {"training" if module.training else "eval" for module in model.modules()}
        found[f"from {mode}: it writes in mode"] = " and ".join(sorted(wrote))
        found[f"from {mode}: it comes back in mode"] = " and ".join(sorted(back))
    return found


def bad_calls(candidate: Callable) -> dict[str, str]:
    """Ask for what cannot be done."""
    nothing = torch.zeros(2, 0, dtype=torch.long)
    return {
        "no token to begin with": refuses(candidate, writer(), nothing, 2),
        "temperature=0.0": refuses(candidate, writer(), PROMPT.clone(), 2, 0.0),
        "top_k=0": refuses(candidate, writer(), PROMPT.clone(), 2, top_k=0),
        "top_p=1.5": refuses(candidate, writer(), PROMPT.clone(), 2, top_p=1.5),
    }


EXERCISES = (
    Exercise(
        "sample",
        "gpt",
        25,
        (
            written_case(
                "four tokens after three, top_k=1",
                PROMPT,
                4,
                "The text itself comes out, and behind it what was written.",
            ),
            written_case("nothing to write", PROMPT, 0, "With 0 new tokens the text comes back."),
            *(
                written_case(
                    f"more than the window holds, use_cache={use_cache}",
                    PROMPT,
                    11,
                    "Of a long text the last max_len tokens are read, as if it began there; once "
                    "the window moves, nothing that was kept is right any more.",
                    use_cache=use_cache,
                )
                for use_cache in (True, False)
            ),
            written_case(
                "a text longer than the window",
                LONG,
                3,
                "Of a long text the last max_len tokens are read; all of it comes back.",
            ),
            *DRAWS,
            value_trial(
                "a look at what is computed",
                places,
                {"places computed with the cache": 6, "places computed with use_cache=False": 18},
                says="With the cache each token is read once, without it all of them each time.",
            ),
            value_trial(
                "a look at gradients",
                traces,
                {"gradients are kept": False, "gradients stay off": False},
                says="No gradients while it writes (`@torch.no_grad()`), afterwards as before.",
            ),
            value_trial(
                "calls that cannot be right",
                bad_calls,
                dict.fromkeys(
                    ("no token to begin with", "temperature=0.0", "top_k=0", "top_p=1.5"),
                    "a ValueError",
                ),
                says="`check_ids` refuses a text without tokens, `sample_tokens` its own part.",
            ),
            value_trial(
                "a look at the mode",
                modes,
                {
                    f"from {mode}: {what}": right
                    for mode in ("training", "eval")
                    for what, right in {
                        "it writes in mode": "eval",
                        "it comes back in mode": mode,
                    }.items()
                },
                stage="train and eval",
                says="Write in eval mode, dropout off, and hand the model back in its own mode.",
            ),
        ),
        (
            "Three lines in a loop: score the last `max_len` tokens, draw one for each row with "
            "`sample_tokens`, put it behind the text.",
            "`ids[:, -limit:]` is the window, for a short text as well. With a `KVCache` the "
            "model reads `ids[:, cache.length:]` as long as the whole text fits; from then on the "
            "window, without the cache, each time.",
            "`sample_tokens(logits[:, -1], …)` draws from the scores of the last position.",
        ),
    ),
)
