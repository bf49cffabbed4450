"""What all widgets share: one figure, a labelled control, an answer to every change."""

import base64
import html
import io
import re

import ipywidgets as widgets
import matplotlib.pyplot as plt
import pytest
import torch
from PIL import Image

from course_lib.viz.attention_explorer import AttentionExplorer
from course_lib.viz.explorer import Explorer, make_figure, wipe
from course_lib.viz.heads_explorer import HeadsExplorer
from course_lib.viz.mask_explorer import MaskExplorer
from course_lib.viz.position_explorer import PositionExplorer
from course_lib.viz.schedule_explorer import ScheduleExplorer

ALL = [AttentionExplorer, PositionExplorer, MaskExplorer, ScheduleExplorer, HeadsExplorer]
every_widget = pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
VIEW = "application/vnd.jupyter.widget-view+json"


class Doubler(Explorer):
    """Show a line twice as steep as a number, unless the number is 13."""

    def __init__(self):
        fig = make_figure(3, 2)
        self.ax = fig.subplots()
        super().__init__({"number": widgets.IntSlider(3, 0, 20, description="number")}, fig)

    def redraw(self):
        """Draw the line."""
        number = self.values()["number"]
        if number == 13:
            raise ValueError("13 is <unlucky>; choose another number")
        wipe(self.ax)
        self.ax.plot([0, 1], [0, 2 * number], color="black")
        return f"twice {number}\n< {2 * number + 1}", f'A "line" to {2 * number} < 41.'


def still_of(explorer):
    """Return the mime bundle's picture, and its alternative text."""
    shown = explorer._repr_mimebundle_()["text/html"]
    data, alt = re.search(
        r'<img src="data:image/png;base64,([^"]+)" alt="([^"]+)">', shown
    ).groups()
    return Image.open(io.BytesIO(base64.b64decode(data))), html.unescape(alt)


def test_a_change_brings_a_new_picture_sentence_and_words_for_those_who_do_not_see_it():
    doubler = Doubler()
    before, fig, artists = doubler.picture.value, doubler.fig, len(doubler.ax.lines)
    doubler.controls["number"].value = 5
    assert doubler.picture.value != before
    assert ">twice 5<br>&lt; 11</div>" in doubler.words.value
    assert doubler.alt == 'A "line" to 10 < 41.'
    assert doubler.fig is fig and len(doubler.ax.lines) == artists == 1


def test_the_same_setting_is_the_same_picture():
    doubler = Doubler()
    before = doubler.picture.value
    doubler.controls["number"].value = 20
    doubler.controls["number"].value = 3
    assert doubler.picture.value == before


def test_the_layout_of_the_first_picture_stays():
    doubler = Doubler()
    before = doubler.ax.get_position().bounds
    doubler.controls["number"].value = 20  # its axis has longer numbers
    assert doubler.ax.get_position().bounds == before


def test_nothing_drawn_is_left_on_a_wiped_panel():
    ax = make_figure().subplots()
    empty = len(ax.get_children())
    ax.plot([0, 1], [0, 1])
    ax.imshow([[1.0]])
    ax.bar([0], [1])
    ax.scatter([0], [0])
    ax.text(0, 0, "word")
    wipe(ax)
    assert len(ax.get_children()) == empty


def test_what_is_wrong_is_said_and_the_picture_stays():
    doubler = Doubler()
    before, alt = doubler.picture.value, doubler.alt
    doubler.controls["number"].value = 13
    assert "<strong>13 is &lt;unlucky&gt;; choose another number</strong>" in doubler.words.value
    assert 'role="alert"' in doubler.words.value
    assert (doubler.picture.value, doubler.alt) == (before, alt)
    doubler.controls["number"].value = 3
    assert 'role="status"' in doubler.words.value


def test_a_bug_in_a_drawing_is_not_swallowed(monkeypatch):
    doubler = Doubler()
    monkeypatch.setattr(doubler, "redraw", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        doubler.controls["number"].value = 4


def first_slider(explorer):
    """Return a slider, and two values that it can be set to."""
    kinds = widgets.IntSlider | widgets.FloatSlider | widgets.SelectionSlider
    slider = next(c for c in explorer.controls.values() if isinstance(c, kinds))
    options = getattr(slider, "options", None)
    return slider, (slider.min, slider.max) if options is None else (options[0], options[-1])


@every_widget
def test_is_made_without_arguments_and_leaves_no_footprints(kind):
    figures, dice = plt.get_fignums(), torch.get_rng_state()
    explorer = kind()
    slider, ends = first_slider(explorer)
    for slider.value in ends:
        pass
    assert plt.get_fignums() == figures
    assert torch.equal(torch.get_rng_state(), dice)


@every_widget
def test_its_artists_do_not_pile_up(kind):
    explorer = kind()
    slider, ends = first_slider(explorer)
    sizes = []
    for _ in range(3):
        for slider.value in ends:
            pass
        sizes.append([len(ax.get_children()) + len(ax.containers) for ax in explorer.fig.axes])
    assert sizes[0] == sizes[2]


@every_widget
def test_every_control_has_a_name_of_its_own(kind):
    names = [control.description for control in kind().controls.values()]
    assert all(names) and len(set(names)) == len(names)


@every_widget
def test_nothing_moves_when_the_picture_changes(kind):
    explorer = kind()
    image = Image.open(io.BytesIO(explorer.picture.value))
    room = explorer.picture.layout
    assert (room.width, room.height) == (f"{image.width}px", f"{image.height}px")
    slider, (low, _) = first_slider(explorer)
    places = [ax.get_position().bounds for ax in explorer.fig.axes]
    slider.value = low
    assert [ax.get_position().bounds for ax in explorer.fig.axes] == places
    assert Image.open(io.BytesIO(explorer.picture.value)).size == image.size


@every_widget
def test_the_settings_of_a_notebook_do_not_reach_the_picture(kind):
    expected = kind().picture.value
    with plt.rc_context({"figure.facecolor": "red", "lines.linewidth": 9.0, "font.size": 20.0}):
        assert kind().picture.value == expected


@every_widget
def test_a_still_picture_stands_where_no_kernel_runs(kind):
    explorer = kind()
    image, alt = still_of(explorer)
    assert image.size == Image.open(io.BytesIO(explorer.picture.value)).size
    assert alt == explorer.alt and len(alt.split()) > 15
    bundle = explorer._repr_mimebundle_()
    assert explorer.words.value in bundle["text/html"]
    assert bundle["text/plain"] == f"<{kind.__name__}>"  # no number: strict nbval compares it
    assert VIEW in bundle


def test_the_still_picture_shows_the_setting_of_the_moment():
    doubler = Doubler()
    before, _ = still_of(doubler)
    doubler.controls["number"].value = 9
    after, alt = still_of(doubler)
    assert after.convert("RGB").tobytes() != before.convert("RGB").tobytes()
    assert alt == 'A "line" to 18 < 41.'
