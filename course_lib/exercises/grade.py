"""Grade one learner or a whole class, and write the results as CSV and as text."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from itertools import groupby
from pathlib import Path

from course_lib.atomic_write import write_whole
from course_lib.exercises.check_report import Report
from course_lib.exercises.exercise_bank import chapters, exercise, exercises
from course_lib.exercises.learner_package import LIBRARY
from course_lib.exercises.separate_process import BROKEN, examine_apart, state_of

LIMIT = 60  # seconds
TABLES = ("grades.csv", "grades.txt")
LONGEST = 300  # characters of a text in the table
FORMULA = re.compile(r'(^|;)(?=[\s"]*[=+\-@\t\r＝＋－＠])')  # in some countries ; separates cells
WARNING = (
    "the learners' code runs on this computer with your files and your network; if you do not "
    "trust it, grade in a container (docs/teaching.md)"
)


@dataclass(frozen=True)
class Row:
    """One line of the table; the chapter is a number and a module, such as ``"01 attention"``."""

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
    """Check what learners wrote, write ``grades.csv`` and ``grades.txt``, and return the table.

    We run the learners' code in a separate process and do not change their folders. We write the
    tables after each learner.

    Args:
        folder: A workbook's folder, the ``my_lib`` in it, or a folder of learners' folders.
        out: The folder for the tables; the current folder unless given.
        force: Whether to replace existing tables.
        limit: Seconds for a module.
        tell: Called with a line after each learner.

    Raises:
        ValueError: If there is nothing to grade, tables exist already, or the current folder
            is a learner's and no other was named.
    """
    for hidden in sorted(folder.glob("[._]*")):
        if package_of(hidden):
            tell(f"left out, because its name begins with . or _: {hidden}")
    packages = learners(folder)
    places = _places(packages, out, force)
    tell(WARNING)
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
    """Find the packages to grade by the names of their folders; ``None`` if one has no package.

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
    """Return the learner's package that a folder holds, or is; a link may be a classmate's."""
    place = folder.resolve()
    inside = place / LIBRARY
    if inside.is_dir() and not inside.is_symlink():
        return inside
    return place if place.name == LIBRARY else None


def grade_one(learner: str, package: Path | None, limit: float = LIMIT) -> list[Row]:
    """Return a learner's rows in the order of the chapters, whatever the learner's code does."""
    asked = {m: list(names) for m, names in groupby(exercises(), lambda n: exercise(n).module)}
    missing = f"there is no {LIBRARY}, or it is a link"
    reports = {name: Report(name, False, hint=missing, attempted=False) for name in exercises()}
    try:
        if package is not None:
            reports = examine_apart(package, asked, limit)
    except Exception as error:  # one learner's files must not stop the grading of the class
        hint = str(error) or type(error).__name__
        reports = {name: Report(name, False, hint=hint, kind=BROKEN) for name in exercises()}
    rows = []
    for module, names in asked.items():
        chapter = f"{chapters()[module]:02} {module}"
        for report in (reports[name] for name in names):
            result = (state_of(report), report.mistake or "", report.hint)
            rows.append(Row(*map(printable, (learner, chapter, report.name, *result))))
    return rows


def printable(text: str) -> str:
    """Cut a text to one line, and write control characters as their codes."""
    shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text[: LONGEST + 1])
    return shown if len(shown) <= LONGEST else f"{shown[:LONGEST]}…"


def summary(rows: Sequence[Row]) -> str:
    """Count a learner's rows by state, in one line."""
    counts = Counter(row.state for row in rows)
    states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"{rows[0].learner}: {states}"


def as_text(rows: Sequence[Row]) -> str:
    """Write the rows in columns, learner by learner."""
    head = tuple(field.name for field in fields(Row))
    table = [head, *map(astuple, rows)]
    wide = [max(len(line[n]) for line in table) for n in range(len(head))]
    lines = []
    for _, group in groupby(rows, lambda row: row.learner):
        mine = list(group)
        lines += ["", summary(mine)]
        for line in (head, *map(astuple, mine)):
            columns = "  ".join(f"{word:{width}}" for word, width in zip(line, wide, strict=True))
            lines.append(columns[wide[0] :].rstrip())  # the summary above names the learner
    return "\n".join(lines[1:]) + "\n"


def as_csv(rows: Sequence[Row]) -> str:
    """Write the rows as CSV for spreadsheets; ``'`` before a formula keeps it from being run."""
    file = io.StringIO("\ufeff")  # spreadsheets need this mark to read UTF-8
    file.seek(0, io.SEEK_END)
    writer = csv.writer(file)
    writer.writerow(field.name for field in fields(Row))
    for row in rows:
        writer.writerow(FORMULA.sub(r"\1'", word) for word in astuple(row))
    return file.getvalue()


def _places(packages: Mapping[str, Path | None], out: Path | None, force: bool) -> list[Path]:
    """Return the paths of the tables, or raise an error if we must not write there."""
    homes = [package.parent for package in packages.values() if package]
    if out is None and any(Path.cwd().is_relative_to(home) for home in homes):
        raise ValueError(f"{Path.cwd()} is a learner's folder; use --out DIR for the tables")
    places = [(out or Path()) / name for name in TABLES]
    for place in places:
        if place.exists() and not force:
            raise ValueError(f"{place} exists; use --force to replace it, or --out DIR")
    return places


def _folders(folder: Path) -> list[Path]:
    """List the folders in a folder that may be learners'; none if we may not read it."""
    try:
        found = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    except OSError:
        return []
    return [path for path in found if not re.match(rf"[._]|{LIBRARY}$", path.name)]
