"""Grade one learner or a whole class, and write the results as CSV."""

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from course_lib.exercises.checking.contents import chapters, items, module_of
from course_lib.exercises.checking.report import Report
from course_lib.exercises.library.package import LIBRARY
from course_lib.exercises.library.separate_process import BROKEN, examine_apart, state_of
from course_lib.support.atomic_write import write_whole

LIMIT = 60  # seconds
NO_LEARNER = rf"[._]|{LIBRARY}$|kept-\d+$"  # folders that are not learners'
FORMULA = re.compile(r'(^|;)(?=[\s"]*[=+\-@\t\r＝＋－＠])')  # in some countries ; separates cells
WARNING = (
    "the learners' code runs on this computer with access to your files and network; if you do "
    "not trust it, grade in a container (docs/teaching.md)"
)


class Row(NamedTuple):
    """One row of the table; the chapter is a number and a module, such as ``"01 attention"``."""

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
    tell: Callable[[str], None] = print,
) -> None:
    """Check learners' answers, update ``grades.csv`` after each learner, and report the counts.

    The folder is a workbook, its ``my_lib``, or a folder of learners' folders; we do not change it.
    We write the table to the folder ``out`` or, by default, to the current folder. Each module may
    take up to ``limit`` seconds. We call ``tell`` with each line for the teacher.
    Raises ValueError if there is nothing to grade, or if the table may not be written there.
    """
    packages = learners(folder)
    homes = [package.parent for package in packages.values() if package]
    if out is None and any(Path.cwd().is_relative_to(home) for home in homes):
        raise ValueError(f"{Path.cwd()} is a learner's folder; use --out DIR for the table")
    table = (out or Path()) / "grades.csv"
    if table.exists() and not force:
        raise ValueError(f"{table} already exists; use --force to replace it, or choose --out DIR")
    for hidden in sorted(folder.glob("[._]*")):
        if package_of(hidden) or any(map(package_of, _folders(hidden))):
            tell(printable(f"left out because the name begins with . or _: {hidden}"))
    tell(WARNING)
    tell(f"{table} contains the results for these learners:")
    rows: list[Row] = []
    for learner, package in packages.items():
        mine = grade_one(learner, package, limit)
        rows += mine
        write_whole(table, as_csv(rows))
        counts = Counter(row.state for row in mine)
        states = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        tell(printable(f"{learner}: {states}"))


def learners(folder: Path) -> dict[str, Path | None]:
    """Map each folder to be graded to its package, or to ``None`` if it has no package."""
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder} to grade")
    root = folder.resolve()
    packages: dict[str, Path | None] = {}
    for child in _folders(folder):
        leads_back = root.is_relative_to(child.resolve())  # a link to the class or a folder above
        package = None if leads_back else package_of(child)
        inner = [] if package or leads_back else _folders(child)
        deeper = {f"{child.name}/{f.name}": package_of(f) for f in inner}
        deeper = {name: place for name, place in deeper.items() if place}
        packages |= deeper or {child.name: package}
    for name, place in packages.items():
        if place and place.is_relative_to(root) and not place.is_relative_to(root / name):
            packages[name] = None  # a link leads to a classmate's
    own = package_of(folder)
    if own is not None:  # a workbook without other packages, or a class with its own package
        others = {name: place for name, place in packages.items() if place}
        return {"." if others else own.parent.name: own, **others}
    if not any(packages.values()):
        raise ValueError(f"there is no {LIBRARY} to grade in {folder} or in its subfolders")
    return packages


def package_of(folder: Path) -> Path | None:
    """Return a folder's ``my_lib`` (not a link), or the folder itself if it is a ``my_lib``."""
    place = folder.resolve()
    inside = place / LIBRARY
    if inside.is_dir() and not inside.is_symlink():
        return inside
    return place if place.name == LIBRARY else None


def grade_one(learner: str, package: Path | None, limit: float) -> list[Row]:
    """Return a learner's rows in chapter order, no matter what the learner's code does."""
    names = [item.name for item in items() if item.kind == "build"]
    asked = {module: list(some) for module, some in groupby(names, module_of)}
    hint, kind = f"there is no {LIBRARY}, or it is a link", None
    reports = {}
    try:
        if package is not None:
            reports = examine_apart(package, asked, limit)
    except Exception as error:  # one learner's files must not stop the grading of the class
        hint, kind = str(error) or type(error).__name__, BROKEN
    rows = []
    for name in names:
        report = reports.get(name) or Report(name, False, hint=hint, kind=kind, attempted=False)
        module = module_of(name)
        result = (state_of(report), report.mistake or "", report.hint)
        chapter = f"{chapters()[module]:02} {module}"
        rows.append(Row(*map(printable, (learner, chapter, name, *result))))
    return rows


def printable(text: str) -> str:
    """Replace control characters, such as line breaks, with escape sequences."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def as_csv(rows: Sequence[Row]) -> str:
    """Format the rows as CSV for spreadsheets; a ``'`` before a formula keeps it from running."""
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow(Row._fields)
    writer.writerows([FORMULA.sub(r"\1'", word) for word in row] for row in rows)
    return "\ufeff" + file.getvalue()  # spreadsheets need this mark to read UTF-8


def _folders(folder: Path) -> list[Path]:
    """List the subfolders that may belong to learners, or none if we cannot read the folder."""
    try:
        folders = [path for path in sorted(folder.iterdir()) if path.is_dir()]
    except OSError:
        return []
    return [path for path in folders if not re.match(NO_LEARNER, path.name)]
