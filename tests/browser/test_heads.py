"""The heads explorer: its translator in JavaScript, its game, its error messages, and a kernel."""

import random
from itertools import product
from pathlib import Path

import pytest
import torch
from browser_driver import Lab, write_notebook
from explorer_page import open_explorer
from playwright.sync_api import Locator, Page, expect
from translator_file import TRANSLATOR, write_translator

from course_lib.data import draw_numbers, spell
from course_lib.tasks.numbers import Translator, load_or_train
from course_lib.viz.heads_explorer import (
    HeadsExplorer,
    heads_that_break,
    number_words,
    read_through,
)

NUMBERS = 24
TOLERANCE = 1e-4  # both sides compute in float32, from the same rounded weights
HEADS = [list(head) for head in product(("encoder", "decoder", "cross"), range(2), range(4))]
TRANSLATE = """async ([file, samples]) => {
    const { Translator } = await import("/course_lib/viz/translator.js");
    const translator = new Translator(await (await fetch(file)).arrayBuffer());
    return samples.map(([number, off]) => translator.translate(number, off));
}"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """Write the trained translator in the same way as the site's build."""
    path = tmp_path_factory.mktemp("weights") / TRANSLATOR
    write_translator(path)
    return path


@pytest.fixture
def page(tab, address, weights) -> Page:
    """Open the explorer without a kernel, next to the translator's file."""
    return open_explorer(tab, address, HeadsExplorer(), files={TRANSLATOR: weights})


def with_logits(translator: Translator, words: str, off: list) -> dict:
    """Translate with Python, and keep the logits of the last pass, which also makes the maps."""
    passes: list[torch.Tensor] = []
    output = translator.model.output
    with output.register_forward_hook(lambda _, inputs, logits: passes.append(logits)):
        reading = read_through(translator, words, off)
    return reading | reading["maps"] | {"logits": passes[-1][0]}


def test_the_translators_in_javascript_and_python_agree(page: Page):
    draw = random.Random(0)
    numbers = [*draw_numbers("train", NUMBERS // 2), *draw_numbers("test", NUMBERS // 2)]
    samples = [(n, draw.sample(HEADS, 3 * (k % 4))) for k, n in enumerate(numbers)]
    ours = page.evaluate(TRANSLATE, [f"/docs/_static/viz/{TRANSLATOR}", samples])
    translator = load_or_train()
    for weight in translator.model.parameters():
        weight.data = weight.half().float()  # as in the translator's file
    differences = dict.fromkeys(("logits", "encoder", "decoder", "cross"), 0.0)
    for (number, off), mine in zip(samples, ours, strict=True):
        theirs = with_logits(translator, spell(number, "en"), off)
        for name in ("source", "written", "text"):
            assert mine[name] == theirs[name], (number, off)
        assert mine["german"] == spell(number, "de")
        for name in differences:
            found = torch.tensor((mine | mine["maps"])[name])
            difference = (found - theirs[name]).abs().max().item()
            differences[name] = max(differences[name], difference)
    assert max(differences.values()) < TOLERANCE


def switch(page: Page, place: str, layer: int, head: int) -> None:
    """Click the switch of a head."""
    row = ["encoder", "decoder", "cross"].index(place)
    box = page.locator(".explorer svg").nth(2 + layer).bounding_box()
    page.mouse.click(box["x"] + 75 * head + 59, box["y"] + 42 + 70 * row + 23)


def grid(page: Page | Locator) -> Locator:
    """Find the small maps of the last layer, which receive key presses."""
    return page.get_by_role("slider", name="heads of layer 1")


def test_without_the_last_cross_attention_a_number_is_wrong_and_red(page: Page):
    said, text = page.locator(".said"), page.locator(".explorer svg").first
    red = text.locator(".future")
    assert red.count() == 0
    for count, head in enumerate(range(4), start=1):
        switch(page, "cross", 1, head)
        expect(page.get_by_text(f"{24 - count} of 24 heads are on")).to_be_visible()
    expect(said).to_contain_text("which is wrong")
    expect(text).to_contain_text("wrong ✗")
    off = [["cross", 1, head] for head in range(4)]
    german = read_through(load_or_train(), number_words("345"), off)["text"]
    expect(said).to_contain_text(f"“{german}”" if german else "nothing")
    assert red.count() > 0
    switch(page, "cross", 1, 3)  # on again
    expect(page.get_by_text("21 of 24 heads are on")).to_be_visible()


def test_the_record_is_the_fewest_heads_that_translate_a_number_correctly(page: Page):
    record = page.get_by_text("Your record")
    expect(record).to_contain_text("24")
    translator, off, best = load_or_train(), [], len(HEADS)
    for head in HEADS[:8]:
        switch(page, *head)
        off.append(head)
        right = read_through(translator, number_words("345"), off)["text"] == spell(345, "de")
        best = len(HEADS) - len(off) if right else best
        expect(page.get_by_text(f"{24 - len(off)} of 24 heads are on")).to_be_visible()
        expect(record).to_contain_text(f"{best}")
    page.get_by_role("button", name="Reset").click()
    expect(page.get_by_text("24 of 24 heads are on")).to_be_visible()
    expect(record).to_contain_text(f"{best}")
    page.get_by_role("textbox").fill("7")
    expect(page.locator(".said")).to_contain_text("“sieben”")
    expect(record).to_contain_text("24")


def test_a_button_breaks_a_translation_with_the_heads_that_python_chooses(page: Page):
    number = 12
    page.get_by_role("textbox").fill(str(number))
    expect(page.locator(".said")).to_contain_text("which is right")
    page.get_by_role("button", name="Break it").click()
    expect(page.locator(".said")).to_contain_text("which is wrong")
    assert page.locator(".explorer svg").first.locator(".future").count() > 0
    off = heads_that_break(load_or_train(), spell(number, "en"), spell(number, "de"))
    expect(page.get_by_text(f"{24 - len(off)} of 24 heads are on")).to_be_visible()
    expect(page.locator(".said")).to_contain_text(f"head {off[-1][2]}, ")
    page.get_by_role("button", name="Your turn: find the fewest").click()  # all on, at the switches
    expect(page.get_by_text("24 of 24 heads are on")).to_be_visible()
    assert page.evaluate("document.activeElement.ariaLabel").startswith("heads of layer 0")


def test_a_missing_file_is_reported_the_maps_stay_and_a_button_tries_again(tab, address, weights):
    page = open_explorer(tab, address, HeadsExplorer())
    expect(page.locator(".said")).to_contain_text("which is right")
    switch(page, "cross", 1, 0)
    expect(page.locator(".said")).to_contain_text("could not be loaded")
    expect(page.locator(".explorer svg").first).to_contain_text("no new translation")
    expect(page.get_by_text("cross-attention, layer 1").first).to_be_visible()
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(".said")).to_contain_text("which is right")
    page.route(f"**/{TRANSLATOR}", lambda route: route.fulfill(path=weights))
    page.get_by_role("button", name="Break it").click()
    expect(page.locator(".said")).to_contain_text("which is wrong")


def test_a_button_pressed_while_a_try_is_failing_starts_another(tab, address, weights):
    held = []

    def answer(route):
        held.append(route)
        if len(held) > 1:
            route.fulfill(path=weights)

    page = open_explorer(tab, address, HeadsExplorer())
    page.route(f"**/{TRANSLATOR}", answer)
    grid(page).focus()
    page.get_by_role("button", name="Break it").click()
    page.wait_for_timeout(500)
    assert len(held) == 1
    held[0].abort()
    expect(page.locator(".said")).to_contain_text("which is wrong")
    assert len(held) == 2  # the focus and the button share one


def test_in_a_notebook_the_kernel_translates(course, lab: Lab):
    source = "from course_lib.viz.heads_explorer import HeadsExplorer\nHeadsExplorer()"
    write_notebook(course / "heads.ipynb", source)
    lab.open("heads.ipynb")
    lab.run_cell(0)
    cell = lab.cell(0)
    grid(cell).focus()
    lab.page.keyboard.press("Space")
    expect(cell.get_by_text("23 of 24 heads are on")).to_be_visible()
    lab.page.keyboard.press("Space")
    expect(cell.locator(".said")).to_contain_text("which is right")
    cell.get_by_role("button", name="Break it").click()
    expect(cell.locator(".said")).to_contain_text("“sechshundertfünfundvierzig”, which is wrong")
    cell.get_by_role("button", name="Reset").click()
    text = cell.get_by_role("textbox", name="a number")
    text.fill("7,078")
    expect(cell.locator(".said")).to_contain_text("siebentausendachtundsiebzig”, which is right")
    text.fill("seven")
    expect(cell.locator(".said")).to_contain_text("is not a number below")
