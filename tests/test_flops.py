"""Counts of arithmetic: as torch counts while a model runs, and as worked out by hand."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    D_K,
    D_MODEL,
    D_V,
    MAX_LEN,
    SRC_VOCAB,
    TGT_VOCAB,
    B,
    H,
    S,
    T,
    make_generator,
    normal,
    random_ids,
    says,
    tiny_config,
    tiny_transformer,
)
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from course_lib.flops import attention_flops, forward_flops, layer_operations
from course_lib.multi_head import MultiHeadAttention
from course_lib.transformer import TransformerConfig

LENGTHS = (MAX_LEN, T)  # tokens of the source, and of the target
WIDTHS = [{}, dict(d_k=D_K, d_v=D_V), dict(d_k=9), dict(d_v=2), dict(d_k=1, d_v=8)]
MODELS = {
    "as it is": {},
    "heads with widths of their own": dict(d_k=D_K, d_v=D_V),
    "heads that do not divide the width": dict(d_model=10, num_heads=3, d_k=4, d_v=9),
    "more layers in the decoder": dict(num_encoder_layers=1, num_decoder_layers=3),
    "a wide feed-forward": dict(d_ff=50),
    "pre-norm and GELU": dict(norm_first=True, activation="gelu"),
    "target and output that share a matrix": dict(tie_embeddings="decoder"),
}
every_model = pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS)


def torch_counts(run: Callable[[], object]) -> int:
    """Let torch count the matrix products that run: by its plain kernel, which hides none."""
    counter = FlopCounterMode(display=False)
    with sdpa_kernel(SDPBackend.MATH), counter:
        run()
    return counter.get_total_flops()


def pairs(config: TransformerConfig) -> tuple[Tensor, Tensor]:
    """Draw a batch of sources and targets."""
    vocabularies = config.src_vocab_size, config.tgt_vocab_size
    return tuple(
        random_ids(make_generator(), vocab_size, B, length)
        for vocab_size, length in zip(vocabularies, LENGTHS, strict=True)
    )


@pytest.mark.parametrize("widths", WIDTHS, ids=str)
@pytest.mark.parametrize("lengths", [(T, S), (S, T), (1, S), (T, 1), (1, 1)], ids=str)
def test_an_attention_takes_what_torch_counts(generator, widths, lengths):
    layer = MultiHeadAttention(D_MODEL, H, **widths).double()
    x, memory = (normal(generator, B, length, D_MODEL) for length in lengths)
    counted = B * attention_flops(D_MODEL, H, *lengths, **widths)
    assert counted == torch_counts(lambda: layer(x, memory, memory))
    assert counted == torch_counts(lambda: layer(x, memory, memory, need_weights=True))


def test_an_attention_takes_what_torchs_own_layer_takes(generator):
    layer = nn.MultiheadAttention(D_MODEL, H, batch_first=True).double()
    x, memory = (normal(generator, B, length, D_MODEL) for length in (T, S))
    taken = torch_counts(lambda: layer(x, memory, memory))
    assert B * attention_flops(D_MODEL, H, T, S) == taken


@every_model
def test_a_model_takes_what_torch_counts(changes):
    model = tiny_transformer(**changes)
    src, tgt = pairs(model.config)
    counted = forward_flops(model.config, *LENGTHS)
    assert B * counted == torch_counts(lambda: model(src, tgt))
    assert counted != forward_flops(model.config, *reversed(LENGTHS))


@every_model
def test_the_way_back_takes_twice_as_much(changes):
    model = tiny_transformer(**changes)
    src, tgt = pairs(model.config)
    both = torch_counts(lambda: model(src, tgt).sum().backward())
    assert both == 3 * B * forward_flops(model.config, *LENGTHS)


def test_the_way_back_to_nothing_that_learns_takes_less(generator):
    layer = MultiHeadAttention(D_MODEL, H, d_k=D_K, d_v=D_V).double()
    x, memory = (normal(generator, B, length, D_MODEL) for length in (T, S))  # as data would be
    projections = T * D_MODEL * D_K + S * D_MODEL * D_K + S * D_MODEL * D_V
    both = torch_counts(lambda: layer(x, memory, memory)[0].sum().backward())
    whole = 3 * B * attention_flops(D_MODEL, H, T, S, d_k=D_K, d_v=D_V)
    assert both == whole - 2 * B * H * projections  # no gradient of x and memory is needed


def test_sharing_a_matrix_saves_no_product():
    ways = [tiny_config(src_vocab_size=TGT_VOCAB, tie_embeddings=way) for way in ("all", "none")]
    one, other = (forward_flops(way, *LENGTHS) for way in ways)
    assert one == other == forward_flops(tiny_config(), *LENGTHS) and SRC_VOCAB != TGT_VOCAB


def test_the_base_model_of_the_paper_by_hand():
    n, d, d_ff, vocab = 25, 512, 2048, 37_000
    attention = 4 * (2 * n * d * d) + 2 * (2 * n * n * d)  # four projections; scores and blend
    feed_forward = 2 * (2 * n * d * d_ff)
    layers = 6 * (attention + feed_forward) + 6 * (2 * attention + feed_forward)
    base = TransformerConfig(src_vocab_size=vocab, tgt_vocab_size=vocab)
    assert attention_flops(d, 8, n, n) == attention
    assert forward_flops(base, n, n) == layers + 2 * n * d * vocab


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.integers(1, 4))
def test_a_model_is_the_sum_of_its_layers(src_len, tgt_len, encoders, decoders):
    def cost(**changes: int) -> int:
        """Count a model."""
        return forward_flops(tiny_config(**changes), src_len, tgt_len)

    first = cost(num_encoder_layers=1, num_decoder_layers=1)
    encoder = cost(num_encoder_layers=2, num_decoder_layers=1) - first
    decoder = cost(num_encoder_layers=1, num_decoder_layers=2) - first
    whole = cost(num_encoder_layers=encoders, num_decoder_layers=decoders)
    assert whole == first + (encoders - 1) * encoder + (decoders - 1) * decoder


@given(st.integers(1, 50), st.integers(1, 50), st.integers(1, 9), st.integers(1, 9))
def test_lengths_can_change_places_and_so_can_widths(tgt_len, src_len, d_k, d_v):
    count = attention_flops(D_MODEL, H, tgt_len, src_len, d_k=d_k, d_v=d_v)
    assert count == attention_flops(D_MODEL, H, src_len, tgt_len, d_k=d_k, d_v=d_v)
    assert count == attention_flops(D_MODEL, H, tgt_len, src_len, d_k=d_v, d_v=d_k)


def test_heads_share_one_width():
    assert len({attention_flops(24, heads, T, S) for heads in (1, 2, 3, 4, 6, 8)}) == 1


def test_a_width_that_cannot_be_shared_is_refused_as_by_the_layer():
    for build in (MultiHeadAttention, lambda *sizes: attention_flops(*sizes, T, S)):
        with pytest.raises(ValueError, match=says(10, 3)):
            build(10, 3)


def test_table_1_by_products_that_run(generator):
    length, d_model, kernel = 7, 5, 3
    x = normal(generator, 1, d_model, length)
    recurrent = nn.Linear(d_model, d_model, bias=False).double()
    convolution = nn.Conv1d(d_model, d_model, kernel, padding=1, bias=False).double()

    def steps() -> None:
        """Go along the text, one product after the other."""
        state = x.new_zeros(1, d_model)
        for place in range(length):
            state = torch.tanh(x[:, :, place] + recurrent(state))

    counts = layer_operations(length, d_model, kernel_size=kernel)
    assert 2 * counts["self-attention"] == torch_counts(lambda: x[0].T @ x[0])  # the scores
    assert 2 * counts["recurrent"] == torch_counts(steps)
    assert 2 * counts["convolution"] == torch_counts(lambda: convolution(x))


def test_table_1_at_sizes_of_the_paper():
    counts = layer_operations(70, 512, kernel_size=7)
    assert list(counts) == ["self-attention", "recurrent", "convolution"]
    assert list(counts.values()) == [70 * 70 * 512, 70 * 512 * 512, 7 * 70 * 512 * 512]
    assert layer_operations(70, 512)["convolution"] == 3 * 70 * 512 * 512


@given(st.integers(1, 99), st.integers(1, 99), st.integers(1, 9))
def test_self_attention_is_the_cheapest_until_the_text_is_as_long_as_the_vectors(n, d, k):
    counts = layer_operations(n, d, kernel_size=k)
    assert (counts["self-attention"] < counts["recurrent"]) == (n < d)
    assert counts["recurrent"] * k == counts["convolution"]


@pytest.mark.parametrize("sizes", [(0, 5, 3), (7, 0, 3), (7, 5, 0), (-4, 5, 3), (7, -4, 3)])
def test_sizes_below_1_are_refused_with_all_three(sizes):
    length, d_model, kernel_size = sizes
    with pytest.raises(ValueError, match=says(*sizes)):
        layer_operations(length, d_model, kernel_size=kernel_size)
