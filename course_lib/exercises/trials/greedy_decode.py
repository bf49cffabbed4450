"""What is asked of greedy_decode: every sentence is written as it would be alone, by forward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, value_trial
from course_lib.exercises.outcomes import Outcome, describe
from course_lib.exercises.trials.decoding_fixtures import (
    BOS,
    ENDS,
    LINES,
    LONG,
    MAX_LEN,
    PAD,
    SHORT,
    SOURCES,
    SPECIAL,
    decode,
    rows_of,
    script,
    script_case,
    second_best,
    side_by_side,
    told,
    until_end,
    write_alone,
)
from course_lib.exercises.trials.small_models import SmallModel, small_model, talkative_transformer


def written_case(label: str, build: Callable[[], nn.Module], src: Tensor) -> Trial:
    """Compare what is written with what every sentence gives alone."""
    sentences = [[i for i in row if i != PAD] for row in src.tolist()]

    def act(candidate: Callable) -> Outcome:
        """Write, and look whether the source is as it was."""
        given = src.clone()
        with torch.enable_grad():
            shown = told(candidate(build(), given, **SPECIAL))
        return Outcome(shown, {}, () if torch.equal(given, src) else ("src",))

    def wanted() -> Outcome:
        """Write every sentence by itself."""
        model = build().eval()
        return Outcome(side_by_side([write_alone(model, sentence) for sentence in sentences]))

    return Trial(label, act, wanted, says=GREEDY)


GREEDY = (
    "Each row: the likeliest token after all that is written so far, its eos included; from then "
    "on padding, until the longest row has ended."
)


def neighbours(candidate: Callable) -> dict[str, bool]:
    """Write the sentences together and one by one."""
    together = rows_of(decode(candidate, script(), SOURCES))
    alone = [rows_of(decode(candidate, script(), row[None])) for row in SOURCES]
    cut = [[until_end(row) for row in rows] for rows in (together, sum(alone, []))]
    return {"a row changes with its neighbours": cut[0] != cut[1]}


def end_of_rows(candidate: Callable) -> dict[str, bool]:
    """Look for padding before the end, and for anything else behind it."""
    rows = rows_of(decode(candidate, script(), SOURCES))
    return {
        "padding before the end": any(PAD in until_end(row) for row in rows),
        "words after the end": any(set(row[len(until_end(row)) :]) - {PAD} for row in rows),
        "bos is returned": any(BOS in row for row in rows),
    }


def what_comes_out(candidate: Callable) -> dict[str, Any]:
    """Look at the tensor itself."""
    ids = decode(candidate, script(), SOURCES)
    if not isinstance(ids, Tensor):
        return {"returned": describe(ids)}
    return {"dtype": str(ids.dtype), "axes": ids.dim(), "rows": len(ids)}


def what_is_read(candidate: Callable) -> dict[str, bool]:
    """Look whether the model always reads from the beginning."""
    model = script()
    decode(candidate, model, SOURCES)
    return {
        "the decoder always reads bos first": all((ids[:, 0] == BOS).all() for ids in model.read)
    }


def traces(candidate: Callable) -> dict[str, bool]:
    """Look for gradients during and after."""
    model = script()
    with torch.enable_grad():
        candidate(model, SOURCES.clone(), **SPECIAL)
        after = torch.is_grad_enabled()
    return {"gradients are kept": any(model.with_gradients), "gradients stay off": not after}


def modes(candidate: Callable) -> dict[str, Any]:
    """Look in which mode the model writes, and in which it comes back."""
    shown = {}
    for mode in ("training", "eval"):
        model = script(training=mode == "training")
        decode(candidate, model, SOURCES)
        back = {"training" if module.training else "eval" for module in model.modules()}
        for part, noted in model.modes.items():
            shown[f"from {mode}: its {part} is in training mode"] = any(noted)
        shown[f"from {mode}: it comes back in mode"] = " and ".join(sorted(back))
    return shown


EXERCISES = (
    Exercise(
        "greedy_decode",
        "decoding",
        40,
        (
            script_case("rows that end after 3, 5 and 1 tokens", SOURCES, ENDS, GREEDY),
            value_trial(
                "a look at the tensor",
                what_comes_out,
                {"dtype": "torch.int64", "axes": 2, "rows": 3},
                stage="shape",
                says="One tensor of ids (torch.long), a row for each sentence.",
            ),
            value_trial(
                "the sentences together and one by one",
                neighbours,
                {"a row changes with its neighbours": False},
                says="A sentence must say the same whoever stands beside it.",
            ),
            value_trial(
                "a look at the ends",
                end_of_rows,
                dict.fromkeys(
                    ("padding before the end", "words after the end", "bos is returned"), False
                ),
                says="bos is read and not returned; padding stands behind the end, nothing else.",
            ),
            script_case(
                "a row that never ends",
                torch.tensor([[9, 8], [8, PAD]]),
                [LINES[9], LINES[8]],
                "Without max_new_tokens, at most max_len tokens are written.",
            ),
            script_case(
                "max_new_tokens=2",
                SOURCES,
                [line[:2] for line in ENDS],
                "No more than max_new_tokens are written, and no fewer while a row goes on.",
                max_new_tokens=2,
            ),
            script_case(
                "one sentence and max_new_tokens=4",
                SOURCES[:1],
                [LINES[6]],
                "Writing stops when every row has ended, before the limit too.",
                max_new_tokens=4,
            ),
            value_trial(
                "a look at what the decoder reads",
                what_is_read,
                {"the decoder always reads bos first": True},
                says="The decoder reads bos, and then all that is written, in every round.",
            ),
            script_case(
                "another way to choose",
                SOURCES,
                [[max(token - 1, 6) if token > 6 else token for token in line] for line in ENDS],
                "`choose(logits)` picks the tokens, logits `(B, V)`; by default `argmax_tokens`.",
                choose=second_best,
            ),
            written_case("a small model", lambda: small_model(SmallModel, PAD, MAX_LEN), SHORT),
            written_case("a Transformer", lambda: talkative_transformer(PAD, MAX_LEN), LONG),
            value_trial(
                "a look at gradients",
                traces,
                {"gradients are kept": False, "gradients stay off": False},
                says="No gradients while it writes (`torch.no_grad`), and afterwards as before.",
            ),
            value_trial(
                "a look at the mode",
                modes,
                {
                    f"from {mode}: {what}": right
                    for mode in ("training", "eval")
                    for what, right in {
                        "its encoder is in training mode": False,
                        "its decoder is in training mode": False,
                        "it comes back in mode": mode,
                    }.items()
                },
                stage="train and eval",
                says="Write in eval mode, dropout off, and hand the model back in its own mode.",
            ),
        ),
        (
            "Keep what is written in `tgt`, `(B, T)`, beginning with one column of `bos_id`. "
            "Encode once. In every round: `next_logits(…)`, padding to -inf, `choose(logits)`.",
            "Padding stands behind `eos_id`: keep `rows`, those that go on, and write for them "
            "only; or keep `ended`, `(B,)`, and `masked_fill`. Stop when all rows have ended, or "
            "when `max_new_tokens` (else `model.config.max_len`) are written.",
            "The loop stands in `with generation_mode(…) as limit:`. Return `tgt` without bos.",
        ),
    ),
)
