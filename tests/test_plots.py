"""The plots: true to their values, the same for everybody, and closed when shown."""

import base64
import io
import re
from html.parser import HTMLParser
from itertools import pairwise

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_rgb, to_rgba
from matplotlib.image import imread
from reference import S, T, normal

from course_lib.viz import plots
from course_lib.viz.plots import COLOURS, bars, curves, heatmap, show, use_course_style

ROWS = ["seventy", "-", "eight", "<eos>"]  # T words
COLUMNS = ["acht", "und", "sieb", "zig", "."]  # S words


@pytest.fixture(autouse=True)
def style():
    """Draw in the course's style, and leave neither figures nor settings behind."""
    with plt.rc_context():
        use_course_style()
        yield
    plt.close("all")


@pytest.fixture
def values(generator):
    """Weights of T queries over S keys."""
    return normal(generator, T, S).softmax(dim=-1)


@pytest.fixture
def shown(monkeypatch):
    """Collect what is sent to the notebook."""
    outputs = []
    monkeypatch.setattr(plots, "display", outputs.append)
    return outputs


def image_tag(output) -> dict[str, str]:
    """Read the attributes of the one element of an output."""
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, dict(attributes)))
    parser.feed(output.data)
    ((tag, attributes),) = tags
    assert tag == "img"
    return attributes


def colours(ax) -> torch.Tensor:
    """Read the colour of every cell of a heat map. Shape (T, S, 4)."""
    (image,) = ax.images
    return torch.as_tensor(image.to_rgba(image.get_array()))


def words(labels) -> list[str]:
    """Read the words of tick labels or of a legend."""
    return [label.get_text() for label in labels]


# --- heatmap


def test_a_heat_map_shows_its_values_queries_down_and_keys_across(values):
    ax = heatmap(values, ROWS, COLUMNS)
    assert ax.images[0].get_array().tolist() == values.tolist()
    assert words(ax.get_yticklabels()) == ROWS
    assert words(ax.get_xticklabels()) == COLUMNS
    assert ax.get_yticks().tolist() == list(range(T))
    assert ax.get_xticks().tolist() == list(range(S))
    bottom, top = ax.get_ylim()
    assert top < bottom, "the first query stands on top"


def test_weights_have_the_limits_0_and_1_whatever_they_are(values):
    faint = heatmap(values / 100, ROWS, COLUMNS).images[0]
    assert faint.get_clim() == (0, 1)
    assert faint.get_cmap().name == "cividis"


def test_signed_values_have_limits_symmetric_around_a_white_zero():
    ax = heatmap(torch.tensor([[-1.0, 0.0, 0.5]]), ["q"], ["a", "b", "c"], limit=4.0)
    assert ax.images[0].get_clim() == (-4, 4)
    assert ax.images[0].get_cmap().name == "RdBu_r"
    cold, middle, warm = colours(ax)[0]
    assert middle[:3].min() > 0.95
    assert cold[2] > cold[0] and warm[0] > warm[2], "blue below zero, red above"


@pytest.mark.parametrize("limit", [None, 2.0])
def test_blocked_cells_are_grey_and_differ_from_zero(limit):
    mask = torch.tensor([[True, False], [True, True]])
    ax = heatmap(
        torch.tensor([[0.0, 0.0], [0.5, 1.0]]), ["a", "b"], ["a", "b"], mask=mask, limit=limit
    )
    painted = colours(ax)
    grey = torch.tensor(to_rgba(COLOURS["masked"]))
    assert torch.allclose(painted[0, 1], grey.double(), atol=1 / 255)
    for place in [(0, 0), (1, 0), (1, 1)]:
        assert (painted[place] - grey).abs().max() > 0.1, f"cell {place} looks blocked"


def test_without_a_mask_no_cell_is_grey():
    ax = heatmap(torch.zeros(1, 2), ["q"], ["a", "b"])
    assert (colours(ax)[0, 0] - torch.tensor(to_rgba(COLOURS["masked"]))).abs().max() > 0.1


def test_numbers_stand_in_their_cells_but_not_in_blocked_ones():
    weights, mask = torch.tensor([[0.25, 0.75, 0.0]]), torch.tensor([[True, True, False]])
    ax = heatmap(weights, ["q"], ["a", "b", "c"], mask=mask, numbers=True)
    assert {text.get_position(): text.get_text() for text in ax.texts} == {
        (0, 0): "0.25",
        (1, 0): "0.75",
    }
    assert not heatmap(weights, ["q"], ["a", "b", "c"], mask=mask).texts


@pytest.mark.parametrize("limit", [None, 1.0])
def test_numbers_can_be_read_on_their_cell(limit):
    ends = torch.tensor([[-1.0 if limit else 0.0, 0.05, 0.95, 1.0]])
    ax = heatmap(ends, ["q"], ["a", "b", "c", "d"], numbers=True, limit=limit)
    light = torch.tensor([0.2126, 0.7152, 0.0722], dtype=torch.float64)  # to the eye, in linear RGB
    for cell, text in zip(colours(ax)[0, :, :3], ax.texts, strict=True):
        ink = torch.tensor(to_rgb(text.get_color()), dtype=torch.float64)
        dim, bright = sorted(float(colour.pow(2.2) @ light) for colour in (cell, ink))
        assert (bright + 0.05) / (dim + 0.05) > 4.5, f"{text.get_text()} cannot be read"


def test_a_heat_map_takes_gradients_and_leaves_its_inputs_unchanged(values):
    weights = values.clone().requires_grad_()
    mask = torch.ones(T, S, dtype=torch.bool).tril()
    before = mask.clone()
    heatmap(weights, ROWS, COLUMNS, mask=mask)
    assert torch.equal(weights, values) and torch.equal(mask, before)


def boxes(ax, axis) -> list:
    """Measure the words of an axis, in pixels, as they are drawn."""
    ax.figure.draw_without_rendering()
    return [label.get_window_extent() for label in axis.get_ticklabels()]


TABLES = {
    "one cell": (["a"], ["b"]),
    "short words": (ROWS, COLUMNS),
    "long words": (["seventy-eight"] * 3, ["achtundsiebzig", "und", "eins"]),
    "long rows": (["achtundsiebzigtausend"] * 2, ["eins"] * 6),
    "tall words": (["q"] * 2, ["achtundsiebzig"] * 12),
    "many words": (["row"] * 12, ["hundert"] * 12),
    "a long sentence": (["row"] * 4, ["drei"] * 24),
}


@pytest.mark.parametrize("name", TABLES)
def test_words_do_not_touch_and_fit_the_page(name):
    rows, columns = TABLES[name]
    ax = heatmap(torch.zeros(len(rows), len(columns)), rows, columns)
    ax.set(xlabel="key", ylabel="query")
    assert ax.figure.get_figwidth() <= 6.4 + 1e-9
    for axis in (ax.xaxis, ax.yaxis):
        for box, following in pairwise(boxes(ax, axis)):
            assert not box.overlaps(following)
    page = ax.figure.bbox
    for box in [*boxes(ax, ax.xaxis), *boxes(ax, ax.yaxis)]:
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_keeps_room_for_a_number_while_a_page_has_it(name):
    rows, columns = TABLES[name]
    ax = heatmap(torch.zeros(len(rows), len(columns)), rows, columns)
    ax.set(xlabel="key", ylabel="query", title="A title")
    ax.figure.draw_without_rendering()
    width, height = ax.get_window_extent().size / ax.figure.dpi  # inches
    assert 0.45 <= height / len(rows) <= 0.9
    if len(columns) <= 12:
        assert width / len(columns) >= 0.4


def test_words_stand_upright_only_where_they_do_not_fit():
    def rotation(columns):
        ax = heatmap(torch.zeros(1, len(columns)), ["q"], columns)
        return {label.get_rotation() for label in ax.get_xticklabels()}

    assert rotation(COLUMNS) == {0}
    assert rotation(["achtundsiebzig"] * 8) == {90}


def test_a_larger_table_gets_more_room():
    few, many = (heatmap(torch.zeros(n, n), ["a"] * n, ["b"] * n).figure for n in (2, 6))
    assert few.get_figwidth() < many.get_figwidth()
    assert few.get_figheight() < many.get_figheight()


def test_words_that_do_not_fit_the_values_are_named(values):
    with pytest.raises(ValueError, match=re.escape("(4, 5) need as many words, got 3 rows")):
        heatmap(values, ROWS[:3], COLUMNS)
    with pytest.raises(ValueError, match="got 4 rows and 6 columns"):
        heatmap(values, ROWS, [*COLUMNS, "?"])
    with pytest.raises(ValueError, match="got 5 rows and 4 columns"):
        heatmap(values, COLUMNS, ROWS)  # the right words, the wrong way round


def test_values_that_are_no_table_are_refused(values):
    with pytest.raises(ValueError, match=re.escape("values (1, 4, 5)")):
        heatmap(values.unsqueeze(0), ROWS, COLUMNS)


def test_a_mask_that_does_not_fit_is_named(values):
    with pytest.raises(ValueError, match=re.escape("mask (4, 4) does not fit values (4, 5)")):
        heatmap(values, ROWS, COLUMNS, mask=torch.ones(T, T, dtype=torch.bool))


def test_a_refused_plot_leaves_no_figure_open(values):
    for draw in (
        lambda: heatmap(values, ROWS, ROWS),
        lambda: bars(["a"], [1.0, 2.0], ylabel="share"),
    ):
        with pytest.raises(ValueError):
            draw()
    assert not plt.get_fignums()


# --- curves


def test_every_line_goes_through_its_points_and_has_its_name():
    lines = {"train": [3.0, 2.0, 1.0], "validation": torch.tensor([4.0, 3.0, 2.5])}
    ax = curves([1, 2, 3], lines, xlabel="step", ylabel="loss (nats)")
    assert [line.get_xydata().tolist() for line in ax.lines] == [
        [[1, 3], [2, 2], [3, 1]],
        [[1, 4], [2, 3], [3, 2.5]],
    ]
    assert words(ax.get_legend().get_texts()) == ["train", "validation"]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("step", "loss (nats)")


def test_lines_are_told_apart_without_their_colours():
    lines = {name: [1.0, 2.0] for name in ("blue", "vermilion", "green", "purple")}
    ax = curves([1, 2], lines, xlabel="x", ylabel="y")
    assert len({line.get_linestyle() for line in ax.lines}) == len(lines)
    five = lines | {"orange": [1.0, 2.0]}
    assert len(curves([1, 2], five, xlabel="x", ylabel="y").lines) == 5


def test_one_line_needs_no_legend():
    assert curves([1, 2], {"loss": [1.0, 0.5]}, xlabel="x", ylabel="y").get_legend() is None


def test_curves_take_tensors_with_gradients():
    x = torch.arange(3.0, requires_grad=True)
    ax = curves(x, {"square": x.square()}, xlabel="x", ylabel="x²")
    assert ax.lines[0].get_xydata().tolist() == [[0, 0], [1, 1], [2, 4]]


@pytest.mark.parametrize("length", [2, 4])
def test_a_line_of_another_length_is_named(length):
    lines = {"good": [0.0] * 3, "bad": [0.0] * length}
    with pytest.raises(ValueError, match=f"line 'bad' has {length} values, x has 3"):
        curves([1, 2, 3], lines, xlabel="x", ylabel="y")


# --- bars


def test_every_bar_has_its_height_its_name_and_its_colour():
    ax = bars(["ja", "nein"], torch.tensor([0.75, 0.25]), ylabel="share", colour=COLOURS["value"])
    assert [bar.get_height() for bar in ax.patches] == [0.75, 0.25]
    assert [bar.get_x() + bar.get_width() / 2 for bar in ax.patches] == pytest.approx([0, 1])
    assert {to_rgb(bar.get_facecolor()) for bar in ax.patches} == {to_rgb(COLOURS["value"])}
    assert words(ax.get_xticklabels()) == ["ja", "nein"]
    assert ax.get_ylabel() == "share"


def test_two_bars_of_the_same_name_stay_two():
    ax = bars(["the", "the"], [1.0, 2.0], ylabel="count")
    assert [bar.get_height() for bar in ax.patches] == [1, 2]
    assert len({bar.get_x() for bar in ax.patches}) == 2


def test_bars_take_a_tensor_with_gradients():
    heights = torch.ones(2, requires_grad=True)
    assert len(bars(["a", "b"], heights * 2, ylabel="y").patches) == 2


@pytest.mark.parametrize("count", [1, 3])
def test_names_that_do_not_fit_the_bars_are_counted(count):
    with pytest.raises(ValueError, match=f"{count} names do not fit 2 values"):
        bars(["a"] * count, [1.0, 2.0], ylabel="y")


# --- all of them


@pytest.mark.parametrize(
    "draw",
    [
        lambda **ax: heatmap(torch.eye(2), ["a", "b"], ["a", "b"], **ax),
        lambda **ax: curves([1, 2], {"loss": [1.0, 2.0]}, xlabel="x", ylabel="y", **ax),
        lambda **ax: bars(["a", "b"], [1.0, 2.0], ylabel="y", **ax),
    ],
    ids=["heatmap", "curves", "bars"],
)
def test_a_plot_goes_where_it_is_told_or_makes_a_figure_of_its_own(draw):
    _, (left, right) = plt.subplots(1, 2)
    assert draw(ax=right) is right
    assert right.has_data() and not left.has_data()
    assert len(plt.get_fignums()) == 1, "no figure besides the given one"
    assert draw().figure not in (left.figure, None)
    assert len(plt.get_fignums()) == 2


# --- show


def test_show_puts_one_image_in_the_notebook_at_its_size_in_words(shown):
    fig, _ = plt.subplots(figsize=(5, 2))
    show(fig, alt="Two lines that cross.")
    (output,) = shown
    tag = image_tag(output)
    assert tag["alt"] == "Two lines that cross."
    kind, data = tag["src"].split(",")
    assert kind == "data:image/png;base64"
    height, width, _ = imread(io.BytesIO(base64.b64decode(data))).shape
    assert width > height
    assert int(tag["width"]) == round(width / 2)
    assert width == pytest.approx(2 * 480, rel=0.1), "twice the pixels, for sharp screens"


def test_show_draws_what_was_drawn(shown):
    def picture(colour):
        fig, ax = plt.subplots()
        ax.set_facecolor(colour)
        show(fig, alt="A field of one colour.")
        data = image_tag(shown[-1])["src"].split(",")[1]
        pixels = imread(io.BytesIO(base64.b64decode(data)))
        return pixels[pixels.shape[0] // 2, pixels.shape[1] // 2, :3].tolist()

    assert picture("#ff0000") == [1, 0, 0]
    assert picture("#0000ff") == [0, 0, 1]


def test_the_shown_image_keeps_every_colour_of_a_heat_map(shown):
    mask = torch.tensor([[True] * 8 + [False]])
    ax = heatmap(torch.arange(9.0).unsqueeze(0) / 8, ["q"], ["a"] * 9, mask=mask)
    painted = colours(ax)[0, :, :3]
    show(ax.figure, alt="A row from dark to bright, then a grey cell.")
    data = image_tag(shown[0])["src"].split(",")[1]
    pixels = torch.tensor(imread(io.BytesIO(base64.b64decode(data))))[..., :3].flatten(0, 1)
    for colour in painted.to(pixels.dtype):
        assert (pixels - colour).abs().amax(dim=1).min() < 0.02, f"no pixel is {colour}"


@pytest.mark.parametrize(
    "alt", ['“it” looks at "animal"', "weights < 0.5 & > 0.1", "it's <b>bold</b>\"><script>"]
)
def test_show_escapes_the_words(shown, alt):
    fig, _ = plt.subplots()
    show(fig, alt=alt)
    assert image_tag(shown[0])["alt"] == alt
    assert '"' not in re.search(r'alt="(.*)">$', shown[0].data, re.S)[1]


@pytest.mark.parametrize("alt", ["", "   ", "\n\t"])
def test_show_refuses_a_figure_without_words(shown, alt):
    fig, _ = plt.subplots()
    with pytest.raises(ValueError, match=re.escape("show(fig, alt=…) needs a sentence")):
        show(fig, alt=alt)
    assert not shown


def test_the_words_are_given_by_name():
    fig, _ = plt.subplots()
    with pytest.raises(TypeError):
        show(fig)
    with pytest.raises(TypeError):
        show(fig, "A sentence.")


def test_show_closes_its_figure_and_no_other(shown):
    (kept, _), (fig, _) = plt.subplots(), plt.subplots()
    show(fig, alt="An empty field.")
    assert plt.get_fignums() == [kept.number]


# --- the style


def test_the_style_is_the_one_of_the_style_sheet():
    with plt.rc_context():
        plt.rcdefaults()
        use_course_style()
        assert plt.rcParams["figure.figsize"] == [6.4, 3.6]
        assert plt.rcParams["font.sans-serif"] == ["DejaVu Sans"]
        assert plt.rcParams["image.cmap"] == "cividis"
        assert plt.rcParams["axes.titlelocation"] == "left"
        assert plt.rcParams["savefig.dpi"] == 2 * plots.PIXELS
        sizes = [plt.rcParams[name] for name in ("font.size", "xtick.labelsize", "legend.fontsize")]
        assert min(sizes) >= 10


def test_matplotlib_understands_every_line_of_the_style_sheet(caplog):
    matplotlib.rc_params_from_file(plots.STYLE, use_default_template=False)
    assert not caplog.messages


def test_roles_have_the_colours_that_the_drawings_use():
    assert COLOURS == {
        "query": "#0072B2",
        "key": "#D55E00",
        "value": "#009E73",
        "masked": "#BBBBBB",
    }
