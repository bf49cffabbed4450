"""What decoding is tried on: a script to follow, sentences, and another way to choose."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.old_trial import Trial, value_trial
from course_lib.exercises.outcomes import describe
from course_lib.exercises.trials.small_models import SmallScript, small_config

MAX_LEN = 9
BOS, EOS, PAD = 5, 4, 3  # none of them where one would guess it
SPECIAL = dict(bos_id=BOS, eos_id=EOS)
NAMES = {BOS: "bos", EOS: "eos", PAD: "pad"}
LINES = {6: [7, 8, EOS], 7: [8, 6, 10, 6, EOS], 8: [EOS], 9: [6, 7, 8, 9, 10, 6, 7, 8, 9]}
SOURCES = torch.tensor([[6, 8, PAD], [7, 9, 10], [8, PAD, PAD]])
SHORT = torch.tensor([[8, 8, 3], [6, 8, 1], [2, 8, 3], [7, 2, 3], [7, 3, 3], [6, 9, 3]])
LONG = torch.tensor([[6, 10, PAD, PAD], [7, 8, 8, 9], [0, 7, PAD, PAD]])
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


def second_best(logits: Tensor) -> Tensor:
    """Choose in another way: the token before the likeliest, among the words."""
    tokens = logits.argmax(dim=-1)
    return torch.where(tokens > 6, tokens - 1, tokens)


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


def rows_of(ids: Any) -> list[list[int]]:
    """Return the rows as lists, none of what is no batch of rows."""
    return ids.tolist() if isinstance(ids, Tensor) and ids.dim() == 2 else []


def until_end(row: list[int]) -> list[int]:
    """Cut a row off behind its end; cut the padding off one that has none."""
    last = max((place for place, token in enumerate(row) if token != PAD), default=-1)
    return row[: row.index(EOS) + 1] if EOS in row else row[: last + 1]


def script_case(
    label: str, src: Tensor, lines: list[list[int]], says: str, **options: Any
) -> Trial:
    """Compare what is written with the script."""
    return value_trial(
        label,
        lambda candidate: told(decode(candidate, script(), src, **options)),
        side_by_side(lines),
        stage="equality",
        says=says,
    )
