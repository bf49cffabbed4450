"""The drawings are up to date and readable, and those of trained models are correct."""

import importlib.util
import inspect
import json
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
import torch
from matplotlib import path as outlines
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from parity import recorded_kinds

from course_lib.exercises.checking.check import caught_at
from course_lib.exercises.questions.clinic_cases import CASES
from course_lib.exercises.questions.clinic_models import Patient
from course_lib.tasks.numbers import load_or_train
from course_lib.viz.beam_explorer import WEATHER

FIGURES = Path(__file__).resolve().parents[2] / "figures"
SVG = "{http://www.w3.org/2000/svg}"
PHONE = 390  # px
TITLE_SIZE = "16"  # px
MARGIN = 8  # px between text and the edge of the drawing


def load(path: Path):
    """Import a file from figures/src, whose name may begin with a digit."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


draw_all = load(FIGURES / "src" / "draw_all.py")
SOURCES = draw_all.sources()
FILES = sorted(FIGURES.glob("*.svg"))
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def source_of(name: str):
    """Return the module that draws a chapter, by the chapter's name."""
    return draw_all.load(next(path for path in SOURCES if path.stem.endswith(name)))


def placed(element: ElementTree.Element, shift: tuple[float, float] = (0, 0)):
    """Yield each text with the total shift of its groups."""
    moved = element.get("transform", "")
    if moved.startswith("translate"):
        dx, dy = map(float, moved[len("translate(") : -1].split())
        shift = (shift[0] + dx, shift[1] + dy)
    if element.tag == SVG + "text":
        yield element, shift
    for child in element:
        yield from placed(child, shift)


@cache
def ink(words: str, size: str, weight: str) -> tuple[float, ...]:
    """Return the left, top, right and bottom of a text at the origin, in its font."""
    font = FontProperties(family="DejaVu Sans", weight=weight)
    path = TextPath((0, 0), words, size=float(size), prop=font)
    x, y = path.vertices[path.codes != outlines.Path.CLOSEPOLY].T  # no curve leaves its points
    return x.min(), -y.max(), x.max(), -y.min()


def extent(element: ElementTree.Element, shift: tuple[float, float]) -> tuple[float, ...]:
    """Return the left, top, right and bottom of a text in its place."""
    weight = element.get("font-weight", "normal")
    left, top, right, bottom = ink(element.text, element.get("font-size"), weight)
    start = {"middle": -right / 2, "end": -right}.get(element.get("text-anchor"), 0)
    left, right = left + start, right + start
    if element.get("transform", "").startswith("rotate(-90"):
        left, right, top, bottom = top, bottom, -right, -left
    x, y = float(element.get("x")) + shift[0], float(element.get("y")) + shift[1]
    return x + left, y + top, x + right, y + bottom


@pytest.fixture(autouse=True, scope="module")
def _stages_from_the_table():
    """Draw the kill matrix from its table, which test_checks compares with the checks."""
    with pytest.MonkeyPatch.context() as patch:
        seen = recorded_kinds()
        patch.setattr(inspect.getmodule(caught_at), "caught_at", lambda m: seen[m.exercise, m.name])
        yield


def test_every_drawing_matches_its_file():
    assert draw_all.differing() == [], "run: make sync (mistake_detection.md: see test_checks.py)"


@every_file
def test_every_drawing_has_its_size_and_a_description(path):
    root = ElementTree.parse(path).getroot()
    assert root.get("viewBox") == f"0 0 {root.get('width')} {root.get('height')}"
    assert root.get("width") == "540"
    transforms = [element.get("transform", "rotate(0)") for element in root.iter()]
    assert all(re.match(r"(rotate|translate|scale)\(", given) for given in transforms)
    title, desc = root[0], root[1]
    assert (root.get("role"), title.tag, desc.tag) == ("img", SVG + "title", SVG + "desc")
    heading = [text.text for text, _ in placed(root) if text.get("font-size") == TITLE_SIZE]
    assert title.text == " ".join(heading)
    assert len(title.text.split()) > 5, "a title is a message, not a name"
    assert len(desc.text.split()) > 20


@every_file
def test_every_text_has_ten_pixels_on_a_phone_is_inside_and_overlaps_no_other_text(path):
    root = ElementTree.parse(path).getroot()
    width, height = float(root.get("width")), float(root.get("height"))
    sizes = {text.text: float(text.get("font-size")) for text, _ in placed(root)}
    assert {words: size for words, size in sizes.items() if size < 10 * width / PHONE} == {}
    texts = [(extent(*text), text[0].text) for text in placed(root)]
    for (left, top, right, bottom), words in texts:
        assert left >= MARGIN and right <= width - MARGIN, words
        assert top >= MARGIN and bottom <= height - MARGIN, words
    for (one, words), (other, more) in combinations(texts, 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, f"{words!r} overlaps {more!r}"


@every_file
def test_every_color_on_paper_has_a_partner_in_the_dark(path):
    drawing = path.read_text(encoding="utf-8")
    used = set(re.findall(r'(?:fill|stroke)="(#\w{6})"', drawing))
    dark = dict(re.findall(r"light-dark\((#\w{6}),(#\w{6})\)", drawing))
    assert used == dark.keys()
    ink, paper = (sum(bytes.fromhex(dark[color][1:])) / 765 for color in ("#222222", "#FFFFFF"))
    assert ink > 0.75 and paper < 0.1


def test_the_first_drawing_shows_what_the_trained_translator_writes():
    kept = json.loads(source_of("promise").RECORD.read_text(encoding="utf-8"))
    assert all(sum(row) == pytest.approx(1, abs=0.03) for row in kept["weights"])
    written = load_or_train().translate([" ".join(kept["source"]).replace("- ", "-")])[0]
    assert written == "".join(kept["target"])


def test_the_beam_search_drawing_has_the_language_of_the_explorer():
    for word, continuations in source_of("beam_search").WEATHER.items():
        assert continuations == WEATHER["bos" if word == "start" else word]


def test_the_bug_clinic_drawing_shows_the_losses_of_one_healthy_model_and_eleven_broken_ones():
    drawing = source_of("bug_clinic")
    cases = {case.name: case for case in CASES}
    assert [letter for letter, name in drawing.PATIENTS.items() if name is None] == ["E"]
    (chapter,) = (FIGURES.parent / "notebooks").glob("16_*.ipynb")
    text = chapter.read_text(encoding="utf-8").replace("\\", "")
    for letter, name in drawing.PATIENTS.items():
        assert name is None or f'"{letter}": "{name}"' in text
    kept = json.loads(drawing.RECORD.read_text(encoding="utf-8"))
    assert list(kept) == list(drawing.PATIENTS) and all(row[-1] < 0.05 for row in kept.values())
    for letter in ("E", "K"):  # processors may differ a little
        name = drawing.PATIENTS[letter]
        losses = torch.tensor(Patient(cases[name].mistakes if name else ()).trained()[1])
        means = losses[:198].view(-1, drawing.TOGETHER).mean(dim=1)
        assert kept[letter] == pytest.approx(means.tolist(), abs=0.1)
