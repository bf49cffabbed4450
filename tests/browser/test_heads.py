"""The heads explorer: its translator in JavaScript, its game, its error messages, and a kernel."""

import json
import random
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from browser_driver import Lab, write_notebook
from explorer_page import open_explorer, served
from playwright.sync_api import Locator, Page, expect
from safetensors import safe_open
from translator_file import TRANSLATOR, write_translator

from course_lib.data import draw_numbers, spell
from course_lib.tasks.numbers import Translator, load_or_train
from course_lib.viz.heads_explorer import HeadsExplorer, number_words, read_through

NUMBERS = 200
TOLERANCE = 1e-4  # both sides compute in float32, from the same rounded weights
HEADS = [list(head) for head in product(("encoder", "decoder", "cross"), range(2), range(4))]
TRANSLATE = """async ([file, samples]) => {
    const { Translator } = await import("/course_lib/viz/translator.js");
    const translator = new Translator(await (await fetch(file)).arrayBuffer());
    return samples.map(([number, off]) => {
        const start = performance.now();
        return { ...translator.translate(number, off), time: performance.now() - start };
    });
}"""
READ = """async (text) => {
    const { readNumber } = await import("/course_lib/viz/translator.js");
    try { return `${readNumber(text)}`; } catch (error) { return error.message; }
}"""
CHANGES = """async ([written, right]) => {
    const { commonEnds } = await import("/course_lib/viz/heads.js");
    const [start, end] = commonEnds(written, right);
    return [written, right].map((text) => text.slice(start, text.length - end));
}"""
# the time from a key press to the frame with the new translation
PRESS = """async (handle) => {
    const times = [];
    for (let n = 0; n < 20; n++) {
        const start = performance.now();
        handle.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true }));
        do await new Promise(requestAnimationFrame);
        while (handle.closest(".explorer").textContent.includes("Translating"));
        times.push(performance.now() - start);
    }
    return times;
}"""


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """Write the trained translator in the same way as the site's build."""
    path = tmp_path_factory.mktemp("weights") / TRANSLATOR
    write_translator(path)
    return path


@pytest.fixture
def page(browser, weights) -> Iterator[Page]:
    """Open the explorer without a kernel, next to the translator's file."""
    with served() as address:
        opened = open_explorer(browser, address, HeadsExplorer())
        opened.route(f"**/{TRANSLATOR}", lambda route: route.fulfill(path=weights))
        yield opened
        opened.close()


def with_logits(translator: Translator, words: str, off: list) -> dict:
    """Translate with Python, and keep the logits of the last pass, which also makes the maps."""
    passes: list[torch.Tensor] = []
    output = translator.model.output
    with output.register_forward_hook(lambda _, inputs, logits: passes.append(logits)):
        reading = read_through(translator, words, off)
    return reading | reading["maps"] | {"logits": passes[-1][0]}


def test_the_translators_in_javascript_and_python_agree(page: Page, capsys):
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
    time = np.median([mine["time"] for mine in ours])
    with capsys.disabled():
        print(f"\n{time:.0f} ms a translation; largest differences to Python: {differences}")
    assert max(differences.values()) < TOLERANCE


def test_the_file_has_the_parts_of_every_number(weights):
    with safe_open(weights, "pt") as file:
        about = {name: json.loads(value) for name, value in file.metadata().items()}
    draw, translator = random.Random(0), load_or_train()
    for number in [*range(130), *(int(10 ** draw.uniform(2, 6)) for _ in range(1000))]:
        parts = [str(part) for part in (number - number % 1000, number % 1000) if part] or ["0"]
        assert "".join(about["german"][part] for part in parts) == spell(number, "de")
        source = [token for part in parts for token in about["english"][part]]
        assert source == translator.source_ids([spell(number, "en")])[0].tolist()


def test_the_browser_accepts_the_numbers_that_python_accepts(page: Page):
    for text in ("345", " 0,345 ", "0", "999,999"):
        assert spell(int(page.evaluate(READ, text)), "en") == number_words(text)


def test_the_browser_rejects_the_same_texts_as_python_with_a_short_sentence(page: Page):
    for text in ("", "1000000", "9" * 5000, "-3", "٣", "3 hundred", "forty-five"):
        with pytest.raises(ValueError):
            number_words(text)
        answer = page.evaluate(READ, text)
        assert "is not a number below" in answer and len(answer) < 200


def test_a_change_is_between_the_common_prefix_and_the_common_suffix(page: Page):
    right = "dreihundertfünf"
    changes = {  # for each word, the wrong letters and the right ones
        "achthundertfünf": ["acht", "drei"],
        "dreihundert": ["", "fünf"],
        "hundertfünf": ["", "drei"],
        "dreiundhundertfünf": ["und", ""],
        "dreihundertachtundfünf": ["achtund", ""],
        "dreidreihundertfünf": ["drei", ""],
        "zweihundertfünfzig": ["zweihundertfünfzig", right],
        "": ["", right],
        right: ["", ""],
    }
    for written, changed in changes.items():
        assert page.evaluate(CHANGES, [written, right]) == changed


def switch(page: Page, place: str, layer: int, head: int) -> None:
    """Click the switch of a head."""
    row, column = divmod(HEADS.index([place, layer, head]), 4)
    box = page.locator(".explorer svg").nth(1).bounding_box()
    page.mouse.click(box["x"] + 75 * column + 59, box["y"] + 62 + 70 * row + 23)


def grid(page: Page | Locator) -> Locator:
    """Find the small maps, which receive key presses."""
    return page.get_by_role("slider", name="heads")


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


def test_keys_choose_a_head_and_switch_it(page: Page):
    said = page.locator(".said")
    grid(page).focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowRight")
    expect(said).to_contain_text("head 1, cross-attention, layer 0, which is on")
    for key, now in (("Space", "off"), ("Space", "on"), ("Space", "off")):
        page.keyboard.press(key)
        expect(said).to_contain_text(f"head 1, cross-attention, layer 0, which is {now}")
    for _ in range(8):
        page.keyboard.press("ArrowUp")  # above the first row, nothing happens
    expect(said).to_contain_text("head 1, encoder self-attention, layer 0, which is on")


def test_a_missing_file_is_reported_and_the_maps_stay(page: Page):
    page.unroute(f"**/{TRANSLATOR}")
    switch(page, "cross", 1, 0)
    expect(page.locator(".said")).to_contain_text("could not be loaded")
    expect(page.locator(".explorer svg").first).to_contain_text("no new translation")
    expect(page.get_by_text("cross-attention, layer 1").first).to_be_visible()
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(".said")).to_contain_text("which is right")


def test_maps_of_another_training_run_disappear_when_the_translator_loads(browser, weights):
    with served() as address:
        explorer = HeadsExplorer()
        explorer.reading = explorer.reading | {"text": "of another run"}
        page = open_explorer(browser, address, explorer)
        page.route(f"**/{TRANSLATOR}", lambda route: route.fulfill(path=weights))
        expect(page.locator(".said")).to_contain_text("of another run")
        grid(page).focus()
        expect(page.locator(".said")).not_to_contain_text("of another run")
        page.close()


def test_in_a_notebook_the_kernel_translates(course, lab: Lab, capsys):
    source = "from course_lib.viz.heads_explorer import HeadsExplorer\nHeadsExplorer()"
    write_notebook(course / "heads.ipynb", source)
    lab.open("heads.ipynb")
    lab.run_cell(0)
    cell = lab.cell(0)
    grid(cell).focus()
    times = grid(cell).evaluate(PRESS)
    with capsys.disabled():
        print(f"\n{np.median(times):.0f} ms from a key through the kernel to the translation")
    expect(cell.locator(".said")).to_contain_text("which is right")
    text = cell.get_by_role("textbox", name="a number")
    text.fill("7,078")
    expect(cell.locator(".said")).to_contain_text("siebentausendachtundsiebzig”, which is right")
    text.fill("seven")
    expect(cell.locator(".said")).to_contain_text("is not a number below")


def test_a_long_wrong_translation_does_not_cover_the_title_of_the_map(browser):
    explorer = HeadsExplorer()
    explorer.reading = explorer.reading | {"text": 12 * "hundert"}
    with served() as address:
        page = open_explorer(browser, address, explorer)
        letters = page.locator("svg .mono").evaluate_all(
            "all => all.map(each => each.y.baseVal[0].value)"
        )
        assert len(letters) > 68 and max(letters) < 140  # the title is at 152
        page.close()
