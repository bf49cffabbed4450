"""Where each definition of a chapter may come from, and what is said of the one that is taken."""

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from course_lib.exercises import executed_cells as run
from course_lib.exercises.attempts import last_report
from course_lib.exercises.check import exercise
from course_lib.exercises.module_writer import earlier, is_stub

NOT_RUN = "nothing of yours was run since the kernel started"
STILL_STUB = "still the stub"
APART = "passed, but no cell holds `{}` together with its attempt line: put both in one cell"
OLDER = "an older one: no cell holds your last together with its attempt line; put both in one"
PUT_BACK = "put back by hand; to have yours again, run its cell with the attempt line, then this"
AGAIN = (
    "again: its cell was run after you had put the course's back; to keep the course's, put "
    "`raise NotImplementedError` back into the cell, run it, put the line back into the file"
)


@dataclass(frozen=True)
class Sources:
    """Hold the learner's cells of a chapter.

    Args:
        last: The last run cell of each exercise, be it a stub.
        old: The cells that the learner's module holds already.
        apart: The exercises last asked for in a cell without what was asked about.
        back: Those that were the learner's, and were put back to the course's by hand.
        left: Those of them whose cell was not run again since.
    """

    last: Mapping[str, str]
    old: Mapping[str, str]
    apart: Collection[str] = ()
    back: Collection[str] = ()
    left: Collection[str] = ()

    @classmethod
    def read(
        cls, history: Sequence[str], names: Sequence[str], before: str, imports: str
    ) -> "Sources":
        """Read them from the cells that were run, and from the module as it is."""
        last, old = run.last_cells(history, names), earlier(before, names, imports)
        return cls(last, old, run.apart(history, names))

    def options(self, name: str) -> list[str]:
        """Return the cells that may be taken for an exercise, the one to be preferred first."""
        if name in self.left:
            return []
        return [*self._fresh(name), *([self.old[name]] if name in self.old else [])]

    def why_not(self, name: str, reasons: Mapping[str, str]) -> str:
        """Say why the last that was run for an exercise is not taken; nothing if nothing was.

        Args:
            name: The exercise.
            reasons: What is wrong with the cells that were tried.
        """
        report = last_report(name)
        if name in self.left:
            return PUT_BACK
        if report and report.attempted and (name in self.apart or not self._fresh(name)):
            return APART.format(_head(name)) if report.passed else report.hint
        return reasons.get(name, "")

    def unsolved(self, name: str, reasons: Mapping[str, str]) -> str:
        """Say why a definition still comes from the course."""
        return self.why_not(name, reasons) or (STILL_STUB if name in self.last else NOT_RUN)

    def remark(
        self, name: str, cell: str, reasons: Mapping[str, str], left_out: Sequence[str]
    ) -> str:
        """Say what there is to say of a definition that is the learner's.

        Args:
            name: The exercise.
            cell: The one that was taken.
            reasons: What is wrong with the cells that were tried.
            left_out: The lines of the cell that are not taken.
        """
        if cell not in self._fresh(name):
            why = self.why_not(name, reasons)
            return f"as it was; your last one: {why}" if why else "from an earlier session"
        said = [AGAIN] * (name in self.back) + [OLDER] * (name in self.apart)
        said += [f"left out, as it only tries something: {', '.join(left_out)}"] * bool(left_out)
        return "; ".join(said)

    def _fresh(self, name: str) -> list[str]:
        """Return the last run cell of an exercise, where there is more than the stub."""
        return [self.last[name]] if name in self.last and not is_stub(self.last[name], name) else []


def _head(name: str) -> str:
    """Return how a definition begins."""
    return f"{'class' if inspect.isclass(exercise(name).given) else 'def'} {name}"
