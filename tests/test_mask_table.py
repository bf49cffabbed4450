"""The table of a mask: its blocked cells, its frame, its words, and the row printed below it."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.textpath import text_to_path

from course_lib.viz import mask_table as module
from course_lib.viz.explorer_base import make_axes
from course_lib.viz.mask_table import FONT, draw_row, draw_table, shorten
from course_lib.viz.plots import COLOURS

MASK = torch.tensor([[True, False, False], [True, True, False]])
WORDS = (["q0", "q1"], ["k0", "k1", "k2"])


@pytest.fixture
def ax():
    """Make an empty panel."""
    return make_axes((6.4, 3.6), (0.6, 0.4, 5.2, 2.9))[0]


def patches(ax, kind):
    """List the patches of one kind."""
    return [patch for patch in ax.patches if type(patch) is kind]


def test_blocked_cells_are_grey_and_hatched_and_the_frame_stands_around_its_row(ax):
    draw_table(torch.zeros(2, 3), MASK, WORDS, 1, ax, limit=1)
    (hatched,) = patches(ax, PathPatch)
    assert hatched.get_hatch()
    (image,) = ax.images
    painted = image.to_rgba(image.get_array())
    (frame,) = patches(ax, Rectangle)
    for t in range(2):
        for s in range(3):
            blocked = not MASK[t, s]
            assert hatched.get_path().contains_point((s, t)) == blocked
            assert (to_hex(painted[t, s]).upper() == COLOURS["masked"]) == blocked
            assert frame.get_bbox().contains(s, t) == (t == 1)


def test_a_printed_row_stands_in_lines_below_its_keys_and_greys_its_blocked_columns(
    ax, monkeypatch
):
    placed = []
    monkeypatch.setattr(module, "draw_words", lambda words, _: placed.extend(words))
    draw_row({"ours": ["a0", "a1", "a2"], "weights": ["b0", "b1", "b2"]}, MASK[0], WORDS[1], ax)
    x, y = ({word: place[axis] for *place, word, _ in placed} for axis in (0, 1))
    *grey, _ = patches(ax, Rectangle)
    assert {to_hex(bar.get_facecolor()).upper() for bar in grey} == {COLOURS["masked"]}
    for s, look in enumerate(MASK[0]):
        assert x[f"k{s}"] == x[f"a{s}"] == x[f"b{s}"]
        assert any(bar.get_bbox().containsx(x[f"k{s}"]) for bar in grey) != look
        assert [y[f"{line}{s}"] for line in "kab"] == [y["key"], y["ours"], y["weights"]]
    assert y["key"] > y["ours"] > y["weights"] > 0


@given(word=st.text("aiWgÄ$_<…>", min_size=1, max_size=15), room=st.integers(32, 70))
def test_a_shortened_word_fits_its_room(word, room):
    short = shorten(word, room)
    assert short.replace(r"\$", "$") == word or short.endswith("…")
    width = text_to_path.get_text_width_height_descent
    assert width(short.replace(r"\$", "$"), FONT, False)[0] <= room
