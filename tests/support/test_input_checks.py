"""Input checks name the values that do not fit, directly and through the public call."""

from functools import partial

import pytest
import torch
from dimensions import D_K, D_MODEL, MAX_LEN, PAD, SRC_VOCAB, TGT_VOCAB, B, H, S, T
from parity import assert_same, says
from random_inputs import normal, random_ids, tiny_config, tiny_transformer
from torch import nn

from course_lib.add_norm import AddNorm, LayerNorm
from course_lib.batching import TokenBatches, average_weights
from course_lib.beam_search import beam_search
from course_lib.data import LIMIT, Characters, Tokenizer, draw_numbers, read_text, side_by_side
from course_lib.data.alignments import reference_links, text_digits, token_digits
from course_lib.data_parallel import split_batch, token_loss_scale
from course_lib.decoder import Decoder
from course_lib.decoder_only import DecoderOnly, random_windows
from course_lib.decoding import greedy_decode
from course_lib.encoder import Encoder
from course_lib.encoder_only import EncoderOnly, EncoderOnlyConfig, patches
from course_lib.evaluation import token_accuracy
from course_lib.feed_forward import FeedForward
from course_lib.flops import attention_flops, layer_operations
from course_lib.gpt import GPT, GPTConfig, GPTEngine
from course_lib.kv_cache import AttentionCache
from course_lib.masks import causal_mask, padding_mask
from course_lib.modern_decoder import (
    GroupedQueryAttention,
    ModernConfig,
    RMSNorm,
    SwiGLU,
    apply_rope,
    rope_angles,
)
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import LearnedPositionalEmbedding, PositionalEncoding, sinusoidal_encoding
from course_lib.support.attention_capture import capture_attention
from course_lib.support.input_checks import check_ids, check_same_batch
from course_lib.tokenization import BPETokenizer
from course_lib.training import adam_update, label_smoothed_cross_entropy


def ones(*shape, dtype=torch.bool):
    """Make a mask, or an argument that should be a mask."""
    return torch.ones(shape, dtype=dtype)


# --- attention

HEADS = (B, H, T, S)
X, WIDE, MEMORY = (B, T, D_MODEL), (B, T, D_MODEL - 1), (B, S, D_MODEL)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(
    ("shapes", "mask", "words"),
    [
        ((WIDE, MEMORY, MEMORY), None, ["query", WIDE, D_MODEL]),
        ((X, (B, S, 17), MEMORY), None, ["key", (B, S, 17), D_MODEL]),
        ((X, MEMORY, (B, S, 17)), None, ["value", (B, S, 17), D_MODEL]),
        (((D_MODEL,), MEMORY, MEMORY), None, ["query", (D_MODEL,)]),
        (((3, T, D_MODEL), MEMORY, MEMORY), None, [(3, H, T, D_K), (B, H, S, D_K)]),
        ((X, MEMORY, MEMORY), ones(T, S, dtype=torch.float32), ["boolean", torch.float32]),
        ((X, MEMORY, MEMORY), ones(B, T, S), [(B, T, S), HEADS]),
    ],
)
def test_a_layer_names_inputs_that_do_not_fit_on_both_paths(shapes, mask, words, need_weights):
    layer = MultiHeadAttention(D_MODEL, H)
    with pytest.raises(ValueError, match=says(*words)):
        layer(*(torch.zeros(shape) for shape in shapes), mask, need_weights=need_weights)


# --- sizes and shapes

VECTORS = torch.zeros(B, T, 6)
KEYS = VECTORS.unsqueeze(1)
REFUSED = [  # a call, and words of the message
    (lambda: FeedForward(0, 11), ["d_model=0", "d_ff=11"]),
    (lambda: FeedForward(6, 11, activation="swish"), ["swish", "gelu", "relu"]),
    (lambda: FeedForward(5, 11)(VECTORS), [5, (B, T, 6)]),
    (lambda: LayerNorm(0), [0]),
    (lambda: LayerNorm(6)(VECTORS[..., :1]), [6, (B, T, 1)]),  # it would broadcast in silence
    (lambda: AddNorm(6)(VECTORS, lambda x: x[..., :1]), [(B, T, 1), (B, T, 6)]),
    (lambda: AddNorm(6)(VECTORS, lambda x: (x, None)), ["one tensor", "tuple"]),
    (lambda: AddNorm(0), ["d_model=0"]),
    (lambda: MultiHeadAttention(12, 3, dropout=1.5), ["dropout", 1.5]),
    (lambda: Encoder(0, D_MODEL, H, 11), ["num_layers=0"]),
    (lambda: Decoder(-1, D_MODEL, H, 11), ["num_layers=-1"]),
    (lambda: sinusoidal_encoding(0, 6), ["max_len=0", "d_model=6"]),
    (lambda: LearnedPositionalEmbedding(0, 9), ["max_len=9", "d_model=0"]),
    (lambda: causal_mask(0), ["length", 0]),
    (lambda: padding_mask(ones(B, 1, S), PAD), ["(B, S)", (B, 1, S)]),
    (lambda: layer_operations(0, 5, kernel_size=3), [0, 5, 3]),
    (lambda: attention_flops(12, 3, 0, 5), ["tgt_len=0", "src_len=5"]),
    (lambda: AttentionCache(9).append(VECTORS, VECTORS), [(B, T, 6)]),
    (lambda: AttentionCache(9).append(KEYS, KEYS[:, :, 1:]), [(B, 1, T, 6), (B, 1, T - 1, 6)]),
    (lambda: rope_angles(T, 5), ["even", 5]),
    (lambda: rope_angles(T, 6, base=0.0), ["base of the angles", "got 0.0"]),
    (lambda: apply_rope(VECTORS, torch.zeros(1, 3)), [(1, 3), T, 6]),
    (lambda: GroupedQueryAttention(12, 6, 4), [6, 4]),
    (lambda: random_windows(torch.arange(5), 2, 5), [5, 2, 5]),
    (lambda: random_windows(ones(5, 3), 2, 2), [(5, 3), 2]),
    (lambda: side_by_side(torch.arange(5), 0), ["length=0"]),
    (lambda: draw_numbers("train", 0), [0, 50_000]),
    (lambda: read_text("shakespear"), ["shakespear", "library"]),
    (lambda: Tokenizer.learn("one two", 9), ["a list of texts", "one string"]),
    (lambda: Characters("ab").decode(torch.tensor([-1])), [-1, "0 to 1"]),
    (lambda: capture_attention({"self": [VECTORS]}, list), ["self", "Tensor"]),
    (lambda: capture_attention({"self": [nn.Identity()]}, list), ["self", "0 calls"]),
    (lambda: patches(VECTORS, 0), ["size=0", (B, T, 6)]),
    (lambda: AttentionCache(0), ["max_len=0"]),
    (lambda: RMSNorm(0), ["positive"]),
    (lambda: SwiGLU(4, 0), ["positive"]),
    (lambda: label_smoothed_cross_entropy(LOGITS, TARGETS, smoothing=-0.1), ["[0, 1]", -0.1]),
    (lambda: label_smoothed_cross_entropy(LOGITS, TARGETS, pad_id=TGT_VOCAB), ["pad_id=10", 10]),
    (lambda: adam_update(*torch.zeros(3, 2), step=0), ["step=0", "positive"]),
    (lambda: split_batch([1, 2, 3], 3, 3), ["rank=3", "world_size=3"]),
    (lambda: token_loss_scale(5, 4, 2), [5, 4, 2]),
    (lambda: TokenBatches([], 9), ["pairs (0)"]),
    (lambda: TokenBatches([([5] * 6, [1, 5, 2])], 7), ["8 tokens exceeds the limit tokens=7"]),
    (lambda: average_weights([]), ["no weights"]),
    (lambda: BPETokenizer([(b"xy", b"z")]), ["no earlier merge made", "b'xy'"]),
    (lambda: BPETokenizer([], ["[pad]", "[pad]"]), ["must be distinct and not empty"]),
    (lambda: BPETokenizer([]).decode([256]), [256, "not an id from 0 to 255"]),
    (lambda: token_digits(["▁drei"], 4, "de"), ["▁drei does not spell 4 in 'de'"]),
    (lambda: reference_links(["▁three"], ["▁drei"], 345), ["does not spell 345"]),
    (lambda: text_digits(LIMIT, "en"), ["1,000,000"]),
    (lambda: text_digits(4, "xx"), ["'xx'"]),
]


@pytest.mark.parametrize(("call", "words"), REFUSED)
def test_sizes_and_shapes_that_do_not_fit_are_named(call, words):
    with pytest.raises(ValueError, match=says(*words)):
        call()


@pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEmbedding])
def test_vectors_that_do_not_fit_the_table_of_positions_are_named(kind):
    module = kind(6, MAX_LEN)
    with pytest.raises(ValueError, match=says(MAX_LEN + 1, f"max_len={MAX_LEN}")):
        module(torch.zeros(B, MAX_LEN + 1, 6))
    for shape in ((B, T, 5), (6,)):
        with pytest.raises(ValueError, match=says("d_model=6", shape)):
            module(torch.zeros(shape))


GPT_SIZES = dict(vocab_size=TGT_VOCAB, max_len=MAX_LEN, num_layers=2, num_heads=H, d_model=D_MODEL)
COUNTS = [
    *("d_model", "num_heads", "src_vocab_size", "tgt_vocab_size", "num_encoder_layers"),
    *("num_decoder_layers", "max_len", "d_ff"),
]


def gpt_config(**changes):
    return GPTConfig(**(GPT_SIZES | changes))


def llama(**changes):
    return ModernConfig(**(dict(num_heads=6, num_kv_heads=1, d_model=24) | changes))


bert, NAN = partial(EncoderOnlyConfig, vocab_size=TGT_VOCAB), float("nan")


@pytest.mark.parametrize(
    ("build", "changes", "words"),
    [
        *((tiny_config, {name: 0}, [name, 0]) for name in COUNTS),
        (tiny_config, dict(d_model=10), ["d_model=10", "num_heads=3"]),
        (tiny_config, dict(d_k=0), [0]),
        (tiny_config, dict(tie_embeddings="both"), ["both", "all", "decoder", "none"]),
        (tiny_config, dict(tie_embeddings="all"), ["all", SRC_VOCAB, TGT_VOCAB]),
        (tiny_config, dict(pad_id=TGT_VOCAB), ["pad_id=10", SRC_VOCAB]),
        (tiny_config, dict(dropout=1.5), ["dropout", 1.5]),
        (tiny_config, dict(activation="swish"), ["swish", "gelu", "relu"]),
        *((gpt_config, {name: 0}, [f"{name} must be a positive integer"]) for name in GPT_SIZES),
        (gpt_config, dict(d_model=10), ["d_model=10", f"num_heads={H}"]),
        (gpt_config, dict(dropout=1.5), ["dropout", 1.5]),
        (llama, dict(num_kv_heads=5), ["KV heads"]),
        (llama, dict(num_layers=0), ["num_layers must be a positive integer, got 0"]),
        (llama, dict(d_model=25), ["d_model"]),
        (llama, dict(d_k=0), ["d_k or d_v=0"]),
        (gpt_config, dict(init_std=NAN), ["init_std", "nan"]),
        (gpt_config, dict(max_len=5.5), ["max_len must be a positive integer, got 5.5"]),
        (bert, dict(init_std=-1.0), ["init_std", -1.0]),
        (llama, dict(norm_eps=-1.0), ["norm_eps", -1.0]),
        (llama, dict(rope_base=NAN), ["rope_base", "nan"]),
        (llama, dict(d_k=3), ["d_k", "even", 3]),
        (llama, dict(rope_factors=(1.0, NAN)), ["positive", NAN]),
    ],
)
def test_hyperparameters_that_do_not_define_a_model_are_named(build, changes, words):
    with pytest.raises(ValueError, match=says(*words)):
        build(**changes)


# --- ids

ODD_IDS = {
    "floats": (torch.ones(B, 4), [torch.float32]),
    "booleans": (ones(B, 4), [torch.bool]),
    "no tokens": (torch.ones(B, 0, dtype=torch.long), [(B, 0)]),
    "no sentences": (torch.ones(0, 4, dtype=torch.long), [(0, 4)]),
    "no batch": (torch.ones(4, dtype=torch.long), [(4,)]),
    "too deep": (torch.ones(B, 4, 1, dtype=torch.long), [(B, 4, 1)]),
    "too long": (torch.ones(B, MAX_LEN + 1, dtype=torch.long), [MAX_LEN + 1, f"max_len={MAX_LEN}"]),
    "below 0": (torch.tensor([[4, -1]]), [-1, TGT_VOCAB - 1]),
    "too large": (torch.tensor([[4, TGT_VOCAB]]), [TGT_VOCAB, TGT_VOCAB - 1]),
}
SRC = torch.full((B, S), 4)


def translate(ids):
    return tiny_transformer().eval()(SRC[: max(1, len(ids))], ids)


LOGITS, TARGETS = torch.zeros(B, T, TGT_VOCAB), torch.full((B, T), 4)


LOSSES = {
    "loss": partial(label_smoothed_cross_entropy, LOGITS),
    "accuracy": lambda targets: token_accuracy(LOGITS, targets, PAD),
    "GPT": lambda targets: SMALL_GPT(TARGETS, targets),
}
ODD_TARGETS = [
    (TARGETS[:, 1:], [(B, T, TGT_VOCAB), (B, T), (B, T - 1)]),
    (TARGETS.float(), ["integers", "float32"]),
    (TARGETS - 104, ["-100 to -100", f"0 to {TGT_VOCAB - 1}", "use pad_id, not -100"]),
]
ONE_ROW = (TARGETS[:1], [(B, T), (1, T)])  # it would broadcast silently


@pytest.mark.parametrize(
    ("read", "odd"),
    [*(("loss", odd) for odd in ODD_TARGETS), *((name, ONE_ROW) for name in LOSSES)],
)
def test_targets_that_do_not_fit_the_logits_are_named(read, odd):
    targets, words = odd
    with pytest.raises(ValueError, match=says(*words)):
        LOSSES[read](targets)


SMALL_GPT = GPT(gpt_config()).eval()
READERS = {  # code that reads target ids, and their name in its error
    "check_ids": (lambda ids: check_ids(ids, TGT_VOCAB, MAX_LEN, "these"), "these"),
    "encode": (lambda ids: tiny_transformer(src_vocab_size=TGT_VOCAB).encode(ids), "source"),
    "Transformer": (translate, "target"),
    "DecoderOnly": (DecoderOnly(tiny_config()), "input"),
    "GPT": (SMALL_GPT, "input"),
    "GPTEngine": (lambda ids: GPTEngine(SMALL_GPT, MAX_LEN).step(ids), "input"),
    "EncoderOnly": (EncoderOnly(EncoderOnlyConfig(**GPT_SIZES)).eval(), "input"),
}


@pytest.mark.parametrize(
    ("reader", "odd"),
    [*(("check_ids", odd) for odd in ODD_IDS), *((reader, "too large") for reader in READERS)],
)
def test_ids_outside_the_embedding_are_named(reader, odd):
    (read, name), (ids, words) = READERS[reader], ODD_IDS[odd]
    with pytest.raises(ValueError, match=says(name, *words)):
        read(ids)


@pytest.mark.parametrize("reader", READERS)
def test_the_largest_id_32_bits_and_max_len_tokens_are_accepted(reader):
    read, _ = READERS[reader]
    ids = torch.full((B, MAX_LEN), TGT_VOCAB - 1)
    assert_same(read(ids.int()), read(ids))


def test_each_side_has_its_own_vocabulary(transformer):
    with pytest.raises(ValueError, match=says("source", SRC_VOCAB, SRC_VOCAB - 1)):
        transformer(torch.full((B, S), SRC_VOCAB), SRC)
    with pytest.raises(ValueError, match=says("target", SRC_VOCAB - 1, TGT_VOCAB - 1)):
        transformer(SRC, torch.full((B, T), SRC_VOCAB - 1))  # a good source id
    assert transformer(torch.full((B, S), SRC_VOCAB - 1), SRC).isfinite().all()


def test_a_target_a_memory_and_a_source_must_match(transformer, generator):
    src, tgt = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B, T)
    memory = transformer.encode(src)
    check_same_batch(tgt, memory, src)
    for other in (src[:, 1:], src[:1], src[[0, 1, 1]]):
        with pytest.raises(ValueError, match=says((B, T), (B, S, D_MODEL), tuple(other.shape))):
            transformer.decode(tgt, memory, other)
    for other in (tgt[[0, 1, 1]], tgt[:1]):  # a single row would broadcast silently
        with pytest.raises(ValueError, match=says(tuple(other.shape), (B, S))):
            transformer(src, other)
    with pytest.raises(ValueError, match=says((B, S, D_MODEL - 1))):
        transformer.decode(tgt, normal(generator, B, S, D_MODEL - 1), src)


@pytest.mark.parametrize("decode", [greedy_decode, beam_search])
@pytest.mark.parametrize(("bos_id", "eos_id"), [(1, 1), (1, TGT_VOCAB)])
def test_special_ids_that_are_equal_or_unknown_are_named(decode, bos_id, eos_id):
    model, words = tiny_transformer(), says(f"{bos_id=}", f"{eos_id=}", f"pad_id={PAD}")
    with pytest.raises(ValueError, match=words):
        decode(model, SRC, bos_id=bos_id, eos_id=eos_id)
    assert model.training
