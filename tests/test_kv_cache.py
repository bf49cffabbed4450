"""The KV cache: the logits of recomputing the prefix, at every step, for less work."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    D_MODEL,
    D_V,
    MASK_KINDS,
    MAX_LEN,
    PAD,
    SRC_VOCAB,
    TGT_VOCAB,
    B,
    H,
    S,
    T,
    assert_equal,
    attention_by_loops,
    decoder_layer_by_hand,
    make_generator,
    make_mask,
    normal,
    random_ids,
    randomize,
    says,
    tiny_transformer,
)

from course_lib.decoder import DecoderLayer
from course_lib.decoding import Rereader, beam_search, greedy_decode, sample_decode
from course_lib.kv_cache import DecoderCache, LayerCache, attend
from course_lib.multi_head import MultiHeadAttention

BOS, EOS = 1, 2
SPECIAL = dict(bos_id=BOS, eos_id=EOS)
norms = pytest.mark.parametrize("norm_first", [False, True])


def model_of(norm_first=False, **changes):
    """Build the tiny model with two decoder layers, in eval mode."""
    return tiny_transformer(norm_first=norm_first, num_decoder_layers=2, **changes).eval()


def ids_with_padding(generator, vocab_size, *lengths):
    """Draw rows of some lengths, filled up with padding."""
    ids = random_ids(generator, vocab_size, len(lengths), max(lengths))
    hidden = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    return ids.masked_fill(hidden, PAD)


def uncached(model, src, tgt):
    """Compute the whole prefix at once."""
    with torch.no_grad():
        return model(src, tgt)


# --- attend


@pytest.mark.parametrize("kind", MASK_KINDS)
def test_new_queries_get_the_answer_of_the_formula(kind):
    generator = make_generator()
    attention = randomize(MultiHeadAttention(D_MODEL, H, d_k=8, d_v=D_V, dropout=0.5))
    x, mask = normal(generator, B, T, D_MODEL), make_mask(kind)
    keys, values = normal(generator, B, H, S, 8), normal(generator, B, H, S, D_V)
    q = (x @ attention.w_q.weight.T + attention.w_q.bias).view(B, T, H, 8)
    answer, _ = attention_by_loops(q.transpose(1, 2), keys, values, mask)  # (B, H, T, d_v)
    joined = torch.cat([answer[:, head] for head in range(H)], dim=-1)  # (B, T, H * d_v)
    expected = joined @ attention.w_o.weight.T + attention.w_o.bias
    assert_equal(attend(attention, x, keys, values, mask), expected)
    assert attention.training  # and nothing was dropped


# --- one layer


@norms
def test_tokens_in_any_portions_get_what_the_whole_layer_says(norm_first):
    generator = make_generator(1)
    layer = randomize(DecoderLayer(D_MODEL, H, 11, norm_first=norm_first)).eval()
    x, memory = normal(generator, B, 6, D_MODEL), normal(generator, B, S, D_MODEL)
    past, source = torch.ones(6, 6).tril().bool(), make_mask("padding")
    expected = decoder_layer_by_hand(layer, x, memory, past, source)
    for portions in ([1] * 6, [6], [2, 1, 3], [3, 3]):
        cache, outputs, start = LayerCache(layer, memory), [], 0
        for new in portions:
            end = start + new
            outputs.append(cache(x[:, start:end], past[start:end, :end], source))
            start = end
        assert_equal(torch.cat(outputs, dim=1), expected)
        assert cache.length == 6


def test_what_is_kept_are_the_keys_and_values_of_the_layer():
    generator = make_generator(2)
    layer = randomize(DecoderLayer(D_MODEL, H, 11, d_k=8, d_v=D_V)).eval()
    x, memory = normal(generator, B, T, D_MODEL), normal(generator, B, S, D_MODEL)
    cache = LayerCache(layer, memory)
    assert [tuple(kept.shape) for kept in cache.source] == [(B, H, S, 8), (B, H, S, D_V)]
    for position in range(T):
        cache(x[:, position : position + 1])
    for kept, w in zip(cache.target, (layer.self_attn.w_k, layer.self_attn.w_v), strict=True):
        for head, rows in enumerate(w.weight.chunk(H)):
            bias = w.bias.chunk(H)[head]
            assert_equal(kept[:, head, :T], x @ rows.T + bias)


def test_no_more_room_than_twice_what_is_needed_and_few_copies():
    layer = randomize(DecoderLayer(D_MODEL, H, 11)).eval()
    cache = LayerCache(layer, torch.zeros(B, S, D_MODEL, dtype=torch.float64))
    rooms = []
    with torch.no_grad():
        for length in range(1, 65):
            cache(torch.zeros(B, 1, D_MODEL, dtype=torch.float64))
            rooms.append(cache.target[0].size(2))
            assert length <= rooms[-1] < 2 * length + 1
    assert len(set(rooms)) <= math.log2(64) + 1


# --- the whole decoder: cached equals uncached


@given(
    seed=st.integers(0, 999),
    norm_first=st.booleans(),
    sources=st.lists(st.integers(1, MAX_LEN), min_size=1, max_size=4),
    data=st.data(),
)
def test_every_step_gives_the_logits_of_recomputing_the_prefix(seed, norm_first, sources, data):
    generator, model = make_generator(seed), model_of(norm_first)
    src = ids_with_padding(generator, SRC_VOCAB, *sources)
    lengths = [data.draw(st.integers(0, MAX_LEN)) for _ in sources]  # 0: padding from the start
    lengths[0] = MAX_LEN
    tgt = ids_with_padding(generator, TGT_VOCAB, *lengths)
    cache, start = DecoderCache(model, src), 0
    while start < tgt.size(1):
        end = data.draw(st.integers(start + 1, tgt.size(1)))
        assert_equal(cache(tgt[:, :end]), uncached(model, src, tgt[:, :end])[:, start:])
        if data.draw(st.booleans()):
            many = data.draw(st.integers(1, 4))
            rows = torch.randint(len(src), (many,), generator=generator)
            src, tgt = src[rows], tgt[rows]
            cache.reorder(rows)
        start = cache.length
        assert start == end


def talkative(seed, norm_first=False):
    """Build a model whose sentences differ, some of which end, and some sources."""
    generator, model = make_generator(seed), model_of(norm_first)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                parameter.copy_(0.5 * normal(generator, *parameter.shape))
            elif name.endswith("bias"):
                parameter.zero_()  # or it decides alone
    return model, ids_with_padding(generator, SRC_VOCAB, 2, 5, 1, 4)


@norms
@pytest.mark.parametrize("seed", range(3))
def test_the_same_sentences_are_written_with_and_without(seed, norm_first):
    model, src = talkative(seed, norm_first)
    again, cached = (
        greedy_decode(model.train(), src, **SPECIAL, scorer=kind)
        for kind in (Rereader, DecoderCache)
    )
    assert torch.equal(again, cached)
    drawn = [
        sample_decode(model, src, **SPECIAL, generator=make_generator(seed), scorer=kind)
        for kind in (Rereader, DecoderCache)
    ]
    assert torch.equal(*drawn)


def test_the_sentences_of_the_test_above_differ():
    models = [talkative(seed, norm_first) for seed in range(3) for norm_first in (False, True)]
    written = [greedy_decode(*one, **SPECIAL) for one in models]
    rows = {tuple(row) for ids in written for row in ids.tolist()}
    assert len(rows) > 9 and {EOS in row for row in rows} == {True, False}


@pytest.mark.parametrize("beam_size", [1, 2, 5])
@pytest.mark.parametrize("seed", range(3))
def test_beams_are_the_same_with_and_without(seed, beam_size):
    model, src = talkative(seed)
    (ids, scores), (cached_ids, cached_scores) = (
        beam_search(model, src, **SPECIAL, beam_size=beam_size, scorer=kind)
        for kind in (Rereader, DecoderCache)
    )
    assert_equal(cached_scores, scores)
    found = ~scores.isneginf()
    assert torch.equal(cached_ids[found], ids[found])


# --- less work


def test_every_token_passes_the_layers_once_and_the_source_is_encoded_once():
    model, generator = model_of(), make_generator(6)
    src, tgt = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B, 6)
    passed, projected, encoded = [], [], []
    listen = {
        model.decoder.layers[1].feed_forward: passed,
        model.decoder.layers[1].cross_attn.w_k: projected,
        model.encoder.layers[0]: encoded,
    }
    for part, heard in listen.items():
        part.register_forward_pre_hook(lambda _, args, heard=heard: heard.append(args[0].size(1)))
    cache = DecoderCache(model, src)
    for end in (1, 2, 5, 6):
        cache(tgt[:, :end])
    assert (passed, projected, encoded) == ([1, 1, 3, 1], [S], [S])


def test_no_gradients_are_kept():
    model = model_of()
    cache = DecoderCache(model, torch.tensor([[4, 5]]))
    assert not cache(torch.tensor([[BOS, 7]])).requires_grad
    kept = [x for layer in cache.layers for x in (*layer.source, *layer.target)]
    assert not any(x.requires_grad for x in kept) and torch.is_grad_enabled()


# --- bad input


def test_a_model_in_training_mode_is_refused():
    with pytest.raises(ValueError, match=says("eval()")):
        DecoderCache(model_of().train(), torch.tensor([[4, 5]]))


@pytest.mark.parametrize(
    ("tgt", "words"),
    [
        (torch.full((2, 3), BOS), ("(2, 3)", "2 rows of 3")),
        (torch.full((2, 2), BOS), ("(2, 2)", "2 rows of 3")),
        (torch.full((1, 4), BOS), ("(1, 4)", "2 rows of 3")),
        (torch.full((2, MAX_LEN + 1), BOS), ("target", MAX_LEN + 1, f"max_len={MAX_LEN}")),
    ],
)
def test_a_target_that_does_not_go_on_is_explained(tgt, words):
    cache = DecoderCache(model_of(), torch.tensor([[4, 5], [6, 7]]))
    first = torch.full((2, 3), BOS)
    cache(first)
    with pytest.raises(ValueError, match=says(*words)):
        cache(tgt)
    longer = torch.full((2, 4), BOS)
    assert_equal(
        cache(longer), uncached(cache.model, torch.tensor([[4, 5], [6, 7]]), longer)[:, 3:]
    )
