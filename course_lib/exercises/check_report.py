"""What a learner is told about an attempt: one verdict, and at most one hint."""

import html
from dataclasses import dataclass
from typing import Any

CORRECT, WRONG, UNTOUCHED = "correct", "not yet", "not attempted"
_SIGNS = {CORRECT: "✓", WRONG: "✗", UNTOUCHED: "○"}
_COLOURS = {CORRECT: "#009E73", WRONG: "#D55E00", UNTOUCHED: "#777777"}


@dataclass(frozen=True, repr=False)
class Stage:
    """One step of the ladder.

    Args:
        name: What it is about; where it is an option, its name.
        core: Whether it belongs to the core.
        held: Whether all its trials hold.
        wrong: Whether one goes wrong otherwise than by an argument that is not there yet.
    """

    name: str
    core: bool
    held: bool
    wrong: bool = False

    def __str__(self) -> str:
        """Show it with its sign."""
        return f"{'✓' if self.held else '○'} {self.name}"


@dataclass(frozen=True, repr=False)
class Report:
    """Say how an attempt went; in a notebook it shows itself.

    Args:
        name: The exercise.
        passed: Whether the core holds: the required arguments, masks, gradients, parameters.
        mistake: Short name of the known mistake that the attempt looks like, if any.
        hint: The first thing that is wrong, or what to do next; empty when all is right.
        kind: How it shows, one of ``KINDS``.
        detail: The numbers, names or shapes behind the hint.
        attempted: ``False`` where there is nothing but the stub.
        stages: The ladder, the core first; empty where the task has one step.
    """

    name: str
    passed: bool
    mistake: str | None = None
    hint: str = ""
    kind: str | None = None
    detail: str = ""
    attempted: bool = True
    stages: tuple[Stage, ...] = ()

    @property
    def complete(self) -> bool:
        """Say whether the extras hold, too."""
        return self.passed and all(stage.held for stage in self.stages)

    @property
    def missed(self) -> list[str]:
        """Return the names of the stages that go wrong, though the arguments are there."""
        return [stage.name for stage in self.stages if stage.wrong]

    @property
    def state(self) -> str:
        """Return ``"correct"``, ``"not yet"`` or ``"not attempted"``."""
        if self.passed:
            return CORRECT
        return WRONG if self.attempted else UNTOUCHED

    @property
    def title(self) -> str:
        """Return the verdict in one line."""
        words = {CORRECT: "Correct", WRONG: "Not yet", UNTOUCHED: "Not attempted yet"}
        said = words[self.state]
        if self.passed and not self.complete:
            said = "The core is right, you may go on"
        return f"{_SIGNS[self.state]} {said}: {self.name}"

    @property
    def ladder(self) -> str:
        """Return the stages in one line, extras behind a dot."""
        parts = (" ".join(str(s) for s in self.stages if s.core is core) for core in (True, False))
        return " · ".join(part for part in parts if part) if self.attempted else ""

    def __repr__(self) -> str:
        """Show verdict, hint and detail as plain text."""
        return "\n".join(line for line in (self.title, self.ladder, self.hint, self.detail) if line)

    def _repr_html_(self) -> str:
        """Show the same as a box in JupyterLab, in colours that both themes can read."""
        colour = _COLOURS[self.state]
        ladder = f"<div>{html.escape(self.ladder)}</div>" if self.ladder else ""
        hint = f"<div>{html.escape(self.hint)}</div>" if self.hint else ""
        detail = (
            f'<pre style="margin: 4px 0 0; white-space: pre-wrap">{html.escape(self.detail)}</pre>'
            if self.detail
            else ""
        )
        title = f'<strong style="color: {colour}">{html.escape(self.title)}</strong>'
        style = f"border-left: 4px solid {colour}; padding: 4px 12px"
        return f'<div role="status" style="{style}">{title}{ladder}{hint}{detail}</div>'


@dataclass(frozen=True, repr=False)
class Guess:
    """Keep what a reader expected before running a cell; it shows itself.

    Args:
        name: Short name of the question above.
        answer: The guess; ``...`` for none yet.
    """

    name: str
    answer: Any

    def __repr__(self) -> str:
        """Show it in a line."""
        if self.answer is ...:
            return (
                "○ Put your guess in place of the dots. A wrong one teaches as much as a right one."
            )
        return f"Your guess: {self.answer}. Run on, and compare."
