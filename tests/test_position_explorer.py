"""The position explorer: its codes are the chapter's, and its sentence is true."""

import math
import re

import matplotlib.pyplot as plt
import pytest
import torch
from figure_asserts import assert_readable
from matplotlib.colors import same_color
from torch.testing import assert_close

from course_lib.positions import sinusoidal_encoding
from course_lib.viz import position_explorer as module
from course_lib.viz.plots import COLOURS
from course_lib.viz.position_explorer import (
    FAR,
    KINDS,
    ROWS,
    SEEN,
    WIDTH,
    PositionExplorer,
    learned_table,
    most_alike,
    nearness_loss,
    rounded,
    waves_of_base,
)


@pytest.fixture
def explorer():
    """Return a new explorer, as the chapter shows it."""
    return PositionExplorer()


def turn(explorer, **settings) -> str:
    """Set controls one after the other, as a reader does, and return the sentence."""
    for name, value in settings.items():
        explorer.controls[name].value = value
    return explorer.words.value


def numbers(sentence: str) -> list[float]:
    """Read every number in a sentence, but not those of its markup."""
    read = re.sub(r"<[^>]*>", " ", sentence)
    return [float(n.replace("−", "-")) for n in re.findall(r"−?\d+(?:\.\d+)?", read)]


def test_base_ten_thousand_is_the_paper():
    for max_len, d_model in ((1, 2), (9, 5), (128, 128)):
        assert_close(waves_of_base(max_len, d_model, 1e4), sinusoidal_encoding(max_len, d_model))


def test_another_base_turns_a_pair_at_another_speed():
    table = waves_of_base(7, 4, 100.0)  # pair 1 turns by 100^(-2/4) = 1/10 at every step
    assert_close(
        table[6, 2:],
        torch.tensor([0.6])
        .sin()
        .repeat(2)
        .index_put((torch.tensor([1]),), torch.tensor([0.6]).cos()),
    )


def test_the_start_says_what_the_chapter_found(explorer):
    sentence = turn(explorer)
    table = sinusoidal_encoding(51, 64)
    position, pair, sine, cosine, count, away, apart, far, own = numbers(sentence)
    assert (position, pair, count, apart, away) == (40, 3, 51, FAR, 1)
    assert_close(torch.tensor([sine, cosine]), table[40, 6:8], rtol=0, atol=0.005)
    product = float(torch.cos(FAR * 10000 ** (-torch.arange(0, 64, 2) / 64)).sum())
    assert (far, own) == (pytest.approx(product, abs=0.006), 32)


def test_far_places_pass_for_near_ones_where_the_base_is_small(explorer):
    turn(explorer, d_model=4, base=10.0, position=20)
    away = numbers(turn(explorer))[5]
    products = [torch.cos(torch.tensor([k, k / 10**0.5])).sum() for k in range(1, 31)]
    assert away == 1 + max(range(30), key=lambda k: products[k]) == 19
    assert numbers(turn(explorer, base=10_000.0, d_model=10, position=40))[5] == 6
    assert numbers(turn(explorer, base=1000.0))[5] == 1
    assert numbers(turn(explorer, base=10_000.0, d_model=12))[5] == 1


def test_most_alike_takes_the_nearest_of_equals():
    table = torch.tensor([[1.0], [0.0], [1.0], [0.5], [1.0]])
    assert most_alike(table, 0) == 2
    assert most_alike(table, 4) == 2
    assert table[4] == 1  # and changes nothing


def test_the_map_shows_the_codes_and_frames_the_choice(explorer):
    turn(explorer, positions=20, d_model=8, position=5, pair=2)
    (image,), (row, columns) = explorer.axes[0].images, explorer.axes[0].patches
    assert_close(torch.as_tensor(image.get_array()), sinusoidal_encoding(20, 8))
    assert image.get_clim() == (-1, 1)
    assert explorer.axes[0].get_ylim() == (19.5, -0.5), "the first position stands on top"
    row, columns = row.get_bbox(), columns.get_bbox()
    assert ((row.y0 + row.y1) / 2, row.x0, row.x1) == pytest.approx((5, -0.5, 7.5))
    middle = (columns.x0 + columns.x1) / 2  # of columns 4 and 5
    assert (middle, columns.y0, columns.y1) == pytest.approx((4.5, -0.5, 19.5))
    assert "20 positions by 8 columns; position 5 as the hand of pair 2;" in explorer.alt


def test_the_hand_turns_when_the_position_moves(explorer):
    codes = sinusoidal_encoding(51, 64)
    for position in (0, 1, 40):
        turn(explorer, position=position)
        dots, hand, _ = explorer.axes[1].lines
        assert_close(torch.as_tensor(dots.get_xydata()).float(), codes[:, [7, 6]])
        angle = torch.tensor(position * 10000 ** (-6 / 64))
        xy = torch.tensor([float(hand.get_xdata()[1]), float(hand.get_ydata()[1])])
        assert_close(xy, torch.stack([angle.cos(), angle.sin()]), rtol=0, atol=1e-5)


def test_the_hand_names_its_columns(explorer):
    turn(explorer, pair=5)
    assert explorer.axes[1].get_title("left") == "Pair 5 as a hand"
    assert (explorer.axes[1].get_xlabel(), explorer.axes[1].get_ylabel()) == (
        "column 11",  # the cosine
        "column 10",
    )


def test_the_curve_shows_the_products_over_the_distance(explorer):
    turn(explorer, position=15, positions=20)
    curve = explorer.axes[2].lines[0]
    assert curve.get_xdata().tolist() == list(range(-15, 5))
    table = sinusoidal_encoding(20, 64).double()
    expected = [float((table[15] * row).sum()) for row in table]
    assert curve.get_ydata().tolist() == pytest.approx(expected, abs=1e-4)
    assert explorer.axes[2].get_xlabel() == "distance from position 15"


def test_the_marks_stand_on_the_curve_in_their_colours(explorer):
    turn(explorer, d_model=4, base=10.0, position=20)
    curve, itself, alike = explorer.axes[2].lines
    for mark, place, role in ((itself, 0, "query"), (alike, -19, "key")):
        assert mark.get_xdata() == [place]
        assert mark.get_ydata() == curve.get_ydata()[20 + place]
        assert same_color(mark.get_color(), COLOURS[role])
    low, high = explorer.axes[2].get_ylim()
    assert low < curve.get_ydata().min() and curve.get_ydata().max() < high


def test_no_zero_has_a_sign():
    assert [rounded(number) for number in (-0.004, 0.0, -0.5, 0.996)] == [
        "0.00",
        "0.00",
        "−0.50",
        "1.00",
    ]


def test_without_a_code_all_positions_are_one(explorer):
    assert "bag of words" in turn(explorer, kind="none")
    assert not explorer.axes[0].images[0].get_array().any()


def test_learned_rows_know_near_from_far_as_far_as_they_were_trained():
    table = learned_table()
    assert tuple(table.shape) == (ROWS, WIDTH) and not table.requires_grad
    products = table[:SEEN] @ table[:SEEN].T
    mean = [products.diagonal(k).mean() for k in (0, 1, 4, 12)]
    assert mean == sorted(mean, reverse=True) and mean[0] > 5 * mean[3]
    assert table[SEEN:].std() == pytest.approx(0.02, abs=0.002)  # untouched by training
    assert table[:SEEN].std() > 0.1 and table.abs().max() < 1.2


def test_the_task_tells_places_apart():
    """A model that says the same everywhere pays more than one that knows what is near."""
    ids = torch.arange(module.WORDS).repeat(3)[None]  # (1, SEEN)
    parts = torch.nn.ModuleDict({name: torch.nn.Identity() for name in ("words", "positions")})
    parts["attention"] = type("Same", (torch.nn.Module,), {"forward": lambda _, q, k, v: (q, 0)})()
    place = torch.arange(SEEN)
    nearness = torch.exp(-(place[:, None] - place).abs() / 3)
    counts = nearness @ torch.nn.functional.one_hot(ids, module.WORDS).float()
    shares = counts / counts.sum(-1, keepdim=True)
    losses = []
    for logits in (shares.log(), torch.zeros_like(shares), shares.flip(1).log()):
        parts["output"] = type("Says", (torch.nn.Module,), {"forward": lambda _, x, y=logits: y})()
        losses.append(float(nearness_loss(parts, ids)))
    knows, says_nothing, wrong = losses
    assert knows == pytest.approx(float(-(shares * shares.log()).sum(-1).mean()), abs=1e-4)
    assert says_nothing == pytest.approx(math.log(module.WORDS), abs=1e-4)
    assert knows < says_nothing < wrong


def test_learned_is_trained_once_from_its_own_generator(monkeypatch):
    monkeypatch.setattr(module, "STEPS", 3)
    again = module.learned_table.__wrapped__
    state = torch.get_rng_state()
    torch.set_num_threads(2)
    try:
        first, second = again(), again()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert first.equal(second)
    assert torch.get_rng_state().equal(state)
    assert learned_table() is learned_table()


def test_nothing_is_trained_before_it_is_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(
        module, "learned_table", lambda: asked.append(1) or torch.zeros(ROWS, WIDTH)
    )
    explorer = PositionExplorer()
    turn(explorer, kind="none", position=3)
    assert not asked
    turn(explorer, kind="learned")
    assert asked


def test_learned_has_a_width_of_its_own_and_says_where_it_ends(explorer):
    turn(explorer, d_model=4, positions=64)
    turn(explorer, kind="learned")
    assert explorer.controls["d_model"].value == WIDTH
    assert explorer.controls["d_model"].disabled and explorer.controls["base"].disabled
    sentence = turn(explorer)
    assert f"Rows from {SEEN} on are noise" in sentence
    low, high = numbers(sentence)[-5:-3]
    products = learned_table()[:64] @ learned_table()[:64].T
    assert (low, high) == pytest.approx(
        [float(v) for v in products.diagonal(FAR).aminmax()], abs=0.006
    )
    assert low < high
    assert "noise" not in turn(explorer, positions=SEEN)
    assert "noise" in turn(explorer, positions=SEEN + 1)
    assert "noise" not in turn(explorer, kind="waves")
    assert not explorer.controls["d_model"].disabled and not explorer.controls["base"].disabled
    turn(explorer, kind="none")  # it has a width, but no waves
    assert not explorer.controls["d_model"].disabled and explorer.controls["base"].disabled


def test_the_controls_offer_only_what_there_is(explorer):
    turn(explorer, position=50, pair=31)
    turn(explorer, positions=8, d_model=4)
    assert explorer.controls["position"].value == explorer.controls["position"].max == 7
    assert explorer.controls["pair"].value == explorer.controls["pair"].max == 1
    assert numbers(turn(explorer))[:2] == [7, 1]


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize("ends", [min, max])
def test_every_end_of_every_slider_is_drawn_and_readable(explorer, kind, ends):
    turn(explorer, kind=kind)
    for name in ("positions", "d_model", "base", "position", "pair"):
        control = explorer.controls[name]
        value = ends(control.min, control.max)
        turn(explorer, **{name: 10.0**value if name == "base" else value})
        assert 'role="status"' in explorer.words.value
        assert_readable(explorer.fig)


@pytest.mark.parametrize("name", ["kind", "d_model", "positions", "base", "position", "pair"])
def test_every_control_changes_picture_and_words_for_those_who_do_not_see_it(explorer, name):
    before, figures = (explorer.picture.value, explorer.alt), plt.get_fignums()
    turn(explorer, **{name: {"kind": "none", "base": 100.0}.get(name, 12)})
    assert explorer.picture.value != before[0] and explorer.alt != before[1]
    assert bytes(explorer.picture.value[:4]) == b"\x89PNG"
    assert plt.get_fignums() == figures
    assert explorer.controls[name].description
    assert "nan" not in explorer.alt


def test_the_question_of_chapter_03_has_the_answer_it_gives(explorer, monkeypatch):
    monkeypatch.setattr(explorer, "_painted", bytes)  # its words alone are read

    def away() -> float:
        return numbers(explorer.words.value)[5]

    def set_to(width: int, base: float) -> float:
        turn(explorer, d_model=width, base=base)
        return away()

    values = explorer.values()
    assert (values["kind"], values["position"], values["positions"]) == ("waves", 40, 51)
    assert (values["base"], values["d_model"], away()) == (10_000, 64, 1)
    turn(explorer, pair=0)
    widths = range(128, 2, -2)
    assert [width for width in widths if set_to(width, 10_000) != 1] == [10, 8, 6, 4]
    assert [set_to(width, 10_000) for width in (10, 8, 6, 4)] == [6, 6, 6, 19]
    slider = [10 ** (1 + step / 4) for step in range(17)]
    mended = {width: [b for b in slider if set_to(width, b) == 1][-1:] for width in (10, 8, 4)}
    assert mended == {10: [10**3.75], 8: [1000], 4: []}
    assert f"{10**3.75:,.0f}" == "5,623"
    for base in torch.logspace(0.01, 8, 800).tolist():  # between the steps of the slider, too
        assert abs(most_alike(waves_of_base(51, 4, base), 40) - 40) != 1
    products = learned_table()[:SEEN] @ learned_table()[:SEEN].T
    low, high = products.diagonal(FAR).aminmax()
    assert high > 1.3 * low
    assert "all products are 0" in turn(explorer, kind="none")
