"""The heads explorer: heads are switched off truly, and no weight is ever moved."""

from copy import deepcopy
from html import unescape
from itertools import combinations, product

import matplotlib.pyplot as plt
import pytest
import torch
from figure_asserts import assert_readable, texts
from torch.testing import assert_close

from course_lib.data import spell
from course_lib.tasks.numbers import TranslatorConfig, prepare
from course_lib.viz import heads_explorer as module
from course_lib.viz.heads_explorer import (
    LONGEST,
    PLACES,
    HeadsExplorer,
    attention_of,
    heads_off,
    number_words,
    read_through,
)

HEADS, LAYERS = 3, 2
CONFIG = TranslatorConfig(
    num_pairs=2000, vocab_size=200, d_model=12, num_heads=HEADS, num_layers=LAYERS, d_ff=20
)
SOURCE = "three hundred forty-five"
OFF = [c for k in range(1, HEADS + 1) for c in combinations(range(HEADS), k)]


@pytest.fixture(scope="module")
def translator():
    """Return a translator that has learned nothing: what it writes is luck, but always the same."""
    translator, _ = prepare(CONFIG)
    translator.model.eval()
    return translator


@pytest.fixture
def explorer(translator, monkeypatch):
    """Return an explorer of the untrained translator."""
    monkeypatch.setattr(module, "load_or_train", lambda: translator)
    return HeadsExplorer()


def turn(explorer, **settings) -> str:
    """Set controls and return the sentence."""
    for name, value in settings.items():
        explorer.controls[name].value = value
    return explorer.words.value


def without_columns(translator, place, layer, off):
    """Switch heads off in another way: a copy whose w_o has no columns for them."""
    copy = deepcopy(translator)
    w_o = attention_of(copy, place, layer).w_o
    width = w_o.in_features // HEADS
    with torch.no_grad():
        for head in off:
            w_o.weight[:, head * width : (head + 1) * width] = 0
    return copy


@pytest.mark.parametrize("place", PLACES.values())
@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_head_is_off_as_if_its_part_of_w_o_were_zero(translator, place, layer):
    src, tgt = translator.source_ids([SOURCE]), torch.tensor([[1, 20, 30, 40]])
    with torch.no_grad():
        whole = translator.model(src, tgt)  # (1, T, V)
    for off in OFF:
        other = without_columns(translator, place, layer, off)
        with torch.no_grad(), heads_off(attention_of(translator, place, layer), off):
            logits = translator.model(src, tgt)
        with torch.no_grad():
            assert_close(logits, other.model(src, tgt))
        assert (logits - whole).abs().max() > 1e-3
        ours = read_through(translator, SOURCE, place, layer, off)
        theirs = read_through(other, SOURCE, place, 0, ())
        assert ours.written == theirs.written
        assert_close(ours.maps, theirs.maps)


def test_no_weight_is_touched_and_no_hook_stays(translator):
    before = deepcopy(translator.model.state_dict())
    attention = attention_of(translator, "cross", 1)
    with pytest.raises(RuntimeError), heads_off(attention, (0,)):
        raise RuntimeError
    read_through(translator, SOURCE, "cross", 1, (0, 2))
    for name, value in translator.model.state_dict().items():
        assert value.equal(before[name])
    assert not any(m.training for m in translator.model.modules())
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in translator.model.modules())


def test_places_are_told_apart(translator):
    model = translator.model
    assert attention_of(translator, "encoder", 1) is model.encoder.layers[1].self_attn
    assert attention_of(translator, "decoder", 0) is model.decoder.layers[0].self_attn
    assert attention_of(translator, "cross", 1) is model.decoder.layers[1].cross_attn


def test_with_all_heads_on_it_writes_and_looks_as_the_translator_does(translator):
    reading = read_through(translator, SOURCE, "cross", 0, ())
    assert translator.translate([SOURCE])[0].startswith(reading.text)
    assert len(reading.written) == len(reading.read) <= LONGEST
    assert reading.read == ["[bos]", *reading.written[:-1]]
    tgt = torch.tensor([[translator.tokenizer._inner.token_to_id(p) for p in reading.read]])
    maps = translator.model.attention_maps(translator.source_ids([SOURCE]), tgt)
    for name, weights in maps.items():
        assert_close(reading.maps[name], weights[:, 0].detach())


def test_digits_and_words_are_both_read():
    for number in (0, 7, 345, 1000, 999_999):
        assert number_words(str(number)) == spell(number, "en")
        assert number_words(spell(number, "en")) == spell(number, "en")
    assert number_words(" 12,345 ") == spell(12_345, "en")
    assert number_words("Three  hundred forty-five ") == SOURCE
    assert number_words("007") == "seven"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "nothing to translate"),
        ("1000000", "0 to 999,999"),
        ("9" * 5000, "0 to 999,999"),
        ("-3", "no English number word"),
        ("3.5", "no English number word"),
        ("٣", "no English number word"),
        ("vierzig", "vierzig"),
        ("forty five", "did you mean"),
        ("<b>", "&lt;b&gt;"),
    ],
)
def test_wrong_input_gets_a_sentence_and_keeps_the_picture(explorer, text, says):
    turn(explorer, text="6")
    picture = explorer.picture.value
    sentence = turn(explorer, text=text)
    assert 'role="alert"' in sentence and says in sentence and len(sentence) < 300
    assert explorer.picture.value == picture
    assert 'role="status"' in turn(explorer, text="345")


def assert_shows(explorer, reading, place, layer, head):
    """Fail unless both panels and the sentence show this head of this reading."""
    maps = reading.maps[place]  # (N, H, T, S)
    shown = torch.tensor(explorer.axes[0].images[0].get_array().filled(0))
    assert_close(shown, maps[layer, head])
    assert f"Head {head} of layer {layer}," in explorer.axes[0].get_title("left")
    small = explorer.axes[1].images
    assert_close(torch.stack([torch.as_tensor(i.get_array()) for i in small]), maps.flatten(0, 1))
    assert {image.get_clim() for image in small} == {(0, 1)}
    rows, columns = reading.words(place)
    cells = product(range(place == "decoder", len(rows)), range(len(columns)))
    row, column = max(cells, key=lambda cell: maps[layer, head][cell])
    weight = maps[layer, head, row, column]
    looks = f"“{rows[row]}”: {weight:.2f} on “{columns[column]}”."
    assert f"Head {head} of layer {layer} looks most" in explorer.words.value
    assert looks in unescape(explorer.words.value) and looks in explorer.alt


def test_the_map_shown_is_the_head_that_is_asked_for(explorer, monkeypatch):
    monkeypatch.setattr(explorer, "_painted", bytes)  # assert_readable paints it
    for place, layer, head in product(PLACES.values(), range(LAYERS), range(HEADS)):
        turn(explorer, place=place, layer=layer, head=head)
        assert_shows(explorer, explorer.reading(SOURCE, place, layer, ()), place, layer, head)
        assert_readable(explorer.fig)


def test_with_heads_off_all_is_shown_of_the_pass_without_them(explorer, translator):
    for place in PLACES.values():
        turn(explorer, place=place, layer=0, off0=False, off1=True, off2=True)
        cut = read_through(translator, SOURCE, place, 0, (1, 2))
        assert_shows(explorer, cut, place, 0, 0)
        turn(explorer, text="6")
        assert_shows(explorer, read_through(translator, "six", place, 0, (1, 2)), place, 0, 0)
        turn(explorer, text=SOURCE)


def test_the_small_maps_stand_by_layer_and_head_and_the_chosen_one_is_framed(explorer):
    turn(explorer, layer=0, head=2)
    ax = explorer.axes[1]
    assert [t.get_text() for t in ax.get_xticklabels()] == ["layer 0", "layer 1"]
    assert [t.get_text() for t in ax.get_yticklabels()] == ["head 0", "head 1", "head 2"]
    assert ax.get_ylim() == (HEADS, 0), "the first head stands on top"
    places = product(range(LAYERS), range(HEADS))
    for (layer, head), image in zip(places, ax.images, strict=True):
        left, right, bottom, top = image.get_extent()
        assert layer < left < right < layer + 1
        assert head < top < bottom < head + 1
    (frame,) = ax.patches
    assert frame.get_bbox().bounds == (0, 2, 1, 1)


def test_the_axes_carry_the_tokens(explorer):
    turn(explorer, text="6", place="encoder")
    pieces = explorer.reading("six", "encoder", 1, ()).source
    ax = explorer.axes[0]
    assert [t.get_text() for t in ax.get_xticklabels()] == pieces
    assert [t.get_text() for t in ax.get_yticklabels()] == pieces
    turn(explorer, place="cross")
    assert [t.get_text() for t in ax.get_yticklabels()] == explorer.reading(
        "six", "cross", 1, ()
    ).written
    assert [t.get_text() for t in ax.get_xticklabels()] == pieces
    labels = {
        "encoder": ("key: English piece", "query: English piece"),
        "decoder": ("key: piece read", "query: about to write"),
        "cross": ("key: English piece", "query: about to write"),
    }
    for place, (key, query) in labels.items():
        turn(explorer, place=place)
        assert (ax.get_xlabel(), ax.get_ylabel()) == (key, query)


def test_small_maps_carry_their_numbers(explorer):
    turn(explorer, text="6", place="encoder", layer=1, head=2)
    weights = explorer.reading("six", "encoder", 1, ()).maps["encoder"][1, 2]
    numbers = [text.get_text() for text in explorer.axes[0].texts]
    assert numbers == [f"{weight:.2f}" for weight in weights.flatten()]
    turn(explorer, text="777,777")
    assert not explorer.axes[0].texts


def test_what_the_decoder_may_not_see_is_hatched_everywhere(explorer):
    turn(explorer, place="decoder")
    assert all(any(p.get_hatch() for p in ax.patches) for ax in explorer.axes)
    stairs = next(p for p in explorer.axes[0].patches if p.get_hatch()).get_path()
    length = len(explorer.reading(SOURCE, "decoder", 1, ()).written)
    for row, column in product(range(length), repeat=2):
        assert stairs.contains_point((column, row)) == (column > row)
    for (left, right, bottom, top), small in (
        (image.get_extent(), patch.get_path())
        for image, patch in zip(explorer.axes[1].images, explorer.axes[1].patches, strict=False)
    ):
        for row, column in product(range(length), repeat=2):
            x = left + (right - left) * (column + 0.5) / length
            y = top + (bottom - top) * (row + 0.5) / length
            assert small.contains_point((x, y)) == (column > row)
    turn(explorer, place="encoder")
    assert not any(p.get_hatch() for ax in explorer.axes for p in ax.patches)


def test_the_sentence_says_what_is_written_with_and_without(explorer, monkeypatch):
    answers = {(): "dreihundertfünfundvierzig", (0, 2): "fünfundvierzig"}
    real = module.read_through

    def scripted(translator, text, place, layer, off):
        reading = real(translator, text, place, layer, off)
        return module.Reading(
            reading.source,
            reading.read,
            [*reading.written[:-1], "[eos]"],
            answers[off],
            reading.maps,
        )

    monkeypatch.setattr(module, "read_through", scripted)
    explorer._readings.clear()
    explorer.switches[2].value = False
    explorer._follow(None)
    assert "becomes “dreihundertfünfundvierzig” (right). Head" in explorer.words.value
    answers[(0,)] = ""
    explorer.switches[0].value = True
    assert "without head 0 of layer 1 in cross-attention, nothing at all (wrong)" in (
        explorer.words.value
    )
    explorer.switches[2].value = True
    assert (
        "becomes “dreihundertfünfundvierzig” (right); without heads 0, 2 of layer 1 in "
        "cross-attention, “fünfundvierzig” (wrong)."
    ) in explorer.words.value


def test_a_translation_without_an_end_is_called_cut():
    ends = (module.Reading([], [], ["drei", last], "drei", {}) for last in ("[eos]", "hundert"))
    said = [module._judged(reading, "drei") for reading in ends]
    assert said == ["“drei” (right)", "“drei”, cut after 2 pieces without an end (right)"]


def test_a_text_is_translated_once_for_every_choice_of_heads(explorer, monkeypatch):
    asked = []
    real = module.read_through
    monkeypatch.setattr(module, "read_through", lambda *a: asked.append(a[1:]) or real(*a))
    for head in (1, 2, 0):
        turn(explorer, head=head)
    turn(explorer, place="encoder", layer=0)
    assert asked == []  # all is known
    for value in (True, False, True):
        explorer.switches[1].value = value
    assert asked == [(SOURCE, "encoder", 0, (1,))]
    turn(explorer, layer=1)
    turn(explorer, place="cross")
    assert asked[1:] == [(SOURCE, "encoder", 1, (1,)), (SOURCE, "cross", 1, (1,))]


def test_a_head_that_is_off_is_marked_and_its_map_stays(explorer):
    turn(explorer, layer=0)
    explorer.switches[1].value = True
    marks = [t for t in explorer.axes[1].texts if t.get_text() == "off"]
    assert [m.get_position() for m in marks] == [(0.5, 1.5)]
    assert explorer.axes[0].images
    assert_readable(explorer.fig)


@pytest.mark.parametrize("number", [0, 11, 777_777, 911_140, 312_812])
def test_short_and_long_numbers_fit_the_picture(explorer, monkeypatch, number):
    monkeypatch.setattr(explorer, "_painted", bytes)  # assert_readable paints it
    for place in PLACES.values():
        assert 'role="status"' in turn(explorer, text=str(number), place=place)
        assert_readable(explorer.fig)


def test_every_control_changes_picture_and_words(explorer):
    figures = plt.get_fignums()
    changes = dict(text="6", place="decoder", layer=0, head=1, off0=True, off2=True)
    for name, value in changes.items():
        before = explorer.picture.value, explorer.alt
        turn(explorer, **{name: value})
        assert explorer.picture.value != before[0] and explorer.alt != before[1], name
        assert explorer.controls[name].description
    assert plt.get_fignums() == figures
    assert all(t.get_text() for t in texts(explorer.fig))
    assert not explorer.controls["text"].continuous_update
