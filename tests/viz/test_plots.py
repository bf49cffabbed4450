"""The plots show their values, look the same everywhere, and are closed when shown."""

import matplotlib.pyplot as plt
import pytest
import torch
from dimensions import S, T
from figure_asserts import shown_image
from matplotlib.colors import to_rgb, to_rgba
from random_inputs import normal

from course_lib.viz import plots
from course_lib.viz.plots import COLORS, curves, heatmap, show, use_course_style

ROWS = ["seventy", "-", "eight", "<eos>"]  # T words
COLUMNS = ["acht", "und", "sieb", "zig", "."]  # S words


@pytest.fixture(autouse=True)
def style():
    """Draw in the course's style, and then close all figures and restore the settings."""
    with plt.rc_context():
        use_course_style()
        yield
    plt.close("all")


@pytest.fixture
def shown(monkeypatch):
    outputs = []
    monkeypatch.setattr(plots, "display", lambda data, **how: outputs.append((data, how)))
    return outputs


def colors(ax) -> torch.Tensor:
    """Read the color of every cell in a heat map. Shape (T, S, 4)."""
    (image,) = ax.images
    return torch.as_tensor(image.to_rgba(image.get_array()))


def words(labels) -> list[str]:
    """Read the words of tick labels or of a legend."""
    return [label.get_text() for label in labels]


# --- heatmap


def test_a_heat_map_shows_its_values_queries_down_and_keys_across(generator):
    values = normal(generator, T, S).softmax(dim=-1)
    ax = heatmap(values / 100, ROWS, COLUMNS)
    assert ax.images[0].get_array().tolist() == (values / 100).tolist()
    assert ax.images[0].get_clim() == (0, 1), "the limits do not depend on the values"
    assert words(ax.get_yticklabels()) == ROWS
    assert words(ax.get_xticklabels()) == COLUMNS
    assert ax.get_yticks().tolist() == list(range(T))
    assert ax.get_xticks().tolist() == list(range(S))
    bottom, top = ax.get_ylim()
    assert top < bottom, "the first query is at the top"


@pytest.mark.parametrize("limit", [None, 2.0])
def test_blocked_cells_are_gray_and_differ_from_zero(limit):
    mask = torch.tensor([[True, False], [True, True]])
    ax = heatmap(
        torch.tensor([[0.0, 0.0], [0.5, 1.0]]), ["a", "b"], ["a", "b"], mask=mask, limit=limit
    )
    painted = colors(ax)
    grey = torch.tensor(to_rgba(COLORS["masked"]))
    assert torch.allclose(painted[0, 1], grey.double(), atol=1 / 255)
    for place in [(0, 0), (1, 0), (1, 1)]:
        assert (painted[place] - grey).abs().max() > 0.1, f"cell {place} looks blocked"


def test_numbers_are_in_their_cells_but_not_in_blocked_ones():
    weights, mask = torch.tensor([[0.25, 0.75, 0.0]]), torch.tensor([[True, True, False]])
    ax = heatmap(weights, ["q"], ["a", "b", "c"], mask=mask, numbers=True)
    written = {text.get_position(): text.get_text() for text in ax.texts}
    assert written == {(0, 0): "0.25", (1, 0): "0.75"}
    assert not heatmap(weights, ["q"], ["a", "b", "c"], mask=mask).texts


# --- lines and bars


def test_every_line_goes_through_its_points_and_differs_from_the_others_without_color():
    lines = {name: torch.tensor([3.0, 2.0, n]) for n, name in enumerate("abcd")}
    ax = curves([1, 2, 3], lines, xlabel="step", ylabel="loss (nats)")
    for line, (name, values) in zip(ax.lines, lines.items(), strict=True):
        assert line.get_xydata().tolist() == list(map(list, enumerate(values.tolist(), start=1)))
        assert line.get_label() == name
    assert words(ax.get_legend().get_texts()) == list(lines)
    assert len({line.get_linestyle() for line in ax.lines}) == len(lines)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step", "loss (nats)")
    assert curves([1, 2], {"loss": [1.0, 0.5]}, xlabel="x", ylabel="y").get_legend() is None


# --- show


def test_show_stores_one_picture_at_its_size_as_html_with_alt_text_as_png_and_as_text(shown):
    (kept, _), (fig, _) = plt.subplots(), plt.subplots(figsize=(5, 2))
    alt = "it's <b>bold</b> & “it”\"><script>"  # text is not HTML
    show(fig, alt=alt)
    assert plt.get_fignums() == [kept.number], "show closes its own figure and no other"
    ((data, how),) = shown
    image, tag = shown_image(data)
    assert tag["alt"] == data["text/plain"] == alt
    size = {name: int(tag[name]) for name in ("width", "height")}
    assert how == {"raw": True, "metadata": {"image/png": {"alt": alt, **size}}}
    assert image.width > image.height
    assert size == {"width": round(image.width / 2), "height": round(image.height / 2)}
    assert image.width == pytest.approx(2 * 480, rel=0.1), "twice the pixels, for sharp screens"


def test_a_plot_is_transparent_and_its_ink_is_readable_on_light_and_dark_pages(shown):
    ax = curves([1, 2], {"loss": [1.0, 0.5]}, xlabel="step", ylabel="loss")
    ink = {t.get_color() for t in (ax.xaxis.label, ax.title, *ax.get_xticklabels())}
    assert len(ink) == 1
    light = torch.tensor([0.2126, 0.7152, 0.0722]) @ torch.tensor(to_rgb(ink.pop())).pow(2.2)
    assert 1.05 / (light + 0.05) > 4.5 and (light + 0.05) / (0.006 + 0.05) > 3.5
    show(ax.figure, alt="A line that falls.")
    corners = shown_image(shown[0][0])[0].convert("RGBA").resize((2, 2), resample=0)
    assert [corners.getpixel((x, y))[3] for x in (0, 1) for y in (0, 1)] == [0] * 4
