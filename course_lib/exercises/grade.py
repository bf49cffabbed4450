"""Grade a learner's package, or a whole class: a table for the teacher, as CSV and as text."""

import csv
import io
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from pathlib import Path

from course_lib.atomic_write import write_whole
from course_lib.exercises.check_report import UNTOUCHED
from course_lib.exercises.exercise_bank import chapters, exercise, exercises
from course_lib.exercises.learner_package import LIBRARY, check_edition
from course_lib.exercises.sandbox import BROKEN, Mark, can_be_apart, examine_apart

LIMIT = 60  # seconds
TABLES = ("grades.csv", "grades.txt")
LONGEST = 300  # characters of a text in the table
FORMULA = tuple("=+-@\t\r＝＋－＠")  # with these begins what a spreadsheet computes
GUARDED = "the learners' code runs without network, and writes nowhere but in a copy"
UNGUARDED = (
    "this system cuts no process off: the learners' code has your network and your files; grade "
    "code that you do not trust in a container (docs/teaching.md)"
)


@dataclass(frozen=True)
class Row:
    """Hold a line of the table.

    Args:
        learner: The name of the folder.
        chapter: Number and module, such as ``"01 attention"``.
        exercise: The exported name.
        state: ``"correct"``, ``"not yet"``, ``"not attempted"`` or ``"did not run"``.
        mistake: Short name of the known mistake it looks like, or nothing.
        hint: What is wrong first.
    """

    learner: str
    chapter: str
    exercise: str
    state: str
    mistake: str
    hint: str


def grade(
    folder: Path,
    out: Path | None = None,
    *,
    force: bool = False,
    limit: float = LIMIT,
    tell: Callable[[str], None] = lambda line: None,
) -> str:
    """Run every check on what learners wrote, and write ``grades.csv`` and ``grades.txt``.

    The learners' code runs on this computer, as ``sandbox`` guards it. Their folders stay as they
    are. The tables are written after each learner; the CSV is in UTF-8 with a mark that
    spreadsheets understand.

    Args:
        folder: A workbook's folder, the ``my_lib`` in it, or a folder of learners' folders.
        out: Where the tables go; to the current folder unless given.
        force: Whether to replace tables that are there.
        limit: Seconds for a module.
        tell: Called with a line after each learner.

    Returns:
        The table as text.

    Raises:
        ValueError: If there is nothing to grade, tables are there already, or the current folder
            is a learner's and no other was named.
    """
    packages = learners(folder)
    places = _places(packages, out, force)
    tell(GUARDED if can_be_apart() else UNGUARDED)
    rows: list[Row] = []
    for learner, package in packages.items():
        mine = grade_one(learner, package, limit)
        rows += mine
        for place, content in zip(places, [as_csv(rows), as_text(rows)], strict=True):
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, content)
        tell(summary(mine))
    return as_text(rows)


def learners(folder: Path) -> dict[str, Path | None]:
    """Find the packages to grade, by the names of the folders; ``None`` where one has none.

    Raises:
        ValueError: If there is no such folder, or no package at all.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder} to grade")
    package = package_of(folder)
    if package is not None:
        return {package.parent.name: package}
    found: dict[str, Path | None] = {}
    for child in _folders(folder):
        inside = {child.name: package_of(child)}
        if inside[child.name] is None:
            deeper = {f"{child.name}/{f.name}": package_of(f) for f in _folders(child)}
            inside = {name: place for name, place in deeper.items() if place} or inside
        found |= inside
    if not any(found.values()):
        raise ValueError(f"there is no {LIBRARY} to grade in {folder}, nor in a folder in it")
    return found


def package_of(folder: Path) -> Path | None:
    """Return the learner's package that a folder holds, or is."""
    place = folder.resolve()
    if (place / LIBRARY).is_dir():
        return place / LIBRARY
    return place if place.name == LIBRARY else None


def grade_one(learner: str, package: Path | None, limit: float = LIMIT) -> list[Row]:
    """Return a learner's rows, in the order of the chapters, whatever the learner's code does."""
    asked = {m: list(names) for m, names in groupby(exercises(), lambda n: exercise(n).module)}
    try:
        if package is None:
            hint = f"there is no {LIBRARY}"
            marks = {name: Mark(name, UNTOUCHED, hint=hint) for name in exercises()}
        else:
            check_edition(package)
            marks = examine_apart(package, asked, limit)
    except Exception as error:  # one learner's files stop nobody else's grading
        hint = str(error) or type(error).__name__
        marks = {name: Mark(name, BROKEN, hint=hint) for name in exercises()}
    rows = []
    for module, names in asked.items():
        for mark in (marks[name] for name in names):
            texts = (learner, f"{chapters()[module]:02} {module}", *astuple(mark))
            rows.append(Row(*map(printable, texts)))
    return rows


def printable(text: str) -> str:
    """Return a text in one line: what moves a cursor, or does not show, is written as its code."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: LONGEST + 1])
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"


def summary(rows: Sequence[Row]) -> str:
    """Count a learner's rows by state, in one line."""
    counts = Counter(row.state for row in rows)
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"{rows[0].learner}: {states}"


def as_text(rows: Sequence[Row]) -> str:
    """Lay the rows out in columns, learner after learner."""
    head = tuple(field.name for field in fields(Row))
    table = [head, *map(astuple, rows)]
    wide = [max(len(line[n]) for line in table) for n in range(len(head))]
    lines = []
    for _, group in groupby(rows, lambda row: row.learner):
        mine = list(group)
        lines += ["", summary(mine)]
        for line in (head, *map(astuple, mine)):
            columns = "  ".join(f"{word:{width}}" for word, width in zip(line, wide, strict=True))
            lines.append(columns[wide[0] :].rstrip())  # the learner stands above
    return "\n".join(lines[1:]) + "\n"


def as_csv(rows: Sequence[Row]) -> str:
    """Write the rows as CSV; what a spreadsheet would take for a formula begins with ``'``."""
    file = io.StringIO("\ufeff")
    file.seek(0, io.SEEK_END)
    writer = csv.writer(file)
    writer.writerow(field.name for field in fields(Row))
    for row in rows:
        writer.writerow("'" * word.lstrip().startswith(FORMULA) + word for word in astuple(row))
    return file.getvalue()


def _places(packages: Mapping[str, Path | None], out: Path | None, force: bool) -> list[Path]:
    """Say where the tables go, or why they may not."""
    homes = [package.parent for package in packages.values() if package]
    if out is None and any(Path.cwd().is_relative_to(home) for home in homes):
        raise ValueError(f"{Path.cwd()} is a learner's folder; say where tables go: --out DIR")
    places = [(out or Path()) / name for name in TABLES]
    for place in places:
        if place.exists() and not force:
            raise ValueError(f"{place} is there; --force replaces it, --out DIR writes elsewhere")
    return places


def _folders(folder: Path) -> list[Path]:
    """List the folders in a folder that may be learners'."""
    try:
        found = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    except OSError:  # nobody may read it
        return []
    return [path for path in found if not path.name.startswith((".", "_"))]
