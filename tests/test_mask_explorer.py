"""The mask explorer: its tables against torch, its words against the tables."""

import re
from itertools import product

import pytest
import torch
from figure_asserts import answer_of_chapter, fixture_of, turn
from torch import nn

from course_lib.interop import copy_to_torch
from course_lib.viz import mask_explorer as module
from course_lib.viz.mask_explorer import (
    BOS,
    CROSS,
    D_MODEL,
    DECODER,
    ENCODER,
    MAX_PADDING,
    NUM_HEADS,
    PAD,
    MaskExplorer,
    embed,
    read_words,
    small_layer,
)

SOURCE, TARGET = ["three", "hundred", "five", PAD], [BOS, "drei", "hundert", "fünf", PAD, PAD]
explorer = fixture_of(MaskExplorer)


def leak(explorer, **settings) -> float:
    """Read how much weight the sentence finds on later words; 0 if it speaks of none."""
    found = re.search(r"leak: (\d\.\d\d)", turn(explorer, **settings))
    return float(found[1]) if found else 0.0


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
        [[key == PAD or (future and s > t) for s, key in enumerate(keys)]
         for t, _ in enumerate(queries)]
    )  # fmt: skip
    assert torch.equal(explorer.mask, ~blocked)
    theirs = nn.MultiheadAttention(D_MODEL, NUM_HEADS, batch_first=True)
    copy_to_torch(small_layer(), theirs)
    x, memory = embed(queries), embed(keys)
    weights = theirs(x, memory, memory, attn_mask=blocked)[1][0]
    torch.testing.assert_close(explorer.weights, weights.detach())
    open_cells = f"{int((~blocked).sum())} of {blocked.numel()} cells are open"
    assert (
        open_cells in explorer.sentence.value and f"{len(queries)} by {len(keys)}" in explorer.alt
    )


def test_the_chosen_row_is_printed_in_three_conventions(explorer):
    turn(explorer, position=2)
    assert explorer.printed == {
        "ours": ["True", "True", "False", "False", "False", "False"],
        "nn.MultiheadAttention": ["False", "False", "True", "True", "True", "True"],
        "additive": ["0", "0", "-inf", "-inf", "-inf", "-inf"],
    }
    assert "additive prints 0 0 -inf -inf -inf -inf" in explorer.alt


def test_the_panels_show_the_mask_the_weights_and_the_chosen_row(explorer, monkeypatch):
    drawn = {}
    monkeypatch.setattr(module, "draw_table", lambda *table, **_: drawn.update({table[-1]: table}))
    monkeypatch.setattr(module, "draw_row", lambda *row: drawn.update({row[-1]: row}))
    turn(explorer, target_padding=0, position=2)
    table, weighted, printed = explorer.axes
    flat, mask, words, row, _ = drawn[table]
    assert not flat.any() and mask.equal(explorer.mask) and words == (TARGET[:4], TARGET[:4])
    weights, same, _, same_row, _ = drawn[weighted]
    assert weights.equal(explorer.weights) and same.equal(mask) and row == same_row == 1
    lines, look, keys, _ = drawn[printed]
    shares = {"weights": [f"{weight:.2f}" for weight in explorer.weights[1]]}
    assert (lines, keys) == (explorer.printed | shares, TARGET[:4]) and look.equal(mask[1])


def test_the_sentence_says_what_the_row_sees_and_what_is_hidden_from_it(explorer):
    turn(explorer, position=2)
    assert "“drei” (row 2 of 6) sees 2 of 6 keys" in explorer.sentence.value
    assert "hidden from it: 2 later words and 2 padding" in explorer.sentence.value
    best = int(explorer.weights[1].argmax())
    largest = f"Its largest weight, {explorer.weights[1, best]:.2f}, goes to “{TARGET[best]}”"
    assert largest in explorer.sentence.value
    assert "its output is never used" not in explorer.sentence.value
    assert "its output is never used" in turn(explorer, position=6)  # of padding
    turn(explorer, attention=CROSS, source=f"{PAD} {PAD}")
    assert "sees no key: ours returns zeros, nn.MultiheadAttention nan" in explorer.sentence.value
    assert explorer.weights.eq(0).all()


def test_only_weight_that_a_real_word_of_the_decoder_pays_to_later_words_is_a_leak(explorer):
    assert not leak(explorer)
    turn(explorer, causal=False, position=2)
    assert leak(explorer) == pytest.approx(float(explorer.weights[1, 2:4].sum()), abs=0.006)
    assert "on 2 later words" in explorer.sentence.value
    assert not leak(explorer, target=f"{PAD} zwei", position=2)  # nobody reads its answer
    for kind in (ENCODER, CROSS):  # there, nothing is to be guessed
        assert not leak(explorer, attention=kind, position=1)


def test_the_question_of_chapter_06_has_the_answer_it_gives(explorer):
    answer = answer_of_chapter(MaskExplorer)
    turn(explorer, causal=False)
    leaks = [leak(explorer, position=row) for row in range(1, 7)]
    assert all(leaks[:3]) and not any(leaks[3:])  # the last word is row 4; padding follows
    assert all(f"{paid:.2f} of " in answer for paid in leaks[:3])
    turn(explorer, causal=True)
    padded = explorer.weights[:4, :4].clone()
    for row, padding in product(range(1, 5), range(MAX_PADDING + 1)):
        assert not leak(explorer, position=row, target_padding=padding)
        torch.testing.assert_close(explorer.weights[:4, :4], padded)
    paid, word = padded[3].max(dim=0)
    assert f'"fünf" gives {paid:.2f} to "{TARGET[word]}"' in answer


def test_what_does_not_count_in_an_attention_rests(explorer):
    source, target = (
        {whose, f"{whose} length", f"{whose} padding"} for whose in ("source", "target")
    )
    for kind, resting in [(ENCODER, target | {"causal"}), (CROSS, {"causal"}), (DECODER, source)]:
        turn(explorer, attention=kind)
        assert {name for name, c in explorer.controls.items() if c.disabled} == resting


def test_sliders_end_where_the_words_end(explorer):
    length, position = explorer.controls["target length"], explorer.controls["position"]
    assert (length.max, length.value, position.max) == (4, 4, 6)
    turn(explorer, target="eins zwei drei vier fünf")
    assert (length.max, length.value, position.max) == (6, 6, 8)
    turn(explorer, target_length=3, position=5, target_padding=0)
    assert (length.max, length.value, position.max, position.value) == (6, 3, 3, 3)
    turn(explorer, attention=CROSS, causal=False)
    assert length.value == 3, "only a new sentence is read to its end"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a b c d e f g", r"7 words, “a b c d e f g”: type 1 to 6 words"),
        ("zwei 中", "our font does not contain “中”: remove it from the target"),
    ],
)
def test_words_that_do_not_fit_are_named(text, says):
    assert read_words("  forty\ttwo ", "target") == ["forty", "two"]
    with pytest.raises(ValueError, match=says):
        read_words(text, "target")


def test_a_word_keeps_its_vector_and_a_repeated_word_gets_another_position():
    first, again, other = embed(["zwei", "zwei"])[0], embed(["zwei", "drei"])[0], embed(["drei"])[0]
    assert torch.equal(first[0], again[0])
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first[0], other[0])
