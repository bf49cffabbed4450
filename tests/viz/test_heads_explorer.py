"""The heads explorer switches heads off without changing any weight."""

from copy import deepcopy

import pytest
import torch
from torch.testing import assert_close

from course_lib.tasks.numbers import Numbers, TranslatorConfig
from course_lib.viz.heads_explorer import (
    ATTENTIONS,
    MAX_NEW_TOKENS,
    heads_off,
    number_words,
    read_through,
)

HEADS, LAYERS = 3, 2
CONFIG = TranslatorConfig(
    num_pairs=2000, vocab_size=200, d_model=12, num_heads=HEADS, num_layers=LAYERS, d_ff=20
)
SOURCE = "three hundred forty-five"


@pytest.fixture(scope="module")
def translator():
    """Return an untrained translator, whose output is random but always the same."""
    translator = Numbers(CONFIG).pipeline
    translator.model.eval()
    return translator


def without_columns(translator, off):
    """Switch heads off in another way, in a copy in which w_o has zero columns for them."""
    copy = deepcopy(translator)
    for place, layer, head in off:
        stack = copy.model.encoder if place == "encoder" else copy.model.decoder
        attention = "cross_attn" if place == "cross" else "self_attn"
        w_o = getattr(stack.layers[layer], attention).w_o
        width = w_o.in_features // HEADS
        with torch.no_grad():
            w_o.weight[:, head * width : (head + 1) * width] = 0
    return copy


@pytest.mark.parametrize("place", ATTENTIONS)
@pytest.mark.parametrize("layer", range(LAYERS))
def test_switching_a_head_off_is_the_same_as_zeros_in_its_part_of_w_o(translator, place, layer):
    src, tgt = translator.source_ids([SOURCE]), torch.tensor([[1, 20, 30, 40]])
    with torch.no_grad():
        whole = translator.model(src, tgt)  # (1, T, V)
        attention = translator.model.get_submodule(ATTENTIONS[place].format(layer))
        with heads_off(attention, (0, 2)):
            logits = translator.model(src, tgt)
        other = without_columns(translator, [(place, layer, 0), (place, layer, 2)])
        assert_close(logits, other.model(src, tgt))
    assert (logits - whole).abs().max() > 1e-3


def test_no_weight_changes_and_no_hook_remains(translator):
    before = deepcopy(translator.model.state_dict())
    attention = translator.model.decoder.layers[1].cross_attn
    with pytest.raises(RuntimeError), heads_off(attention, (0,)):
        raise RuntimeError
    read_through(translator, SOURCE, [["cross", 1, 0], ["encoder", 0, 2]])
    for name, value in translator.model.state_dict().items():
        assert value.equal(before[name])
    assert not any(m.training for m in translator.model.modules())
    assert not any(m._forward_pre_hooks or m._forward_hooks for m in translator.model.modules())


def test_with_all_heads_on_its_output_and_maps_are_the_translators(translator):
    reading = read_through(translator, SOURCE, [])
    written, tokenizer = reading["written"], translator.tokenizer
    assert translator.translate([SOURCE])[0].startswith(reading["text"])
    assert len(written) <= MAX_NEW_TOKENS
    tgt = [tokenizer._inner.token_to_id(token) for token in ["[bos]", *written[:-1]]]
    maps = translator.model.attention_maps(translator.source_ids([SOURCE]), torch.tensor([tgt]))
    for name, weights in maps.items():
        assert_close(reading["maps"][name], weights[:, 0].detach())


@pytest.mark.parametrize("text", ["", "1000000", "9" * 5000, "-3", "٣", "forty-five"])
def test_a_text_that_is_not_a_number_gets_a_short_explanation(text):
    with pytest.raises(ValueError, match="is not a number from 0 to 999,999") as caught:
        number_words(text)
    assert len(str(caught.value)) < 200
