"""The report on an attempt: a verdict, the stages, and one problem at a time."""

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from course_lib.exercises.checking.public_issues import with_links

CORRECT, WRONG, UNTOUCHED = "correct", "not yet", "not attempted"
SIGNS = {CORRECT: "✓", WRONG: "✗", UNTOUCHED: "○"}
SECOND = "There is also a second problem"
_COLORS = {CORRECT: "#009E73", WRONG: "#D55E00", UNTOUCHED: "#808080"}  # seen on white and on black
_DETAIL = "margin: 4px 0 0; white-space: pre-wrap; word-break: normal; overflow-wrap: anywhere"
_CELL = "padding: 1px 16px 1px 0; text-align: left; vertical-align: top; overflow-wrap: break-word"
_COMPARED = re.compile(r"(?:largest error: )?(.+?)(?::| is| has the shape) (.+), expected (.+)")


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
        second: A problem with another cause; empty if there is none that we are sure of.
        after: What the learner can do with an answer that passed, and what comes next.
    """

    name: str
    passed: bool
    mistake: str | None = None
    hint: str = ""
    kind: str | None = None
    detail: str = ""
    attempted: bool = True
    stages: tuple[Stage, ...] = ()
    second: str = ""
    after: str = ""

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
        return f"{SIGNS[self.state]} {verdict}: {self.name}"

    @property
    def ladder(self) -> str:
        """Return the stages in one line, with the core before the extras."""
        return " · ".join(f"{label}: {signed(pairs)}" for label, pairs in self._groups)

    @property
    def _groups(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """Return each group of stages, the core first, with the state and name of each stage.

        Until the core passes, only its first failing stage is wrong; the others are not reached,
        like extras that do not pass, because nobody has to pass them.
        """
        first = next((stage for stage in self.stages if stage.wrong), None)

        def pair(stage: Stage) -> tuple[str, str]:
            """Return a stage's state and name."""
            wrong = stage is first and not self.passed
            return CORRECT if stage.held else WRONG if wrong else UNTOUCHED, stage.name

        groups = [("core", [stage for stage in self.stages if stage.core])]
        groups += [("extras", [stage for stage in self.stages if not stage.core])]
        found = [(label, [pair(one) for one in stages]) for label, stages in groups if stages]
        return found if self.attempted else []

    def __repr__(self) -> str:
        """Show the verdict, the stages and the problem as plain text."""
        second = f"{SECOND}. {self.second}" if self.second else ""
        lines = [self.title, self.ladder, self.hint, self.detail, second, self.after]
        return "\n".join(line for line in lines if line)

    def _repr_html_(self) -> str:
        """Show the report as a card in the theme's colors; a second problem is folded."""
        lines = {line: _COMPARED.fullmatch(line) for line in self.detail.splitlines()}
        rows = [found.groups() for found in lines.values() if found]
        shown = html.escape("\n".join(line for line, found in lines.items() if not found))
        texts = [*(f"{label} {pills(pairs)}" for label, pairs in self._groups), rendered(self.hint)]
        texts += [table([("", "yours", "expected"), *rows])] * bool(rows)
        texts += [f'<pre style="{_DETAIL}">{shown}</pre>'] * bool(shown)
        if self.second:
            texts += [f"<details><summary>{SECOND}</summary>{rendered(self.second)}</details>"]
        return card(self.state, self.title, *texts, rendered(self.after))


def card(state: str, title: str, *parts: str) -> str:
    """Return HTML with an edge in the state's color, a title, and parts, which are HTML."""
    texts = (f"<strong>{rendered(title)}</strong>", *parts)
    lines = "".join(f"<div>{text}</div>" for text in texts if text)
    style = f"border-left: 4px solid {_COLORS[state]}; padding: 4px 12px"
    return f'<div role="status" style="{style}">{lines}</div>'


def signed(pairs: Iterable[tuple[str, str]]) -> str:
    """Write names in one line, each after the sign of its state."""
    return " ".join(f"{SIGNS[state]} {name}" for state, name in pairs)


def pills(pairs: Iterable[tuple[str, str]]) -> str:
    """Return HTML with each name in a pill that has the sign and color of its state."""
    style = "display: inline-block; border-radius: 1em; padding: 0 8px; margin: 2px; border: 1px"
    looks = {state: f"solid {color}; background: {color}28" for state, color in _COLORS.items()}
    looks[UNTOUCHED] = f"dashed {_COLORS[UNTOUCHED]}"
    spans = (
        f'<span style="{style} {looks[state]}">{html.escape(signed([(state, name)]))}</span>'
        for state, name in pairs
    )
    return " ".join(spans)


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return HTML with one row for each sequence of plain texts."""
    lines = (
        "".join(f'<td style="{_CELL}">{html.escape(text)}</td>' for text in row) for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="margin: 4px 0; width: auto">{body}</table>'


def lowered(sentence: str) -> str:
    """Begin a sentence in lower case, unless its first word is code or has other capitals."""
    is_plain = re.match(r"(?!True|False|None)(A|[A-Z][a-z]+)[ ,-]", sentence)
    return sentence[0].lower() + sentence[1:] if is_plain else sentence


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
