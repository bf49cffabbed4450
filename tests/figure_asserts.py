"""Look at a widget as a reader would: is its picture readable, and what does the chapter say?"""

from itertools import combinations
from pathlib import Path

import nbformat
from matplotlib.figure import Figure
from matplotlib.text import Text

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def answer_of_chapter(explorer: type) -> str:
    """Read what a chapter says below the cell that shows an explorer, and what a cell prints."""
    cells = [c for p in NOTEBOOKS.glob("*.ipynb") for c in nbformat.read(p, as_version=4).cells]
    (shown,) = (i for i, c in enumerate(cells) if c.source == f"{explorer.__name__}()")
    answer = []
    for cell in cells[shown + 1 :]:
        answer += [output.get("text", "") for output in cell.get("outputs", [])]
        if cell.cell_type == "markdown":
            return " ".join([*answer, *cell.source.split()])
    return ""


def texts(fig: Figure) -> list[Text]:
    """List every text that is painted."""
    fig.canvas.draw()
    return [t for t in fig.findobj(Text) if t.get_text().strip() and _painted(t)]


def _painted(text: Text) -> bool:
    """Say whether a text is shown: ticks outside the limits keep labels that nobody sees."""
    axis = next((a for ax in text.figure.axes for a in (ax.xaxis, ax.yaxis) if _has(a, text)), None)
    if axis is None:
        return text.get_visible()
    low, high = sorted(axis.get_view_interval())
    where = text.get_position()["xy".index(axis.axis_name)]
    return text.get_visible() and low - 1e-9 <= where <= high + 1e-9


def _has(axis, text: Text) -> bool:
    """Say whether a text is a tick's label of this axis."""
    return any(text in (tick.label1, tick.label2) for tick in axis.majorTicks)


def assert_readable(fig: Figure, smallest: float = 10.0) -> None:
    """Fail when a text is cut by the edge, lies on another, or is too small."""
    boxes = {text: text.get_window_extent() for text in texts(fig)}
    for text, box in boxes.items():
        name = text.get_text()
        assert text.get_fontsize() >= smallest, name
        assert min(box.x0, box.y0) > -1, f"{name} is cut"
        assert box.x1 <= fig.bbox.x1 and box.y1 <= fig.bbox.y1, f"{name} is cut"
    for (one, first), (two, second) in combinations(boxes.items(), 2):
        across = min(first.x1, second.x1) - max(first.x0, second.x0)
        down = min(first.y1, second.y1) - max(first.y0, second.y0)
        assert min(across, down) <= 1, f"{one.get_text()} lies on {two.get_text()}"
