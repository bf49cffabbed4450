"""The bench of training compares the same model and step, and says what it measured."""

import re

import bench_training as bench
import pytest
import torch
from torch.testing import assert_close

from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention

TINY = {"tiny": (16, 2, 24, 2, 3)}
FIVE = ["torch.nn.Transformer", "like for like", "dropout as the paper", "loss in chunks"]
FIVE.append("bfloat16")


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Make the models and the vocabulary small; compile nothing, unless a test asks for it."""
    for name, value in dict(SIZES=TINY, VOCAB=40, LENGTH=6, ROUNDS=2, BACKEND="eager").items():
        monkeypatch.setattr(bench, name, value)
    monkeypatch.setattr(bench, "bfloat16_pays", lambda: True)
    monkeypatch.setattr(bench, "can_compile", lambda: False)


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
    monkeypatch.setattr(bench, "can_compile", lambda: True)
    monkeypatch.setattr(bench, "our_model", lambda size, really=bench.our_model, **how: really(
        size, **how | {"dropout": 0.0}))  # fmt: skip
    losses = {name: [step(*padded) for _ in range(4)] for name, step in bench.ways("tiny").items()}
    assert list(losses) == [*FIVE, bench.COMPILED]
    first = losses.pop("torch.nn.Transformer")
    assert first[-1] < first[0]
    for name, found in losses.items():
        assert found == pytest.approx(first, rel=2e-2 if name == "bfloat16" else 1e-4), name


def test_each_way_adds_one_change(monkeypatch):
    monkeypatch.setattr(bench, "can_compile", lambda: True)
    monkeypatch.setattr(bench, "stepper", lambda model, **how: (model, how))
    found = bench.ways("tiny")
    names = [FIVE[0], FIVE[1], FIVE[2], bench.COMPILED, FIVE[3], FIVE[4]]
    changes = [set(), set(), {"fused"}, {"fused"}, {"fused", "chunks"}]
    changes.append({"fused", "chunks", "bfloat16"})
    assert [{key for key, value in found[name][1].items() if value} for name in names] == changes
    for name in names[1:]:
        drops = {m.dropout.p for m in found[name][0].modules() if isinstance(m, FeedForward)}
        assert drops == {0.1 if name == "like for like" else 0.0}, name
    compiled = [hasattr(found[name][0], "_orig_mod") for name in names]
    assert compiled == [name == bench.COMPILED for name in names]


def test_what_does_not_pay_or_cannot_be_is_no_way(monkeypatch):
    monkeypatch.setattr(bench, "bfloat16_pays", lambda: False)
    assert list(bench.ways("tiny")) == FIVE[:-1]
    monkeypatch.setattr(bench, "can_compile", lambda: True)
    assert list(bench.ways("tiny")) == [*FIVE[:-1], bench.COMPILED]
    monkeypatch.setattr(bench, "NOT_COMPILED", ("tiny",))
    assert list(bench.ways("tiny")) == FIVE[:-1]


def test_what_is_printed_is_what_is_returned(monkeypatch, capsys):
    monkeypatch.setattr(bench, "can_compile", lambda: True)
    threads = torch.get_num_threads()
    rows = bench.bench_training()
    printed = capsys.readouterr().out
    assert torch.get_num_threads() == threads
    assert [row["name"] for row in rows] == [*FIVE, bench.COMPILED]
    assert {row["table"] for row in rows} == {"training step, tiny"}
    for row in rows:
        said = re.search(rf"^{re.escape(row['name'])} +(\d\.\d{{4}}) +(\S+) .* 2$", printed, re.M)
        assert said[1] == f"{row['seconds']['median']:.4f}"
        assert said[2] == f"{row['ratio']['median']:.2f}"
    assert rows[0]["ratio"] == {"median": 1.0, "min": 1.0, "max": 1.0}
    assert [row.get("goal") for row in rows] == [None, 1.0, 1.15, None, 1.65, None]
    assert rows[-1]["compile_seconds"] >= 0 and "its first step took" in printed


def test_kept_memory_is_that_of_the_way_it_stands_beside(capsys):
    kept = [row.get("kept_mib") for row in bench.bench_training()]
    theirs, alike, ours = kept[:3]
    assert ours < alike and ours < theirs and kept[3:] == [None, None]
    said = f"{alike / theirs:.2f} like for like, {ours / theirs:.2f} with dropout as the paper"
    assert said in capsys.readouterr().out


def test_models_that_are_not_the_same_are_not_compared(monkeypatch):
    monkeypatch.setattr(bench.TorchModel, "embed", lambda self, ids: 1.1 * self.embedding(ids))
    with pytest.raises(RuntimeError, match="not the same model"):
        bench.bench_training()
