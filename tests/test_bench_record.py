"""What the bench measured is kept part by part, and the picture is drawn from it."""

import json
import math
import runpy
import sys
from pathlib import Path

import bench
import bench_record
import pytest

TOOLS = Path(bench.__file__).parent


@pytest.fixture
def parts(monkeypatch):
    """Put parts in place of the real ones that only note that they ran."""
    ran = []
    for name in bench.PARTS:
        rows = [{"name": name, "seconds": 1.5}, {"name": "ü", "seconds": 2.0}]
        monkeypatch.setitem(bench.PARTS, name, lambda n=name, r=rows: ran.append(n) or r)
    monkeypatch.setattr(bench, "draw", lambda path: f"drawn from {path.name}")
    return ran


@pytest.fixture
def path(tmp_path):
    """Name a record that is not there yet."""
    return tmp_path / "benchmarks" / "bench.json"


def read(path):
    """Read a record."""
    return json.loads(path.read_text(encoding="utf-8"))


# --- the record


def test_all_parts_run_in_order_and_the_longest_last(parts, path, monkeypatch, capsys):
    monkeypatch.setattr(bench.measure, "__defaults__", (path,))
    assert bench.main([]) == 0
    assert parts == list(bench.PARTS) == [entry["part"] for entry in read(path)]
    assert parts[-1] == "tests"
    printed = capsys.readouterr().out
    assert "== tests, all that `make test` runs: about ten minutes" in printed
    assert "torch" in printed.splitlines()[0], "the machine"
    assert printed.count("s; drawn from bench.json") == len(bench.PARTS)


def test_parts_replace_their_own_rows_and_one_that_fails_replaces_none(parts, path, monkeypatch):
    monkeypatch.setattr(bench_record, "describe_machine", lambda device: "old")
    bench.measure(["gpt", "attention", "tests"], path)
    monkeypatch.setattr(bench_record, "describe_machine", lambda device: "new")
    monkeypatch.setitem(bench.PARTS, "attention", lambda: [{"name": "changed"}])
    monkeypatch.setitem(bench.PARTS, "gpt", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bench.measure(["widgets", "gpt", "attention"], path)
    assert parts == ["attention", "gpt", "tests", "widgets"]
    found = [(entry["part"], entry["machine"]) for entry in read(path)]
    assert found == [("widgets", "new"), ("attention", "new"), ("gpt", "old"), ("tests", "old")]
    assert [row["name"] for entry in read(path) for row in entry["rows"]] == [
        *("widgets", "ü", "changed", "gpt", "ü", "tests", "ü")]  # fmt: skip


def test_each_row_has_a_line_and_what_is_no_number_is_refused(path):
    rows = [{"name": "a", "ratio": 1.0}, {"name": "b", "ratio": 2.0}]
    bench_record.keep("gpt", rows, ["gpt"], path)
    text = path.read_text(encoding="utf-8")
    assert [line.strip(" ,") for line in text.splitlines()[2:4]] == [json.dumps(r) for r in rows]
    with pytest.raises(ValueError):
        bench_record.keep("gpt", [{"ratio": math.nan}], ["gpt"], path)
    assert path.read_text(encoding="utf-8") == text
    assert [file.name for file in path.parent.iterdir()] == ["bench.json"]


def test_the_command_of_the_readme_finds_all_that_it_imports(monkeypatch, capsys):
    tools = str(TOOLS.parent / "tools")  # which pytest adds, and the command must add itself
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != tools])
    monkeypatch.delitem(sys.modules, "run_tests")
    monkeypatch.setattr(sys, "argv", ["bench.py", "nothing"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(TOOLS / "bench.py"), run_name="__main__")
    assert "there is no part 'nothing'" in capsys.readouterr().err


# --- the seconds of `make test`


def test_the_seconds_of_the_tests_are_kept_by_part_unless_some_failed(monkeypatch, capsys):
    found = {"style": 1.234, "chapters": 500.0, "all": 450.04}, (7, 0, 1), []
    monkeypatch.setattr(bench, "run_all", lambda: found)
    style, chapters, whole = bench.bench_tests()
    assert style == {"table": "make test", "name": "style", "seconds": 1.2}
    assert (chapters["seconds"], whole["seconds"], whole["passed"]) == (500, 450.0, 7)
    assert "style 1, chapters 500, all 450" in capsys.readouterr().out
    monkeypatch.setattr(bench, "run_all", lambda: ({"style": 1.0}, (1, 2, 0), ["style"]))
    with pytest.raises(RuntimeError, match="style"):
        bench.bench_tests()


# --- the picture


def test_the_picture_lies_in_figures_and_waits_for_its_parts(path):
    entries = json.loads(bench_record.RECORD.read_text(encoding="utf-8"))
    picture = path.parents[1] / "figures" / "benchmark_charts.svg"
    path.parent.mkdir(parents=True)
    path.write_text(bench_record.written(entries[:2]), encoding="utf-8")
    assert bench_record.draw(path) == "no picture yet: the record has no part training, decoding"
    assert not picture.exists()
    path.write_text(bench_record.written(entries), encoding="utf-8")
    assert bench_record.draw(path) == "drawn anew: benchmark_charts.svg"
    assert picture.read_text(encoding="utf-8") == bench_record.picture().drawn(entries)
