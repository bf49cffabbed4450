"""What a learner is told about an attempt: one verdict, and at most one hint."""

import html
from dataclasses import dataclass

CORRECT, WRONG, UNTOUCHED = "correct", "not yet", "not attempted"
_SIGNS = {CORRECT: "✓", WRONG: "✗", UNTOUCHED: "○"}
_COLOURS = {CORRECT: "#009E73", WRONG: "#D55E00", UNTOUCHED: "#777777"}


@dataclass(frozen=True, repr=False)
class Report:
    """Say how an attempt went; in a notebook it shows itself.

    Args:
        name: The exercise.
        passed: Whether everything that was tried came out right.
        mistake: Short name of the known mistake that the attempt looks like, if any.
        hint: The first thing that is wrong, or what to do next; empty when all is right.
        stage: At which stage it shows, one of ``STAGES``.
        detail: The numbers, names or shapes behind the hint.
        attempted: ``False`` where there is nothing but the stub.
    """

    name: str
    passed: bool
    mistake: str | None = None
    hint: str = ""
    stage: str | None = None
    detail: str = ""
    attempted: bool = True

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
        return f"{_SIGNS[self.state]} {words[self.state]}: {self.name}"

    def __repr__(self) -> str:
        """Show verdict, hint and detail as plain text."""
        return "\n".join(line for line in (self.title, self.hint, self.detail) if line)

    def _repr_html_(self) -> str:
        """Show the same as a box in JupyterLab, in colours that both themes can read."""
        colour = _COLOURS[self.state]
        hint = f"<div>{html.escape(self.hint)}</div>" if self.hint else ""
        detail = (
            f'<pre style="margin: 4px 0 0; white-space: pre-wrap">{html.escape(self.detail)}</pre>'
            if self.detail
            else ""
        )
        title = f'<strong style="color: {colour}">{html.escape(self.title)}</strong>'
        style = f"border-left: 4px solid {colour}; padding: 4px 12px"
        return f'<div role="status" style="{style}">{title}{hint}{detail}</div>'
