"""The explorers without a kernel: numbers, pointer, keyboard, themes, and still pictures."""

import io
import random
from collections.abc import Callable

import numpy as np
import pytest
from explorer_numbers import numbers
from explorer_page import EXPLORERS, open_explorer, take_still
from PIL import Image
from playwright.sync_api import Page

from course_lib.viz.attention_explorer import AttentionExplorer
from course_lib.viz.beam_explorer import WEATHER
from course_lib.viz.explorer_base import FOLDER, Explorer
from course_lib.viz.heads_explorer import HeadsExplorer
from course_lib.viz.mask_explorer import CROSS, DECODER, ENCODER, PAD

STATES = 15
CUT_OFF = """() => [...document.querySelectorAll(".explorer text")].filter(text => {
    const [part, frame] = [text, text.closest(".frame")].map(one => one.getBoundingClientRect());
    return part.width && (part.left < frame.left - 1 || part.right > frame.right + 1);
}).map(text => text.textContent)"""
TOLERANCE = 1e-6
WORDS = [PAD, "hundred", "five", "drei", "und", "vierzig", "unknown", "constructor"]
MAX_DIFFERENCE = 4.0  # mean over all pixels, of 255, because fonts differ between computers


def chances(draw: random.Random) -> dict[str, dict[str, float]]:
    """Draw new probabilities for the words that can follow each other in chapter 14."""
    drawn = {last: {word: draw.random() + 0.01 for word in row} for last, row in WEATHER.items()}
    totals = {last: sum(row.values()) for last, row in drawn.items()}
    return {
        last: {word: p / totals[last] for word, p in row.items()} for last, row in drawn.items()
    }


SAMPLERS: dict[str, Callable[[random.Random], dict]] = {
    "attention": lambda draw: {
        "x": draw.uniform(-3, 3),
        "y": draw.uniform(-3, 3),
        "d_k": 2 ** draw.randrange(10),
        "divide": draw.random() < 0.5,
        "temperature": 2.0 ** draw.randrange(-3, 5),
    },
    "masks": lambda draw: {
        "attention": draw.choice([ENCODER, DECODER, CROSS]),
        "mask": draw.choice(["causal", "padding", "both", "nothing blocked", "your own"]),
        "cells": ["".join(draw.choices("01", k=6)) for _ in range(6)],
        "source": " ".join(draw.choices(WORDS, k=draw.randint(1, 6))),
        "target": " ".join(draw.choices(WORDS, k=draw.randint(1, 6))),
        "row": draw.randrange(6),
        "column": draw.randrange(6),
    },
    "schedule": lambda draw: {
        "warmup_steps": int(10 ** draw.uniform(0, 4.5)),
        "d_model": 2 ** draw.randrange(12),
    },
    "tokens": lambda draw: {
        "text": draw.choice(["seven six", "zwölf Züge", "It's 345  €", "七百四十五", "vierzehn"])
        + "".join(draw.choices("ab en7\n.", k=draw.randrange(5))),
    },
    "beams": lambda draw: {
        "beam_size": draw.randint(1, 4),
        "alpha": draw.uniform(0, 3),
        "step": draw.randint(1, 5),
        "sentence": draw.choice(["", "end", "it end", "it is wet", "rain falls end", "snow falls"]),
        "language": draw.choice([WEATHER, chances(draw)]),
    },
    "positions": lambda draw: {
        "kind": draw.choice(["sinusoidal", "learned", "RoPE", "none"]),
        "d_model": 2 * draw.randint(2, 64),
        "base": draw.choice([10, 300, 10_000, 10_000, 500_000]),
        "positions": draw.randint(8, 64),
        "position": draw.randrange(64),
        "pair": draw.randrange(64),
    },
}
every_explorer = pytest.mark.parametrize("explorer", EXPLORERS, ids=lambda each: each.module)
COMPUTED = [each for each in EXPLORERS if each is not HeadsExplorer]  # which has test_heads.py


@pytest.fixture
def page(tab: Page, address: str, explorer: type[Explorer]) -> Page:
    """Open an explorer on a page without a kernel."""
    return open_explorer(tab, address, explorer())


def flat(value: object, like: object) -> list[float]:
    """Return the numbers in the fields that ``like`` also has; a text counts as its letters."""
    if isinstance(like, dict):
        return [x for name in sorted(like) for x in flat(value[name], like[name])]
    if isinstance(like, str):
        return [ord(letter) for letter in value]
    if isinstance(like, list):
        return [x for pair in zip(value, like, strict=True) for x in flat(*pair)]
    return [float(value)]


@pytest.mark.parametrize("explorer", COMPUTED, ids=lambda each: each.module)
def test_the_module_computes_the_numbers_of_the_package(page: Page, explorer: type[Explorer]):
    draw = random.Random(0)
    assert explorer.module in SAMPLERS, "add a function that draws random states to SAMPLERS"
    samples = [SAMPLERS[explorer.module](draw) for _ in range(STATES)]
    states = [explorer(**sample).state() for sample in samples]
    load = "async ([name, states]) => states.map((await import(name)).compute)"
    computed = page.evaluate(load, [f"/course_lib/viz/{explorer.module}.js", states])
    for sample, ours in zip(samples, computed, strict=True):
        expected = numbers(explorer(**sample))
        found, right = flat(ours, expected), flat(expected, expected)
        np.testing.assert_allclose(found, right, rtol=0, atol=TOLERANCE)


@every_explorer
def test_every_control_has_a_name_and_changes_the_picture_by_keyboard(page: Page, explorer):
    for more in page.locator(".explorer details").all():
        more.evaluate("details => { details.open = true; }")
    controls = page.locator(".explorer :is(.handle, input, select)")
    for index in range(controls.count()):
        control = controls.nth(index)
        name = control.evaluate("c => c.getAttribute('aria-label') ?? c.labels[0].innerText")
        assert len(name) > 2
        if control.is_disabled():
            continue
        page.get_by_role("button", name="Reset").click()  # or a mistake in a text blocks the rest
        before = page.locator(".explorer").inner_html()
        control.focus()
        moves = ("ArrowRight", "ArrowDown", "ArrowLeft", "Space", "7")
        for key in moves:
            page.keyboard.press(key)
            if page.locator(".explorer").inner_html() != before:
                break
        assert page.locator(".explorer").inner_html() != before, name
    page.get_by_role("button", name="Reset").click()
    first = page.evaluate("() => document.querySelector('.explorer .panes').innerHTML")
    page.reload()
    page.wait_for_selector(".explorer svg")
    assert page.evaluate("() => document.querySelector('.explorer .panes').innerHTML") == first


@every_explorer
def test_the_still_picture_is_up_to_date_and_cuts_off_no_text(page: Page, explorer: type[Explorer]):
    kept = Image.open(FOLDER / "stills" / f"{explorer.module}.png")
    images = [image.convert("L").resize((64, 64)) for image in (take_still(page), kept)]
    one, other = (np.asarray(image, dtype=float) for image in images)
    assert np.abs(one - other).mean() < MAX_DIFFERENCE, "run: python tools/explorer_page.py"
    assert page.evaluate(CUT_OFF) == []


@pytest.mark.parametrize(("theme", "width"), [("dark", 1280), ("light", 390)])
@every_explorer
def test_it_fits_on_a_screen_in_both_themes(tab, address, explorer, theme, width):
    page = open_explorer(tab, address, explorer(), theme=theme, width=width)
    wide, high = page.evaluate("() => [document.body.scrollWidth, document.body.scrollHeight]")
    assert wide <= width
    assert width < 1280 or high <= 700  # above the fold at 1280 × 800, below JupyterLab's bars
    dark = np.asarray(Image.open(io.BytesIO(page.locator(".explorer").screenshot())).convert("L"))
    assert (np.median(dark) < 100) == (theme == "dark")


@every_explorer
def test_on_a_phone_the_sentences_stay_in_view_next_to_picture_and_controls(tab, address, explorer):
    page = open_explorer(tab, address, explorer(), width=390)
    page.set_viewport_size({"width": 390, "height": 844})
    said = page.locator(".explorer .said")
    for part in page.locator(".explorer :is(svg, input, select, button)").all():
        part.scroll_into_view_if_needed()
        box = said.bounding_box()
        assert box["y"] >= 0 and box["y"] + box["height"] <= 844


@every_explorer
def test_the_frame_has_a_title_a_question_and_controls_above_pictures_side_by_side(
    tab, address, explorer
):
    page = open_explorer(tab, address, explorer(), width=780)  # as on a screen of 1280
    head = page.locator(".explorer .head")
    assert head.inner_text().startswith(explorer.title) and explorer.question.endswith("?")
    assert explorer.question in head.inner_text()
    boxes = [each.bounding_box() for each in page.locator(".explorer svg").all()]
    controls = page.locator(".explorer .controls :is(input, select, button)").all()
    assert head.bounding_box()["y"] < min(each.bounding_box()["y"] for each in controls)
    if len(boxes) == 2:
        assert boxes[0]["y"] == boxes[1]["y"]
        assert all(c.bounding_box()["y"] < boxes[0]["y"] for c in controls)
    else:
        assert len(boxes) == 1 or boxes[0]["x"] < boxes[1]["x"]


def swipe(page: Page, x: float, y: float, step: tuple[int, int]) -> None:
    """Move a finger from a point in ten steps of (right, down) pixels, and then lift it."""
    fingers = page.context.new_cdp_session(page)
    for n, kind in enumerate(["touchStart", *["touchMove"] * 10, "touchEnd"]):
        points = [] if kind == "touchEnd" else [{"x": x + n * step[0], "y": y + n * step[1]}]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.wait_for_timeout(20)
    fingers.detach()


def test_a_finger_that_scrolls_the_page_does_not_click(tab, address):
    page = open_explorer(tab, address, HeadsExplorer())
    page.evaluate("document.body.style.padding = '2000px 0'")
    handle = page.locator(".explorer .handle.scrolls").last
    handle.scroll_into_view_if_needed()
    before = page.locator(".explorer").inner_html()
    for step in [(0, -15), (6, 0)]:  # also sideways
        box = handle.bounding_box()
        swipe(page, box["x"] + 59, box["y"] + box["height"] / 2, step)  # 59: a head's switch
        assert page.locator(".explorer").inner_html() == before


def test_a_finger_drags_a_handle_without_scrolling_the_page(tab, address):
    page = open_explorer(tab, address, AttentionExplorer())
    page.evaluate("document.body.style.padding = '2000px 0'")
    handle = page.locator(".explorer .handle.drags")
    handle.scroll_into_view_if_needed()
    before, scrolled = handle.get_attribute("aria-valuetext"), page.evaluate("scrollY")
    box = handle.locator(":scope > *").last.bounding_box()
    swipe(page, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, (6, 8))
    page.wait_for_timeout(100)
    assert page.evaluate("scrollY") == scrolled
    assert handle.get_attribute("aria-valuetext") != before


def test_a_tap_sets_a_slider_but_a_scroll_does_not(tab, address):
    page = open_explorer(tab, address, AttentionExplorer())
    page.evaluate("document.body.style.padding = '2000px 0'")
    fingers = page.context.new_cdp_session(page)
    fingers.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    assert page.evaluate("matchMedia('(pointer: coarse)').matches")
    for slider in page.locator(".explorer input[type=range]").all():
        slider.scroll_into_view_if_needed()
        box, last = slider.bounding_box(), int(slider.get_attribute("max"))
        far = 0.2 if int(slider.input_value()) > last / 2 else 0.8
        x, y = box["x"] + far * box["width"], box["y"] + box["height"] / 2
        swipe(page, x, y, (0, 0))  # a tap
        page.wait_for_timeout(100)
        before = slider.input_value()
        assert abs(int(before) - far * last) <= 1
        slider.scroll_into_view_if_needed()
        box = slider.bounding_box()
        swipe(page, box["x"] + (1 - far) * box["width"], box["y"] + box["height"] / 2, (0, -15))
        assert slider.input_value() == before
    fingers.detach()


WATCH = """() => {
    window.changes = 0;
    const panes = document.querySelector('.explorer .panes');
    new MutationObserver(() => { window.changes += 1; })
        .observe(panes, {childList: true, subtree: true});
}"""


@every_explorer
def test_the_picture_follows_the_pointer(page: Page, explorer: type[Explorer]):
    page.evaluate(WATCH)
    box = page.locator(".explorer .handle").first.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    for n in range(20):
        across, up = (3 * n) % 10 / 10, (7 * n) % 10 / 10
        page.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * up)
    page.mouse.up()
    assert page.evaluate("window.changes") >= 5, "the picture does not change"
