"""The report on an attempt: a verdict, the stages, and at most one hint."""

import html
import re
from dataclasses import dataclass

from course_lib.exercises.checking.public_issues import with_links

CORRECT, WRONG, UNTOUCHED = "correct", "not yet", "not attempted"
_SIGNS = {CORRECT: "✓", WRONG: "✗", UNTOUCHED: "○"}
_DETAIL = "margin: 4px 0 0; white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere"
_COLORS = {CORRECT: "#009E73", WRONG: "#D55E00", UNTOUCHED: "#777777"}


@dataclass(frozen=True, repr=False)
class Stage:
    """One stage of an exercise.

    Args:
        name: What the stage checks; for an option, the name of the argument.
        core: Whether the stage belongs to the core.
        held: Whether the attempt passes all trials of the stage.
        wrong: Whether a trial fails for a reason other than a missing argument.
    """

    name: str
    core: bool
    held: bool
    wrong: bool = False

    def __str__(self) -> str:
        """Return a ✓ or ○, followed by the stage's name."""
        return f"{'✓' if self.held else '○'} {self.name}"


@dataclass(frozen=True, repr=False)
class Report:
    """An attempt's result, which notebooks show as a box.

    Args:
        name: The name of the exercise or question.
        passed: Whether the attempt passes the core (required arguments, masks, gradients and
            parameters).
        mistake: Short name of the known mistake that explains the failures, if any.
        hint: The first thing that is wrong, or what to do next; empty if everything is right.
        kind: How the mistake shows up, as one of ``KINDS``.
        detail: The numbers, names or shapes behind the hint.
        attempted: ``False`` if there is nothing but the stub.
        stages: The stages, core stages first; empty for a question that is not divided into stages.
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
        """Return whether the attempt passes the extras as well."""
        return self.passed and all(stage.held for stage in self.stages)

    @property
    def missed(self) -> list[str]:
        """Return the names of the stages that fail for a reason other than a missing argument."""
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
        verdicts = {CORRECT: "Correct", WRONG: "Not yet", UNTOUCHED: "Not attempted yet"}
        verdict = verdicts[self.state]
        if self.passed and not self.complete:
            verdict = "The core is done, so you can continue"
        return f"{_SIGNS[self.state]} {verdict}: {self.name}"

    @property
    def ladder(self) -> str:
        """Return the stages in one line, with the core before the extras."""
        parts = []
        for label, core in (("core", True), ("extras", False)):
            stages = [str(stage) for stage in self.stages if stage.core is core]
            parts += [f"{label}: {' '.join(stages)}"] * bool(stages)
        return " · ".join(parts) if self.attempted else ""

    def __repr__(self) -> str:
        """Show the verdict, the stages, the hint and the detail as plain text."""
        return "\n".join(line for line in (self.title, self.ladder, self.hint, self.detail) if line)

    def _repr_html_(self) -> str:
        """Show the report as a box in JupyterLab, in the theme's colors."""
        texts = [f"<strong>{rendered(self.title)}</strong>", rendered(self.ladder)]
        texts += [rendered(self.hint)]
        lines = "".join(f"<div>{text}</div>" for text in texts if text)
        detail = f'<pre style="{_DETAIL}">{html.escape(self.detail)}</pre>' if self.detail else ""
        style = f"border-left: 4px solid {_COLORS[self.state]}; padding: 4px 12px"
        return f'<div role="status" style="{style}">{lines}{detail}</div>'


def rendered(text: str) -> str:
    """Turn Markdown with code, emphasis and formulas into HTML.

    References to public issues become links.
    """
    parts = re.split(r"\$([^$]+)\$", html.escape(text))  # every second part is a formula
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = rf'<span class="math">\({part}\)</span>'
        else:
            linked = with_links(part, '<a href="{1}">{0}</a>')
            code = re.sub(r"`([^`]+)`", r"<code>\1</code>", linked)
            parts[place] = re.sub(r"\*([^*\s][^*]*)\*", r"<em>\1</em>", code)
    return "".join(parts)
