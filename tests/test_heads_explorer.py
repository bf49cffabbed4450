"""The heads explorer: heads are switched off truly, and no weight is ever moved."""

from copy import deepcopy
from dataclasses import replace
from html import unescape
from itertools import product

import pytest
import torch
from figure_asserts import assert_readable, fixture_of, turn
from torch.testing import assert_close

from course_lib.tasks.numbers import Numbers, TranslatorConfig
from course_lib.viz import heads_explorer as module
from course_lib.viz.heads_explorer import (
    MAX_NEW_TOKENS,
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
OFF = [(0, 1), (2,)]


@pytest.fixture(scope="module")
def translator():
    """Return a translator that has learned nothing: what it writes is luck, but always the same."""
    translator = Numbers(CONFIG).pipeline
    translator.model.eval()
    return translator


@pytest.fixture(autouse=True)
def untrained(translator, monkeypatch):
    """Let the explorer show the translator that has learned nothing."""
    monkeypatch.setattr(module, "load_or_train", lambda: translator)


explorer = fixture_of(HeadsExplorer)


def without_columns(translator, place, layer, off):
    """Switch heads off in another way: a copy whose w_o has no columns for them."""
    copy = deepcopy(translator)
    encoder, decoder = copy.model.encoder.layers[layer], copy.model.decoder.layers[layer]
    attentions = dict(
        encoder=encoder.self_attn, decoder=decoder.self_attn, cross=decoder.cross_attn
    )
    w_o = attentions[place].w_o
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
        assert ours.tgt_out == theirs.tgt_out
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


def test_with_all_heads_on_it_writes_and_looks_as_the_translator_does(translator):
    reading = read_through(translator, SOURCE, "cross", 0, ())
    assert translator.translate([SOURCE])[0].startswith(reading.text)
    assert len(reading.tgt_out) == len(reading.tgt_in) <= MAX_NEW_TOKENS
    assert reading.tgt_in == ["[bos]", *reading.tgt_out[:-1]]
    tgt = torch.tensor([[translator.tokenizer._inner.token_to_id(p) for p in reading.tgt_in]])
    maps = translator.model.attention_maps(translator.source_ids([SOURCE]), tgt)
    for name, weights in maps.items():
        assert_close(reading.maps[name], weights[:, 0].detach())


@pytest.mark.parametrize("text", [SOURCE, "345", " 0,345 ", "Three  hundred forty-five "])
def test_digits_and_words_are_both_read(text):
    assert number_words(text) == SOURCE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1000000", "0 to 999,999"),
        ("9" * 5000, "0 to 999,999"),
        ("-3", "is not a word of numbers"),
        ("٣", "is not a word of numbers"),
        ("forty five", "did you mean"),
    ],
)
def test_what_is_no_number_is_answered_in_a_short_sentence(text, says):
    with pytest.raises(ValueError, match=says) as caught:
        number_words(text)
    assert len(str(caught.value)) < 200


def assert_shows(explorer, reading, place, layer, head):
    """Fail unless both panels and the sentence show this head of this reading."""
    maps = reading.maps[place]  # (N, H, T, S)
    shown = torch.tensor(explorer.axes[0].images[0].get_array().filled(0))
    assert_close(shown, maps[layer, head])
    assert f"Head {head} of layer {layer}," in explorer.axes[0].get_title("left")
    small = explorer.axes[1].images
    assert_close(torch.stack([torch.as_tensor(i.get_array()) for i in small]), maps.flatten(0, 1))
    assert {image.get_clim() for image in small} == {(0, 1)}
    rows, columns = reading.labels(place)
    cells = product(range(place == "decoder", len(rows)), range(len(columns)))
    row, column = max(cells, key=lambda cell: maps[layer, head][cell])
    weight = maps[layer, head, row, column]
    looks = f"“{rows[row]}”: {weight:.2f} on “{columns[column]}”."
    assert f"Head {head} of layer {layer} looks most" in explorer.sentence.value
    assert looks in unescape(explorer.sentence.value) and looks in explorer.alt


@pytest.mark.parametrize("place", PLACES.values())
def test_the_map_shown_is_the_head_that_is_asked_for(explorer, place):
    for layer, head in product(range(LAYERS), range(HEADS)):
        turn(explorer, place=place, layer=layer, head=head)
        assert_shows(explorer, explorer.reading(SOURCE, place, layer, ()), place, layer, head)
    for ax in explorer.axes:
        assert any(patch.get_hatch() for patch in ax.patches) == (place == "decoder")
    rows, columns = explorer.reading(SOURCE, place, 0, ()).labels(place)
    ax = explorer.axes[0]
    assert [word.get_text() for word in ax.get_yticklabels()] == rows
    shown = [word.get_text().rstrip("…") for word in ax.get_xticklabels()]
    assert all(map(str.startswith, columns, shown))


def test_the_overview_frames_the_chosen_head_and_marks_those_that_are_off(explorer):
    turn(explorer, layer=0, head=2, off1=True)
    ax = explorer.axes[1]
    (frame,) = ax.patches
    extents = [image.get_extent() for image in ax.images]
    places = [((left + right) / 2, (low + high) / 2) for left, right, low, high in extents]
    assert places == [(layer + 0.5, head + 0.5) for layer in range(LAYERS) for head in range(HEADS)]
    assert [p for p in places if frame.get_bbox().contains(*p)] == [(0.5, 2.5)]
    assert [t.get_position() for t in ax.texts if t.get_text() == "off"] == [(0.5, 1.5)]
    assert ax.get_ylim() == (HEADS, 0), "the first head stands on top"


@pytest.mark.parametrize("number", [0, 777_777])
def test_short_and_long_numbers_fit_the_picture(explorer, number):
    for place in PLACES.values():
        assert 'role="status"' in turn(explorer, text=str(number), place=place, off1=True)
        assert_readable(explorer.fig)


def test_what_lies_after_the_diagonal_is_hatched_in_the_decoder(explorer):
    turn(explorer, place="decoder")
    length = len(explorer.reading(SOURCE, "decoder", 1, ()).tgt_out)
    for image, patch in zip(explorer.axes[1].images, explorer.axes[1].patches, strict=False):
        left, right, bottom, top = image.get_extent()
        for row, column in product(range(length), repeat=2):
            x = left + (right - left) * (column + 0.5) / length
            y = top + (bottom - top) * (row + 0.5) / length
            shape = patch.get_transform() - explorer.axes[1].transData
            assert shape.transform_path(patch.get_path()).contains_point((x, y)) == (column > row)


def test_with_heads_off_all_is_shown_of_the_pass_without_them(explorer, translator):
    turn(explorer, off1=True, off2=True)
    for place, layer, text in product(PLACES.values(), range(LAYERS), ("six", SOURCE)):
        turn(explorer, place=place, layer=layer, text=text)
        cut = read_through(translator, text, place, layer, (1, 2))
        assert_shows(explorer, cut, place, layer, 0)


def test_what_is_written_is_judged_with_and_without_heads(explorer, monkeypatch):
    def scripted(text, place, layer, off):
        reading = read_through(explorer.translator, text, place, layer, off)
        tgt_out = [*reading.tgt_out[:-1], "[eos]" if not off else "drei"]
        answer = "drei" if off else "dreihundertfünfundvierzig"
        return replace(reading, tgt_out=tgt_out, text=answer)

    monkeypatch.setattr(explorer, "reading", scripted)
    sentence = turn(explorer, off0=True, off2=True)
    whole, cut = sentence.split(";")
    assert "“dreihundertfünfundvierzig” (right)" in whole
    assert "without heads 0, 2 of layer 1" in cut and "“drei”, cut after" in cut
    assert "(wrong)" in cut


def test_the_compared_text_holds_nothing_that_depends_on_the_training_run(explorer):
    turn(explorer, place="encoder")
    text = "The attention map of one head of the translator, next to all maps of the encoder."
    assert explorer.plain_text() == text
