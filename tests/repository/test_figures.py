"""The drawings are up to date and readable, and the numbers in them are correct."""

import importlib.util
import inspect
import json
import re
import xml.etree.ElementTree as ElementTree
from functools import cache
from itertools import combinations, pairwise
from pathlib import Path

import pytest
import torch
from matplotlib import path as outlines
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath
from parity import recorded_kinds

from course_lib.batching import batch_by_tokens, padding_fraction
from course_lib.beam_search import beam_step
from course_lib.data_parallel import split_batch
from course_lib.exercises.checking.check import caught_at
from course_lib.exercises.questions.clinic_cases import CASES
from course_lib.exercises.questions.clinic_models import Patient
from course_lib.interop import gpt2, llama
from course_lib.modern_decoder import ModernConfig
from course_lib.tasks.numbers import load_or_train

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


def test_an_animation_only_lights_up_what_is_shown_from_the_start():
    root = ElementTree.parse(FIGURES / "00_check.svg").getroot()
    moving = [element for element in root.iter() if element.get("class")]
    assert len(moving) == 3
    assert [part.tag for element in moving for part in element.iter(SVG + "text")] == []


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


def test_the_drawing_of_batches_agrees_with_the_package():
    drawing = source_of("real_translation")
    pairs = [(length, 0) for length in drawing.LENGTHS]
    assert drawing.sorted_and_cut() == batch_by_tokens(pairs, drawing.TOKENS)
    for batches in (drawing.dealt(), drawing.sorted_and_cut()):
        share = 1 - sum(drawing.LENGTHS) / drawing.positions(batches)
        assert share == pytest.approx(padding_fraction(pairs, batches))


def test_the_attention_drawing_shows_torchs_numbers():
    drawing = source_of("_attention")
    query, key, value = map(torch.tensor, ([drawing.ASKED], drawing.KEYS, drawing.VALUES))
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    output = drawing.weighted_average(drawing.softmax(drawing.scores()))
    torch.testing.assert_close(torch.tensor([output]), expected)


def test_the_add_and_norm_drawing_shows_torchs_numbers():
    drawing = source_of("add_norm")
    total = torch.tensor(drawing.OLD) + torch.tensor(drawing.CHANGE)
    expected = torch.nn.functional.layer_norm(total, total.shape)
    torch.testing.assert_close(torch.tensor(drawing.normed()), expected, atol=1e-4, rtol=0)


def test_the_feed_forward_drawing_shows_torchs_numbers():
    drawing = source_of("feed_forward")
    lifted, kept, output = drawing.stages()
    up = torch.tensor([drawing.X]) @ torch.tensor(drawing.W1)
    torch.testing.assert_close(torch.tensor([lifted]), up)
    torch.testing.assert_close(torch.tensor([kept]), up.relu())
    torch.testing.assert_close(torch.tensor([output]), up.relu() @ torch.tensor(drawing.W2))


def test_the_positions_drawing_has_a_clock_for_every_pair():
    drawing = source_of("positions")
    sine, cosine = torch.tensor(drawing.encoding()).unflatten(0, (-1, 2)).unbind(1)
    rates = 1 / 10000 ** (torch.arange(0, drawing.D_MODEL, 2) / drawing.D_MODEL)
    torch.testing.assert_close(sine, torch.sin(drawing.CHOSEN * rates))
    torch.testing.assert_close(cosine, torch.cos(drawing.CHOSEN * rates))


def test_the_masks_drawing_hides_padded_and_later_keys():
    drawing = source_of("masks")
    places = range(drawing.LENGTH)
    both = torch.tensor([[drawing.both(i, j) for j in places] for i in places])
    real = torch.tensor([word != "[pad]" for word in drawing.TARGET])
    assert torch.equal(both, torch.ones(both.shape).tril().bool() & real)


def stored(*tensors):
    """Return the KiB that tensors take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors) / 1024


def test_the_efficiency_drawing_counts_the_bytes_that_every_pass_reads_and_writes():
    drawing = source_of("efficiency")
    shape, places = (drawing.HEADS, drawing.LENGTH, drawing.WIDTH), drawing.LENGTH
    for way in drawing.WAYS:
        q, k, v = torch.ones(3, *shape, dtype={4: torch.float32, 2: torch.bfloat16}[way.size])
        may_look = torch.ones(places, places).tril().bool()
        scores = q @ k.mT
        scaled = scores / drawing.WIDTH**0.5
        masked = scaled.masked_fill(~may_look, float("-inf"))
        weights = masked.softmax(-1)
        made = (scores, scaled, masked, weights, weights @ v)
        reads = {0: (q, k), len(made) - 1: (v,)}
        moved = sum(
            stored(
                *(tensor for i in steps for tensor in reads.get(i, ())),
                *(made[steps[0] - 1],) * (steps[0] > 0),
                made[steps[-1]],
            )
            for steps in way.passes
        )
        assert moved == way.moved, way.name


def test_the_scaling_drawing_distributes_texts_like_the_package():
    drawing = source_of("distributed_training")
    for who in range(2):
        rows, nothing = range(drawing.ROWS), (0, 0, 0, 0)
        read = [row for row in rows if drawing.reads("data", who, row) != nothing]
        assert read == split_batch(range(drawing.ROWS), who, 2)


def test_the_scaling_drawing_cuts_matrices_so_that_the_parts_add_up():
    drawing = source_of("distributed_training")
    x, first, second = (torch.randn(4, 4, dtype=torch.float64) for _ in range(3))

    def cut(matrix, share):
        """Return the part of a matrix that a processor stores."""
        left, top, wide, high = (round(4 * each) for each in share)
        return matrix[top : top + high, left : left + wide]

    for number in range(drawing.LAYERS):
        parts = []
        for who in range(2):
            one, other = drawing.has("tensor", who, number)
            parts.append((x @ cut(first, one)).relu() @ cut(second, other))
        torch.testing.assert_close(sum(parts), (x @ first).relu() @ second)


def test_in_the_pipeline_no_stage_starts_before_the_one_before_it():
    drawing = source_of("distributed_training")
    ahead, back = [], []
    for who in range(2):
        busy = drawing.schedule(who)
        assert all(a[0] + a[1] <= b[0] for a, b in pairwise(busy))
        ahead.append({batch: (start, start + long) for start, long, batch in busy if long == 1})
        back.append({batch: (start, start + long) for start, long, batch in busy if long != 1})
    for batch in range(1, drawing.ROWS + 1):
        assert ahead[0][batch][1] <= ahead[1][batch][0]
        assert ahead[1][batch][1] <= back[1][batch][0]
        assert back[1][batch][1] <= back[0][batch][0]
    assert max(end for one in back for _, end in one.values()) == drawing.TIMES


def test_the_beam_search_drawing_agrees_with_the_package():
    drawing = source_of("beam_search")
    names = sorted({word for row in drawing.WEATHER.values() for word in row} | {"pad", "start"})
    rows = [[drawing.WEATHER.get(last, {}).get(word, 0) for word in names] for last in names]
    logits, pad = torch.tensor(rows, dtype=torch.float64).log(), names.index("pad")
    beam, totals = [("start",)] * drawing.K, torch.tensor([[0.0] + [-torch.inf] * (drawing.K - 1)])
    for step in drawing.search():
        last = torch.tensor([[names.index(words[-1]) for words in beam]])
        found = beam_step(logits[last], totals, names.index("end"), pad)
        chosen, tokens, totals, ended = found
        finished = [(*line, "end") for line, p in zip(beam, ended[0].exp(), strict=True) if p > 0]
        beam = [(*beam[k], names[i]) for k, i in zip(chosen[0], tokens[0], strict=True)]
        drawn = {fate: [g for g in step if g.fate == fate] for fate in ("kept", "pool")}
        assert [("start", *grown.words) for grown in drawn["kept"]] == beam
        assert [grown.total for grown in drawn["kept"]] == pytest.approx(totals[0].exp().tolist())
        assert [("start", *grown.words) for grown in drawn["pool"]] == finished
    finished = [grown.total for grown in step if grown.fate == "pool"]
    assert finished == [max(grown.total for grown in step)], "the search has not finished"
    words, total = drawing.greedy()
    taken = ["start"]
    while taken[-1] != "end":
        taken.append(names[logits[names.index(taken[-1])].argmax()])
    assert words == tuple(taken[1:]) and total < finished[0]


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


def test_the_published_weights_drawing_moves_cells_like_the_package():
    drawing = source_of("published_weights")

    def numbers(table):
        return torch.tensor([[int(words) for words in row] for row in table])

    query = drawing.matrix(drawing.D_K, drawing.D_MODEL)
    config = ModernConfig(vocab_size=9, num_heads=1, num_kv_heads=1, d_model=drawing.D_K)
    ours = llama.FOLDER.to_ours("self_attn.q_proj.weight", numbers(query), config)
    assert ours.equal(numbers(drawing.to_neighbours(query)))
    wide = drawing.matrix(drawing.D_MODEL, drawing.D_FF)
    ours = gpt2.LAYOUT.to_ours("mlp.c_fc.weight", numbers(wide), config)
    assert ours.equal(numbers(drawing.transposed(wide)))
