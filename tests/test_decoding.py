"""Decoding: a batch is its sentences one by one, it stops at the end, and leaves no trace."""

import pytest
import torch
from comparison import (
    D_MODEL,
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
    seeded,
    tiny_config,
    tiny_transformer,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from course_lib.decoding import greedy_decode, next_tokens

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
            for place, token in enumerate(self.script[first][: tgt.size(1)]):
                logits[row, place, token] = 1.0
        return logits


def decode_by_hand(model, sentence, limit=MAX_LEN):
    """Write one sentence: the whole model again for every token, and a loop in place of argmax."""
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


def test_rows_hold_padding_only_after_their_end():
    model = Scripted({4: [7, 8, EOS, 9, 9, 9], 5: [EOS, 6, 6, 6, 6, 6], 6: [9, 8, 7, 6, EOS, 5]})
    written = greedy_decode(model, torch.tensor([[4, 7], [5, PAD], [6, 8]]), **SPECIAL)
    assert written.tolist() == [
        [7, 8, EOS, PAD, PAD],
        [EOS, PAD, PAD, PAD, PAD],
        [9, 8, 7, 6, EOS],
    ]


def test_decoding_stops_when_every_row_has_ended():
    model = Scripted({4: [7, EOS, 9, 9, 9], 5: [8, 6, EOS, 9, 9]})
    src = torch.tensor([[4, 7, 7, 7], [5, 7, 7, PAD]])
    assert greedy_decode(model, src, **SPECIAL).shape == (2, 3)
    assert len(model.read) == 3  # one pass a token, and none after the end
    assert len(model.encoded) == 1 and torch.equal(model.encoded[0], src)


def test_the_model_reads_bos_and_then_its_own_words():
    model = Scripted({4: [7, 8, 9, EOS]})
    written = greedy_decode(model, torch.tensor([[4, 5]]), **SPECIAL)
    assert [tgt.tolist() for tgt in model.read] == [
        [[BOS]],
        [[BOS, 7]],
        [[BOS, 7, 8]],
        [[BOS, 7, 8, 9]],
    ]
    assert written.tolist() == [[7, 8, 9, EOS]]  # bos was read, not written


def test_padding_is_never_written_before_the_end(generator):
    model = biased(tiny_transformer(), PAD, amount=100.0)
    src = random_ids(generator, SRC_VOCAB, B, S)
    assert model(src, torch.full((B, 1), BOS)).argmax(dim=-1).eq(PAD).all()  # it would like to
    written = greedy_decode(model, src, **SPECIAL)
    for row, sentence in zip(written.tolist(), src.tolist(), strict=True):
        own = row[: row.index(EOS) + 1] if EOS in row else row
        assert PAD not in own
        assert own == decode_by_hand(model, sentence)


# --- next_tokens


def test_the_likeliest_token_of_the_last_position_is_chosen(generator):
    logits = normal(generator, B, T, TGT_VOCAB)
    logits[0, -1, 6] = logits[1, -1, PAD] = 50.0  # the second row would like padding
    logits[1, -1, 8] = 40.0
    logits[:, 0, 9] = 60.0  # an earlier position
    before = logits.clone()
    assert next_tokens(logits, torch.tensor([False, False]), PAD).tolist() == [6, 8]
    assert next_tokens(logits, torch.tensor([True, False]), PAD).tolist() == [PAD, 8]
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


@pytest.mark.parametrize(
    ("bos_id", "eos_id"),
    [(BOS, BOS), (PAD, EOS), (BOS, PAD), (BOS, TGT_VOCAB), (-1, EOS)],
)
def test_special_tokens_that_cannot_be_told_apart_are_explained(bos_id, eos_id):
    model = tiny_transformer()
    with pytest.raises(ValueError, match=says(f"{bos_id=}", f"{eos_id=}", f"pad_id={PAD}")):
        greedy_decode(model, torch.tensor([[4]]), bos_id=bos_id, eos_id=eos_id)
    assert model.training


def test_one_token_in_and_one_token_out():
    model = Scripted({4: [EOS]})
    assert greedy_decode(model, torch.tensor([[4]]), **SPECIAL).tolist() == [[EOS]]


# --- no trace


@pytest.mark.parametrize("training", [True, False])
def test_the_model_predicts_in_eval_mode_and_gets_its_mode_back(training):
    model = Scripted({4: [7, EOS]}).train(training)
    greedy_decode(model, torch.tensor([[4]]), **SPECIAL)
    assert model.modes == [False, False]
    assert model.training is training


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("src", [[[SRC_VOCAB]], [[4] * (MAX_LEN + 1)], [[]]])
def test_the_mode_comes_back_even_when_the_source_is_refused(training, src):
    model = tiny_transformer().train(training)
    with pytest.raises(ValueError, match="source"):
        greedy_decode(model, torch.tensor(src, dtype=torch.long), **SPECIAL)
    assert all(module.training is training for module in model.modules())


def test_the_mode_comes_back_even_when_the_model_fails_on_its_way():
    model = Scripted({4: [7, 8, EOS]})
    model.script = {}
    with pytest.raises(KeyError):
        greedy_decode(model, torch.tensor([[4]]), **SPECIAL)
    assert model.training


def test_no_gradients_are_kept():
    model = Scripted({4: [7, EOS]})
    greedy_decode(model, torch.tensor([[4]]), **SPECIAL)
    assert model.grad == [False, False]
    assert torch.is_grad_enabled()


def test_dropout_does_not_guess(generator):
    model, sure = tiny_transformer(dropout=0.5), tiny_transformer()
    src = random_ids(generator, SRC_VOCAB, B, S)
    expected = greedy_decode(sure, src, **SPECIAL)
    for seed in range(3):
        with seeded(seed):
            assert torch.equal(greedy_decode(model, src, **SPECIAL), expected)


def test_the_source_is_left_alone(generator):
    src = random_ids(generator, SRC_VOCAB, B, S)
    before = src.clone()
    greedy_decode(tiny_transformer(), src, **SPECIAL)
    assert torch.equal(src, before)
