"""The bench of decoding compares two that write the same, and says what it measured."""

import bench_decoding as bench
import pytest
import torch


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Make the model and what it writes small."""
    sizes = dict(d_model=16, num_heads=2, d_ff=24)
    small = dict(SIZES=sizes, LAYERS=1, VOCAB=40, SENTENCES=2, SOURCE=5, PAIRS={3: 2, 9: 1})
    for name, value in small.items():
        monkeypatch.setattr(bench, name, value)


def test_rows_hold_the_rates_of_both_and_their_ratio():
    row = bench.row_of(10, "all", [(1.0, 4.0), (2.0, 4.0), (4.0, 4.0)])
    assert row["ours"] == {"median": 10.0, "min": 5.0, "max": 20.0}  # 2 sentences of 10 tokens
    assert row["torch"]["median"] == 5 and row["ratio"] == {"median": 2.0, "min": 1.0, "max": 4.0}
    assert (row["new_tokens"], row["name"], row["rounds"]) == (10, "all", 3)
    assert bench.line(row).split() == ["10", "all", "10", "5", "2.0", "1.0", "4.0", "0", "3"]


def test_what_is_printed_is_what_is_returned(capsys):
    threads = torch.get_num_threads()
    rows = bench.bench_decoding()
    printed = capsys.readouterr().out.splitlines()
    assert printed[3:] == [bench.line(row) for row in rows]
    found = [(row["new_tokens"], row["name"], row["rounds"]) for row in rows]
    assert found == [(3, "all", 2), (3, "last", 2), (9, "all", 1), (9, "last", 1)]
    assert torch.get_num_threads() == threads


def test_models_that_write_otherwise_are_not_compared(monkeypatch):
    really = bench.write_again
    monkeypatch.setattr(bench, "write_again", lambda *how: really(*how) + 1)
    with pytest.raises(RuntimeError, match="0% of the tokens agree"):
        bench.bench_decoding()
