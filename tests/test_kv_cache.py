"""The KV cache and its engine give the logits of a recomputed prefix, with less work."""

import pytest
import torch
from dimensions import D_MODEL, MAX_LEN, PAD, SRC_VOCAB, TGT_VOCAB, B, S
from hypothesis import given
from hypothesis import strategies as st
from parity import assert_equal, says
from random_inputs import make_generator, random_ids, tiny_config, tiny_transformer
from torch import nn
from torch.nn.utils import parametrizations

from course_lib.beam_search import beam_search
from course_lib.decoder import DecoderLayer
from course_lib.decoding import greedy_decode
from course_lib.kv_cache import AttentionCache, DecodingEngine, decoding_engine
from course_lib.support.engines import RecomputingEngine, packed
from course_lib.transformer import Transformer

BOS, EOS = 1, 2
SPECIAL = dict(bos_id=BOS, eos_id=EOS)


def model_of(norm_first=False, **changes):
    """Build the tiny model with two decoder layers, in eval mode."""
    return tiny_transformer(norm_first=norm_first, num_decoder_layers=2, **changes).eval()


def padded_sources(generator, *lengths):
    """Draw sources of different lengths, with padding."""
    ids = random_ids(generator, SRC_VOCAB, len(lengths), max(lengths))
    hidden = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    return ids.masked_fill(hidden, PAD)


# --- the cache of one attention


def test_tokens_after_a_truncation_replace_the_removed_ones():
    cache = AttentionCache(5)
    tokens = torch.arange(5.0).view(1, 1, 5, 1)
    cache.append(tokens, -tokens)
    cache.truncate(2)
    keys, values = cache.append(tokens[:, :, :1] + 9, tokens[:, :, :1] + 7)
    assert keys.flatten().tolist() == [0, 1, 9] and values.flatten().tolist() == [0, -1, 7]
    for length in (-1, 4):
        with pytest.raises(ValueError, match=says(f"length={length}", "0 to 3")):
            cache.truncate(length)


# --- the engine agrees with recomputing the prefix


@given(
    seed=st.integers(0, 999),
    norm_first=st.booleans(),
    sources=st.lists(st.integers(1, MAX_LEN), min_size=1, max_size=4),
    beams=st.integers(1, 3),
    data=st.data(),
)
def test_every_step_gives_the_logits_of_recomputing_the_prefix(
    seed, norm_first, sources, beams, data
):
    generator, model = make_generator(seed), model_of(norm_first)
    src = padded_sources(generator, *sources)
    tgt = random_ids(generator, TGT_VOCAB, beams * len(sources), MAX_LEN)
    engine, start = DecodingEngine(model, src, MAX_LEN), 0
    while start < MAX_LEN:
        end = data.draw(st.integers(start + 1, MAX_LEN))
        with torch.no_grad():
            expected = model(src.repeat_interleave(beams, dim=0), tgt[:, :end])[:, start:]
        every = data.draw(st.booleans())
        logits = engine.step(tgt[:, start:end], all_positions=every)
        assert_equal(logits, expected if every else expected[:, -1])
        start = engine.length
        assert start == end
        if data.draw(st.booleans()):
            many = data.draw(st.integers(1, 4))
            rows = torch.randint(len(src), (many,), generator=generator)
            within = torch.randint(beams, (many, beams), generator=generator)
            moved = (rows[:, None] * beams + within).flatten()  # beams of the same sentence
            src, tgt = src[rows], tgt[moved]
            engine.reorder(moved, rows)
        if data.draw(st.booleans()):
            start = data.draw(st.integers(0, start))
            engine.truncate(start)


def test_engines_without_biases_with_other_widths_and_adapters_agree(generator):
    model, src = model_of(d_k=3, d_v=5), random_ids(generator, SRC_VOCAB, B, S)
    tgt = random_ids(generator, TGT_VOCAB, B, 4)
    for layer in model.decoder.layers:
        for name in ("w_q", "w_k", "w_v"):
            getattr(layer.self_attn, name).bias = None
    expected = model(src, tgt).detach()
    assert_equal(DecodingEngine(model, src, 4).step(tgt, all_positions=True), expected)
    layer = model.decoder.layers[0].self_attn
    layer.w_k = nn.Sequential(layer.w_k, nn.Linear(layer.w_k.out_features, 9).double())
    parametrizations.weight_norm(layer.w_v)
    expected = model(src, tgt).detach()
    assert_equal(DecodingEngine(model, src, 4).step(tgt, all_positions=True), expected)


# --- less work


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(1, 24), (16, 24), (2, 3, 24)])
def test_a_packed_layer_computes_what_the_layer_does(generator, shape, bias):
    layer = nn.Linear(24, 50, bias).float()
    x = torch.randn(shape, generator=generator).float()
    assert packed(layer) is not layer and not packed(layer)(x).requires_grad
    torch.testing.assert_close(packed(layer)(x), layer(x).detach())


def test_every_token_passes_the_layers_once_and_the_source_is_projected_once_for_all_beams():
    model, generator, K = model_of(), make_generator(6), 3
    src, tgt = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B * K, 6)
    passed, projected = [], []
    layer = model.decoder.layers[1]
    for part, seen in {layer.feed_forward: passed, layer.cross_attn.w_k: projected}.items():
        part.register_forward_pre_hook(lambda _, args, seen=seen: seen.append(args[0].shape))
    engine = DecodingEngine(model, src, 6)
    for new in tgt.split((1, 1, 3, 1), dim=1):
        engine.step(new)
    assert [shape[0] * shape[1] for shape in passed] == [B * K * new for new in (1, 1, 3, 1)]
    assert projected == [(B, S, D_MODEL)] and len(engine.layers[1].keys) == B


# --- models of other classes


class Textbook(nn.Module):
    """A user's correct model that has encode and decode, but none of our other names."""

    def __init__(self, config):
        super().__init__()
        self.inner, self.config = Transformer(config), config

    def encode(self, src):
        return self.inner.encode(src)

    def decode(self, tgt, memory, src):
        return self.inner.decode(tgt, memory, src)


class OtherLayer(DecoderLayer):
    """A user's layer, which may compute something else."""


def with_other_layer():
    """Change the class of a layer, but not its weights."""
    model = model_of()
    model.decoder.layers[0].__class__ = OtherLayer
    return model


def without_positions():
    """Replace the positions with a class of torch, which cannot start in the middle."""
    model = model_of()
    model.positions = nn.Identity()
    return model


def hooked():
    """Double the first self-attention's output, with a hook on a module that an engine skips."""
    model = model_of()
    attention = model.decoder.layers[0].self_attn
    attention.register_forward_hook(lambda _, args, output: (2 * output[0], output[1]))
    return model


@pytest.mark.parametrize(
    "build", [lambda: Textbook(tiny_config()), with_other_layer, without_positions, hooked]
)
def test_a_model_that_an_engine_may_not_fit_recomputes(build, generator):
    model, src = build().eval(), padded_sources(generator, 4, 2, 5)
    assert type(decoding_engine(model_of(), src, 3)) is DecodingEngine
    assert type(decoding_engine(model, src, 3)) is RecomputingEngine
    for decode in (greedy_decode, beam_search):
        found, expected = (decode(model, src, **SPECIAL, use_cache=use) for use in (True, False))
        torch.testing.assert_close(found, expected)


# --- bad input


@pytest.mark.parametrize(
    ("rows", "new", "words"),
    [
        (2, 1, ["2 rows", "4 rows of 3", "reorder"]),
        (6, 1, ["6 rows", "4 rows of 3", "reorder"]),
        (4, 3, ["3 new tokens", "room for 5", "max_len"]),
        (3, 1, ["(3, 1)", "2 sources"]),
    ],
)
def test_tokens_that_do_not_continue_are_explained_and_do_not_change_the_engine(rows, new, words):
    model, src = model_of(), torch.tensor([[4, 5], [6, 7]])
    ids, engine = torch.full((6, 6), BOS), DecodingEngine(model, src, 5)
    engine.step(ids[:4, :3])
    with pytest.raises(ValueError, match=says(*words)):
        engine.step(ids[:rows, :new])
    expected = model(src.repeat_interleave(2, dim=0), ids[:4, :4])[:, -1].detach()
    assert_equal(engine.step(ids[:4, :1]), expected)


@pytest.mark.parametrize("shapes", [((2, 3, 1, 4), (2, 3, 1, 1)), ((2, 3, 1, 1), (2, 3, 1, 4))])
def test_other_widths_or_heads_than_before_are_refused_before_anything_is_stored(shapes):
    cache, keys = AttentionCache(4), torch.ones(2, 3, 1, 4)
    cache.append(keys, keys)
    for wrong in (shapes, [(2, 1, 1, 4)] * 2):  # each would broadcast
        with pytest.raises(ValueError, match=says("heads and the width")):
            cache.append(*map(torch.ones, wrong))
    assert cache.length == 1
