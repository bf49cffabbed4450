"""What all explorers share: one figure, labelled controls, an answer to every change."""

import io
import pkgutil
from functools import cache
from importlib import import_module

import ipywidgets as widgets
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from figure_asserts import assert_readable, shown_image
from PIL import Image

from course_lib import viz
from course_lib.viz.explorer_base import Explorer, make_axes

MODULES = [
    import_module(f"{viz.__name__}.{module.name}") for module in pkgutil.iter_modules(viz.__path__)
]
ALL = [
    kind
    for module in MODULES
    for kind in vars(module).values()
    if isinstance(kind, type) and issubclass(kind, Explorer) and kind.__module__ == module.__name__
]
ALL.remove(Explorer)
every_explorer = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)


class Doubler(Explorer):
    """Show a line twice as steep as a number, unless the number is 13."""

    def __init__(self):
        axes = make_axes((3, 2), (0.5, 0.5, 2, 1))
        super().__init__({"number": widgets.IntSlider(3, 0, 20, description="number")}, axes)

    def redraw(self):
        """Draw the line."""
        number = self.values()["number"]
        if number == 13:
            raise ValueError("13 is <unlucky>; choose another number")
        self.axes[0].plot([0, 1], [0, 2 * number], color="black")
        return f"twice {number}\n< {2 * number + 1}", f'A "line" to {2 * number} < 41.'


@cache
def as_shown(kind) -> Explorer:
    """Return one explorer as its chapter shows it, for the tests that leave it so."""
    return kind()


def ends(control) -> tuple:
    """Return the first and the last value that a control can be set to."""
    match control:
        case widgets.Text():
            return "six", "seven"
        case widgets.FloatLogSlider():
            return control.base**control.min, control.base**control.max
        case widgets.Checkbox() | widgets.Dropdown() | widgets.SelectionSlider():
            return options(control)[0], options(control)[-1]
    return control.min, control.max


def options(control) -> list:
    """Return what a control offers, without the labels."""
    return [value for _, value in getattr(control, "_options_full", [("", False), ("", True)])]


def settings_of_choices(explorer, kinds=widgets.Dropdown | widgets.Checkbox):
    """Go through what one drop-down or check box can be set to, the others as they start."""
    yield
    for control in (c for c in explorer.controls.values() if isinstance(c, kinds)):
        start = control.value
        for value in (value for value in options(control) if value != start):
            control.value = value
            yield
        control.value = start


def still_of(explorer) -> tuple[Image.Image, str]:
    """Return the picture that stands where no kernel runs, and its alternative text."""
    image, attributes = shown_image(explorer._repr_mimebundle_()[0])
    return image, attributes["alt"]


# --- every explorer


@every_explorer
def test_every_control_redraws_the_picture_and_its_words(kind):
    explorer, answered = kind(), set()
    start = explorer.values()
    for _ in settings_of_choices(explorer):
        for name in set(start) - answered:
            control = explorer.controls[name]
            value, picture, alt = control.value, explorer.picture.value, explorer.alt
            control.value = next(other for other in ends(control) if other != value)
            if explorer.picture.value != picture and explorer.alt != alt:
                answered.add(name)
            control.value = value
        if answered == set(start):
            break  # or a painting of every choice would follow
    assert answered == set(start)
    names = [control.description for control in explorer.controls.values()]
    assert all(names) and len(set(names)) == len(names)


@every_explorer
def test_nothing_is_left_behind_by_a_change_and_nothing_moves(kind):
    figures, dice = plt.get_fignums(), torch.get_rng_state()
    explorer = kind()
    size = Image.open(io.BytesIO(explorer.picture.value)).size
    room = explorer.picture.layout
    assert (room.width, room.height) == tuple(f"{side}px" for side in size)
    places = [ax.get_position().bounds for ax in explorer.fig.axes]
    slider = next(c for c in explorer.controls.values() if hasattr(c, "readout"))
    artists = []
    for _ in range(2):
        for value in ends(slider):
            slider.value = value
        artists.append([len(ax.get_children()) + len(ax.containers) for ax in explorer.fig.axes])
    assert artists[0] == artists[1]
    assert [ax.get_position().bounds for ax in explorer.fig.axes] == places
    assert Image.open(io.BytesIO(explorer.picture.value)).size == size
    assert plt.get_fignums() == figures and torch.equal(torch.get_rng_state(), dice)


@every_explorer
def test_at_the_ends_of_all_controls_everything_can_be_read(kind):
    explorer = kind()
    explorer._painted = bytes  # assert_readable paints
    sliders = [c for c in explorer.controls.values() if hasattr(c, "readout")]
    for _ in settings_of_choices(explorer, widgets.Dropdown):
        for end in (0, -1):
            for slider in sliders:
                slider.value = ends(slider)[end]
            assert 'role="status"' in explorer.sentence.value
            assert "nan" not in explorer.alt
            assert_readable(explorer.fig)
            shown = np.asarray(explorer.fig.canvas.buffer_rgba())
            for edge in (shown[0], shown[-1], shown[:, 0], shown[:, -1]):
                assert (edge > 224).all(), "something is cut by the edge"


@every_explorer
def test_bad_input_is_answered_and_the_picture_stays(kind):
    explorer = as_shown(kind)
    for control in (c for c in explorer.controls.values() if isinstance(c, widgets.Text)):
        picture, start = explorer.picture.value, control.value
        for bad in ("", "中"):
            control.value = bad
            assert 'role="alert"' in explorer.sentence.value
            assert explorer.picture.value == picture
        control.value = start
        assert 'role="status"' in explorer.sentence.value
        assert not control.continuous_update, "an answer waits for the whole word"


@every_explorer
def test_the_settings_of_a_notebook_do_not_reach_the_picture(kind):
    expected = as_shown(kind).picture.value
    with plt.rc_context({"figure.facecolor": "red", "lines.linewidth": 9.0, "font.size": 20.0}):
        assert kind().picture.value == expected


@every_explorer
def test_a_still_picture_with_words_stands_where_no_kernel_runs(kind):
    explorer = as_shown(kind)
    image, alt = still_of(explorer)
    assert image.size == Image.open(io.BytesIO(explorer.picture.value)).size
    _, tag = shown_image(explorer._repr_mimebundle_()[0])
    assert (tag["width"], tag["height"]) == tuple(map(str, image.size))
    assert alt.split() == explorer.alt.split() and len(alt.split()) > 15
    bundle, metadata = explorer._repr_mimebundle_()
    assert metadata["image/png"]["alt"] == explorer.alt
    assert explorer.sentence.value in bundle["text/html"]
    assert bundle["text/plain"] == explorer.plain_text() and len(explorer.plain_text().split()) > 10
    assert "application/vnd.jupyter.widget-view+json" in bundle


# --- what they inherit


def test_a_change_brings_a_new_picture_sentence_and_alternative_text():
    doubler = Doubler()
    before, still = doubler.picture.value, still_of(doubler)[0].convert("RGB").tobytes()
    place = doubler.axes[0].get_position().bounds
    doubler.controls["number"].value = 5
    assert doubler.picture.value != before
    assert ">twice 5<br>&lt; 11</div>" in doubler.sentence.value
    image, alt = still_of(doubler)
    assert alt == doubler.alt == 'A "line" to 10 < 41.' and image.convert("RGB").tobytes() != still
    doubler.controls["number"].value = 13
    assert 'role="alert"' in doubler.sentence.value
    assert "13 is &lt;unlucky&gt;" in doubler.sentence.value
    assert alt == doubler.alt
    doubler.controls["number"].value = 20  # its axis has longer numbers
    assert doubler.axes[0].get_position().bounds == place
    doubler.controls["number"].value = 3
    assert doubler.picture.value == before, "the same setting is the same picture"


def test_a_bug_in_a_drawing_is_not_swallowed(monkeypatch):
    doubler = Doubler()
    monkeypatch.setattr(doubler, "redraw", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        doubler.controls["number"].value = 4
