"""Chapter 16: twelve losses that look alike; running this trains the models and records them."""

import json
from pathlib import Path

from colors import INK, QUERY, SOFT
from drawing import centered, group, page, path, text

RECORD = Path(__file__).with_suffix(".json")
TITLE = "Twelve models learn the same task. Eleven are broken"
DESC = (
    "Twelve small loss curves, A to L, in three rows. All of them fall to "
    "almost zero within 200 steps, and most look exactly alike."
)
PATIENTS = {  # as in the chapter's first cell; E is the correct model
    "A": "worse_after_each_batch",
    "B": "loss_near_zero",
    "C": "some_weights_stay",
    "D": "right_with_a_teacher_only",
    "E": None,
    "F": "nan_in_half_precision",
    "G": "repeats_what_it_reads",
    "H": "too_few_parameters",
    "I": "right_alone_only",
    "J": "other_answers_than_elsewhere",
    "K": "loss_near_zero_again",
    "L": "another_loss_in_eval_mode",
}
TOGETHER, STEPS, HIGHEST = 6, 200, 2.5  # two batches of each length together
WIDE, HIGH, LEFT, TOP, ACROSS, DOWN = 98, 62, 56, 64, 122, 88


def record() -> None:
    """Train the twelve models of the chapter, and record the mean losses of neighboring steps."""
    import torch

    from course_lib.exercises.questions.clinic_cases import CASES
    from course_lib.exercises.questions.clinic_models import Patient

    torch.set_num_threads(1)
    mistakes = {case.name: case.mistakes for case in CASES}
    losses = {}
    for letter, name in PATIENTS.items():
        found = torch.tensor(Patient(mistakes.get(name, ())).trained()[1])
        means = found[: STEPS // TOGETHER * TOGETHER].view(-1, TOGETHER).mean(dim=1)
        losses[letter] = [round(mean, 2) for mean in means.tolist()]
    rows = ",\n".join(f'"{letter}": {json.dumps(row)}' for letter, row in losses.items())
    RECORD.write_text(f"{{\n{rows}\n}}\n", encoding="utf-8")


def curve(place: int, letter: str, losses: list[float]) -> str:
    """Draw one loss curve above its axis, with the model's letter."""
    left, top = LEFT + ACROSS * (place % 4), TOP + DOWN * (place // 4)
    corners = [(left, top), (left, top + HIGH), (left + WIDE, top + HIGH)]
    points = [
        (left + WIDE * TOGETHER * (i + 0.5) / STEPS, top + HIGH * (1 - loss / HIGHEST))
        for i, loss in enumerate(losses)
    ]
    return group(
        path(corners, color=SOFT, width=1),
        path(points, color=QUERY, width=2),
        text(left + WIDE - 6, top + 18, letter, anchor="end", size=18, bold=True, color=INK),
    )


def draw() -> str:
    """Draw the recorded losses as small panels with the same axes."""
    losses = json.loads(RECORD.read_text(encoding="utf-8"))
    bottom = TOP + DOWN * 2 + HIGH
    return page(
        TITLE,
        DESC,
        bottom + 46,
        *(curve(place, *row) for place, row in enumerate(losses.items())),
        text(LEFT - 8, TOP + 12, "2.5", anchor="end"),
        text(LEFT - 8, TOP + HIGH + 5, "0", anchor="end"),
        centered(LEFT + WIDE / 2, bottom + 20, "200 steps"),
        text(24, (TOP + bottom) / 2, "loss (nats per token)", anchor="middle", turn=-90),
    )


if __name__ == "__main__":
    record()
