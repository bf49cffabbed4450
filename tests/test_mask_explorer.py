"""The mask explorer: its tables against torch, its words against the tables, every control."""

import io
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.patches import Rectangle
from PIL import Image
from torch import nn

from course_lib.interop import copy_to_torch
from course_lib.viz import mask_explorer as module
from course_lib.viz.mask_explorer import (
    CROSS,
    D_MODEL,
    DECODER,
    ENCODER,
    MAX_PADDING,
    MAX_WORDS,
    NUM_HEADS,
    MaskExplorer,
    embed,
    read_words,
    small_layer,
)

SOURCE, TARGET = "three hundred five <pad>".split(), "<bos> drei hundert fünf <pad> <pad>".split()
LONG = "Wirtschaftswunder WWWWWWWWWW gjpqy $a$b$ _x_ ÄÖÅ"


@pytest.fixture
def explorer():
    """Make the explorer as the chapter does."""
    return MaskExplorer()


@pytest.fixture(scope="module")
def kept():
    """Make an explorer that a property test moves from example to example."""
    return MaskExplorer()


def turn(explorer, **settings):
    """Set controls; a space in a name is written as _."""
    for name, value in settings.items():
        explorer.controls[name.replace("_", " ")].value = value
    return explorer


def pixels(explorer) -> np.ndarray:
    """Read the picture. Shape (height, width, 3)."""
    return np.asarray(Image.open(io.BytesIO(explorer.picture.value)))


# --- what it shows


def test_it_starts_with_the_padded_sentence_of_the_chapter(explorer):
    assert explorer.mask.tolist() == [[s <= t and s < 4 for s in range(6)] for t in range(6)]
    assert "18 of 36 cells are open" in explorer.words.value
    assert "“fünf” (row 4 of 6) sees 4 of 6 keys; hidden from it: 2 padding" in explorer.words.value


@pytest.mark.parametrize(
    ("kind", "queries", "keys"),
    [(ENCODER, SOURCE, SOURCE), (DECODER, TARGET, TARGET), (CROSS, TARGET, SOURCE)],
)
@pytest.mark.parametrize("causal", [True, False])
def test_the_mask_says_who_may_look_and_the_weights_are_those_of_torch(
    explorer, kind, queries, keys, causal
):
    turn(explorer, attention=kind, causal=causal)
    future = causal and kind == DECODER
    blocked = torch.tensor(
        [[key == "<pad>" or (future and s > t) for s, key in enumerate(keys)]
         for t, _ in enumerate(queries)]
    )  # fmt: skip
    assert torch.equal(explorer.mask, ~blocked)
    theirs = nn.MultiheadAttention(D_MODEL, NUM_HEADS, batch_first=True)
    copy_to_torch(small_layer(), theirs)
    x, memory = embed(queries), embed(keys)
    weights = theirs(x, memory, memory, attn_mask=blocked)[1][0]
    torch.testing.assert_close(explorer.weights, weights.detach())


def test_the_chosen_row_is_printed_in_three_conventions(explorer):
    turn(explorer, position=2)
    assert explorer.printed == {
        "ours": ["True", "True", "False", "False", "False", "False"],
        "nn.MultiheadAttention": ["False", "False", "True", "True", "True", "True"],
        "additive": ["0", "0", "-inf", "-inf", "-inf", "-inf"],
    }
    assert "additive prints 0 0 -inf -inf -inf -inf" in explorer.alt
    assert "hidden from it: 2 later words and 2 padding" in explorer.words.value


def test_the_panels_show_the_mask_the_weights_and_the_chosen_row(explorer, monkeypatch):
    printed = []
    monkeypatch.setattr(module, "draw_row", lambda *row: printed.append(row))
    turn(explorer, target_padding=0, position=2)
    for name, values in dict(table=torch.zeros(4, 4), weights=explorer.weights).items():
        ax = explorer.axes[name]
        cells = ax.images[0].get_array()  # masked where a cell is grey
        assert (~cells.mask).tolist() == explorer.mask.tolist()
        torch.testing.assert_close(torch.tensor(cells.filled(0)), values)
        (frame,) = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
        assert frame.get_y() == 0.5
    assert explorer.axes["table"].get_title("left") == "10 of 16 cells are open"
    lines, look, keys, _ = printed[-1]
    shares = {"weights": [f"{weight:.2f}" for weight in explorer.weights[1]]}
    assert lines == explorer.printed | shares
    assert (look.tolist(), keys) == ([True, True, False, False], TARGET[:4])


def test_the_words_for_those_who_do_not_see_it_name_the_table(explorer):
    assert "The table of a cross-attention, 6 by 4." in turn(explorer, attention=CROSS).alt


def test_the_sentence_measures_the_leak(explorer):
    assert "leak" not in explorer.words.value
    turn(explorer, causal=False, position=2)
    share = explorer.weights[1, 2:4].sum()
    assert f"A leak: {share:.2f} of its weight is on 2 later words." in explorer.words.value
    turn(explorer, position=4)  # the last word has no future
    assert "leak" not in explorer.words.value
    turn(explorer, target="<pad> zwei", position=2)  # nobody reads what filler sees
    assert "leak" not in explorer.words.value
    for kind in (ENCODER, CROSS):  # there, nothing is to be guessed
        assert "leak" not in turn(explorer, attention=kind, position=1).words.value


def test_rows_of_real_words_do_not_change_with_the_padding(explorer):
    padded = explorer.weights[:4, :4].clone()
    for padding in range(MAX_PADDING + 1):
        turn(explorer, target_padding=padding)
        torch.testing.assert_close(explorer.weights[:4, :4], padded)
        assert explorer.weights[:4, 4:].eq(0).all()


def test_the_question_of_chapter_06_has_the_answer_it_gives(explorer, monkeypatch):
    monkeypatch.setattr(explorer, "_painted", bytes)  # its words alone are read
    turn(explorer, causal=False)
    leaks = {1: "0.66 of its weight is on 3", 2: "0.61 of its weight is on 2", 3: "0.12 of"}
    for row in range(1, 7):  # the last word is row 4; what follows is filler
        leak = turn(explorer, position=row).words.value.partition("A leak: ")[2]
        assert leak.startswith(leaks[row]) if row in leaks else leak == ""
    turn(explorer, causal=True)
    for row, padding in product(range(1, 5), range(MAX_PADDING + 1)):
        sentence = turn(explorer, position=row, target_padding=padding).words.value
        assert "leak" not in sentence
    assert "“fünf” (row 4 of 7)" in sentence
    for padding in (MAX_PADDING, 0):
        sentence = turn(explorer, target_padding=padding).words.value
        assert "Its largest weight, 0.31, goes to “drei”" in sentence


def test_a_row_of_padding_is_named(explorer):
    assert "filler" not in explorer.words.value
    assert "It is filler" in turn(explorer, position=6).words.value


def test_a_row_that_sees_nothing_says_what_it_gets(explorer):
    turn(explorer, attention=CROSS, source="<pad> <pad>")
    assert "sees no key: ours answers zeros, nn.MultiheadAttention nan" in explorer.words.value
    assert not explorer.mask.any() and explorer.weights.eq(0).all()


def test_the_largest_weight_is_named(explorer):
    best = int(explorer.weights[3].argmax())
    expected = f"Its largest weight, {explorer.weights[3, best]:.2f}, goes to “{TARGET[best]}”"
    assert expected in explorer.words.value


# --- the controls


@pytest.mark.parametrize(
    "settings",
    [
        dict(attention=CROSS),
        dict(causal=False),
        dict(target="vierzig"),
        dict(target_length=2),
        dict(target_padding=0),
        dict(position=1),
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_every_control_changes_picture_and_words(explorer, settings):
    picture, words, alt = explorer.picture.value, explorer.words.value, explorer.alt
    turn(explorer, **settings)
    assert explorer.picture.value != picture
    assert explorer.words.value != words
    assert explorer.alt != alt


@pytest.mark.parametrize(
    "settings",
    [dict(source="zwei"), dict(source_length=1), dict(source_padding=3)],
    ids=lambda settings: next(iter(settings)),
)
def test_the_source_is_seen_from_encoder_and_decoder(explorer, settings):
    for kind in (ENCODER, CROSS):
        turn(explorer, attention=kind, source="a b c", source_length=3, source_padding=1)
        picture = explorer.picture.value
        assert turn(explorer, **settings).picture.value != picture


def test_what_does_not_count_in_an_attention_rests(explorer):
    source, target = (
        {whose, f"{whose} length", f"{whose} padding"} for whose in ("source", "target")
    )
    for kind, resting in [(ENCODER, target | {"causal"}), (CROSS, {"causal"}), (DECODER, source)]:
        controls = turn(explorer, attention=kind).controls
        assert {name for name, control in controls.items() if control.disabled} == resting


def test_sliders_end_where_the_words_end(explorer):
    length, position = explorer.controls["target length"], explorer.controls["position"]
    assert (length.max, length.value, position.max) == (4, 4, 6)
    turn(explorer, target="eins zwei drei vier fünf")
    assert (length.max, length.value, position.max) == (6, 6, 8)
    turn(explorer, target_length=3, position=5)
    turn(explorer, target_padding=0)
    assert (length.max, length.value, position.max, position.value) == (6, 3, 3, 3)
    turn(explorer, attention=CROSS, causal=False)
    assert length.value == 3, "only a new sentence is read to its end"


def test_one_change_is_one_picture(explorer, monkeypatch):
    painted = []
    paint = explorer._painted
    monkeypatch.setattr(explorer, "_painted", lambda: painted.append(1) or paint())
    turn(explorer, position=6)
    turn(explorer, target="eins")  # three sliders follow
    assert len(painted) == 2


@settings(max_examples=10)
@given(
    kind=st.sampled_from([ENCODER, DECODER, CROSS]),
    causal=st.booleans(),
    words=st.sampled_from(["a", "eins zwei drei", LONG]),
    length=st.integers(1, MAX_WORDS + 1),
    padding=st.integers(0, MAX_PADDING),
    position=st.integers(1, 10),
)
def test_at_no_setting_is_anything_cut(kept, kind, causal, words, length, padding, position):
    explorer, kept._painted = kept, bytes
    turn(explorer, attention=kind, source=words, target=words, causal=causal)
    turn(explorer, source_padding=padding, target_padding=padding, position=position)
    turn(explorer, source_length=length, target_length=length)
    del explorer._painted  # only the last one is looked at
    explorer._follow(None)
    assert 'role="status"' in explorer.words.value
    shown = pixels(explorer)
    for edge in (shown[0], shown[-1], shown[:, 0], shown[:, -1]):
        assert (edge == 255).all()
    assert torch.equal(explorer.weights > 0, explorer.mask)


# --- words


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the target has 0 words, “”: type 1 to 6 words"),
        ("a b c d e f g", "the target has 7 words, “a b c d e f g”: type 1 to 6 words"),
        ("zwei 中", "“中” in the target has no shape in our font: take it out"),
        ("<b>" * 7 + " 中", "“中” in the target"),
    ],
)
def test_wrong_words_are_answered_by_a_sentence(explorer, text, says):
    picture = explorer.picture.value
    turn(explorer, target=text)
    assert 'role="alert"' in explorer.words.value and says in explorer.words.value
    assert explorer.picture.value == picture
    turn(explorer, target="zwei")
    assert 'role="status"' in explorer.words.value and explorer.picture.value != picture


def test_words_are_read_between_spaces():
    assert read_words("  forty\ttwo ", "source") == ["forty", "two"]


def test_a_word_keeps_its_vector_and_a_repeated_word_gets_another_place():
    first, again, other = embed(["zwei", "zwei"])[0], embed(["zwei", "drei"])[0], embed(["drei"])[0]
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])
