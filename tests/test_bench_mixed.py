"""The bench of mixed lengths counts real tokens only, and gives both sides all pairs."""

import bench_mixed as bench
import bench_training
import pytest
import torch


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Make the models small, and the batches few."""
    for name, value in dict(SIZES={"tiny": (16, 2, 24, 1, 3)}, VOCAB=40).items():
        monkeypatch.setattr(bench_training, name, value)
    for name, value in dict(VOCAB=40, ROUNDS=3, BATCHES=1).items():
        monkeypatch.setattr(bench, name, value)


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


def test_each_side_counts_the_tokens_of_its_own_batches(monkeypatch):
    monkeypatch.setattr(bench, "PAIRS", 100)
    monkeypatch.setattr(bench, "TOKENS", 400)
    monkeypatch.setattr(bench, "said", lambda size, speeds: (size, speeds))
    monkeypatch.setattr(bench, "in_turns", lambda acts, rounds: [
        tuple(act() or 2.0 for act in acts) for _ in range(rounds)])  # fmt: skip
    counted = []
    monkeypatch.setattr(bench, "real_tokens", lambda src, tgt, really=bench.real_tokens: (
        counted.append(really(src, tgt)) or counted[-1]))  # fmt: skip
    ((size, speeds),) = bench.bench_mixed("tiny")
    assert size == "tiny"
    first, *rest = zip(counted[::2], counted[1::2], strict=True)  # the first round warms up
    assert speeds == {
        "torch": [tokens / 2.0 for tokens, _ in rest],
        "ours": [tokens / 2.0 for _, tokens in rest],
    }
    assert len(rest) == 3 and first not in rest


def test_the_row_holds_what_is_printed(capsys):
    row = bench.said("tiny", {"torch": [100.0, 200.0, 100.0], "ours": [500.0, 400.0, 300.0]})
    assert row["ratio"] == {"median": 3.0, "min": 2.0, "max": 5.0}
    assert row["ours"]["median"] == 400 and row["torch"]["median"] == 100
    assert row["rounds"] == 3 and row["name"] == "tiny"
    assert "torch 100, ours 400; 3.00 (2.00 to 5.00), goal 3.0" in capsys.readouterr().out
