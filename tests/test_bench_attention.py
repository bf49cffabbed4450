"""What times and weighs is fair, and the bench of attention compares one mathematics."""

import bench_attention as bench
import pytest
import timing
import torch
from timing import can_compile, cells, compared, in_turns, kept_bytes, spread
from torch import nn

from course_lib.tasks.numbers import one_thread


@pytest.fixture(autouse=True)
def no_compiler(monkeypatch):
    """Compile nothing, unless a test asks for it; and that without a C++ compiler."""
    monkeypatch.setattr(bench, "can_compile", lambda: False)
    monkeypatch.setattr(bench, "BACKEND", "eager")


def test_acts_are_timed_by_turns_and_none_is_always_first():
    order = []
    acts = [lambda name=name: order.append(name) for name in "abc"]
    found = in_turns(acts, rounds=3, times=2)
    assert "".join(order) == "aabbcc" + "ccbbaa" + "aabbcc"
    assert [len(spent) for spent in found] == [3, 3, 3]


def test_every_act_gets_its_own_time():
    slow = lambda: sum(range(300_000))  # noqa: E731
    for spent in in_turns([slow, lambda: None], rounds=2):
        assert spent[0] > spent[1] >= 0


def test_kept_memory_counts_each_storage_once_and_no_parameter():
    model, x = nn.Linear(4, 3, bias=False), torch.ones(5, 4, requires_grad=True)
    assert kept_bytes(model, lambda: model(x).relu().sum()) == (5 * 4 + 5 * 3) * 4  # x, relu's
    assert kept_bytes(model, lambda: (model(x) + model(x)).sum()) == 5 * 4 * 4


def test_a_row_holds_medians_and_the_range_of_the_ratio():
    row = compared("table", "name", (1.0, 2.0, 4.0), (3.0, 2.0, 10.0), length=7)
    assert row == {
        "table": "table",
        "name": "name",
        "seconds": {"median": 2.0, "min": 1.0, "max": 4.0},
        "ratio": {"median": 2.5, "min": 1.0, "max": 3.0},
        "rounds": 3,
        "length": 7,
    }
    assert cells(row).split() == ["2.0000", "2.50", "1.00", "3.00"]


def test_numbers_are_kept_to_five_digits():
    assert spread([1 / 3, 200 / 3, 2e6 / 3]) == {"median": 66.667, "min": 0.33333, "max": 666670}


def test_one_thread_computes_and_afterwards_as_many_as_before():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyError), one_thread():
            assert torch.get_num_threads() == 1
            raise KeyError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)


def test_without_a_compiler_it_is_said(monkeypatch, capsys):
    def refuse():
        raise timing.InvalidCxxCompiler

    monkeypatch.setattr(timing, "get_cpp_compiler", refuse)
    assert not can_compile()
    assert "no C++ compiler" in capsys.readouterr().out
    monkeypatch.setattr(timing, "get_cpp_compiler", lambda: "g++")
    assert can_compile()


@pytest.fixture
def short(monkeypatch):
    """Make the lengths short and the rounds few."""
    monkeypatch.setattr(bench, "LENGTHS", (5, 9))
    monkeypatch.setattr(bench, "ROUNDS", 2)


@pytest.mark.parametrize("compiler", [False, True])
def test_what_is_printed_is_what_is_returned(compiler, short, capsys, monkeypatch):
    monkeypatch.setattr(bench, "can_compile", lambda: compiler)
    threads = torch.get_num_threads()
    rows = bench.bench_attention()
    printed = capsys.readouterr().out.splitlines()
    assert torch.get_num_threads() == threads
    lines = [line for line in printed if line and not line.startswith("attention, length")]
    assert len(lines) == len(rows) == 2 * (8 + compiler)
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(row["name"])
        assert line.removeprefix(row["name"]).split()[1] == f"{row['ratio']['median']:.2f}"
        assert line.split()[-2:] == [f"{row['kept_mib']:.1f}", "2"]
    assert [row["length"] for row in rows] == [5] * (8 + compiler) + [9] * (8 + compiler)
    assert (bench.COMPILED in [row["name"] for row in rows]) == compiler
    assert sum("length 5" in line or "length 9" in line for line in printed) == 2


@pytest.mark.parametrize("name", ["heads in a loop", "past only, is_causal, fused", bench.COMPILED])
def test_ways_that_differ_are_not_compared(name, monkeypatch):
    monkeypatch.setattr(bench, "can_compile", lambda: True)
    found, _ = bench.ways(6)
    bench.agree(found, torch.randn(2, 6, bench.WIDTH))
    found[name] = lambda x: x
    with pytest.raises(RuntimeError, match=f"{name}: not the same"):
        bench.agree(found, torch.randn(2, 6, bench.WIDTH))


def test_the_bench_looks_before_it_compares(short, monkeypatch):
    monkeypatch.setattr(bench, "at_once", lambda q, k, v, mask=None: v)
    with pytest.raises(RuntimeError, match="all heads at once: not the same"):
        bench.bench_attention()


def test_weights_are_kept_where_they_are_made():
    found, holders = bench.ways(128)
    x = torch.randn(2, 128, bench.WIDTH, requires_grad=True)
    kept = {name: kept_bytes(holders, lambda way=way: way(x)) for name, way in found.items()}
    rows = 2 * bench.HEADS * 128
    weights, one_number = rows * 128 * 4, rows * 4  # bytes: of all, and of one for each row
    assert kept["all heads at once"] - weights == kept["the fused kernel"] - one_number
