"""No file contains phrases that this project avoids because they read like a translation."""

import json
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
AVOIDED = {
    r"\banew\b": "again; rebuilt, redrawn",
    r"\btrainings\b": "training runs",
    r"\bby heart\b(?!\.\"|\*)": "memorize",  # not the phrase that chapter 20 searches for
    r"\blikeliest\b": "most likely",
    r"\bhangs? on\b": "depend on",
    r"\b(bring|brings|brought) forth\b": "produce",
    r"\bfillers?\b": "padding",
    r"\ba whole number from (?!0)": "a positive integer",
    r"(?<![Tt]here )\bis no (?!longer|more|less|different|other|better)[a-z]+": "is not a",
    r"(?:^|[.:!?] )Who (?!is |are |was |has |will )[^?.!]*[.!]": "name the person",
}
SUFFIXES = (".py", ".md", ".ipynb", ".js", ".toml", ".cff")


def texts() -> list[tuple[str, str]]:
    """Return the name and the text of every tracked file that people read."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    names = [name for name in listed.stdout.splitlines() if name.endswith(SUFFIXES)]
    return [
        (name, read(ROOT / name))
        for name in names
        if name != "tests/repository/test_plain_english.py"
    ]


def read(path: Path) -> str:
    """Read a file or the cells of a notebook, without their pictures."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".ipynb":
        return text
    sources = ("".join(cell["source"]) for cell in json.loads(text)["cells"])
    return re.sub(r"data:image\S*", "", "\n".join(sources))


def found(pattern: str, text: str) -> list[str]:
    """Return each occurrence of a phrase in a text, with some words around it."""
    lines = re.sub(r"\s+", " ", text)
    hits = re.finditer(pattern, lines)
    return [lines[max(0, hit.start() - 40) : hit.end() + 40] for hit in hits]


@pytest.mark.parametrize("pattern", AVOIDED)
def test_no_file_uses_a_phrase_on_the_list(pattern):
    places = {name: hits for name, text in texts() if (hits := found(pattern, text))}
    assert not places, f"write: {AVOIDED[pattern]}"


@pytest.mark.parametrize(
    ("pattern", "text", "count"),
    [
        (r"\banew\b", "made anew; a new one", 1),
        (list(AVOIDED)[-2], "0 is no size; it is no longer here", 1),
        (list(AVOIDED)[-1], "Who reads knows. Who is it? Who asks and who answers?", 1),
    ],
)
def test_the_list_finds_a_phrase_and_ignores_similar_ones(pattern, text, count):
    assert len(found(pattern, text)) == count
