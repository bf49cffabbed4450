"""The README is true: its example runs, its links lead somewhere, its commands exist."""

import contextlib
import io
import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def blocks(language: str) -> str:
    """Return all code blocks of a language, one after another."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S))


def test_the_library_example_runs_and_prints_what_it_says():
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec(blocks("python"), names)
    assert printed.getvalue().strip() == "63082496"
    assert names["logits"].shape == (2, 7, 37_000)


def test_every_link_and_picture_is_there():
    targets = re.findall(r"\]\((?!https?:)([^)]+)\)", README)
    assert len(targets) > 12
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_the_table_lists_every_chapter_in_order():
    listed = re.findall(r"\(notebooks/(\w+\.ipynb)\)", README)
    assert listed == [path.name for path in sorted((ROOT / "notebooks").glob("*.ipynb"))]


def test_every_make_command_exists():
    named = set(re.findall(r"^make ([a-z]+)", blocks("sh"), re.M))
    assert {"lab", "test"} <= named <= set(re.findall(r"^([a-z]+):", MAKEFILE, re.M))


def test_jupyter_opens_at_the_root_so_that_chapters_find_their_pictures():
    for text in (README, MAKEFILE):
        (command,) = re.findall(r"jupyter lab (.+)", text)
        assert command == "--ServerApp.root_dir=. notebooks/00_start_here.ipynb"


def test_the_table_of_results_agrees_with_itself():
    rows = re.findall(r"^\| (?:German|French|Chinese) \|(.+)\|$", README, re.M)
    assert len(rows) == 3
    for row in rows:
        *shares, mean, span = (cell.strip() for cell in row.split("|"))
        values = [float(share) for share in shares]
        assert mean == f"{sum(values) / 3:.4f}"
        assert span == f"{min(values):.3f} to {max(values):.3f}"


TRAINING = {  # what the README calls a row, and what the bench calls it
    "like for like: dropout in all of torch's places": "like for like",
    "dropout as the paper has it, and fused Adam": "dropout as the paper",
    "logits a few rows at a time, and dropout by bytes": "loss in chunks",
    "bfloat16, where a quick measurement finds it faster": "bfloat16",
    "the second row again, by `torch.compile`": "dropout as the paper, compiled",
}
ATTENTION = {
    "the fused kernel": "the fused kernel",
    "all heads at once, by hand": "all heads at once",
    "the same, by `torch.compile`": "all heads at once, compiled",
    "the past only, by a mask, fused": "past only, by mask, fused",
    "the past only, by `is_causal`, fused": "past only, is_causal, fused",
    "the fused kernel, dropping weights": "the fused kernel, dropout",
}
DECODING = {
    "torch scores all places, as most people write it": "all",
    "torch scores the last place only": "last",
}


def measured(part: str) -> list[dict]:
    """Return what the bench kept of a part, row by row."""
    record = json.loads((ROOT / "figures" / "bench.json").read_text(encoding="utf-8"))
    return next(entry["rows"] for entry in record if entry["part"] == part)


def spread(ratio: dict[str, float], digits: int) -> str:
    """Write a median and its range."""
    median, low, high = (f"{ratio[name]:.{digits}f}" for name in ("median", "min", "max"))
    return f"{median} ({low} to {high})"


def test_the_table_of_training_says_what_was_measured():
    rows = {(row["table"], row["name"]): row for row in measured("training")}
    for label, name in TRAINING.items():
        found = [rows.get((f"training step, {size}", name)) for size in ("small", "base")]
        cells = [spread(row["ratio"], 2) if row else "–" for row in found]
        assert f"| {label} | {' | '.join(cells)} |" in README
    for size in ("small", "base"):
        whole = rows[f"training step, {size}", "torch.nn.Transformer"]["kept_mib"]
        for name in ("like for like", "dropout as the paper"):
            assert f"{rows[f'training step, {size}', name]['kept_mib'] / whole:.2f}" in README


def test_the_table_of_attention_says_what_was_measured():
    rows = {(row["length"], row["name"]): row for row in measured("attention")}
    for label, name in ATTENTION.items():
        found = [rows[length, name] for length in (128, 512, 2048)]
        sizes = [f"{row['kept_mib']:.{int(row['kept_mib'] < 10)}f} MiB" for row in found]
        times = [f"{row['ratio']['median']:.2f}" for row in found]
        cells = [", ".join(cell) for cell in zip(times, sizes, strict=True)]
        assert f"| {label} | {' | '.join(cells)} |" in README


def test_the_table_of_decoding_says_what_was_measured():
    rows = {(row["new_tokens"], row["name"]): row for row in measured("decoding")}
    for label, name in DECODING.items():
        cells = [spread(rows[length, name]["ratio"], 1) for length in (32, 64, 128, 256)]
        assert f"| {label} | {' | '.join(cells)} |" in README


def test_the_other_speeds_are_those_that_were_measured():
    (mixed,) = measured("mixed")
    assert f"learns from {spread(mixed['ratio'], 1)} times" in README
    steps = [row for row in measured("gpt") if "training step" in row["table"]]
    assert len(steps) == 2
    assert all(spread(row["ratio"], 2) in README for row in steps)
    shares = [row["percent"] for row in measured("roofline") if "plain" in row["name"]]
    assert f"reaches {min(shares):.0f} to {max(shares):.0f} %" in README


def test_the_widgets_are_as_quick_as_was_measured():
    rows = {"kernel": [], "browser": []}
    for row in measured("widgets"):
        where = row["table"].partition(":")[0]
        if where == "browser" or "," not in row["name"]:  # not the single controls
            rows[where].append(row["milliseconds"]["median"])
    for where, what in (("kernel", "for a new picture"), ("browser", "from the key")):
        medians = rows[where]
        assert len(medians) == 5
        assert f"of {min(medians):.0f} to {max(medians):.0f} ms {what}" in README


def test_the_seconds_of_the_tests_are_those_that_were_measured():
    taken = {row["name"]: f"{row['seconds']:.0f}" for row in measured("tests")}
    assert f"`make test` takes {taken['all']} s" in README
    parts = (f"doctests {taken['tests and doctests']}", f"runs {taken['workbook']}")
    more = (f"chapters {taken['chapters']}", f"browser {taken['browser']}")
    assert all(part in README for part in parts + more)
