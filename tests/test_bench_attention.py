"""What times and weighs is fair, and the bench of attention compares one mathematics."""

import bench_attention as bench
import pytest
import torch
from gauge import in_turns, kept_bytes, ratio_cells
from torch import nn


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


def test_cells_hold_medians_and_the_range_of_the_ratio():
    cells = ratio_cells((1.0, 2.0, 4.0), (3.0, 2.0, 10.0)).split()
    assert cells == ["2.0000", "2.50", "1.00", "3.00"]


@pytest.fixture
def short(monkeypatch):
    """Make the lengths short and the rounds few."""
    monkeypatch.setattr(bench, "LENGTHS", (5, 9))
    monkeypatch.setattr(bench, "ROUNDS", 2)


def test_all_is_printed(short, capsys):
    threads = torch.get_num_threads()
    bench.bench_attention()
    printed = capsys.readouterr().out
    assert printed.count("torch.nn.MultiheadAttention") == printed.count("heads in a loop") == 2
    assert "length 5" in printed and "length 9" in printed
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("name", ["heads in a loop", "past only, is_causal, fused"])
def test_ways_that_differ_are_not_compared(name):
    found, _ = bench.ways(6)
    bench.agree(found, torch.randn(2, 6, bench.WIDTH))
    found[name] = lambda x: x
    with pytest.raises(RuntimeError, match=f"{name}: not the same"):
        bench.agree(found, torch.randn(2, 6, bench.WIDTH))


def test_weights_are_kept_where_they_are_made():
    found, holders = bench.ways(128)
    x = torch.randn(2, 128, bench.WIDTH, requires_grad=True)
    kept = {name: kept_bytes(holders, lambda way=way: way(x)) for name, way in found.items()}
    rows = 2 * bench.HEADS * 128
    weights, one_number = rows * 128 * 4, rows * 4  # bytes: of all, and of one for each row
    assert kept["all heads at once"] - weights == kept["the fused kernel"] - one_number
