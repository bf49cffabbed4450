"""What the bench measured is kept part by part, and the picture is drawn from it."""

import json
import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import bench
import bench_record
import pytest
import test_figures

TOOLS = Path(bench.__file__).parent
READABLE = [
    test_figures.test_every_drawing_says_in_words_what_it_shows,
    test_figures.test_every_drawing_is_shown_at_the_size_it_is_drawn,
    test_figures.test_no_text_is_smaller_than_ten_points,
    test_figures.test_every_text_is_inside_and_none_lies_on_another,
]
STEPS = {"like for like": 1.03, "dropout as the paper": 1.15, "loss in chunks": 1.28,
         "bfloat16": 2.22, "dropout as the paper, compiled": 0.94}  # fmt: skip
ATTENTION = {"the fused kernel": 1.02, "all heads at once": 0.55, "heads in a loop": 0.5,
             "past only, is_causal, fused": 1.49, "the fused kernel, dropout": 0.39,
             "all heads at once, compiled": 0.7}  # fmt: skip
DECODING = {32: (5.1, 4.0), 256: (32.3, 21.5)}


def around(middle):
    """Make a ratio with a range."""
    return {"median": middle, "min": 0.9 * middle, "max": 1.2 * middle}


def record(steps=STEPS, attention=ATTENTION, decoding=DECODING):
    """Make a record as the bench writes it, with ratios of our own."""
    rows = {
        "widgets": [],
        "attention": [
            {"name": name, "length": length, "ratio": around(ratio ** (length / 2048))}
            for length in (128, 512, 2048)
            for name, ratio in attention.items()
        ],
        "training": [
            {"table": f"training step, {size}", "name": name, "ratio": around(ratio)}
            for size in ("small", "base")
            for name, ratio in {"torch.nn.Transformer": 1.0, **steps}.items()
            if size == "small" or "compiled" not in name
        ],
        "decoding": [
            {"name": name, "new_tokens": tokens, "ratio": around(ratio)}
            for tokens, pair in decoding.items()
            for name, ratio in zip(("all", "last"), pair, strict=True)
        ],
    }
    return [{"part": part, "machine": part, "rows": found} for part, found in rows.items()]


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
    assert "== tests, all that `make test` runs: about a quarter of an hour" in printed
    assert "torch" in printed.splitlines()[0], "the machine"
    assert printed.count("s; drawn from bench.json") == len(bench.PARTS)


def test_some_parts_replace_themselves_and_leave_the_others(parts, path, monkeypatch):
    monkeypatch.setattr(bench_record, "describe_machine", lambda device: "old")
    bench.measure(["gpt", "attention", "tests"], path)
    monkeypatch.setattr(bench_record, "describe_machine", lambda device: "new")
    monkeypatch.setitem(bench.PARTS, "gpt", lambda: [{"name": "changed"}])
    bench.measure(["widgets", "gpt", "gpt"], path)
    assert parts == ["attention", "gpt", "tests", "widgets"]
    found = [(entry["part"], entry["machine"]) for entry in read(path)]
    assert found == [("widgets", "new"), ("attention", "old"), ("gpt", "new"), ("tests", "old")]
    assert read(path)[1]["rows"] == [
        {"name": "attention", "seconds": 1.5}, {"name": "ü", "seconds": 2.0}]  # fmt: skip
    assert read(path)[2]["rows"] == [{"name": "changed"}]


def test_a_part_that_fails_takes_nothing_from_those_before_and_keeps_its_old_rows(
    parts, path, monkeypatch
):
    bench.measure(["mixed", "gpt"], path)
    before = read(path)
    monkeypatch.setitem(bench.PARTS, "attention", lambda: [{"name": "one"}])
    monkeypatch.setitem(bench.PARTS, "gpt", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        bench.measure(["attention", "gpt"], path)
    assert [entry["part"] for entry in read(path)] == ["attention", "mixed", "gpt"]
    assert read(path)[1:] == before


def test_each_row_has_a_line_and_what_is_no_number_is_refused(path):
    rows = [{"name": "a", "ratio": 1.0}, {"name": "b", "ratio": 2.0}]
    bench_record.keep("gpt", rows, ["gpt"], path)
    text = path.read_text(encoding="utf-8")
    assert [line.strip(" ,") for line in text.splitlines()[2:4]] == [json.dumps(r) for r in rows]
    with pytest.raises(ValueError):
        bench_record.keep("gpt", [{"ratio": math.nan}], ["gpt"], path)
    assert path.read_text(encoding="utf-8") == text
    assert [file.name for file in path.parent.iterdir()] == ["bench.json"]


def test_an_unknown_part_is_refused_before_anything_runs(parts, capsys):
    with pytest.raises(SystemExit) as stopped:
        bench.main(["gpt", "Training"])
    assert stopped.value.code == 2 and parts == []
    said = capsys.readouterr().err
    assert "'Training'" in said and ", ".join(bench.PARTS) in said


def test_a_part_that_is_run_alone_keeps_nothing():
    alone = [path for path in TOOLS.glob("bench_*.py") if path.stem != "bench_record"]
    assert {path.stem for path in alone} >= {f"bench_{part}" for part in bench.PARTS} - {
        "bench_tests"}  # fmt: skip
    for path in alone:
        source = path.read_text(encoding="utf-8")
        assert "__main__" in source and "bench_record" not in source, path.name


# --- the seconds of `make test`


def test_the_seconds_of_the_tests_are_kept_by_part(monkeypatch, capsys):
    found = {"style": 1.234, "chapters": 500.0, "all": 450.04}, (7, 0, 1), []
    monkeypatch.setattr(bench, "run_all", lambda: found)
    style, chapters, whole = bench.bench_tests()
    assert style == {"table": "make test", "name": "style", "seconds": 1.2}
    assert chapters["seconds"] == 500 and (whole["name"], whole["seconds"]) == ("all", 450.0)
    assert whole["passed"] == 7 and "style 1, chapters 500, all 450" in capsys.readouterr().out


def test_the_seconds_of_failing_tests_are_not_kept(monkeypatch):
    monkeypatch.setattr(bench, "run_all", lambda: ({"style": 1.0}, (1, 2, 0), ["style"]))
    with pytest.raises(RuntimeError, match="style"):
        bench.bench_tests()


# --- the picture


@pytest.fixture(scope="module")
def drawing():
    """Load what draws."""
    return bench_record.picture()


RECORDS = {
    "usual": record(),
    "far apart": record(
        {"like for like": 0.31, "dropout as the paper": 3.9, "loss in chunks": 0.2},
        {"the fused kernel": 9.0, "all heads at once": 0.03, "the fused kernel, dropout": 0.031},
        {32: (0.6, 0.5), 64: (400.0, 410.0)},
    ),
}


@pytest.mark.parametrize("name", RECORDS)
def test_every_picture_can_be_read(name, drawing, tmp_path):
    file = tmp_path / "benchmark_charts.svg"
    file.write_text(drawing.drawn(RECORDS[name]), encoding="utf-8")
    for check in READABLE:
        check(file)


def test_bars_are_as_long_as_their_ratios(drawing):
    root = ElementTree.fromstring(drawing.drawn(record()))
    bars = [rect for rect in root.iter(test_figures.SVG + "rect")][1:]
    texts = [text for text, _ in test_figures.placed(root)]
    one = next(float(text.get("x")) for text in texts if text.text == "1.0")
    lengths = [float(bar.get("width")) / (one - drawing.LEFT) for bar in bars]
    expected = [ratio for name, ratio in STEPS.items() for _ in range(2 - ("compiled" in name))]
    assert lengths == pytest.approx(expected, rel=1e-3)
    said = [text.text for text in texts]
    for name, ratio in STEPS.items():
        assert f"{ratio:.2f} small" in said and drawing.CHANGES[name] in said
        assert (f"{ratio:.2f} base" in said) == ("compiled" not in name)


def test_lines_lie_where_their_ratios_are(drawing):
    points = {128: around(0.5), 512: around(1.0), 2048: around(2.0)}
    line = drawing.Line(("words", "#000000", ""), points)
    scale = drawing._scale([line], 100.0)
    assert scale.x(512) - scale.x(128) == pytest.approx(scale.x(2048) - scale.x(512))
    assert scale.y(0.5) - scale.y(1) == pytest.approx(scale.y(1) - scale.y(2))
    assert (scale.y(scale.roof), scale.y(scale.floor)) == (100, 100 + drawing.TALL)
    ends = [f"{scale.x(x):g},{round(scale.y(points[x]['median']), 2):g}" for x in points]
    assert f'points="{" ".join(ends)}"' in "".join(drawing._curve(line, scale))


def test_the_title_says_the_extremes_and_the_foot_the_machines_of_what_is_drawn(drawing):
    entries = record({**STEPS, "like for like": 1.3, "bfloat16": 4.0})
    for row in entries[2]["rows"]:
        if (row["table"], row["name"]) == ("training step, base", "like for like"):
            row["ratio"] = around(0.99)  # the slower one is not passed over
    title = drawing.drawn(entries).split("<title>")[1].split("</title>")[0]
    assert "0.99 to 1.30 times as fast" in title and "4.0 in training, 32 in decoding" in title
    machines = {"widgets": "one", "attention": "two & three", "training": "two & three"}
    for entry in entries:
        entry["machine"] = machines.get(entry["part"], "four")
    drawn = drawing.drawn(entries)
    assert ">one<" not in drawn and drawn.count(">two &amp; three<") == drawn.count(">four<") == 1


def test_the_picture_lies_in_figures_and_waits_for_its_parts(path, drawing):
    entries, picture = record(), path.parents[1] / "figures" / "benchmark_charts.svg"
    path.parent.mkdir(parents=True)
    path.write_text(bench_record.written(entries[:2]), encoding="utf-8")
    assert bench_record.draw(path) == "no picture yet: the record has no part training, decoding"
    assert not picture.exists()
    path.write_text(bench_record.written(entries), encoding="utf-8")
    assert bench_record.draw(path) == "drawn anew: benchmark_charts.svg"
    assert picture.read_text(encoding="utf-8") == drawing.drawn(entries)
