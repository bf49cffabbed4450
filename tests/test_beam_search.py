"""Batched beam search agrees with a search over lists, sentence by sentence."""

import math
from itertools import product

import pytest
import torch
from dimensions import MAX_LEN, PAD, SRC_VOCAB
from parity import EXACT
from random_inputs import make_generator, random_ids, randomize, tiny_transformer
from test_decoding import BOS, EOS, SPECIAL, biased, some_model
from torch.testing import assert_close

from course_lib.beam_search import beam_search, length_penalty
from course_lib.data import pad_rows
from course_lib.decoding import greedy_decode, sample_decode


def search_by_lists(model, src, K, alpha, limit=MAX_LEN):
    """Search for one sentence with sorted lists, and score all prefixes again at every step."""
    beam, pool = [(0.0, [BOS])], []
    for length in range(1, limit + 1):
        lines = torch.tensor([line for _, line in beam])
        logits = model(src.expand(len(lines), -1), lines)[:, -1]
        grown = [
            (total + step, [*line, token])
            for (total, line), steps in zip(beam, logits.log_softmax(-1).tolist(), strict=True)
            for token, step in enumerate(steps) if token != PAD
        ]  # fmt: skip
        best = sorted(grown, reverse=True)[: 2 * K]
        penalty = ((5 + length) / 6) ** alpha
        pool += [(total / penalty, line) for total, line in best[:K] if line[-1] == EOS]
        pool = sorted(pool, reverse=True)[:K]
        beam = [one for one in best if one[1][-1] != EOS][:K]
        if len(pool) == K and beam[0][0] / ((5 + limit) / 6) ** alpha <= pool[-1][0]:
            break
    found = pool or [(total / ((5 + limit) / 6) ** alpha, line) for total, line in beam]
    return [(score, line[1:]) for score, line in found]


def as_lists(ids, scores):
    """Return the scores and unpadded ids of the sentences that were found for one source."""
    rows = zip(scores.tolist(), ids.tolist(), strict=True)
    return [(score, [v for v in row if v != PAD]) for score, row in rows if score > -1e9]


def compare(model, src, K, alpha, use_cache=True):
    """Compare a search with lists; count best sentences that ended or differ from greedy ones."""
    how = dict(beam_size=K, alpha=alpha, use_cache=use_cache)
    ids, scores = beam_search(model, src, **SPECIAL, **how)
    greedy = greedy_decode(model, src, **SPECIAL, use_cache=use_cache)
    ended = differ = 0
    for row, line in enumerate(src):
        expected = search_by_lists(model, line[line != PAD][None], K, alpha)
        found = as_lists(ids[row], scores[row])
        assert [line for _, line in found] == [line for _, line in expected]
        assert max(abs(a - b) for (a, _), (b, _) in zip(found, expected, strict=True)) < 1e-10
        ended += EOS in found[0][1]
        differ += found[0][1] != [v for v in greedy[row].tolist() if v != PAD]
    return ended, differ


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("alpha", [0.0, 0.6, 3.0])
@torch.no_grad()
def test_a_transformer_finds_what_a_search_over_lists_finds(alpha, use_cache):
    counts = []
    for seed in range(6):
        generator = make_generator(seed)
        sentences = [random_ids(generator, SRC_VOCAB, 1 + n % MAX_LEN).tolist() for n in range(6)]
        model = some_model(generator).eval()
        counts.append(compare(model, pad_rows(sentences, PAD), 1 + seed % 4, alpha, use_cache))
    assert 5 < sum(ended for ended, _ in counts) < 36 and sum(differ for _, differ in counts) > 3


@torch.no_grad()
def test_a_beam_that_is_wide_enough_finds_every_sentence_in_order():
    words = (BOS, 4, 5)  # together with eos and padding, the whole vocabulary of these models
    every = [[*line, EOS] for n in range(3) for line in product(words, repeat=n)]  # 13 sentences
    prefixes = pad_rows([[BOS, *line[:-1]] for line in every], PAD)
    tokens, lengths = pad_rows(every, PAD), torch.tensor([len(line) for line in every]).double()
    src = torch.tensor([[6, 7, 8], [9, 5, PAD]])
    for seed in range(30):
        model = biased(randomize(tiny_transformer(), seed), EOS, amount=1.0).eval()
        model.output.bias[[0, 6, 7, 8, 9]] = -torch.inf
        alpha = (0.0, 0.6, 2.0)[seed % 3]
        ids, scores = beam_search(
            model, src, **SPECIAL, beam_size=36, alpha=alpha, max_new_tokens=3
        )
        for row, line in enumerate(src):
            log_probs = model(line[line != PAD].expand(13, -1), prefixes).log_softmax(-1)
            steps = log_probs.gather(2, tokens.unsqueeze(2)).squeeze(2)
            totals = steps.masked_fill(tokens == PAD, 0.0).sum(dim=1) / ((5 + lengths) / 6) ** alpha
            best, order = totals.sort(descending=True)
            found = [line for _, line in as_lists(ids[row], scores[row])]
            assert found == [every[n] for n in order]
            assert_close(scores[row, :13], best, **EXACT)


def test_the_length_penalty_agrees_with_the_formula():
    # (5 + 7) / 6 = 2, (5 + 19) / 6 = 4
    penalty = length_penalty(torch.tensor([1, 7, 19]), 0.5)
    assert_close(penalty, torch.tensor([1.0, 2**0.5, 2.0]))
    assert torch.equal(length_penalty(torch.tensor([3.0, 30.0]), 0.0), torch.ones(2))


def test_unfinished_sentences_are_returned_where_none_finished(generator):
    model = biased(tiny_transformer(), EOS, amount=-100.0).eval()
    src = random_ids(generator, SRC_VOCAB, 2, 3)
    ids, scores = beam_search(model, src, **SPECIAL, beam_size=3, max_new_tokens=4)
    with torch.no_grad():
        for row, lines in enumerate(ids.tolist()):
            assert len({tuple(line) for line in lines}) == 3 and EOS not in sum(lines, [])
            for line, score in zip(lines, scores[row], strict=True):
                steps = model(src[[row]], torch.tensor([[BOS, *line[:-1]]]))[0].log_softmax(-1)
                total = steps[torch.arange(4), torch.tensor(line)].sum()
                assert_close(score, total / (9 / 6) ** 0.6, **EXACT)


@pytest.mark.parametrize("use_cache", [True, False])
def test_weights_that_are_nan_are_reported_and_not_decoded(use_cache):
    model, src = tiny_transformer().float().eval(), torch.tensor([[3, 4]])
    model.tgt_embedding.weight.data[BOS] = math.nan
    for decode in (beam_search, greedy_decode, sample_decode):
        with pytest.raises(ValueError, match="nan"):
            decode(model, src, **SPECIAL, use_cache=use_cache)


def test_a_penalty_that_leaves_no_score_is_refused():
    with pytest.raises(ValueError, match="alpha=500"):
        beam_search(tiny_transformer(), torch.tensor([[3, 4]]), **SPECIAL, alpha=500)
