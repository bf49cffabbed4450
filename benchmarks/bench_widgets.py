"""Measure how long a reader of a widget waits: in the kernel, and in a browser."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core, as a widget has it in a busy kernel

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tools"))  # the driver of the browser

from browser_driver import NO_BROWSER, Lab, chromium, jupyter_lab, write_notebook
from ipywidgets import Checkbox, Text, Widget
from timing import Row, median_and_range

from course_lib.viz.attention_explorer import AttentionExplorer
from course_lib.viz.explorer_base import Explorer
from course_lib.viz.heads_explorer import HeadsExplorer
from course_lib.viz.mask_explorer import MaskExplorer
from course_lib.viz.position_explorer import PositionExplorer
from course_lib.viz.schedule_explorer import ScheduleExplorer

SLIDERS = {  # the slider whose keys are timed in the browser
    AttentionExplorer: "query, across",
    PositionExplorer: "chosen position",
    MaskExplorer: "row (query)",
    ScheduleExplorer: "warm-up steps",
    HeadsExplorer: "head to look at",
}
REPEATS, KEYS = 21, 20
WATCH = """img => {
    window.times = [];
    addEventListener('keydown', () => { window.pressed = performance.now(); }, true);
    const painted = () => window.times.push(performance.now() - window.pressed);
    const look = () => img.decode().then(() => requestAnimationFrame(painted));
    new MutationObserver(look).observe(img, {attributes: true, attributeFilter: ['src']});
}"""


def other_values(control: Widget) -> list:
    """List a few values that a control can be set to, in turn."""
    if isinstance(control, Checkbox):
        return [not control.value, control.value]
    if isinstance(control, Text):
        return []  # a new text is a new computation: it is not a redraw
    if hasattr(control, "options"):
        options = getattr(control.options, "values", lambda: control.options)()
        return [option[1] if isinstance(option, tuple) else option for option in options]
    low, high = control.min, control.max
    if hasattr(control, "base"):
        low, high = control.base**low, control.base**high
    middle = type(control.value)((low + high) / 2)
    return [low, middle, high]


def milliseconds(act: Callable[[], None]) -> float:
    """Time one act."""
    start = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - start)


def redraws(explorer: Explorer) -> dict[str, list[float]]:
    """Time every change of every control that can be moved, in milliseconds."""
    found = {}
    for name, control in explorer.controls.items():
        start, values = control.value, other_values(control)
        for value in [*values, start]:  # what is computed once, is computed here
            control.value = value
        turns = [values[n % len(values)] for n in range(REPEATS)] if values else []
        times = []
        for value in turns:
            if value != control.value and not control.disabled:
                times.append(milliseconds(lambda c=control, v=value: setattr(c, "value", v)))
        control.value = start
        if times:
            found[name] = times
    return found


def key_presses(lab: Lab, index: int, label: str) -> list[float]:
    """Time from the press of a key to the painted picture, in milliseconds."""
    lab.run_cell(index)
    widget = lab.widget(index)
    widget.control(label).focus()
    widget.picture.evaluate(WATCH)
    for n in range(KEYS):
        widget.change(label, "ArrowRight" if n % 4 < 2 else "ArrowLeft")
        lab.page.wait_for_function("count => times.length >= count", arg=n + 1)
        lab.page.wait_for_timeout(100)
    return lab.page.evaluate("times")


def noted(table: str, name: str, times: list[float]) -> Row:
    """Print a row of a table, and return it."""
    found = median_and_range(times)
    low, middle, high = (found[word] for word in ("min", "median", "max"))
    print(f"{name:36} {middle:7.0f} {low:7.0f} {high:7.0f} {len(times):6}")
    return {"table": table, "name": name.strip(), "milliseconds": found, "rounds": len(times)}


def head(table: str) -> str:
    """Write the head of a table."""
    return f"\n{table:36} {'median':>7} {'min':>7} {'max':>7} {'times':>6}"


def bench_kernel() -> list[Row]:
    """Print how long a change takes in the kernel, control by control; return the rows."""
    rows, table = [], "kernel: change to PNG, ms"
    print(head(table))
    for kind in SLIDERS:
        found = redraws(kind())
        every = [time for times in found.values() for time in times]
        rows.append(noted(table, kind.__name__, every))
        for name, times in found.items():
            row = noted(table, f"    {name}", times)
            rows.append(row | {"name": f"{kind.__name__}, {name}"})
    return rows


def bench_browser() -> list[Row]:
    """Print how long a reader waits between a key and the picture; return the rows."""
    rows, table = [], "browser: key to picture, ms"
    print(head(table))
    cells = [
        f"from {kind.__module__} import {kind.__name__}\n{kind.__name__}()" for kind in SLIDERS
    ]
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if browser is None:
            print(NO_BROWSER)
            return rows
        home, settings = Path(folder) / "home", Path(folder) / "settings"
        home.mkdir()
        write_notebook(home / "widgets.ipynb", *cells)
        with jupyter_lab(home, settings) as address:
            lab = Lab(browser, address, "widgets.ipynb")
            for index, (kind, label) in enumerate(SLIDERS.items()):
                times = key_presses(lab, index, label)
                rows.append(noted(table, f"{kind.__name__}, {label}", times))
    return rows


def bench_widgets() -> list[Row]:
    """Print both tables, and return their rows."""
    return bench_kernel() + bench_browser()


if __name__ == "__main__":
    bench_widgets()
