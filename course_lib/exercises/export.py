"""Your own library: what passes in the notebook goes into ``my_lib``, where later chapters look."""

import ast
import html
import importlib.util
import sys
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from course_lib.atomic_write import copy_aside, set_aside, write_whole
from course_lib.exercises import edit_detection
from course_lib.exercises import executed_cells as run
from course_lib.exercises.attempts import attempted_since
from course_lib.exercises.check import exercise, exercises
from course_lib.exercises.export_verification import BrokenImports, Proof, settle
from course_lib.exercises.learner_cells import Sources
from course_lib.exercises.module_writer import Manuscript
from course_lib.exercises.notebook_builder import LIBRARY

NO_CHAPTER = (
    "no cell with `#| default_exp …` of a chapter was run since the kernel started; run the "
    "chapter's cells, then this one again"
)
NO_NAMES = "export_mine() takes no name, it exports the whole chapter; write `export_mine()`"
NO_NOTEBOOK = "export_mine() reads what a notebook has run; call it in one"


@dataclass(frozen=True, repr=False)
class Export:
    """Show which definitions of a chapter are the learner's now.

    Args:
        file: Which file was written; empty if none was.
        yours: For each definition of the learner's a remark, or nothing.
        course: For each that still comes from the course, why.
        given: What the course gives anyway.
        note: What else happened.
        problem: Why nothing was written, if so.
    """

    file: str = ""
    yours: Mapping[str, str] = field(default_factory=dict)
    course: Mapping[str, str] = field(default_factory=dict)
    given: Sequence[str] = ()
    note: str = ""
    problem: str = ""

    @property
    def title(self) -> str:
        """Return the result in one line."""
        if self.problem:
            return f"Nothing was written: {self.problem}."
        return f"{self.file}: {len(self.yours)} of {len(self.yours) + len(self.course)} are yours"

    @property
    def lines(self) -> list[str]:
        """Return a line for each definition, and the remarks."""
        mine = [f"yours: {name}{words and f' ({words})'}" for name, words in self.yours.items()]
        rest = [f"the course's: {name} ({words})" for name, words in self.course.items()]
        given = [f"given by the course: {', '.join(self.given)}"] if self.given else []
        return [*mine, *rest, *given, *filter(None, [self.note])]

    def __repr__(self) -> str:
        """Show the result as plain text."""
        return "\n".join([self.title, *self.lines])

    def _repr_html_(self) -> str:
        """Show the result as a box in JupyterLab."""
        lines = "".join(f"<div>{html.escape(line)}</div>" for line in self.lines)
        style = "border-left: 4px solid #777777; padding: 4px 12px"
        title = f"<strong>{html.escape(self.title)}</strong>"
        return f'<div role="status" style="{style}">{title}{lines}</div>'


def export_mine(*names: Any) -> Export:
    """Put what was last run in this notebook, and passes, into ``my_lib``.

    The running kernel is asked, not the file: what is not saved yet counts.

    Args:
        *names: None; who gives one is told that the whole chapter is exported.

    Returns:
        What shows which definitions are yours now, and which still come from the course.
    """
    if names:
        return Export(problem=NO_NAMES)
    try:
        from IPython import get_ipython
    except ImportError:
        return Export(problem=NO_NOTEBOOK)
    shell = get_ipython()
    if shell is None:
        return Export(problem=NO_NOTEBOOK)
    return export(shell.user_ns["In"], Path.cwd() / LIBRARY, shell.user_ns)


def export(history: Sequence[str], package: Path, known: Collection[str] = ()) -> Export:
    """Put what passes, of the cells that were run, into the learner's package.

    Args:
        history: The text of every cell that was run, in order.
        package: The folder ``my_lib``.
        known: The names that the notebook has.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cells were run before, and it was said then
        module = run.chapter_module(history)
        names = [name for name in exercises() if exercise(name).module == module]
        if not names:
            return Export(problem=NO_CHAPTER)
        if not package.is_dir():
            where = f"there is no folder {package.name} in {package.parent}, beside the notebook"
            return Export(problem=f"{where}; `course workbook DIR` makes one in DIR")
        try:
            return _export(module, names, history, package / f"{module}.py", known)
        except BrokenImports as error:
            return Export(problem=str(error))


def _export(
    module: str, names: Sequence[str], history: Sequence[str], path: Path, known: Collection[str]
) -> Export:
    """Do it for a chapter that is known, in a folder that is there."""
    course = import_module(f"course_lib.{module}")
    before = _text_of(path)
    imports = run.chapter_imports(history, module)
    text = Manuscript(module, course.__doc__, course.__all__, imports)
    back = edit_detection.put_back(before or "", module)
    left = {name for name in back if not attempted_since(name, path)}
    cells = Sources.read(history, names, before or "", imports)
    cells = replace(cells, back=back, left=left)
    proof = Proof(text, path, known, run.imported_names(history))
    chosen, reasons = settle(proof, {name: cells.options(name) for name in names})
    note = _kept(path, before, text.text(chosen), module)
    write_whole(
        path, edit_detection.stamped(text.text(chosen), sorted(chosen), sorted(back - set(chosen)))
    )
    _forget(path)
    tried = text.left_out(chosen)
    yours = {n: cells.remark(n, chosen[n], reasons, tried[n]) for n in names if n in chosen}
    rest = {n: cells.unsolved(n, reasons) for n in names if n not in chosen}
    given = [name for name in course.__all__ if name not in names]
    return Export(f"{path.parent.name}/{path.name}", yours, rest, given, note)


def _kept(path: Path, before: str | None, after: str, module: str) -> str:
    """Put aside what somebody changed by hand in a file that is to be written anew, and say so."""
    if before is None:
        return f"{path.name} was no Python; it is {set_aside(path).name}"
    if not edit_detection.by_hand(before, module):
        return ""
    gone = ", ".join(f"`{name}`" for name in edit_detection.lost(before, after))
    said = f"; only there, or not so here: {gone}" if gone else ""
    return (
        f"{path.name} was not as export_mine() wrote it last; as it was, it is kept as "
        f"{copy_aside(path).name}{said}. Put what you want to keep into your cell"
    )


def _text_of(path: Path) -> str | None:
    """Read a module; nothing where there is none, ``None`` where it is no Python."""
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    return text


def _forget(path: Path) -> None:
    """Let the next import of anything in the learner's package read the files."""
    package = path.parent.name
    for name in [n for n in sys.modules if n == package or n.startswith(f"{package}.")]:
        del sys.modules[name]
    Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)  # to the second only
    importlib.invalidate_caches()
