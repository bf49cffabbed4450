"""What every widget of the course shares: labelled controls over one picture and one sentence."""

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

from course_lib.viz.plots import PIXELS, STYLE, picture_data

LOOK = dict(style={"description_width": "130px"}, layout=widgets.Layout(width="420px"))


def make_axes(size: tuple[float, float], *places: tuple[float, float, float, float]) -> list[Axes]:
    """Make a figure in the course's style that belongs to no notebook, with panels that stay.

    Args:
        size: Width and height of the figure, in inches.
        places: Left, bottom, width and height of every panel, in inches.
    """
    width, height = size
    with rc_context(fname=STYLE):
        fig = Figure(figsize=size, layout="none")
        return [
            fig.add_axes((x / width, y / height, w / width, h / height)) for x, y, w, h in places
        ]


def wipe(ax: Axes) -> None:
    """Take away what was drawn, but not the ticks: making them anew takes half of the time."""
    for artist in [*ax.images, *ax.lines, *ax.patches, *ax.collections, *ax.texts]:
        artist.remove()
    ax.containers.clear()  # of bars that are gone
    ax.relim()  # forget how far it reached
    ax.set_autoscale_on(True)


class Explorer(widgets.VBox):
    """Show controls, a sentence that answers them, and a picture that follows.

    A subclass makes its controls and its axes in ``__init__``, calls ``super().__init__``, and
    draws in ``redraw``. One figure is kept: a change is painted in a fraction of the time that a
    new figure takes. Wrong input is answered by a sentence in place of the old one; the picture
    stays.

    Args:
        controls: The controls by name; each has a ``description`` and follows the keyboard.
        axes: Panels of one figure; they are empty when ``redraw`` draws on them.
    """

    def __init__(self, controls: Mapping[str, widgets.Widget], axes: list[Axes]) -> None:
        self.controls = dict(controls)
        self.axes = axes
        self.fig = axes[0].get_figure(root=True)
        self.fig.set_dpi(PIXELS)
        self.canvas = FigureCanvasAgg(self.fig)
        width, height = self.canvas.get_width_height()
        room = dict(width=f"{width}px", height=f"{height}px", flex="0 0 auto")
        fixed = widgets.Layout(object_fit="contain", **room)
        self.picture = widgets.Image(format="png", layout=fixed)
        self.words = widgets.HTML(layout=widgets.Layout(min_height="60px"))  # three lines
        self.alt = ""
        self.drawing = False
        super().__init__([*self.controls.values(), self.words, self.picture])
        for control in self.controls.values():
            control.observe(self._follow, "value")
        self._follow(None)

    def redraw(self) -> tuple[str, str]:
        """Draw what the controls ask for.

        Returns:
            The sentences above the picture, each in a line, and what there is to see, for those
            who do not see it.

        Raises:
            ValueError: If a control asks for what does not exist; the message is shown.
        """
        raise NotImplementedError

    def values(self) -> dict[str, Any]:
        """Return what every control is set to."""
        return {name: control.value for name, control in self.controls.items()}

    def _follow(self, _: Any) -> None:
        """Answer a change: a new picture and sentence, or a sentence that says what is wrong.

        A control that ``redraw`` itself moves, as one that ends where the words end, asks nothing.
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
            self.words.value = f'<div role="status" style="line-height: 1.4">{lines}</div>'
        except ValueError as error:
            said = html.escape(str(error))
            self.words.value = f'<div role="alert"><strong>{said}</strong></div>'
        finally:
            self.drawing = False

    def _painted(self) -> bytes:
        """Paint the figure as a PNG, as fast as it goes."""
        self.canvas.draw()
        file = io.BytesIO()
        pixels = np.asarray(self.canvas.buffer_rgba())
        Image.fromarray(pixels).convert("RGB").save(file, format="png", compress_level=1)
        return file.getvalue()

    def plain_text(self) -> str:
        """Return the text that strict nbval compares: it must be the same on every machine."""
        return self.alt

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        """Add a still picture and its text, which readers see where no kernel runs."""
        live = super()._repr_mimebundle_(**kwargs)
        image = Image.open(io.BytesIO(self.picture.value))
        still = picture_data(image, self.alt, image.width)
        hint = "A still picture: open the notebook in JupyterLab and run the cell to move it."
        page = f"{self.words.value}{still['text/html']}<p><em>{hint}</em></p>"
        return live | still | {"text/html": page, "text/plain": self.plain_text()}
