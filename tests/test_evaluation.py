"""Exact match, corpus scores and alignment error rates agree with computations by hand."""

import math
from fractions import Fraction

import pytest
import torch
from dimensions import PAD, TGT_VOCAB, B, T
from hypothesis import given
from hypothesis import strategies as st
from random_inputs import make_generator, normal, random_ids

from course_lib.evaluation import (
    alignment_error_rate,
    bits_per_byte,
    corpus_scores,
    exact_match,
    token_accuracy,
)

texts = st.lists(st.sampled_from(["eins", "zwei", "Eins", "eins ", "dreizehn", "drei", ""]))
links = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 4)))
sentences = st.lists(st.tuples(links, links), min_size=1, max_size=5)


def logits_for(ids: torch.Tensor, vocab_size: int = TGT_VOCAB) -> torch.Tensor:
    """Return noisy logits in which these ids have slightly the highest scores."""
    noise = normal(make_generator(), *ids.shape, vocab_size).clamp(-1, 1)
    return noise.scatter(-1, ids.unsqueeze(-1), 1.5)


@given(pairs=st.lists(st.tuples(texts.map(" ".join), texts.map(" ".join)), min_size=1))
def test_exact_match_is_counted_text_by_text(pairs):
    written, wanted = map(list, zip(*pairs, strict=True))
    right = 0
    for one, other in pairs:
        right += 1 if one == other else 0
    assert exact_match(written, wanted) == right / len(pairs)


def test_scores_agree_with_a_computation_by_hand():
    short = corpus_scores(["a b c d e"], ["a b c d e f g h"])
    sharp = corpus_scores(["A b c d e"], ["a b c d e"])
    assert short["bleu"] == pytest.approx(100 * math.exp(1 - 8 / 5))  # all right, but too short
    assert sharp["bleu"] == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert sharp["bleu_lower"] == pytest.approx(100) and 0 < sharp["chrf"] < 100


def test_tokens_are_counted_over_all_rows_without_padding(generator):
    right = random_ids(generator, TGT_VOCAB, B, T)
    targets = right.clone()
    targets[0, 1:] = PAD  # one real token, right
    targets[1, :2] = (right[1, :2] + 1) % TGT_VOCAB  # two of four are wrong
    targets[1, :2] += targets[1, :2] == PAD
    assert token_accuracy(logits_for(right), targets, PAD) == 3 / 5


def test_bits_are_those_of_all_real_tokens_divided_by_the_bytes_in_utf_8():
    logits = torch.zeros(2, 3, 4)  # each of 4 tokens costs 2 bits
    logits[1, 0, 1] = math.log(3)  # token 1 now has probability 3/6, and costs 1 bit
    targets = torch.tensor([[1, 2, 0], [1, PAD, PAD]])
    assert bits_per_byte(logits, targets, ["fünf", "a"], pad_id=PAD) == pytest.approx(7 / 6)


@given(pairs=sentences)
def test_it_is_one_minus_the_harmonic_mean_of_precision_and_recall(pairs):
    found, known = zip(*pairs, strict=True)
    mine, right = ([(n, *p) for n, x in enumerate(xs) for p in x] for xs in (found, known))
    if not mine and not right:
        return
    rate = alignment_error_rate(found, known)
    shared = sum(link in right for link in mine)
    if shared:
        precision, recall = Fraction(shared, len(mine)), Fraction(shared, len(right))
        assert rate == pytest.approx(float(1 - 2 / (1 / precision + 1 / recall)), abs=1e-12)
    else:
        assert rate == 1.0


def test_one_string_is_not_a_list_of_texts():
    for measure, texts in ((exact_match, (["e"], "e")), (corpus_scores, ("ab", "ab"))):
        with pytest.raises(ValueError, match="not one string"):
            measure(*texts)


def test_logits_of_nan_are_never_right():
    with pytest.raises(ValueError, match="nan"):
        token_accuracy(torch.full((1, 2, 3), math.nan), torch.zeros(1, 2).long(), 2)
