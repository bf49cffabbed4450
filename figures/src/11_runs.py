"""Chapter 11: the losses of five recorded training runs, four of them with one thing broken."""

import json
from pathlib import Path

from colors import INK, KEY, QUERY, SOFT, VALUE, shade
from drawing import Plot, page, path, text

RECORD = Path(__file__).resolve().parents[2] / "course_lib" / "records" / "broken_runs.json"
TITLE = "The two runs with the lowest loss\ntranslate nothing"
PLOT, EVERY = Plot(100, 7.5, right=304, bottom=330), 2  # steps and nats; steps per recorded loss
STYLES = {  # by run: color, dash, and the height of its label in nats
    "no warm-up": (SOFT, "1 4", 4.25),
    "SGD × 160": (KEY, "8 3 2 3", 2.05),
    "as it should be": (INK, "", 1.35),
    "no causal mask": (VALUE, "6 4", 0.8),
    "no shift": (QUERY, "2 3", 0.25),
}


def draw() -> str:
    """Draw each run's losses for seed 0, and say how many of 100 numbers it translates."""
    runs = {e["way"]: e for e in json.loads(RECORD.read_text(encoding="utf-8")) if e["seed"] == 0}
    place = PLOT.place
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
            PLOT.right + 10,
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
        "a little higher, and gets 83 right. SGD falls late, to 1.8, and gets 12 right. The run "
        "without warm-up stays above 4.",
        386,
        PLOT.axes([0, 50, 100], [0, 2, 4, 6], "training step", "loss (nats per token)"),
        text(PLOT.right + 10, PLOT.top + 8, "right translations"),
        *curves,
        *labels,
    )
