"""Chapter 11: the losses of five recorded training runs, four of them with one thing broken."""

import json
from pathlib import Path

from colors import INK, KEY, LINE, QUERY, SOFT, VALUE, shade
from drawing import page, path, text

RECORD = Path(__file__).resolve().parents[2] / "course_lib" / "records" / "broken_runs.json"
TITLE = "The two runs with the lowest loss\ntranslate nothing"
LEFT, RIGHT, TOP, BOTTOM = 76, 408, 92, 330  # px, of the plot
STEPS, HIGHEST, EVERY = 100, 7.5, 2
STYLES = {  # by run: color, dash, and the height of its label in nats
    "no warm-up": (SOFT, "1 4", 4.25),
    "SGD × 160": (KEY, "8 3 2 3", 2.05),
    "as it should be": (INK, "", 1.35),
    "no causal mask": (VALUE, "6 4", 0.8),
    "no shift": (QUERY, "2 3", 0.25),
}


def place(step: float, loss: float) -> tuple[float, float]:
    """Return the coordinates of a loss in px."""
    x = LEFT + (RIGHT - LEFT) * step / STEPS
    return x, BOTTOM - (BOTTOM - TOP) * loss / HIGHEST


def draw() -> str:
    """Draw each run's losses for seed 0, and say how many of 100 numbers it translates."""
    runs = {e["way"]: e for e in json.loads(RECORD.read_text(encoding="utf-8")) if e["seed"] == 0}
    ticks = [(LEFT - 10, place(0, loss)[1] + 5, f"{loss}", "end") for loss in (0, 2, 4, 6)]
    ticks += [(place(step, 0)[0], BOTTOM + 22, f"{step}", "middle") for step in (0, 50, 100)]
    curves = [
        path(
            [place(EVERY * (i + 1), loss) for i, loss in enumerate(runs[way]["losses"])],
            color=color,
            width=2.4,
            dash=dash,
        )
        for way, (color, dash, _) in STYLES.items()
    ]
    labels = [
        text(
            RIGHT + 10,
            place(0, height)[1] + 5,
            f"{way.partition(' ×')[0]}: {runs[way]['right']} of 100",
            color=shade(color),
            bold=way == "as it should be",
        )
        for way, (color, _, height) in STYLES.items()
    ]
    return page(
        TITLE,
        "The losses of five training runs over 100 steps. The runs without the shift and without "
        "the causal mask end lowest, and translate 0 of 100 numbers. The run as it should be ends "
        "a little higher, and gets 83 right. SGD is far above them, and the run without warm-up "
        "stays above 4.",
        386,
        path([(LEFT, TOP), (LEFT, BOTTOM), (RIGHT, BOTTOM)], color=LINE, width=1.2),
        *(text(x, y, words, anchor=anchor) for x, y, words, anchor in ticks),
        text(24, (TOP + BOTTOM) / 2, "loss (nats per token)", anchor="middle", turn=-90),
        text((LEFT + RIGHT) / 2, BOTTOM + 42, "training step", anchor="middle"),
        text(RIGHT + 10, TOP + 8, "right translations"),
        *curves,
        *labels,
    )
