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
from course_lib.support.engines import RecomputingEngine, choose_engine, packed
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


def test_appending_does_not_copy_while_there_is_room():
    cache, places = AttentionCache(64), set()
    for _ in range(64):
        keys, _ = cache.append(torch.zeros(2, 3, 1, 4), torch.zeros(2, 3, 1, 4))
        places.add(keys.data_ptr())
    assert len(places) == 1


def test_repeated_reordering_takes_no_new_memory():
    cache, rooms = AttentionCache(9), []
    expected = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 2, 4, 5)
    cache.append(expected, -expected)
    for rows in ([2, 0, 1], [1, 1, 0], [0, 2, 2], [2, 1, 0]):
        expected = expected[rows]
        cache.reorder(torch.tensor(rows))
        assert_equal(cache.keys[:, :, :4], expected)
        assert_equal(cache.values[:, :, :4], -expected)
        rooms.append(cache.keys.data_ptr())
    assert rooms[:2] == rooms[2:] and rooms[0] != rooms[1]


def test_an_empty_cache_can_be_reordered():
    cache = AttentionCache(3)
    cache.reorder(torch.tensor([1, 0]))
    assert cache.append(torch.ones(1, 2, 1, 4), torch.ones(1, 2, 1, 5))[1].shape == (1, 2, 1, 5)


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


def test_an_engine_without_a_cache_cannot_keep_more_tokens_than_it_has_read():
    model, src = model_of(), torch.tensor([[4, 5]])
    engine = RecomputingEngine(model.decode, model.encode(src), src)
    engine.step(torch.full((1, 2), BOS))
    for length in (-1, 3):
        with pytest.raises(ValueError, match=says(f"length={length}", "0 to 2")):
            engine.truncate(length)
    assert engine.length == 2


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


@pytest.mark.parametrize("chunks", [(1, 2, 1), (4,)], ids=str)
def test_an_engine_without_a_cache_gives_the_logits_of_every_chunk(generator, chunks):
    model, src = model_of(), random_ids(generator, SRC_VOCAB, B, S)
    tgt = random_ids(generator, TGT_VOCAB, B, 4)
    engine = RecomputingEngine(model.decode, model.encode(src), src)
    parts = [engine.step(new, all_positions=True) for new in tgt.split(chunks, dim=1)]
    assert_equal(torch.cat(parts, dim=1), model(src, tgt).detach())


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


def test_only_plain_layers_in_float32_are_packed():
    plain = nn.Linear(4, 4).float()
    adapted = parametrizations.weight_norm(nn.Linear(4, 4).float())
    for layer in (nn.Linear(4, 4).double(), plain.to("meta"), adapted):
        assert packed(layer) is layer


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


def test_one_new_token_and_a_source_without_padding_need_no_mask(generator, monkeypatch):
    model, src = model_of(), random_ids(generator, SRC_VOCAB, B, S)
    engine, masks = DecodingEngine(model, src, 5), []
    attend = nn.functional.scaled_dot_product_attention

    def noted(query, key, value, attn_mask=None, **options):
        masks.append(attn_mask)
        return attend(query, key, value, attn_mask, **options)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", noted)
    for new in random_ids(generator, TGT_VOCAB, B, 5).split((2, 1, 2), dim=1):
        engine.step(new)
    drawn = [[mask is not None for mask in masks[n::4]] for n in range(4)]
    assert drawn == [[False, False, True], [False] * 3, [False, False, True], [False] * 3]


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


class CrossFirst(DecoderLayer):
    """A layer with our names that attends to the source first."""

    def forward(self, x, memory, self_mask=None, cross_mask=None):
        x = self.add_norm2(x, lambda y: self.cross_attn(y, memory, memory, cross_mask)[0])
        x = self.add_norm1(x, lambda y: self.self_attn(y, y, y, self_mask)[0])
        return self.add_norm3(x, self.feed_forward)


class NoStart(nn.Module):
    """A user's positions that always begin at 0."""

    def __init__(self, positions):
        super().__init__()
        self.positions = positions

    def forward(self, x, start=0):
        return self.positions(x)


def with_other_layers():
    """Replace the decoder's layers with layers of another class, with the same weights."""
    model = model_of()
    for layer in model.decoder.layers:
        layer.__class__ = CrossFirst
    return model


def without_start():
    """Replace the positions with positions that ignore earlier tokens."""
    model = model_of()
    model.positions = NoStart(model.positions)
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
    "build",
    [
        *(lambda: Textbook(tiny_config()), with_other_layers),
        *(without_start, without_positions, hooked),
    ],
)
def test_a_model_that_an_engine_may_not_fit_recomputes(build, generator):
    model, src = build().eval(), padded_sources(generator, 4, 2, 5)
    assert type(decoding_engine(model, src, 3)) is RecomputingEngine
    for decode in (greedy_decode, beam_search):
        found, expected = (decode(model, src, **SPECIAL, use_cache=use) for use in (True, False))
        torch.testing.assert_close(found, expected)


def test_parts_from_the_package_of_the_model_are_original():
    """In a notebook, the model and all parts are in ``__main__``; in a workbook, to ``my_lib``."""
    engines = dict(build=lambda: "engine", recompute=lambda: "recompute")
    assert choose_engine(NoStart(NoStart(nn.Identity())), True, **engines) == "engine"
    assert choose_engine(nn.Sequential(NoStart(nn.Identity())), True, **engines) == "recompute"
    assert choose_engine(nn.Identity(), False, **engines) == "recompute"


def test_the_courses_own_model_is_encoded_once(generator, monkeypatch):
    model, src, times = model_of(), torch.tensor([[4, 5]]), []
    monkeypatch.setattr(
        model, "encode", lambda ids: times.append(1) or Transformer.encode(model, ids)
    )
    assert type(decoding_engine(model, src, 3)) is DecodingEngine and times == [1]
    assert type(decoding_engine(model, src, 3, use_cache=False)) is RecomputingEngine


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


@pytest.mark.parametrize(("rows", "new"), [(2, 1), (2, MAX_LEN)])
def test_recomputing_keeps_its_tokens_when_the_next_do_not_fit(rows, new):
    model, src = model_of(), torch.tensor([[4, 5], [6, 7]])
    engine = decoding_engine(model, src, 5, use_cache=False)
    engine.step(torch.full((4, 1), BOS))
    with pytest.raises(ValueError, match=says(*((rows, 4) if new == 1 else (MAX_LEN + 1,)))):
        engine.step(torch.full((rows if new == 1 else 4, new), BOS))
    assert engine.length == 1


def test_positions_beyond_the_model_are_rejected():
    model, src = model_of(), torch.tensor([[4, 5], [6, 7]])
    engine = DecodingEngine(model, src, 3 * MAX_LEN)
    engine.step(torch.full((2, MAX_LEN), BOS))
    with pytest.raises(ValueError, match=says(MAX_LEN + 1, f"max_len={MAX_LEN}")):
        engine.step(torch.full((2, 1), BOS))


@pytest.mark.parametrize("shapes", [((2, 3, 1, 4), (2, 3, 1, 1)), ((2, 3, 1, 1), (2, 3, 1, 4))])
def test_other_widths_or_heads_than_before_are_refused_before_anything_is_stored(shapes):
    cache, keys = AttentionCache(4), torch.ones(2, 3, 1, 4)
    cache.append(keys, keys)
    for wrong in (shapes, [(2, 1, 1, 4)] * 2):  # each would broadcast
        with pytest.raises(ValueError, match=says("heads and the width")):
            cache.append(*map(torch.ones, wrong))
    assert cache.length == 1
