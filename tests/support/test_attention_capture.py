"""Captured weights come from the pass itself, and capturing leaves no trace on the model."""

import pytest
from dimensions import MAX_LEN, TGT_VOCAB, B
from parity import assert_equal, hooks_left, overheard, says
from random_inputs import padded_ids, random_ids, seeded, tiny_transformer
from reference import multi_head_by_loops

BOTH_ORDERS = pytest.mark.parametrize("norm_first", [False, True])
NAMES = {  # of three encoder layers and two decoder layers
    "encoder": [f"encoder.layers.{n}.self_attn" for n in range(3)],
    "decoder": [f"decoder.layers.{n}.self_attn" for n in range(2)],
    "cross": [f"decoder.layers.{n}.cross_attn" for n in range(2)],
}
EVERY_NAME = sum(NAMES.values(), [])


def build(**changes):
    """Build a model with several layers on both sides."""
    return tiny_transformer(num_encoder_layers=3, num_decoder_layers=2, **changes)


@BOTH_ORDERS
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_attention_maps_come_from_the_pass_itself_layer_by_layer(generator, dropout, norm_first):
    model, ids = build(dropout=dropout, norm_first=norm_first), padded_ids(generator)
    with seeded():
        heard = overheard(model, EVERY_NAME, lambda: model(*ids))
    with seeded():
        maps = model.attention_maps(*ids)
    for name, layers in NAMES.items():
        for weights, layer in zip(maps[name], layers, strict=True):
            args, kwargs, _ = heard[layer]
            expected = multi_head_by_loops(model.get_submodule(layer), *args, **kwargs)[1]
            assert_equal(weights, expected)


def test_attention_maps_leave_no_trace_even_after_an_error(generator):
    model, ids = build(), padded_ids(generator)
    model.attention_maps(*ids)
    assert hooks_left(model) == 0
    too_long = random_ids(generator, TGT_VOCAB, B, MAX_LEN + 1)  # an error after the encoder ran
    with pytest.raises(ValueError, match=says("target", MAX_LEN + 1)):
        model.attention_maps(ids[0], too_long)
    assert hooks_left(model) == 0
    heard = overheard(model, EVERY_NAME, lambda: model(*ids))
    assert all(output[1] is None for *_, output in heard.values())  # the fused path again
