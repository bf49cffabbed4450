"""EncoderOnly agrees with torch, and masking, pooling and patches work as in BERT and ViT."""

import dataclasses

import pytest
import torch
from dimensions import D_FF, D_MODEL, MAX_LEN, PAD, SRC_VOCAB, B, H, S
from parity import assert_equal, assert_parity
from random_inputs import make_generator, make_mask, normal, random_ids, randomize, torch_stack
from torch.nn import functional as F

from course_lib.encoder_only import (
    EncoderOnly,
    EncoderOnlyConfig,
    SequenceHead,
    TokenHead,
    mask_tokens,
    mean_pool,
    patches,
)
from course_lib.interop import load_from_torch
from course_lib.masks import padding_mask

SIZES = dict(max_len=MAX_LEN, num_layers=2, num_heads=H, d_model=D_MODEL, d_ff=D_FF, dropout=0.0)
MASK = SRC_VOCAB


def tiny():
    """Build a model in float64 in which all sizes differ; the last id is [mask]."""
    return randomize(EncoderOnly(EncoderOnlyConfig(vocab_size=SRC_VOCAB + 1, **SIZES)))


@pytest.mark.parametrize("kind", ["none", "padding", "per head"])
def test_vectors_and_every_gradient_agree_with_torch(generator, kind):
    ours, theirs = tiny(), torch_stack("Encoder", activation="gelu")
    load_from_torch(ours.encoder, theirs)
    ids, mask = random_ids(generator, SRC_VOCAB, B, S), make_mask(kind, S, S)
    segments = torch.arange(S).expand(B, -1) // 3
    blocked = None if mask is None else ~mask.expand(B, H, S, S).reshape(-1, S, S)
    tables = [ours.embedding.weight, ours.positions.weight, ours.segments.weight]

    def run_theirs(embedding, positions, types, gain, shift):
        x = F.embedding(ids, embedding) + positions[:S] + F.embedding(segments, types)
        return theirs(F.layer_norm(x, (D_MODEL,), gain, shift), blocked)

    norm = [ours.norm.weight, ours.norm.bias]
    run_ours = lambda: ours(ids, mask, segments)  # noqa: E731
    assert_parity(ours, theirs, run_ours, run_theirs, tables + norm, ours.encoder)


def test_the_defaults_are_bert_base_with_the_published_number_of_parameters():
    with torch.device("meta"):  # shapes without numbers
        model = EncoderOnly(EncoderOnlyConfig(vocab_size=30_522))
    pooler = 768 * 768 + 768  # BERT also has this layer
    assert sum(p.numel() for p in model.parameters()) + pooler == 109_482_240
    assert dataclasses.asdict(model.config)["dropout"] == 0.1


def test_new_matrices_have_the_requested_standard_deviation():
    sizes = SIZES | dict(d_model=96, d_ff=200, max_len=90)
    model = EncoderOnly(EncoderOnlyConfig(vocab_size=90, init_std=0.5, **sizes))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and name != "segments.weight":
            assert abs(parameter.std().item() - 0.5) < 0.02, name


# --- masked language modeling


def long_ids():
    """Draw many ids, a quarter of them padding."""
    ids = random_ids(make_generator(), SRC_VOCAB, 100, 4000)
    ids[:, 3000:] = PAD
    return ids


def hidden(ids, seed=0):
    """Hide some tokens behind [mask]."""
    special = dict(num_ordinary=SRC_VOCAB, mask_id=MASK, pad_id=PAD)
    return mask_tokens(ids, **special, generator=make_generator(seed))


def test_fifteen_percent_of_the_real_tokens_are_chosen_and_treated_in_three_ways():
    ids = long_ids()
    kept = ids.clone()
    inputs, targets = hidden(ids)
    assert torch.equal(ids, kept)
    chosen = targets != PAD
    assert torch.equal(targets[chosen], ids[chosen]) and torch.equal(inputs[~chosen], ids[~chosen])
    assert not chosen[ids == PAD].any()

    def fraction(flags):
        return flags.float().mean().item()

    assert fraction(chosen[ids != PAD]) == pytest.approx(0.15, abs=0.005)
    assert fraction(inputs[chosen] == MASK) == pytest.approx(0.8, abs=0.01)
    changed = (inputs[chosen] != MASK) & (inputs[chosen] != ids[chosen])
    assert fraction(changed) == pytest.approx(0.1 * (1 - 1 / SRC_VOCAB), abs=0.01)
    assert inputs[chosen][changed].bincount(minlength=SRC_VOCAB).min() > 100  # any ordinary token


def test_the_generator_decides_which_tokens_are_hidden():
    ids = long_ids()[:2]
    state = torch.get_rng_state()
    one, again, other = hidden(ids), hidden(ids), hidden(ids, seed=1)
    assert torch.equal(one[0], again[0]) and not torch.equal(one[1], other[1])
    assert torch.equal(state, torch.get_rng_state())


def test_the_token_head_uses_the_embedding_matrix(generator):
    model = tiny()
    head = randomize(TokenHead(model.embedding))
    x = normal(generator, B, S, D_MODEL)
    assert head.output.weight is model.embedding.weight
    linear, _, norm = head.hidden
    y = F.gelu(F.linear(x, linear.weight, linear.bias))
    y = F.layer_norm(y, (D_MODEL,), norm.weight, norm.bias)
    assert_equal(head(x), y @ model.embedding.weight.T + head.output.bias)


# --- pooling


def test_a_padded_batch_gives_the_scores_of_its_sentences_one_by_one(generator):
    model, head = tiny(), randomize(SequenceHead(D_MODEL, 7))
    rows = [random_ids(generator, SRC_VOCAB, 1, length) for length in (S, 2, 1)]
    ids = torch.cat([F.pad(row, (0, S - row.size(1)), value=PAD) for row in rows])
    scores = head(model(ids, padding_mask(ids, PAD)), ids != PAD)
    for row, score in zip(rows, scores, strict=True):
        assert_equal(head(model(row), row != PAD)[0], score)


def test_the_mean_ignores_padding_even_if_it_is_nan(generator):
    x = normal(generator, B, S, D_MODEL)
    real = torch.tensor([[True, False, True, True, False], [False] * S])
    x[~real] = float("nan")
    x.requires_grad_()
    mean = mean_pool(x, real)
    assert_equal(mean, torch.stack([x[0, [0, 2, 3]].mean(dim=0), torch.zeros(D_MODEL).double()]))
    mean.sum().backward()
    weights = real.double() / torch.tensor([[3.0], [1.0]])
    assert_equal(x.grad, weights[..., None].expand_as(x))


def test_the_mean_of_a_long_text_in_half_precision():
    x = torch.full((1, 512, D_MODEL), 200.0).half()  # the sum is infinite in float16
    assert (mean_pool(x, torch.ones(1, 512) > 0) == 200).all()


# --- patches


@pytest.mark.parametrize(("height", "width", "size"), [(6, 4, 2), (3, 6, 3), (2, 3, 1), (5, 5, 5)])
def test_patches_are_squares_in_reading_order(generator, height, width, size):
    images = normal(generator, B, height, width)
    expected = [
        images[:, top : top + size, left : left + size].flatten(1)
        for top in range(0, height, size)
        for left in range(0, width, size)
    ]
    assert torch.equal(patches(images, size), torch.stack(expected, dim=1))
