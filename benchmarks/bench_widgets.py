"""Measure how long a reader of a widget waits in a browser."""

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tools"))  # the driver of the browser

from browser_driver import NO_BROWSER, Lab, chromium, jupyter_lab, write_notebook
from timing import Row, median_and_range

from course_lib.viz.attention_explorer import AttentionExplorer
from course_lib.viz.heads_explorer import HeadsExplorer
from course_lib.viz.mask_explorer import MaskExplorer
from course_lib.viz.schedule_explorer import ScheduleExplorer

SLIDERS = {  # the slider whose keys are timed
    AttentionExplorer: "query, across",
    MaskExplorer: "row (query)",
    ScheduleExplorer: "warm-up steps",
    HeadsExplorer: "head to look at",
}
KEYS = 20
WATCH = """img => {
    window.times = [];
    addEventListener('keydown', () => { window.pressed = performance.now(); }, true);
    const painted = () => window.times.push(performance.now() - window.pressed);
    const look = () => img.decode().then(() => requestAnimationFrame(painted));
    new MutationObserver(look).observe(img, {attributes: true, attributeFilter: ['src']});
}"""


def key_presses(lab: Lab, index: int, label: str) -> list[float]:
    """Time from the press of a key to the painted picture, in milliseconds."""
    lab.run_cell(index)
    widget = lab.widget(index)
    widget.control(label).focus()
    widget.picture.evaluate(WATCH)
    for number in range(KEYS):
        widget.change(label, "ArrowRight" if number % 4 < 2 else "ArrowLeft")
        lab.page.wait_for_function("count => times.length >= count", arg=number + 1)
        lab.page.wait_for_timeout(100)
    return lab.page.evaluate("times")


def bench_widgets() -> Iterator[Row]:
    """Measure the wait between a key and the picture, for every widget."""
    cells = [
        f"from {explorer.__module__} import {explorer.__name__}\n{explorer.__name__}()"
        for explorer in SLIDERS
    ]
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        if browser is None:
            print(NO_BROWSER)
            return
        home, settings = Path(folder) / "home", Path(folder) / "settings"
        home.mkdir()
        write_notebook(home / "widgets.ipynb", *cells)
        with jupyter_lab(home, settings) as address:
            lab = Lab(browser, address, "widgets.ipynb")
            for index, (explorer, label) in enumerate(SLIDERS.items()):
                times = key_presses(lab, index, label)
                yield {
                    "table": "browser: key to picture, ms",
                    "name": f"{explorer.__name__}, {label}",
                    "milliseconds": median_and_range(times),
                    "rounds": len(times),
                }
