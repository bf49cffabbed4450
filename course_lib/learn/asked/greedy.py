"""What is asked of greedy_decode: every sentence is written as it would be alone, by forward."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.learn.asked.small_models import (
    SmallModel,
    SmallScript,
    small_config,
    small_model,
    talkative_transformer,
)
from course_lib.learn.cases import Case, value_case
from course_lib.learn.checks import Exercise
from course_lib.learn.seen import Seen, describe

MAX_LEN = 9
BOS, EOS, PAD = 5, 4, 3  # none of them where one would guess it
SPECIAL = dict(bos_id=BOS, eos_id=EOS)
NAMES = {BOS: "bos", EOS: "eos", PAD: "pad"}
LINES = {6: [7, 8, EOS], 7: [8, 6, 10, 6, EOS], 8: [EOS], 9: [6, 7, 8, 9, 10, 6, 7, 8, 9]}
SHORT = torch.tensor([[8, 8, 3], [6, 8, 1], [2, 8, 3], [7, 2, 3], [7, 3, 3], [6, 9, 3]])
LONG = torch.tensor([[6, 10, PAD, PAD], [7, 8, 8, 9], [0, 7, PAD, PAD]])
SOURCES = torch.tensor([[6, 8, PAD], [7, 9, 10], [8, PAD, PAD]])
ENDS = [LINES[6], LINES[7], LINES[8]]  # after 3, 5 and 1 tokens


def told(ids: Any) -> dict[str, str]:
    """Write every row down, the special tokens by name."""
    if not isinstance(ids, Tensor) or ids.dim() != 2:
        return {"returned": describe(ids)}
    rows = [" ".join(NAMES.get(int(i), str(int(i))) for i in row) for row in ids]
    return {f"row {place}": row for place, row in enumerate(rows, start=1)}


def side_by_side(lines: list[list[int]]) -> dict[str, str]:
    """Fill the lines up to the longest, and write them down."""
    longest = max(map(len, lines))
    return told(torch.tensor([line + [PAD] * (longest - len(line)) for line in lines]))


def script(training: bool = True) -> SmallScript:
    """Return the model that follows the lines above."""
    return SmallScript(small_config(PAD, MAX_LEN), LINES, BOS).train(training)


def decode(candidate: Callable, model: nn.Module, src: Tensor, **options: Any) -> Any:
    """Let a candidate write, with gradients on before, whatever it leaves behind."""
    with torch.enable_grad():
        return candidate(model, src.clone(), **SPECIAL, **options)


def write_alone(model: nn.Module, sentence: list[int]) -> list[int]:
    """Write one sentence: the whole model again for every token, its padding cut off."""
    line = [BOS]
    with torch.no_grad():
        while len(line) <= MAX_LEN and line[-1] != EOS:
            scores = model(torch.tensor([sentence]), torch.tensor([line]))[0, -1].tolist()
            line.append(max((v for v in range(11) if v != PAD), key=scores.__getitem__))
    return line[1:]


def written_case(label: str, build: Callable[[], nn.Module], src: Tensor) -> Case:
    """Compare what is written with what every sentence gives alone."""
    sentences = [[i for i in row if i != PAD] for row in src.tolist()]

    def act(candidate: Callable) -> Seen:
        """Write, and look whether the source is as it was."""
        given = src.clone()
        with torch.enable_grad():
            shown = told(candidate(build(), given, **SPECIAL))
        return Seen(shown, {}, () if torch.equal(given, src) else ("src",))

    def wanted() -> Seen:
        """Write every sentence by itself."""
        model = build().eval()
        return Seen(side_by_side([write_alone(model, sentence) for sentence in sentences]))

    return Case(label, act, wanted, says=GREEDY)


GREEDY = (
    "Each row: the likeliest token after all that is written so far, its eos included; from then "
    "on padding, until the longest row has ended."
)


def script_case(label: str, src: Tensor, lines: list[list[int]], says: str, **options: Any) -> Case:
    """Compare what is written with the script."""
    return value_case(
        label,
        lambda candidate: told(decode(candidate, script(), src, **options)),
        side_by_side(lines),
        stage="equality",
        says=says,
    )


def rows_of(ids: Any) -> list[list[int]]:
    """Return the rows as lists, none of what is no batch of rows."""
    return ids.tolist() if isinstance(ids, Tensor) and ids.dim() == 2 else []


def until_end(row: list[int]) -> list[int]:
    """Cut a row off behind its end; cut the padding off one that has none."""
    last = max((place for place, token in enumerate(row) if token != PAD), default=-1)
    return row[: row.index(EOS) + 1] if EOS in row else row[: last + 1]


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
            value_case(
                "a look at the tensor",
                what_comes_out,
                {"dtype": "torch.int64", "axes": 2, "rows": 3},
                stage="shape",
                says="One tensor of ids (torch.long), a row for each sentence.",
            ),
            value_case(
                "the sentences together and one by one",
                neighbours,
                {"a row changes with its neighbours": False},
                says="A sentence must say the same whoever stands beside it.",
            ),
            value_case(
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
            value_case(
                "a look at what the decoder reads",
                what_is_read,
                {"the decoder always reads bos first": True},
                says="The decoder reads bos, and then all that is written, in every round.",
            ),
            written_case("a small model", lambda: small_model(SmallModel, PAD, MAX_LEN), SHORT),
            written_case("a Transformer", lambda: talkative_transformer(PAD, MAX_LEN), LONG),
            value_case(
                "a look at gradients",
                traces,
                {"gradients are kept": False, "gradients stay off": False},
                says="No gradients while it writes (`torch.no_grad`), and afterwards as before.",
            ),
            value_case(
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
            "Keep what is written in `tgt`, `(B, T)`, beginning with one column of `bos_id`. In "
            "every round: `model.decode(tgt, memory, src)`, `next_tokens`, one more column.",
            "Keep `ended`, `(B,)`: a row that has written `eos_id` stays ended. Stop when all rows "
            "have ended, or when `max_new_tokens` (else `model.config.max_len`) are written.",
            "Around the loop: `@torch.no_grad()`, remember `model.training`, `model.eval()`, and "
            "`model.train(was_training)` in a `finally`. Return `tgt[:, 1:]`.",
        ),
    ),
)
