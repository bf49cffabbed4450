"""Each bench runs at a tiny size, compares what computes the same, and times both in turns."""

import json
import sys
from copy import deepcopy
from dataclasses import replace
from functools import partial

import bench_attention
import bench_decoding
import bench_generate
import bench_gpt
import bench_int8
import bench_mixed
import bench_roofline
import bench_training
import pytest
import torch
from timing import cells, compared, in_turns, kept_bytes, median_and_range
from torch import nn
from torch.testing import assert_close

from course_lib.data import draw_pairs
from course_lib.gpt import GPT
from course_lib.tasks.numbers import Numbers, TranslatorConfig

SIZE = {"base": (16, 2, 24, 1, 3)}
BENCHES = {
    bench_attention.bench_attention: dict(LENGTHS=(5, 9), ROUNDS=2, BACKEND="eager"),
    bench_decoding.bench_decoding: dict(
        SIZES=dict(d_model=16, num_heads=2, d_ff=24), LAYERS=1, VOCAB=40, SENTENCES=2, SOURCE=5,
        PAIRS={3: 2, 9: 1},
    ),
    bench_generate.bench_generate: dict(
        WIDTH=16, HEADS=2, LAYERS=1, VOCAB=40, SENTENCES=2, SOURCE=5, PROMPT=3, LENGTHS={4: 2},
    ),
    bench_gpt.bench_steps: dict(SIZES={(1, 2, 12, 16): (2, 1, 1.10)}),
    bench_gpt.bench_sampling: dict(SIZES={(1, 2, 12, 16): (2, 1, 1.10)}),
    partial(bench_mixed.bench_mixed, "base"): dict(VOCAB=40, ROUNDS=3, BATCHES=1, PAIRS=100),
    bench_roofline.bench_roofline: dict(
        SIZES=SIZE, VOCAB=40, LENGTH=6, ROUNDS=2, WORK=1e3, COPIED=1e3, SQUARES=(8, 16), SAMPLES=1,
        COPIES={"large": 4096, "small": 64},
    ),
    bench_training.bench_training: dict(
        SIZES=SIZE, VOCAB=40, LENGTH=6, ROUNDS=2, BACKEND="eager", NOT_COMPILED=()
    ),
}  # fmt: skip


def module_of(bench):
    """Return the module of a bench."""
    return globals()[getattr(bench, "func", bench).__module__]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Make every bench small, and compile without a compiler."""
    for bench, changes in BENCHES.items():
        for name, value in changes.items():
            monkeypatch.setattr(module_of(bench), name, value)
    for module in (bench_attention, bench_training):
        monkeypatch.setattr(module, "can_compile", lambda: True)
    for module in (bench_mixed, bench_training):
        monkeypatch.setattr(module, "bfloat16_pays", lambda: True)
    for bench in (bench_gpt.bench_steps, bench_gpt.bench_sampling):
        monkeypatch.setattr(bench, "__defaults__", (bench_gpt.SIZES,))


@pytest.mark.parametrize("bench", BENCHES, ids=lambda bench: getattr(bench, "__name__", "mixed"))
def test_a_bench_returns_rows_of_finite_numbers_and_prints_them(bench, capsys):
    threads = torch.get_num_threads()
    rows = bench()
    printed = capsys.readouterr().out
    assert torch.get_num_threads() == threads and rows
    for row in rows:
        assert json.dumps(row, allow_nan=False)
        assert row["name"] in printed or row["table"] in printed
        assert row.get("ratio") or row["rate"]


def doubled(function, *arguments, **options):
    """Return twice the answer of a function, or of its loss."""
    answer = function(*arguments, **options)
    return (answer[0], 2 * answer[1]) if isinstance(answer, tuple) else 2 * answer


@pytest.mark.parametrize(
    ("bench", "owner", "name"),
    [
        (bench_decoding.bench_decoding, bench_decoding, "write_again"),
        (bench_generate.bench_generate, bench_generate, "greedy_decode"),
        (bench_gpt.bench_steps, GPT, "forward"),
    ],
)
def test_what_does_not_compute_the_same_is_not_compared(bench, owner, name, monkeypatch):
    function = getattr(owner, name)
    monkeypatch.setattr(owner, name, lambda *args, **how: doubled(function, *args, **how))
    with pytest.raises(RuntimeError, match="not the same|0% of the tokens agree"):
        bench()


def test_torchs_models_are_ours_gradients_and_padding_included():
    src, tgt = bench_training.full_batch("base")
    src[0, 4:], tgt[1, 3:] = bench_training.PAD, bench_training.PAD
    ours = bench_training.our_model("base", dropout=0.0)
    theirs = bench_training.TorchModel(ours)
    losses = [bench_training.loss_of(model, src, tgt) for model in (ours, theirs)]
    gpt = bench_gpt.our_model((2, 3, 12, 8))
    torch_gpt = bench_gpt.TorchGPT(gpt)
    ids, targets = torch.randint(bench_gpt.VOCAB, (2, 4, 7))
    losses += [model(ids, targets)[1] for model in (gpt, torch_gpt)]
    for loss in losses:
        loss.backward()
    assert_close(losses[::2], losses[1::2])
    assert_close(ours.tgt_embedding.weight.grad, theirs.embedding.weight.grad)
    assert_close(gpt.embedding.weight.grad, torch_gpt.embedding.weight.grad)


def test_rounded_translators_are_scored_weighed_and_timed_beside_float32(monkeypatch):
    monkeypatch.setattr(bench_int8, "ROUNDS", 2)
    monkeypatch.setattr(bench_int8, "SENTENCES", 2)
    config = TranslatorConfig(**Numbers.sizes["smoke"])
    plain = Numbers(config).pipeline
    embedding = plain.model.tgt_embedding.weight.numel()
    torn = replace(plain, model=deepcopy(plain.model))
    torn.model.output.weight = nn.Parameter(torn.model.output.weight.flip(0))
    pairs = draw_pairs("test", 4)
    rows = bench_int8.measure({"float32": plain, "torn": torn}, pairs, real=False)
    assert (rows["float32"]["same"], rows["torn"]["same"]) == (1, 0)
    added = rows["torn"]["megabytes"] - rows["float32"]["megabytes"]
    assert added == pytest.approx(4 * embedding / 1e6, abs=0.02)
    assert rows["float32"]["alone"] == {"median": 1, "min": 1, "max": 1}
    assert json.dumps(rows, allow_nan=False)


def test_without_its_extra_it_is_said_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchao", None)
    with pytest.raises(SystemExit, match=r"constraints.txt -e \".\[int8\]"):
        bench_int8.rounded(nn.Linear(2, 2))


# --- how the time is taken


def test_acts_are_timed_in_turns_and_none_is_always_first():
    order = []
    acts = [lambda name=name: order.append(name) for name in "abc"]
    found = in_turns(acts, rounds=3, times=2)
    assert "".join(order) == "aabbcc" + "ccbbaa" + "aabbcc"
    assert [len(spent) for spent in found] == [3, 3, 3]


def test_a_row_holds_medians_and_the_range_of_the_ratio():
    row = compared("table", "name", (1.0, 2.0, 4.0), (3.0, 2.0, 10.0), length=7)
    assert row == {
        **dict(table="table", name="name", rounds=3, length=7),
        "seconds": dict(median=2.0, min=1.0, max=4.0),
        "ratio": dict(median=2.5, min=1.0, max=3.0),
    }
    assert cells(row).split() == ["2.0000", "2.50", "1.00", "3.00"]
    rounded = dict(median=66.667, min=0.33333, max=666670)
    assert median_and_range([1 / 3, 200 / 3, 2e6 / 3]) == rounded


def test_rates_count_every_repetition_and_the_tokens_of_both_sides(monkeypatch):
    seconds = lambda acts, rounds: [(2.0,), (1.0,), (4.0,)][:rounds]  # noqa: E731
    monkeypatch.setattr(bench_roofline, "in_turns", seconds)
    monkeypatch.setattr(bench_roofline, "ROUNDS", 3)
    (row,) = bench_roofline.rates("table", {"a": lambda: None}, {"a": 2e9}, work=8e9)
    assert row["rate"] == {"median": 4.0, "min": 2.0, "max": 8.0}  # 8e9 in 2, 1 and 4 seconds
    row = bench_decoding.row_of(10, "all", [(1.0, 4.0), (2.0, 4.0), (4.0, 4.0)])
    assert row["ours"] == {"median": 10.0, "min": 5.0, "max": 20.0}  # 2 sentences of 10 tokens
    assert row["torch"]["median"] == 5 and row["ratio"] == {"median": 2.0, "min": 1.0, "max": 4.0}
    row = bench_mixed.said("base", {"torch": [100.0, 200.0, 100.0], "ours": [500.0, 400.0, 300.0]})
    assert row["ratio"] == {"median": 3.0, "min": 2.0, "max": 5.0}
    row = bench_gpt.row_of("table", (1, 2), [(1.0, 3.0), (2.0, 2.0), (4.0, 10.0)], 10.0)
    assert row["milliseconds"]["median"] == 20
    assert row["ratio"] == {"median": 2.5, "min": 1.0, "max": 3.0}


def test_saved_memory_counts_each_storage_once_and_no_parameter():
    model, x = nn.Linear(4, 3, bias=False), torch.ones(5, 4, requires_grad=True)
    assert kept_bytes(model, lambda: model(x).relu().sum()) == (5 * 4 + 5 * 3) * 4  # x, relu's
    assert kept_bytes(model, lambda: (model(x) + model(x)).sum()) == 5 * 4 * 4
