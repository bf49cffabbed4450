"""The base class of all explorers: labeled controls, one sentence and one picture."""

import html
import io
from collections.abc import Mapping
from typing import Any

import ipywidgets as widgets
import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from course_lib.viz.plots import PIXELS, STYLE, picture_output

LOOK = dict(style={"description_width": "130px"}, layout=widgets.Layout(width="420px"))


def make_axes(size: tuple[float, float], *places: tuple[float, float, float, float]) -> list[Axes]:
    """Make a figure in the course's style, with panels at fixed places.

    The figure is not registered with pyplot, so no notebook shows it by itself.

    Args:
        size: Width and height of the figure, in inches.
        places: Left, bottom, width and height of every panel, in inches.
    """
    width, height = size
    with rc_context(fname=STYLE):
        fig = Figure(figsize=size)
        fig.set_layout_engine("none")
        return [
            fig.add_axes((x / width, y / height, w / width, h / height)) for x, y, w, h in places
        ]


def wipe(ax: Axes) -> None:
    """Remove everything but the ticks, because drawing them again takes half of the time."""
    for artist in [*ax.images, *ax.lines, *ax.patches, *ax.collections, *ax.texts]:
        artist.remove()
    ax.containers.clear()  # of bars that are removed
    ax.relim()  # forget the old limits
    ax.set_autoscale_on(True)


class Explorer(widgets.VBox):
    """Show controls, a sentence and a picture, and update both when a control changes.

    A subclass makes its controls and its axes in ``__init__``, calls ``super().__init__``, and
    draws in ``redraw``. The same figure is drawn again for every change, because a new one would
    take several times as long. After wrong input, the sentence explains what is wrong, and the
    picture stays the same.

    Args:
        controls: The controls by name. Each has a ``description`` and works with the keyboard.
        axes: Panels of one figure. They are empty when ``redraw`` draws on them.
    """

    def __init__(self, controls: Mapping[str, widgets.Widget], axes: list[Axes]) -> None:
        self.controls = dict(controls)
        self.axes = axes
        figure = axes[0].get_figure(root=True)
        if figure is None:
            raise ValueError("the panels of an explorer must belong to a figure")
        self.fig = figure
        self.fig.set_dpi(PIXELS)
        self.canvas = FigureCanvasAgg(self.fig)
        width, height = self.canvas.get_width_height()
        room = dict(width=f"{width}px", height=f"{height}px", flex="0 0 auto")
        fixed = widgets.Layout(object_fit="contain", **room)
        self.picture = widgets.Image(format="png", layout=fixed)
        self.sentence = widgets.HTML(layout=widgets.Layout(min_height="60px"))  # three lines
        self.alt = ""
        self.drawing = False
        super().__init__([*self.controls.values(), self.sentence, self.picture])
        for control in self.controls.values():
            control.observe(self._follow, "value")
        self._follow(None)

    def redraw(self) -> tuple[str, str]:
        """Draw the picture for the current values of the controls.

        Returns:
            The sentences above the picture, one per line, and the alt text.

        Raises:
            ValueError: If the input is wrong. The reader sees the message.
        """
        raise NotImplementedError

    def values(self) -> dict[str, Any]:
        """Return the value of every control."""
        return {name: control.value for name, control in self.controls.items()}

    def _follow(self, _: Any) -> None:
        """Update the picture and the sentence, or show in a sentence what is wrong.

        If ``redraw`` itself changes a control, there is no further update.
        """
        if self.drawing:
            return
        self.drawing = True
        for ax in self.axes:
            wipe(ax)
        try:
            with rc_context(fname=STYLE):
                sentence, self.alt = self.redraw()
                self.picture.value = self._painted()
            lines = html.escape(sentence).replace("\n", "<br>")
            self.sentence.value = f'<div role="status" style="line-height: 1.4">{lines}</div>'
        except ValueError as error:
            message = html.escape(str(error))
            self.sentence.value = f'<div role="alert"><strong>{message}</strong></div>'
        finally:
            self.drawing = False

    def _painted(self) -> bytes:
        """Return the figure as a PNG with fast, weak compression."""
        self.canvas.draw()
        file = io.BytesIO()
        pixels = np.asarray(self.canvas.buffer_rgba())
        Image.fromarray(pixels).convert("RGB").save(file, format="png", compress_level=1)
        return file.getvalue()

    def plain_text(self) -> str:
        """Return a text that is the same on every machine, because strict nbval compares it."""
        return self.alt

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Add a still picture and its alt text for pages without a kernel."""
        live = super()._repr_mimebundle_(**kwargs)
        image = Image.open(io.BytesIO(self.picture.value))
        still, metadata = picture_output(image, self.alt, image.width, image.height)
        hint = "A still picture: open the notebook in JupyterLab and run the cell to move it."
        page = f"{self.sentence.value}{still['text/html']}<p><em>{hint}</em></p>"
        return live | still | {"text/html": page, "text/plain": self.plain_text()}, metadata
