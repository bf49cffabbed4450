"""Decoding a batch agrees with decoding each sentence alone, and stops at the end."""

import math

import pytest
import torch
from dimensions import D_MODEL, MAX_LEN, PAD, SRC_VOCAB, TGT_VOCAB
from parity import says
from random_inputs import make_generator, normal, random_ids, tiny_config, tiny_transformer
from torch import nn

from course_lib.data import pad_rows
from course_lib.decoding import argmax_tokens, greedy_decode, sample_decode, sample_tokens

BOS, EOS = 1, 2
SPECIAL = dict(bos_id=BOS, eos_id=EOS)


class Scripted(nn.Module):
    """A model that writes a scripted line for each source, which its first id identifies.

    Padding always has the highest score, so the decoding function has to exclude it.
    """

    def __init__(self, script):
        super().__init__()
        self.config = tiny_config()
        self.script = script
        self.encoded, self.read, self.modes, self.grad = [], [], [], []

    def encode(self, src):
        self.encoded.append(src)
        return src.unsqueeze(-1).double()

    def decode(self, tgt, memory, src):
        assert torch.equal(memory, src.unsqueeze(-1).double())
        self.read.append(tgt.clone())
        self.modes.append(self.training)
        self.grad.append(torch.is_grad_enabled())
        logits = torch.zeros(*tgt.shape, TGT_VOCAB)
        logits[:, :, PAD] = 2.0
        for row, first in enumerate(src[:, 0].tolist()):
            for position, token in enumerate(self.script[first][: tgt.size(1)]):
                logits[row, position, token] = 1.0
        return logits


def decode_by_hand(model, sentence, limit=MAX_LEN):
    """Decode one sentence, with the whole model for every token and a loop instead of argmax."""
    tgt = [BOS]
    while len(tgt) <= limit:
        scores = model(torch.tensor([sentence]), torch.tensor([tgt]))[0, -1].tolist()
        tgt.append(max((v for v in range(TGT_VOCAB) if v != PAD), key=lambda v: scores[v]))
        if tgt[-1] == EOS:
            break
    return tgt[1:]


def biased(model, token, amount):
    """Make a model prefer one token more than before."""
    output = nn.Linear(D_MODEL, TGT_VOCAB, dtype=torch.float64)
    with torch.no_grad():
        output.weight.copy_(model.output.weight)
        output.bias.zero_()
        output.bias[token] = amount
    model.output = output
    return model


def some_model(generator):
    """Draw a model for which some rows end and some do not."""
    model = biased(tiny_transformer(), EOS, amount=1.5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * normal(generator, *parameter.shape))
    return model


# --- the loop by hand


@pytest.mark.parametrize("use_cache", [True, False])
def test_a_batch_is_decoded_like_its_sentences_one_by_one(use_cache):
    ended = set()
    for seed in range(12):
        generator = make_generator(seed)
        model, rows = some_model(generator), 1 + seed % 4
        lengths = torch.randint(1, MAX_LEN + 1, (rows,), generator=generator).tolist()
        sentences = [random_ids(generator, SRC_VOCAB, length).tolist() for length in lengths]
        alone = [decode_by_hand(model, sentence) for sentence in sentences]
        padding = torch.full((rows, min(seed % 3, MAX_LEN - max(lengths))), PAD)
        src = torch.cat([pad_rows(sentences, PAD), padding], dim=1)
        written = greedy_decode(model, src, **SPECIAL, use_cache=use_cache)
        assert written.dtype == torch.long
        assert written.tolist() == pad_rows(alone, PAD).tolist()
        ended |= {EOS in line for line in alone}
    assert ended == {True, False}


def test_decoding_stops_when_every_row_has_ended():
    model = Scripted({4: [7, EOS, 9, 9, 9], 5: [8, 6, EOS, 9, 9]})
    src = torch.tensor([[4, 7, 7, 7], [5, 7, 7, PAD]])
    written = greedy_decode(model, src, **SPECIAL, use_cache=False)
    assert written.tolist() == [[7, EOS, PAD], [8, 6, EOS]]
    assert len(model.read) == 3  # one pass per token, and none after the end
    assert model.read[-1].tolist() == [[BOS, 8, 6]]  # bos is read, but finished rows are not
    assert len(model.encoded) == 1 and torch.equal(model.encoded[0], src)


# --- limits


@pytest.mark.parametrize("limit", [1, 4, MAX_LEN, None], ids=str)
def test_no_more_tokens_are_written_than_requested_or_than_the_model_supports(limit):
    model = Scripted({4: [7] * (MAX_LEN + 1), 5: [8, 6, EOS] + [9] * MAX_LEN})
    how = dict(max_new_tokens=limit, use_cache=False)
    written = greedy_decode(model, torch.tensor([[4], [5]]), **SPECIAL, **how)
    most = limit or MAX_LEN
    assert written.tolist() == [[7] * most, ([8, 6, EOS] + [PAD] * MAX_LEN)[:most]]


# --- side effects


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("decode", [greedy_decode, sample_decode])
def test_decoding_uses_eval_mode_without_gradients_and_restores_the_mode(decode, training):
    model = Scripted({4: [7, EOS]}).train(training)
    src = torch.tensor([[4]])
    decode(model, src, **SPECIAL, max_new_tokens=3, use_cache=False)
    assert not any(model.modes) and not any(model.grad) and len(model.encoded) == 1
    model.script = {}  # the next call raises an error halfway
    with pytest.raises(KeyError):
        decode(model, src, **SPECIAL, use_cache=False)
    assert model.training is training and torch.is_grad_enabled() and src.tolist() == [[4]]


# --- sampling: frequencies against probabilities, within five standard deviations

DRAWS = 20_000


def by_hand(last, temperature=1.0, top_k=None, top_p=None):
    """Compute the probability of each token in a loop."""
    weights = {v: math.exp(x / temperature) for v, x in enumerate(last.tolist()) if v != PAD}
    ranked = sorted(weights, key=weights.get, reverse=True)[:top_k]
    whole, kept, reached = sum(weights[v] for v in ranked), [], 0.0
    for v in ranked:
        if top_p is not None and reached >= top_p:
            break
        kept.append(v)
        reached += weights[v] / whole
    rest = sum(weights[v] for v in kept)
    return torch.tensor([weights[v] / rest if v in kept else 0.0 for v in range(len(last))])


HOW = [
    {},
    dict(temperature=3.0),
    dict(top_k=3),
    dict(top_k=TGT_VOCAB + 5),
    dict(top_p=0.6),
    dict(temperature=0.7, top_k=6, top_p=0.8),
]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_tokens_are_sampled_with_their_probabilities(how):
    generator = make_generator(5)
    kinds = 1.5 * normal(generator, 2, TGT_VOCAB)  # two kinds of rows, side by side
    kinds[:, PAD] = -math.inf
    logits = kinds.repeat(DRAWS, 1)  # (2 · DRAWS, V)
    tokens = sample_tokens(logits, generator=generator, **how)
    for kind in range(2):
        probs = by_hand(kinds[kind], **how)
        found = tokens[kind::2].bincount(minlength=TGT_VOCAB) / DRAWS
        assert (found[probs == 0] == 0).all()
        assert ((found - probs).abs() <= 5 * (probs * (1 - probs) / DRAWS).sqrt() + 1e-9).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_tokens_are_sampled_in_float32_whatever_the_type_of_the_logits(dtype):
    logits = torch.full((4000, 3000), -20.0, dtype=dtype)  # the tail has 3,000 · e^-20 in all
    logits[:, 7] = 0.0
    tokens = sample_tokens(logits, top_p=1.0, generator=make_generator(1))
    assert (tokens == 7).float().mean() > 0.99
    rare = sample_tokens(torch.zeros(4000, 3000, dtype=dtype), generator=make_generator(1))
    assert rare.max() > 2900 and rare.unique().numel() > 2000  # 16-bit sums would stop early


@pytest.mark.parametrize(
    ("row", "how"),
    [([0.0, math.nan, 1.0], {}), ([-math.inf] * 3, {}), ([0.0, 2.0, 1.0], dict(temperature=1e-42))],
    ids=["nan", "nothing possible", "overflow in float32"],
)
def test_logits_that_leave_no_probabilities_are_rejected(row, how):
    logits = torch.tensor([[0.0, 1.0, 2.0], row])
    with pytest.raises(ValueError, match=says("temperature=", "no token can be sampled")):
        sample_tokens(logits, **how)


def test_greedy_is_sampling_at_a_temperature_near_zero(generator):
    logits = normal(generator, 50, TGT_VOCAB)
    expected, before = argmax_tokens(logits), logits.clone()
    assert torch.equal(expected, torch.tensor([row.index(max(row)) for row in logits.tolist()]))
    for how in (dict(temperature=1e-4), dict(top_k=1), dict(top_p=1e-6)):
        assert torch.equal(sample_tokens(logits, **how), expected)
    assert torch.equal(logits, before)
