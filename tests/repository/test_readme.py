"""The commands in the README and on other pages exist, and the examples run."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from course_lib.cli.main import parser, task_of

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("docs/teaching/*.md")]
every_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def blocks(language: str, text: str = README) -> str:
    """Return all code blocks in a language, joined together."""
    return "\n".join(re.findall(rf"^```{language}\n(.*?)^```", text, re.M | re.S))


def commands(text: str) -> list[list[str]]:
    """Return the words of every command of the course on a page, in a code block or in a line."""
    lines = [*blocks("sh", text).splitlines(), *re.findall(r"`([^`\n]+)`", text)]
    ours = [line for line in lines if re.match(r"(make|python|course|torchrun) ", line)]
    return [shlex.split(line, comments=True) for line in ours]


def exists(words: list[str]) -> bool:
    """Return whether a command would start; the parser of ``course`` raises an error if not."""
    program, *rest = words
    if program == "make":
        return re.search(rf"^{rest[0]}:", MAKEFILE, re.M) is not None
    if program == "python":
        return rest[0] == "-m" or (ROOT / rest[0]).is_file()
    if program == "torchrun":
        rest = rest[rest.index("course_lib.cli") + 1 :]
    return parser(task_of(rest)).parse_args(rest).command == rest[0]


@every_page
def test_every_command_exists(page):
    assert not [words for words in commands(page.read_text("utf-8")) if not exists(words)]


@every_page
def test_no_page_contains_a_todo(page):
    assert "TODO:" not in page.read_text("utf-8"), "replace what begins with TODO"


def test_every_page_of_the_docs_is_linked_from_the_readme():
    assert set(re.findall(r"\((docs/[^)]+[.]md)\)", README)) == {
        page.relative_to(ROOT).as_posix() for page in ROOT.glob("docs/*.md")
    }


def test_the_table_lists_every_chapter_in_order_with_what_the_reader_writes():
    rows = re.findall(r"^\| \d\d \| \[.+\]\((notebooks/.+)\) \| (.+) \| .+ \|$", README, re.M)
    chapters = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert [row[0] for row in rows] == [f"notebooks/{path.name}" for path in chapters]
    for path, (_, built) in zip(chapters, rows, strict=True):
        checks = re.findall(r'"check\(\\"(\w+)\\"', path.read_text(encoding="utf-8"))
        assert set(re.findall(r"`(\w+)`", built)) <= set(checks), "this is only read"
        assert "`" in built or not checks, "name what the reader writes"


def test_the_first_command_opens_the_workbook_with_and_without_make():
    first, *_ = (words for words in commands(README) if words[0] in ("make", "course"))
    assert first == ["make", "learn"] and "course learn workbook" in MAKEFILE
    (without_make,) = re.findall(r"pip install -r requirements\.txt.*\n(.+)\n```", README)
    assert without_make.split()[:2] == ["course", "learn"]


def test_the_library_example_runs_and_prints_the_stated_output():
    printed, names = io.StringIO(), {}
    with contextlib.redirect_stdout(printed):
        exec(blocks("python"), names)
    parameters, *probed = printed.getvalue().splitlines()
    shown = re.search(r"print\(result\)  # (.*)…", README)[1]
    assert parameters == "63082496" and any(line.startswith(shown) for line in probed)
    assert names["logits"].shape == (2, 7, 37_000)
