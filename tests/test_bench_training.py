"""The bench of training compares the same model, step and tokens, and counts what it says."""

import re

import bench_training as bench
import pytest
import torch
from torch.testing import assert_close

from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention

TINY = {"tiny": (16, 2, 24, 2, 3)}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Make the models and the vocabulary small."""
    monkeypatch.setattr(bench, "SIZES", TINY)
    monkeypatch.setattr(bench, "VOCAB", 40)
    monkeypatch.setattr(bench, "LENGTH", 6)


@pytest.fixture
def padded():
    """Draw a batch with padding on both sides."""
    src, tgt = bench.full_batch("tiny")
    src[0, 4:], tgt[1, 3:] = bench.PAD, bench.PAD
    return src, tgt


def test_torchs_model_is_the_same_gradients_included(padded):
    ours = bench.our_model("tiny", dropout=0.0)
    theirs = bench.TorchModel(ours)
    losses = [bench.loss_of(model, *padded) for model in (ours, theirs)]
    assert_close(*losses)
    for loss in losses:
        loss.backward()
    assert_close(ours.tgt_embedding.weight.grad, theirs.embedding.weight.grad)
    mine = ours.encoder.layers[1].feed_forward.linear1.weight.grad
    assert_close(mine, theirs.transformer.encoder.layers[1].linear1.weight.grad)


@pytest.mark.parametrize("as_torch", [False, True])
def test_dropout_stands_in_the_papers_places_or_in_all_of_torchs(as_torch):
    found = {MultiHeadAttention: set(), FeedForward: set()}
    for module in bench.our_model("tiny", as_torch=as_torch).modules():
        if isinstance(module, MultiHeadAttention):
            found[MultiHeadAttention].add(module.dropout)
        elif isinstance(module, FeedForward):
            found[FeedForward].add(module.dropout.p)
    assert set.union(*found.values()) == {0.1 if as_torch else 0.0}


def test_every_way_takes_the_same_steps(padded, monkeypatch):
    monkeypatch.setattr(bench, "bfloat16_pays", lambda: True)
    monkeypatch.setattr(bench, "our_model", lambda size, really=bench.our_model, **how: really(
        size, **how | {"dropout": 0.0}))  # fmt: skip
    losses = {name: [step(*padded) for _ in range(4)] for name, step in bench.ways("tiny").items()}
    assert len(losses) == 5
    first = losses.pop("torch.nn.Transformer")
    assert first[-1] < first[0]
    for name, found in losses.items():
        assert found == pytest.approx(first, rel=2e-2 if name == "bfloat16" else 1e-4), name


def test_where_bfloat16_does_not_pay_it_is_no_way(monkeypatch):
    monkeypatch.setattr(bench, "bfloat16_pays", lambda: False)
    assert "bfloat16" not in bench.ways("tiny")


def test_sentences_are_of_mixed_length_and_pairs_alike():
    rows = bench.mixed_pairs()
    lengths = torch.tensor([(len(source), len(target) - 2) for source, target in rows]).double()
    assert lengths.min() >= bench.SHORTEST and lengths.max() <= bench.LONGEST
    assert lengths.median() == bench.MEDIAN
    assert torch.corrcoef(lengths.T)[0, 1] > 0.6


def test_both_take_all_pairs_and_only_real_tokens_count(monkeypatch):
    monkeypatch.setattr(bench, "PAIRS", 2 * bench.USUAL_BATCH)
    rows = bench.mixed_pairs()
    whole = sum(len(source) + len(target) - 1 for source, target in rows)
    usual = bench.usual_batches(rows)
    assert sum(bench.real_tokens(*next(usual)) for _ in range(2)) == whole
    ours, seen = bench.our_batches(rows), 0
    while seen < whole:
        src, tgt = next(ours)
        seen += bench.real_tokens(src, tgt)
        assert src.numel() + tgt[:, 1:].numel() <= bench.TOKENS
    assert seen == whole


def test_all_is_printed(monkeypatch, capsys):
    for name, value in dict(ROUNDS=2, PAIRS=100, BATCHES=1, TOKENS=400).items():
        monkeypatch.setattr(bench, name, value)
    threads = torch.get_num_threads()
    bench.bench_steps()
    bench.bench_mixed("tiny")
    printed = capsys.readouterr().out
    for said in ("torch.nn.Transformer", "like for like", "kept for the way back", "real tokens"):
        assert said in printed
    assert re.search(r"torch\.nn\.Transformer +\d\.\d{4} +1\.00 +1\.00 +1\.00 +2", printed)
    assert torch.get_num_threads() == threads


def test_models_that_are_not_the_same_are_not_compared(monkeypatch):
    monkeypatch.setattr(bench.TorchModel, "embed", lambda self, ids: 1.1 * self.embedding(ids))
    with pytest.raises(RuntimeError, match="not the same model"):
        bench.bench_steps()
