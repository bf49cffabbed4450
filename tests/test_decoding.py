"""Decoding: a batch is its sentences one by one, it stops at the end, and leaves no trace."""

import math
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    D_MODEL,
    EXACT,
    MAX_LEN,
    PAD,
    SRC_VOCAB,
    TGT_VOCAB,
    B,
    S,
    T,
    make_generator,
    normal,
    random_ids,
    says,
    tiny_config,
    tiny_transformer,
)
from torch import nn
from torch.testing import assert_close

from course_lib.decoding import (
    Rereader,
    argmax_tokens,
    beam_search,
    greedy_decode,
    length_penalty,
    sample_decode,
    sample_tokens,
)

BOS, EOS = 1, 2
SPECIAL = dict(bos_id=BOS, eos_id=EOS)


class Scripted(nn.Module):
    """Write to each source, known by its first id, the line that a script gives it.

    Padding has the highest score of all, always: it must be refused by the one who decodes.
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
    """Write one sentence: the whole model for every token, and a loop in place of argmax."""
    tgt = [BOS]
    while len(tgt) <= limit:
        scores = model(torch.tensor([sentence]), torch.tensor([tgt]))[0, -1].tolist()
        tgt.append(max((v for v in range(TGT_VOCAB) if v != PAD), key=lambda v: scores[v]))
        if tgt[-1] == EOS:
            break
    return tgt[1:]


def side_by_side(rows):
    """Fill rows of ids with padding up to the longest."""
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


def biased(model, token, amount):
    """Make a model like one token more than it did."""
    output = nn.Linear(D_MODEL, TGT_VOCAB, dtype=torch.float64)
    with torch.no_grad():
        output.weight.copy_(model.output.weight)
        output.bias.zero_()
        output.bias[token] = amount
    model.output = output
    return model


def some_model(generator):
    """Draw a model of which some rows end, and some do not."""
    model = biased(tiny_transformer(), EOS, amount=1.5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * normal(generator, *parameter.shape))
    return model


# --- the loop by hand


@given(
    seed=st.integers(0, 999),
    lengths=st.lists(st.integers(1, MAX_LEN), min_size=1, max_size=4),
    padding=st.integers(0, 2),
)
def test_a_batch_says_what_its_sentences_say_alone(seed, lengths, padding):
    generator = make_generator(seed)
    model = some_model(generator)
    sentences = [random_ids(generator, SRC_VOCAB, length).tolist() for length in lengths]
    alone = [decode_by_hand(model, sentence) for sentence in sentences]
    src = side_by_side(sentences)
    padding = min(padding, MAX_LEN - src.size(1))
    src = torch.cat([src, torch.full((len(lengths), padding), PAD)], dim=1)
    written = greedy_decode(model, src, **SPECIAL)
    assert written.dtype == torch.long
    assert written.tolist() == side_by_side(alone).tolist()


def test_the_models_of_the_property_above_do_end_and_do_not_end():
    lengths = set()
    for seed in range(12):
        generator = make_generator(seed)
        ids = greedy_decode(
            some_model(generator), random_ids(generator, SRC_VOCAB, 1, S), **SPECIAL
        )
        lengths.add(ids.size(1) if EOS in ids else None)
    assert None in lengths and len(lengths) > 3


def test_decoding_stops_when_every_row_has_ended():
    model = Scripted({4: [7, EOS, 9, 9, 9], 5: [8, 6, EOS, 9, 9]})
    src = torch.tensor([[4, 7, 7, 7], [5, 7, 7, PAD]])
    assert greedy_decode(model, src, **SPECIAL).tolist() == [[7, EOS, PAD], [8, 6, EOS]]
    assert len(model.read) == 3  # one pass a token, and none after the end
    assert model.read[-1].tolist() == [[BOS, 7, EOS], [BOS, 8, 6]]  # bos is read, not written
    assert len(model.encoded) == 1 and torch.equal(model.encoded[0], src)


def test_padding_is_never_written_before_the_end(generator):
    model = biased(tiny_transformer(), PAD, amount=100.0)
    src = random_ids(generator, SRC_VOCAB, B, S)
    assert model(src, torch.full((B, 1), BOS)).argmax(dim=-1).eq(PAD).all()  # it would like to
    written = greedy_decode(model, src, **SPECIAL)
    for row, sentence in zip(written.tolist(), src.tolist(), strict=True):
        own = row[: row.index(EOS) + 1] if EOS in row else row
        assert PAD not in own
        assert own == decode_by_hand(model, sentence)


# --- argmax_tokens


def test_the_likeliest_token_of_the_last_position_is_chosen(generator):
    logits = normal(generator, B, T, TGT_VOCAB)
    logits[0, -1, 6] = logits[1, -1, PAD] = 50.0  # the second row would like padding
    logits[1, -1, 8] = 40.0
    logits[:, 0, 9] = 60.0  # an earlier position
    before = logits.clone()
    assert argmax_tokens(logits, torch.tensor([False, False]), PAD).tolist() == [6, 8]
    assert argmax_tokens(logits, torch.tensor([True, False]), PAD).tolist() == [PAD, 8]
    assert torch.equal(logits, before)


# --- limits


@pytest.mark.parametrize("limit", [1, 4, MAX_LEN])
def test_no_more_tokens_are_written_than_asked(limit):
    model = Scripted({4: [7] * MAX_LEN, 5: [8, 6, EOS] + [9] * MAX_LEN})
    written = greedy_decode(model, torch.tensor([[4], [5]]), **SPECIAL, max_new_tokens=limit)
    assert written.tolist() == [[7] * limit, ([8, 6, EOS] + [PAD] * MAX_LEN)[:limit]]


def test_the_models_max_len_is_the_limit_unless_given():
    model = biased(tiny_transformer(), EOS, amount=-100.0)  # a real one, that never ends
    assert greedy_decode(model, torch.tensor([[4, 5]]), **SPECIAL).shape == (1, MAX_LEN)


@pytest.mark.parametrize("limit", [0, -1, MAX_LEN + 1])
def test_an_impossible_limit_is_explained(limit):
    model = tiny_transformer()
    with pytest.raises(ValueError, match=says(f"={limit}", f"max_len={MAX_LEN}")):
        greedy_decode(model, torch.tensor([[4]]), **SPECIAL, max_new_tokens=limit)
    assert model.training


# --- no trace


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("decode", [greedy_decode, beam_search])
def test_the_model_predicts_in_eval_mode_without_gradients_and_gets_its_mode_back(decode, training):
    model = Scripted({4: [7, EOS]}).train(training)
    src = torch.tensor([[4]])
    decode(model, src, **SPECIAL, max_new_tokens=3)
    assert not any(model.modes) and not any(model.grad) and len(model.encoded) == 1
    model.script = {}  # the next call fails on its way
    with pytest.raises(KeyError):
        decode(model, src, **SPECIAL)
    assert model.training is training and torch.is_grad_enabled() and src.tolist() == [[4]]


# --- Rereader, and what is exchanged


class Forgetful(Rereader):
    """Return the logits of the last position only."""

    def __call__(self, tgt):
        return super().__call__(tgt)[:, -1:]


def test_a_rereader_scores_as_the_model_does_and_keeps_rows(generator):
    model = tiny_transformer().eval()
    src = side_by_side([random_ids(generator, SRC_VOCAB, n).tolist() for n in (5, 2, 4)])
    tgt = random_ids(generator, TGT_VOCAB, 3, T)
    score = Rereader(model, src)
    assert_close(score(tgt), model(src, tgt), **EXACT)
    for order in ([2, 0, 1], [1, 1, 0, 2], [3, 0]):
        rows = torch.tensor(order)
        src = src[rows]
        score.reorder(rows)
        tgt = random_ids(generator, TGT_VOCAB, len(order), T)
        assert_close(score(tgt), model(src, tgt), **EXACT)


def test_scorer_and_choose_can_be_exchanged(generator):
    model = some_model(generator)
    src = random_ids(generator, SRC_VOCAB, B, S)
    expected = greedy_decode(model, src, **SPECIAL)
    assert torch.equal(greedy_decode(model, src, **SPECIAL, scorer=Forgetful), expected)

    def always_eight(logits, ended, pad_id):
        assert logits.shape[::2] == (B, TGT_VOCAB) and pad_id == PAD
        return torch.full((B,), 8).masked_fill(ended, pad_id)

    written = greedy_decode(model, src, **SPECIAL, choose=always_eight)
    assert written.tolist() == [[8] * MAX_LEN] * B


# --- sampling: frequencies against probabilities, within five standard deviations

DRAWS = 20_000


def by_hand(last, temperature=1.0, top_k=None, top_p=None):
    """Compute, in a loop over tokens, with which probability each should come."""
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
    dict(temperature=0.5),
    dict(temperature=3.0),
    dict(top_k=3),
    dict(top_k=TGT_VOCAB + 5),
    dict(top_p=0.6),
    dict(top_k=4, top_p=0.7),
    dict(temperature=0.7, top_k=6, top_p=0.8),
]


@pytest.mark.parametrize("how", HOW, ids=str)
def test_tokens_come_as_often_as_their_probabilities_say(how):
    generator = make_generator(5)
    kinds = 1.5 * normal(generator, 2, TGT_VOCAB)  # two kinds of rows, side by side
    kinds[:, PAD] = 4.0
    logits = kinds.repeat(DRAWS, 1).unsqueeze(1)  # (2 · DRAWS, 1, V)
    going = torch.zeros(2 * DRAWS, dtype=torch.bool)
    tokens = sample_tokens(logits, going, PAD, generator=generator, **how)
    for kind in range(2):
        probs = by_hand(kinds[kind], **how)
        found = tokens[kind::2].bincount(minlength=TGT_VOCAB) / DRAWS
        assert (found[probs == 0] == 0).all()
        assert ((found - probs).abs() <= 5 * (probs * (1 - probs) / DRAWS).sqrt() + 1e-9).all()


def test_greedy_is_sampling_at_a_temperature_near_zero(generator):
    logits = normal(generator, 50, T, TGT_VOCAB)
    ended = torch.arange(50) % 4 == 0
    expected, before = argmax_tokens(logits, ended, PAD), logits.clone()
    for how in (dict(temperature=1e-4), dict(top_k=1), dict(top_p=1e-6)):
        assert torch.equal(sample_tokens(logits, ended, PAD, **how), expected)
    assert torch.equal(logits, before)


@pytest.mark.parametrize(
    "how",
    [
        dict(temperature=0.0),
        dict(top_k=0),
        dict(top_p=0.0),
        dict(top_p=1.1),
    ],
    ids=str,
)
def test_an_impossible_way_to_draw_is_explained(how, generator):
    ((name, value),) = how.items()
    with pytest.raises(ValueError, match=says(f"{name}={value}")):
        sample_tokens(normal(generator, B, T, TGT_VOCAB), torch.tensor([False] * B), PAD, **how)
    model = tiny_transformer()
    with pytest.raises(ValueError, match=name):
        sample_decode(model, torch.tensor([[4]]), **SPECIAL, **how)
    assert model.training


@pytest.mark.parametrize("how", [dict(temperature=2.0, top_k=5), dict(top_p=0.9)], ids=str)
def test_sampled_sentences_end_and_padding_of_the_source_changes_nothing(how, generator):
    model = some_model(generator)
    src = side_by_side([random_ids(generator, SRC_VOCAB, n).tolist() for n in (3, 1, 4)])
    wide = torch.cat([src, torch.full((3, 2), PAD)], dim=1)
    first, again, padded, other = (
        sample_decode(model, ids, **SPECIAL, generator=make_generator(seed), **how)
        for ids, seed in ((src, 1), (src, 1), (wide, 1), (src, 2))
    )
    assert torch.equal(first, again) and torch.equal(first, padded)
    assert not (first.shape == other.shape and torch.equal(first, other))
    for row in first.tolist():
        end = row.index(EOS) if EOS in row else len(row)
        assert PAD not in row[:end] and set(row[end + 1 :]) <= {PAD}


# --- beams


def test_the_penalty_of_the_paper():
    # (5 + 7) / 6 = 2, (5 + 19) / 6 = 4
    penalty = length_penalty(torch.tensor([1, 7, 19]), 0.5)
    assert_close(penalty, torch.tensor([1.0, 2**0.5, 2.0]))
    assert torch.equal(length_penalty(torch.tensor([3.0, 30.0]), 0.0), torch.ones(2))


def everything(model, sentence, limit, alpha):
    """Score all that can be written, up to a limit: score and sentence, best first."""
    words = [v for v in range(TGT_VOCAB_SMALL) if v not in (PAD, EOS)]
    written = [(*body, EOS) for n in range(limit) for body in product(words, repeat=n)]
    written += list(product(words, repeat=limit))
    found = []
    for length in range(1, limit + 1):
        lines = [line for line in written if len(line) == length]
        tgt = torch.tensor([[BOS, *line] for line in lines])
        src = torch.tensor([sentence]).expand(len(lines), -1)
        log_probs = model(src, tgt[:, :-1]).log_softmax(dim=-1)
        totals = log_probs.gather(2, tgt[:, 1:, None]).sum(dim=(1, 2))
        scores = (totals / ((5 + length) / 6) ** alpha).tolist()
        found += zip(scores, lines, strict=True)
    return sorted(found, reverse=True)


TGT_VOCAB_SMALL = 6


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_a_search_of_full_width_finds_what_a_list_of_everything_finds(alpha, generator):
    model = tiny_transformer(tgt_vocab_size=TGT_VOCAB_SMALL).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    sentences = [random_ids(generator, SRC_VOCAB, n).tolist() for n in (5, 2)]
    src, K, limit = side_by_side(sentences), TGT_VOCAB_SMALL**3, 4
    with torch.no_grad():
        expected = [everything(model, one, limit, alpha)[:K] for one in sentences]
    how = dict(beam_size=K, alpha=alpha, max_new_tokens=limit, scorer=Forgetful)
    ids, scores = beam_search(model, src, **SPECIAL, **how)
    assert scores.dtype == torch.float64
    for row, best in enumerate(expected):
        assert ids[row, 0][ids[row, 0] != PAD].tolist() == list(best[0][1])
        assert abs(scores[row, 0].item() - best[0][0]) < 1e-10
        by_score = dict((line, score) for score, line in best)
        for beam, score in zip(ids[row, :20].tolist(), scores[row, :20].tolist(), strict=True):
            line = tuple(v for v in beam if v != PAD)
            assert abs(by_score[line] - score) < 1e-10


@given(seed=st.integers(0, 999), lengths=st.lists(st.integers(1, MAX_LEN), min_size=1, max_size=3))
def test_one_beam_is_greedy_decoding(seed, lengths):
    generator = make_generator(seed)
    model = some_model(generator)
    src = side_by_side([random_ids(generator, SRC_VOCAB, length).tolist() for length in lengths])
    ids, scores = beam_search(model, src, **SPECIAL, beam_size=1)
    assert torch.equal(ids[:, 0], greedy_decode(model, src, **SPECIAL))
    assert ids.shape[:2] == scores.shape == (len(lengths), 1)


@given(
    seed=st.integers(0, 999),
    K=st.integers(2, 5),
    lengths=st.lists(st.integers(1, 6), min_size=2, max_size=3),
    alpha=st.sampled_from([0.0, 0.6, 1.5]),
)
def test_a_batch_of_beams_is_its_sentences_alone(seed, K, lengths, alpha):
    generator = make_generator(seed)
    model, how = some_model(generator), dict(beam_size=K, alpha=alpha)
    sentences = [random_ids(generator, SRC_VOCAB, length).tolist() for length in lengths]
    ids, scores = beam_search(model, side_by_side(sentences), **SPECIAL, **how)
    assert (scores[:, :-1] >= scores[:, 1:]).all()
    for row, sentence in enumerate(sentences):
        alone, its_scores = beam_search(model, torch.tensor([sentence]), **SPECIAL, **how)
        beams = [tuple(v for v in beam if v != PAD) for beam in ids[row].tolist()]
        assert beams == [tuple(v for v in beam if v != PAD) for beam in alone[0].tolist()]
        assert len(set(beams)) == K  # no beam is another's copy
        assert_close(scores[row], its_scores[0], **EXACT)


def test_two_beams_find_what_greedy_decoding_cannot():
    # 6 or 7 after bos: 0.6 and 0.4; the end after 6: 0.4, after 7: 0.9
    class Chain(Scripted):
        def decode(self, tgt, memory, src):
            table = torch.full((TGT_VOCAB, TGT_VOCAB), 1e-9)
            table[BOS, 6], table[BOS, 7] = 0.6, 0.4
            table[6, EOS], table[6, 6], table[6, 7] = 0.4, 0.3, 0.3
            table[7, EOS], table[7, 6] = 0.9, 0.1
            return table[tgt].log()

    model, src = Chain({}), torch.tensor([[4, 5]])
    assert greedy_decode(model, src, **SPECIAL).tolist() == [[6, EOS]]
    ids, scores = beam_search(model, src, **SPECIAL, beam_size=2, alpha=0.0)
    assert ids[0, :, :2].tolist() == [[7, EOS], [6, EOS]]
    assert_close(scores.exp(), torch.tensor([[0.36, 0.24]]))


def test_fewer_sentences_than_beams_score_minus_infinity():
    model = tiny_transformer(tgt_vocab_size=5)
    ids, scores = beam_search(
        model, torch.tensor([[4, 5]]), **SPECIAL, beam_size=20, max_new_tokens=1
    )
    assert ids.shape == (1, 20, 1)
    assert scores.isfinite().sum() == 4 and scores[0, 4:].isneginf().all()  # all but padding


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (dict(beam_size=0), "beam_size=0"),
        (dict(max_new_tokens=MAX_LEN + 1), f"={MAX_LEN + 1}"),
    ],
    ids=str,
)
def test_an_impossible_search_is_explained(how, words):
    model = tiny_transformer()
    with pytest.raises(ValueError, match=says(words)):
        beam_search(model, torch.tensor([[4]]), **(SPECIAL | how))
    assert model.training
