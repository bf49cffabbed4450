"""The position explorer: its codes are the chapter's, and its sentence is true."""

import math
import re

import pytest
import torch
from figure_asserts import answer_of_chapter, fixture_of, turn
from torch.testing import assert_close

from course_lib.positions import sinusoidal_encoding
from course_lib.viz import position_explorer as module
from course_lib.viz.position_explorer import (
    FAR,
    ROWS,
    TRAINED_ROWS,
    WIDTH,
    PositionExplorer,
    learned_table,
    most_similar,
    rounded,
)

explorer = fixture_of(PositionExplorer)


def numbers(sentence: str) -> list[float]:
    """Read every number in a sentence, but not those of its markup."""
    read = re.sub(r"<[^>]*>", " ", sentence)
    return [float(n.replace("−", "-")) for n in re.findall(r"−?\d+(?:\.\d+)?", read)]


def test_base_ten_thousand_is_the_paper_and_another_base_rotates_at_another_speed(explorer):
    for max_len, d_model in ((8, 4), (128, 128)):
        turn(explorer, positions=max_len, d_model=d_model)
        assert_close(explorer.table(), sinusoidal_encoding(max_len, d_model))
    turn(explorer, positions=8, d_model=4, base=100.0)
    pair = explorer.table()[6, 2:]  # it rotates by 100^(-2/4) = 1/10 at every step
    assert_close(pair, torch.tensor([math.sin(0.6), math.cos(0.6)]))


def test_the_start_says_what_the_chapter_found(explorer):
    sentence = turn(explorer)
    table = sinusoidal_encoding(51, 64)
    position, pair, sine, cosine, count, away, apart, far, own = numbers(sentence)
    assert (position, pair, count, apart, away) == (40, 3, 51, FAR, 1)
    assert_close(torch.tensor([sine, cosine]), table[40, 6:8], rtol=0, atol=0.005)
    product = float(torch.cos(FAR * 10000 ** (-torch.arange(0, 64, 2) / 64)).sum())
    assert (far, own) == (pytest.approx(product, abs=0.006), 32)


def test_most_similar_takes_the_nearest_of_equals():
    table = torch.tensor([[1.0], [0.0], [1.0], [0.5], [1.0]])
    assert most_similar(table, 0) == 2
    assert most_similar(table, 4) == 2
    assert table[4] == 1  # and changes nothing


def test_no_zero_has_a_sign():
    assert [rounded(number) for number in (-0.004, -0.5, 0.996)] == ["0.00", "−0.50", "1.00"]


def test_learned_rows_know_near_from_far_as_far_as_they_were_trained():
    table = learned_table()
    assert tuple(table.shape) == (ROWS, WIDTH) and not table.requires_grad
    products = table[:TRAINED_ROWS] @ table[:TRAINED_ROWS].T
    mean = [products.diagonal(k).mean() for k in (0, 1, 4, 12)]
    assert mean == sorted(mean, reverse=True) and mean[0] > 5 * mean[3]
    assert table[TRAINED_ROWS:].std() == pytest.approx(0.02, abs=0.002)  # untouched by training
    assert table[:TRAINED_ROWS].std() > 0.1 and table.abs().max() < 1.2


def test_learned_is_trained_once_from_its_own_generator(monkeypatch):
    monkeypatch.setattr(module, "STEPS", 3)
    again = module.learned_table.__wrapped__
    state = torch.get_rng_state()
    assert again().equal(again()) and learned_table() is learned_table()
    assert torch.get_rng_state().equal(state)


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
    assert f"Rows from {TRAINED_ROWS} on are noise" in sentence
    low, high = numbers(sentence)[-5:-3]
    products = learned_table()[:64] @ learned_table()[:64].T
    found = [float(v) for v in products.diagonal(FAR).aminmax()]
    assert [low, high] == pytest.approx(found, abs=0.006) and low < high
    assert "noise" not in turn(explorer, positions=TRAINED_ROWS)
    assert "noise" in turn(explorer, positions=TRAINED_ROWS + 1)
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


def test_the_panels_show_the_codes_the_hand_and_the_products(explorer):
    turn(explorer, positions=20, d_model=8, base=10.0, position=15, pair=2)
    table = explorer.table()
    (image,), (row, columns) = explorer.axes[0].images, explorer.axes[0].patches
    assert_close(torch.as_tensor(image.get_array()), table)
    for position, column in ((15, 4), (15, 5), (14, 4), (16, 5), (15, 3), (15, 6)):
        assert row.get_bbox().contains(column, position) == (position == 15)
        assert columns.get_bbox().contains(column, position) == (column in (4, 5))
    dots, hand, _ = explorer.axes[1].lines
    assert_close(torch.as_tensor(dots.get_xydata()).float(), table[:, [5, 4]])
    assert hand.get_xydata()[1] == pytest.approx(table[15, [5, 4]].tolist())
    curve, itself, alike = explorer.axes[2].lines
    assert curve.get_xdata().tolist() == list(range(-15, 5))
    assert curve.get_ydata() == pytest.approx((table @ table[15]).tolist(), abs=1e-4)
    for mark, position in ((itself, 15), (alike, most_similar(table, 15))):
        assert mark.get_xdata() == [position - 15]
        assert mark.get_ydata() == pytest.approx([float(table[15] @ table[position])], abs=1e-4)


def test_the_question_of_chapter_03_has_the_answer_it_gives(explorer):
    answer = answer_of_chapter(PositionExplorer)

    def away(width: int, base: float) -> float:
        return numbers(turn(explorer, d_model=width, base=base))[5]

    values = explorer.values()
    assert (values["kind"], values["position"], values["positions"]) == ("waves", 40, 51)
    turn(explorer, pair=0)
    steps = {width: away(width, 10_000) for width in range(4, 129, 2)}
    far = {width: found for width, found in steps.items() if found != 1}
    assert list(far) == [4, 6, 8, 10]
    assert f"At width {max(far)} the most similar position is {far[max(far)]:g} steps" in answer
    for base in (10_000, 1_000):  # what the chapter's cell prints
        found = {width: int(away(width, base)) for width in (64, 16, 12, 10, 8)}
        assert f"base {base}: {found}" in answer
    products = learned_table()[:TRAINED_ROWS] @ learned_table()[:TRAINED_ROWS].T
    low, high = products.diagonal(FAR).aminmax()
    assert high > 1.3 * low
    assert "all products are 0" in turn(explorer, kind="none")
