"""Evaluation: what is counted, out of how many; and the maps are those of the pass that wrote."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    EXACT,
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
    tiny_transformer,
)
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

from course_lib.data.number_words import draw_pairs
from course_lib.decoding import greedy_decode
from course_lib.evaluation import (
    alignment_error_rate,
    alignment_from_attention,
    exact_match,
    token_accuracy,
)

texts = st.lists(st.sampled_from(["eins", "zwei", "Eins", "eins ", "dreizehn", "drei", ""]))
links = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 4)))
sentences = st.lists(st.tuples(links, links), min_size=1, max_size=5)


def logits_for(ids: torch.Tensor, vocab_size: int = TGT_VOCAB) -> torch.Tensor:
    """Score these ids highest, by little and with noise below."""
    noise = normal(make_generator(), *ids.shape, vocab_size).clamp(-1, 1)
    return noise.scatter(-1, ids.unsqueeze(-1), 1.5)


# --- exact match


@given(pairs=st.lists(st.tuples(texts.map(" ".join), texts.map(" ".join)), min_size=1))
def test_the_share_is_counted_text_by_text(pairs):
    written, wanted = map(list, zip(*pairs, strict=True))
    right = 0
    for one, other in pairs:
        right += 1 if one == other else 0
    assert exact_match(written, wanted) == right / len(pairs)


def test_case_spaces_and_beginnings_do_not_count():
    assert exact_match(["Eins", " eins", "eins ", "ein", "einser"], ["eins"] * 5) == 0.0


@pytest.mark.parametrize(("one", "other"), [(["a"], ["a", "b"]), (["a", "b"], ["a"]), ([], [])])
def test_lists_that_cannot_be_compared_are_refused(one, other):
    with pytest.raises(ValueError, match=says(len(one), len(other))):
        exact_match(one, other)


# --- with the teacher


def test_tokens_are_counted_over_all_rows_together_and_padding_is_not(generator):
    right = random_ids(generator, TGT_VOCAB, B, T)
    targets = right.clone()
    targets[0, 1:] = PAD  # one real token, right
    targets[1, :2] = (right[1, :2] + 1) % TGT_VOCAB  # of four, two are wrong
    targets[1, :2] += targets[1, :2] == PAD
    assert token_accuracy(logits_for(right), targets, PAD) == 3 / 5


def test_guessed_padding_is_no_right_token():
    targets = torch.tensor([[4, PAD, PAD]])
    assert token_accuracy(logits_for(targets), targets, PAD) == 1.0
    assert token_accuracy(logits_for(torch.full((1, 3), PAD)), targets, PAD) == 0.0


@pytest.mark.parametrize("shape", [(B, T + 1), (1, T), (B, T, 1), (B,)])
def test_targets_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=says((B, T, TGT_VOCAB), shape)):
        token_accuracy(torch.zeros(B, T, TGT_VOCAB), torch.ones(shape, dtype=torch.long), PAD)


def test_padding_only_is_refused():
    with pytest.raises(ValueError, match="0 of them real"):
        token_accuracy(torch.zeros(B, T, TGT_VOCAB), torch.full((B, T), PAD), PAD)


# --- links


@given(seed=st.integers(0, 99), threshold=st.sampled_from([0.01, 0.1, 0.25, 0.5, 1.0]))
def test_links_are_the_weights_that_reach_the_threshold(seed, threshold):
    weights = normal(make_generator(seed), T, S).mul(2).softmax(dim=-1)
    found = alignment_from_attention(weights, threshold)
    for t in range(T):
        for s in range(S):
            assert ((t, s) in found) == (weights[t, s].item() >= threshold)
    assert all(type(index) is int for pair in found for index in pair)


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.01, float("nan")])
def test_a_threshold_that_means_nothing_is_refused(threshold):
    with pytest.raises(ValueError, match=says((T, S), threshold)):
        alignment_from_attention(torch.ones(T, S), threshold)


@pytest.mark.parametrize("shape", [(S,), (2, T, S)])
def test_what_is_no_table_is_refused(shape):
    with pytest.raises(ValueError, match=says(shape, 0.5)):
        alignment_from_attention(torch.ones(shape), 0.5)


# --- the alignment error rate


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


def test_long_sentences_weigh_more():
    diagonal = {(n, n) for n in range(3)}
    assert alignment_error_rate([{(0, 0)}, {(0, 0)}], [{(0, 0)}, diagonal]) == 1 - 4 / 6


NO_RATES = [([set()], []), ([], []), ([set()], [set()]), ([{(0, 0)}], [{(0, 0)}, {(1, 1)}])]


@pytest.mark.parametrize("found, known", NO_RATES)
def test_what_has_no_rate_is_refused(found, known):
    with pytest.raises(ValueError, match=says(len(found), len(known), "no rate")):
        alignment_error_rate(found, known)


# --- the maps of the pass that wrote


def test_one_masked_pass_over_what_was_written_has_the_maps_of_every_step(generator):
    model = tiny_transformer(num_decoder_layers=3).eval()
    src = random_ids(generator, SRC_VOCAB, 3, S)
    src[1, 3:] = PAD
    with torch.no_grad():
        written = greedy_decode(model, src, bos_id=1, eos_id=2, max_new_tokens=5)
        tgt = torch.cat([torch.ones(3, 1, dtype=torch.long), written[:, :-1]], dim=1)
        whole = model.attention_maps(src, tgt)["cross"]  # (N, B, H, T, S)
        assert whole[:, 1, :, :, 3:].abs().max() == 0
        for row in range(3):
            alone = src[row : row + 1, : int((src[row] != PAD).sum())]
            for step in range(int((written[row] != PAD).sum())):
                now = model.attention_maps(alone, tgt[row : row + 1, : step + 1])["cross"]
                mine = whole[:, row, :, step, : alone.size(1)]
                torch.testing.assert_close(now[:, 0, :, -1], mine, **EXACT)


# --- what the chapter says of sacrebleu


def test_perfect_german_numbers_have_no_run_of_four_words():
    right = [text for _, text in draw_pairs("test", 20)]
    assert not any(" " in text for text in right)
    assert BLEU().corpus_score(right, [right]).score == 0
    assert CHRF().corpus_score(right, [right]).score == pytest.approx(100)


def test_the_signature_names_version_case_and_tokenizer():
    bleu = BLEU(lowercase=True, tokenize="none")
    bleu.corpus_score(["a b c d"], [["a b c d"]])
    assert str(bleu.get_signature()).endswith("case:lc|eff:no|tok:none|smooth:exp|version:2.6.0")


def test_the_paired_bootstrap_says_the_same_every_time():
    right = [text for _, text in draw_pairs("test", 40)]
    worse = [text[:-3] if n % 3 else text for n, text in enumerate(right)]
    given = [("a", right), ("b", worse)], {"chrF": CHRF()}, [right]
    runs = [PairedTest(*given, test_type="bs", n_samples=200)()[1] for _ in range(2)]
    first, second = (table["chrF2"][1].p_value for table in runs)
    assert first == second < 0.01
