"""The plots show their values, look the same everywhere, and are closed when shown."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from dimensions import S, T
from figure_asserts import assert_readable, shown_image
from matplotlib.colors import to_rgb, to_rgba
from random_inputs import normal

from course_lib.viz import plots
from course_lib.viz.plots import COLORS, bars, curves, heatmap, show, use_course_style

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


def test_signed_values_have_limits_symmetric_around_a_white_zero():
    ax = heatmap(torch.tensor([[-1.0, 0.0, 0.5]]), ["q"], ["a", "b", "c"], limit=4.0)
    assert ax.images[0].get_clim() == (-4, 4)
    assert ax.images[0].get_cmap().name == "RdBu_r"
    cold, middle, warm = colors(ax)[0]
    assert middle[:3].min() > 0.95
    assert cold[2] > cold[0] and warm[0] > warm[2], "blue below zero, red above"


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


@pytest.mark.parametrize("scale", [{}, {"limit": 1.0}, {"largest": 1.0}])
def test_numbers_can_be_read_on_their_cell(scale):
    ends = torch.tensor([[-1.0 if "limit" in scale else 0.0, 0.05, 0.71, 0.73, 0.95, 1.0]])
    ends = ends[:, [0, 1, 4, 5]] if "limit" in scale else ends
    ax = heatmap(ends, ["q"], [*"abcdef"][: ends.size(1)], numbers=True, **scale)
    light = torch.tensor([0.2126, 0.7152, 0.0722], dtype=torch.float64)  # brightness, in linear RGB
    for cell, text in zip(colors(ax)[0, :, :3], ax.texts, strict=True):
        ink = torch.tensor(to_rgb(text.get_color()), dtype=torch.float64)
        dim, bright = sorted(float(color.pow(2.2) @ light) for color in (cell, ink))
        assert (bright + 0.05) / (dim + 0.05) > 4.5, f"{text.get_text()} cannot be read"


TABLES = {
    "one cell": (["a"], ["b"]),
    "long words": (["seventy-eight"] * 3, ["achtundsiebzig", "und", "eins"]),
    "long rows": (["achtundsiebzigtausend"] * 2, ["eins"] * 6),
    "many words": (["row"] * 12, ["hundert"] * 12),
    "a long sentence": (["row"] * 4, ["drei"] * 24),
}


@pytest.mark.parametrize("name", TABLES)
def test_words_do_not_overlap_and_fit_the_page(name):
    rows, columns = TABLES[name]
    ax = heatmap(torch.zeros(len(rows), len(columns)), rows, columns)
    ax.set(xlabel="key", ylabel="query")
    assert ax.figure.get_figwidth() <= plots.PAGE + 1e-9
    assert_readable(ax.figure)


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


def test_every_bar_has_its_height_and_name_and_equal_names_stay_separate():
    ax = bars(["ja", "ja"], [0.75, 0.25], ylabel="probability", color=COLORS["value"])
    assert [bar.get_height() for bar in ax.patches] == [0.75, 0.25]
    assert len({bar.get_x() for bar in ax.patches}) == 2
    assert {to_rgb(bar.get_facecolor()) for bar in ax.patches} == {to_rgb(COLORS["value"])}
    assert words(ax.get_xticklabels()) == ["ja", "ja"] and ax.get_ylabel() == "probability"


# --- all plots


@pytest.mark.parametrize(
    "draw",
    [
        lambda x, **ax: heatmap(x * torch.eye(2), ["a", "b"], ["a", "b"], **ax),
        lambda x, **ax: curves(x, {"loss": x}, xlabel="x", ylabel="y", **ax),
        lambda x, **ax: bars(["a", "b"], x, ylabel="y", **ax),
    ],
    ids=["heatmap", "curves", "bars"],
)
def test_a_plot_accepts_gradients_and_draws_into_given_axes_or_its_own_figure(draw):
    _, (left, right) = plt.subplots(1, 2)
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert draw(x, ax=right) is right
    assert right.has_data() and not left.has_data()
    assert len(plt.get_fignums()) == 1, "no figure except the given one"
    assert draw(x).figure not in (left.figure, None)
    assert len(plt.get_fignums()) == 2 and x.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (lambda: heatmap(torch.eye(2), ["a"], ["b", "c"]), "shape (2, 2) do not fit 1 × 2 labels"),
        (
            lambda: heatmap(torch.eye(2), ["a", "b"], ["c", "d"], mask=torch.eye(2)),
            "a (2, 2) mask of torch.float32 does not fit",
        ),
        (
            lambda: curves([1, 2], {"bad": [0.0]}, xlabel="x", ylabel="y"),
            "line 'bad' has 1 values, but x has 2",
        ),
        (lambda: bars(["a"], [1.0, 2.0], ylabel="y"), "got 1 names for 2 values"),
    ],
)
def test_values_that_do_not_fit_are_named_and_leave_no_figure_open(draw, says):
    with pytest.raises(ValueError, match=re.escape(says)):
        draw()
    assert not plt.get_fignums()


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


def test_the_shown_image_keeps_every_color_of_a_heat_map(shown):
    mask = torch.tensor([[True] * 8 + [False]])
    ax = heatmap(torch.arange(9.0).unsqueeze(0) / 8, ["q"], ["a"] * 9, mask=mask)
    painted = colors(ax)[0, :, :3]
    show(ax.figure, alt="A row from dark to bright, then a grey cell.")
    image, _ = shown_image(shown[0][0])
    seen = torch.tensor(np.asarray(image.convert("RGBA").convert("RGB")) / 255).flatten(0, 1)
    for color in painted:
        assert (seen - color).abs().amax(dim=1).min() < 0.02, f"no pixel is {color}"


def test_show_rejects_a_figure_without_words(shown):
    fig, _ = plt.subplots()
    with pytest.raises(ValueError, match=re.escape("show(fig, alt=…) needs a sentence")):
        show(fig, alt=" \n\t")
    assert not shown


def test_a_plot_is_transparent_and_its_ink_is_readable_on_light_and_dark_pages(shown):
    ax = curves([1, 2], {"loss": [1.0, 0.5]}, xlabel="step", ylabel="loss")
    ink = {t.get_color() for t in (ax.xaxis.label, ax.title, *ax.get_xticklabels())}
    assert len(ink) == 1
    light = torch.tensor([0.2126, 0.7152, 0.0722]) @ torch.tensor(to_rgb(ink.pop())).pow(2.2)
    assert 1.05 / (light + 0.05) > 4.5 and (light + 0.05) / (0.006 + 0.05) > 3.5
    show(ax.figure, alt="A line that falls.")
    corners = shown_image(shown[0][0])[0].convert("RGBA").resize((2, 2), resample=0)
    assert [corners.getpixel((x, y))[3] for x in (0, 1) for y in (0, 1)] == [0] * 4
