"""The bench of the roofline counts what it says, and gives each moment of a step to one part."""

import bench_roofline as bench
import bench_training
import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from course_lib.add_norm import AddNorm
from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention

TINY = {"base": (16, 2, 24, 1, 3)}
HEAVY = torch.ones(700, 700)  # a product of it takes far longer than a step of the tiny model


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Make all of it small."""
    for room in (bench, bench_training):
        for name, value in dict(SIZES=TINY, VOCAB=40, LENGTH=6).items():
            monkeypatch.setattr(room, name, value)
    small = dict(ROUNDS=2, WORK=1e3, COPIED=1e3, SQUARES=(8, 16), SAMPLES=1)
    for name, value in dict(small, COPIES={"large": 4096, "small": 64}).items():
        monkeypatch.setattr(bench, name, value)


def test_a_rate_counts_every_repetition(monkeypatch):
    done = []
    monkeypatch.setattr(bench, "in_turns", lambda acts, rounds: [
        tuple(act() or seconds for act in acts) for seconds in (2.0, 1.0, 4.0)[:rounds]
    ])  # fmt: skip
    monkeypatch.setattr(bench, "ROUNDS", 3)
    acts = {"often": lambda: done.append("often"), "once": lambda: done.append("once")}
    rows = bench.rates("table", acts, {"often": 2e9, "once": 9e9}, work=8e9)
    assert done == ["often", "often", "often", "often", "once"] * 4  # the first to warm up
    rates = {row["name"]: row["rate"] for row in rows}
    assert rates["often"] == {"median": 4.0, "min": 2.0, "max": 8.0}  # 8e9 in 2, 1 and 4 seconds
    assert rates["once"] == {"median": 4.5, "min": 2.25, "max": 9.0}


def test_products_are_those_of_their_names(monkeypatch):
    found = {}

    def note(table, acts, amounts, work):
        """Keep what would be timed, and how much work that is."""
        for name, act in acts.items():
            (left, right), out = act.args, act.keywords["out"]
            act()
            torch.testing.assert_close(out, left @ right)
            found[name] = (*left.shape, right.size(-1), amounts[name])
        return [{"name": name, "table": table} for name in acts]

    monkeypatch.setattr(bench, "rates", note)
    monkeypatch.setattr(bench, "show", lambda *what: None)
    rows = bench.bench_products()
    assert found["square, 8"] == (1, 8, 8, 8, 2 * 8**3)
    assert found["base: feed-forward, up"] == (1, 18, 16, 24, 2 * 18 * 16 * 24)
    assert found["base: output layer"] == (1, 18, 16, 40, 2 * 18 * 16 * 40)
    assert found["base: scores of all heads"] == (6, 6, 8, 6, 2 * 6 * 6 * 8 * 6)
    assert rows[0]["flops_per_byte"] == round(2 * 8**3 / (4 * 3 * 8**2), 1)


def test_copies_count_what_is_read_and_what_is_written(monkeypatch):
    found = {}
    monkeypatch.setattr(bench, "show", lambda *what: None)
    monkeypatch.setattr(bench, "rates", lambda table, acts, amounts, work: found.update(
        {name: (act.args[0].nbytes, act().nbytes, amounts[name]) for name, act in acts.items()}
    ) or [{"name": name} for name in acts])  # fmt: skip
    bench.bench_copies()
    assert found == {"large": (4096, 4096, 8192), "small": (64, 64, 128)}


def test_all_is_printed_and_returned(capsys):
    threads = torch.get_num_threads()
    rows = bench.bench_roofline()
    printed = capsys.readouterr().out
    assert torch.get_num_threads() == threads
    tables = [row["table"] for row in rows]
    assert tables == ["matrix products, GFLOP/s"] * 7 + ["copies, read and written, GB/s"] * 2 + [
        "training step, GFLOP/s"] * 2  # fmt: skip
    best = max(row["rate"]["median"] for row in rows[:7])
    for row in rows[-2:]:
        assert row["percent"] == pytest.approx(100 * row["rate"]["median"] / best, abs=0.06)
        assert sum(row["shares"].values()) == pytest.approx(1, abs=1e-3)
        assert list(row["shares"]) == [*bench.NAMES, bench.REST]
        assert all(share > 0 for share in row["shares"].values())
        assert row["name"] in printed
    for name in (*bench.NAMES, bench.REST):
        assert f"\n{name} " in printed


def test_a_step_counts_three_times_its_way_forward(monkeypatch):
    amounts = {}
    monkeypatch.setattr(bench, "rates", lambda table, acts, counts, work: amounts.update(counts) or
                        [{"name": name, "table": table, "rate": dict(median=1.0, min=1.0, max=1.0),
                          "rounds": 1} for name in acts])  # fmt: skip
    bench.bench_model("base", 2.0)
    layer = 4 * 6 * 16 * 16 + 2 * 6 * 6 * 16  # projections, scores and blend of an attention
    forward = 2 * (3 * layer + 2 * 2 * 6 * 16 * 24 + 6 * 16 * 40)
    assert set(amounts.values()) == {3 * 3 * forward}  # three sentences


class Slow(torch.autograd.Function):
    """Change nothing, and take long on the way back."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, slope):
        slow()
        return slope


def slow():
    """Take long."""
    for _ in range(5):
        HEAVY @ HEAVY


def wrapped(module, *, there):
    """Let a module take long on the way there, or on the way back."""
    forward = module.forward

    def other(*args, **more):
        """Take long before, or keep what takes long afterwards."""
        if there:
            slow()
        answer = forward(*args, **more)
        if there:
            return answer
        return (Slow.apply(answer[0]), None) if isinstance(answer, tuple) else Slow.apply(answer)

    module.forward = other


PLACES = {
    "projections": lambda model: model.decoder.layers[0].cross_attn.w_k,
    "attention": lambda model: first(model, MultiHeadAttention),
    "feed-forward": lambda model: first(model, FeedForward),
    "add and norm": lambda model: first(model, AddNorm),
    "dropout": lambda model: first(model.encoder.layers[0], nn.Dropout),
    "loss and output layer": lambda model: model.output,
    "rest": lambda model: model.tgt_embedding,
}


def first(model, kind):
    """Return the first module of a kind."""
    return next(module for module in model.modules() if isinstance(module, kind))


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("part", PLACES)
def test_what_takes_long_is_found_in_its_part_on_both_ways(part, there):
    model = bench.our_model("base")
    wrapped(PLACES[part](model), there=there)
    step = bench.stepper(bench.marked(model), fused=True)
    src, tgt = bench.full_batch("base")
    found = bench.shares(lambda: step(src, tgt))
    assert max(found, key=found.get) == part and found[part] > 0.5


def test_an_optimizer_that_takes_long_is_found():
    step = bench.stepper(bench.marked(bench.our_model("base")), fused=True)
    src, tgt = bench.full_batch("base")
    hook = register_optimizer_step_pre_hook(lambda *_: slow())
    try:
        found = bench.shares(lambda: step(src, tgt))
    finally:
        hook.remove()
    assert max(found, key=found.get) == "optimizer" and found["optimizer"] > 0.5


def test_marks_change_no_loss():
    src, tgt = bench.full_batch("base")
    losses = []
    for mark in (lambda model: model, bench.marked):
        step = bench.stepper(mark(bench.our_model("base")), fused=True, chunks=True)
        torch.manual_seed(0)
        losses.append([step(src, tgt) for _ in range(3)])
    assert losses[0] == losses[1]
