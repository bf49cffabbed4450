"""The KV cache: the logits of recomputing the prefix, at every step, for less work."""

from functools import partial

import pytest
import torch
from dimensions import D_MODEL, MAX_LEN, PAD, SRC_VOCAB, TGT_VOCAB, B, S
from hypothesis import given
from hypothesis import strategies as st
from parity import assert_equal, says
from random_inputs import make_generator, random_ids, randomize, tiny_transformer
from torch.testing import assert_close

from course_lib.decoding import next_logits
from course_lib.gpt import GPT, GPTConfig, sample
from course_lib.kv_cache import AttentionCache, KVCache
from course_lib.modern_decoder import ModernConfig, ModernDecoder

BOS = 1


def model_of(norm_first=False, **changes):
    """Build the tiny model with two decoder layers, in eval mode."""
    return tiny_transformer(norm_first=norm_first, num_decoder_layers=2, **changes).eval()


SIZES = dict(vocab_size=TGT_VOCAB, max_len=MAX_LEN, num_layers=2, num_heads=3, d_model=D_MODEL)


def tiny_gpt(bias=True):
    """Build a GPT of two layers in which no two sizes are equal."""
    return randomize(GPT(GPTConfig(**SIZES, dropout=0.5, bias=bias)))


def tiny_modern():
    """Build a decoder in the Llama layout, whose heads share their keys."""
    return randomize(ModernDecoder(ModernConfig(**SIZES, num_kv_heads=1, d_ff=7)))


def ids_with_padding(generator, vocab_size, *lengths):
    """Draw rows of some lengths, filled up with padding."""
    ids = random_ids(generator, vocab_size, len(lengths), max(lengths))
    hidden = torch.arange(max(lengths)) >= torch.tensor(lengths)[:, None]
    return ids.masked_fill(hidden, PAD)


# --- the parts


def test_nothing_moves_while_there_is_room():
    cache, places = AttentionCache(64), set()
    for _ in range(64):
        keys, _ = cache.append(torch.zeros(2, 3, 1, 4), torch.zeros(2, 3, 1, 4))
        places.add(keys.data_ptr())
    assert len(places) == 1


def test_reordering_again_and_again_takes_no_new_room():
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
    cache.reorder(torch.tensor([1]))  # one row is left
    assert_equal(cache.keys[:, :, :4], expected[[1]])


@torch.no_grad()
def test_without_padding_a_new_token_has_no_mask_and_the_logits_are_the_same(generator):
    model = model_of()
    src = random_ids(generator, SRC_VOCAB, B, S)
    tgt = random_ids(generator, TGT_VOCAB, B, MAX_LEN)
    cache, start, masks = KVCache(2, MAX_LEN, padding=False), 0, []
    model.decoder.register_forward_hook(lambda _, args, out: masks.append(args[2]))
    expected, memory = model(src, tgt), model.encode(src)
    for end in (2, 3, 4, MAX_LEN):
        logits = model.decode(tgt[:, start:end], memory, src, cache=cache)
        assert_close(logits, expected[:, start:end])
        start = end
    assert [mask is None for mask in masks[1:]] == [False, True, True, False]


# --- a whole model: cached equals uncached


@given(
    seed=st.integers(0, 999),
    norm_first=st.booleans(),
    sources=st.lists(st.integers(1, MAX_LEN), min_size=1, max_size=4),
    beams=st.integers(1, 3),
    data=st.data(),
)
@torch.no_grad()
def test_every_step_gives_the_logits_of_recomputing_the_prefix(
    seed, norm_first, sources, beams, data
):
    generator, model = make_generator(seed), model_of(norm_first)
    src = ids_with_padding(generator, SRC_VOCAB, *sources)
    lengths = [data.draw(st.integers(0, MAX_LEN)) for _ in range(beams * len(sources))]
    lengths[0] = MAX_LEN  # 0: padding from the start
    tgt = ids_with_padding(generator, TGT_VOCAB, *lengths)
    cache, memory = KVCache(2, MAX_LEN), model.encode(src)
    start = 0
    while start < MAX_LEN:
        end = data.draw(st.integers(start + 1, MAX_LEN))
        expected = model(src.repeat_interleave(beams, dim=0), tgt[:, :end])
        assert_equal(model.decode(tgt[:, start:end], memory, src, cache=cache), expected[:, start:])
        if data.draw(st.booleans()):
            many = data.draw(st.integers(1, 4))
            rows = torch.randint(len(src), (many,), generator=generator)
            within = torch.randint(beams, (many, beams), generator=generator)
            moved = (rows[:, None] * beams + within).flatten()  # beams of the same sentence
            src, memory, tgt = src[rows], memory[rows], tgt[moved]
            cache.reorder(moved, rows)
        start = cache.length
        assert start == end


@pytest.mark.parametrize("build", [tiny_gpt, partial(tiny_gpt, bias=False), tiny_modern])
@pytest.mark.parametrize("steps", [(1,) * MAX_LEN, (4, 1, 1, MAX_LEN - 6)])
def test_a_decoder_alone_gives_the_logits_of_recomputing_the_prefix(generator, build, steps):
    model, ids = build().eval(), random_ids(generator, TGT_VOCAB, B, MAX_LEN)
    cache = KVCache(2, MAX_LEN)
    parts = [model(new, cache=cache)[0] for new in ids.split(steps, dim=1)]
    assert_equal(torch.cat(parts, dim=1), model(ids)[0])
    with pytest.raises(ValueError, match=says("max_len")):
        model(ids[:, :1], cache=cache)


# --- less work


@torch.no_grad()
def test_every_token_passes_the_layers_once_and_the_source_is_projected_once_for_all_beams():
    model, generator, K = model_of(), make_generator(6), 3
    src, tgt = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B * K, 6)
    passed, projected = [], []
    layer = model.decoder.layers[1]
    for part, heard in {layer.feed_forward: passed, layer.cross_attn.w_k: projected}.items():
        part.register_forward_pre_hook(lambda _, args, heard=heard: heard.append(args[0].shape))
    cache, memory = KVCache(2, 6), model.encode(src)
    for end in (1, 2, 5, 6):
        next_logits(model, tgt[:, :end], memory, src, cache)
    assert [shape[0] * shape[1] for shape in passed] == [B * K * new for new in (1, 1, 3, 1)]
    assert projected == [(B, S, D_MODEL)]
    assert len(cache.layers[1].cross_attn.keys_values[0]) == B


def test_a_text_is_written_without_reading_a_number_from_the_device():
    model = tiny_gpt().eval().to("meta")  # a device whose tensors have no numbers
    ids = torch.zeros(2, 3, dtype=torch.long, device="meta")
    assert sample(model, ids, 4).shape == (2, 7)


# --- bad input


@pytest.mark.parametrize(
    ("rows", "new", "words"),
    [
        (1, 1, ["1 rows", "2 rows of 3"]),
        (4, 1, ["4 rows", "2 rows of 3", "reorder"]),
        (2, 3, ["3 tokens", "room for 5", "max_len"]),
    ],
)
@torch.no_grad()
def test_tokens_that_do_not_go_on_are_explained_and_leave_the_cache_as_it_was(rows, new, words):
    text, translator, src = tiny_gpt().eval(), model_of(), torch.tensor([[4, 5], [6, 7]])
    memory, ids = translator.encode(src), torch.full((4, 6), BOS)
    one = src[:1], memory[:1]
    for read, full in (
        (lambda ids, cache: text(ids, cache=cache)[0], lambda: text(ids[:2, :4])[0]),
        (
            lambda ids, cache: translator.decode(
                ids, *(one[::-1] if len(ids) == 1 else (memory, src)), cache=cache
            ),
            lambda: translator(src, ids[:2, :4]),
        ),
    ):
        cache = KVCache(2, 5)
        read(ids[:2, :3], cache)
        with pytest.raises(ValueError, match=says(*words)):
            read(ids[:rows, :new], cache)
        assert_equal(read(ids[:2, :1], cache), full()[:, 3:])


@torch.no_grad()
def test_positions_beyond_the_model_and_sources_of_other_batches_are_refused():
    model, src = model_of(), torch.tensor([[4, 5], [6, 7]])
    memory, cache = model.encode(src), KVCache(2, 3 * MAX_LEN)
    model.decode(torch.full((2, MAX_LEN), BOS), memory, src, cache=cache)
    with pytest.raises(ValueError, match=says(MAX_LEN + 1, f"max_len={MAX_LEN}")):
        model.decode(torch.full((2, 1), BOS), memory, src, cache=cache)
    with pytest.raises(ValueError, match=says("(3, 1)", "(2, 2)")):
        model.decode(torch.full((3, 1), BOS), memory, src, cache=KVCache(2, 3))
