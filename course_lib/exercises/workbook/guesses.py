"""Guesses in the chapters: questions whose explanations appear once the reader has answered."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from course_lib.exercises.checking.report import rendered
from course_lib.exercises.library import stubs
from course_lib.exercises.library.kept_file import KeptFile
from course_lib.exercises.library.package import LIBRARY
from course_lib.exercises.workbook.notebook_builder import Chapter, notebooks_in
from course_lib.exercises.workbook.workbook_folder import COURSE

GUESSES = KeptFile("guesses.json", "your guess", lambda entry: isinstance(entry, str))
NOT_FOUND = "The course has no explanation for this question. Was the question changed?"


@dataclass(frozen=True, repr=False)
class AnsweredGuess:
    """A guess in the completed edition: the question, with the answer collapsed below it."""

    question: str
    explanation: str
    choices: tuple[str, ...]

    def __repr__(self) -> str:
        """Show the question and the answer as plain text."""
        choices = [f"Choices: {' · '.join(self.choices)}"] if self.choices else []
        return "\n".join([f"Guess: {self.question}", *choices, f"Answer: {self.explanation}"])

    def _repr_html_(self) -> str:
        """Show the question, and reveal the answer after a click."""
        choices = f"<p>{rendered(' · '.join(self.choices))}</p>" if self.choices else ""
        return (
            f'<div class="guess"><p><strong>Guess:</strong> {rendered(self.question)}</p>{choices}'
            f"<details><summary>Answer</summary><p>{rendered(self.explanation)}</p></details></div>"
        )


def guess(
    question: str, explanation: str | None = None, *, choices: Sequence[str] | None = None
) -> Any:
    """Ask a question, and explain the answer after the reader has guessed.

    The completed edition contains the explanation, which is collapsed below the question. The
    learner's edition contains only the question: it shows a box and, after an answer, the
    explanation from the course's own notebooks. Guesses are not graded. They are saved in
    ``my_lib`` if the current folder has one, and nothing is sent anywhere.

    Args:
        question: The question; it may contain `code`, *emphasis* and $formulas$.
        explanation: The author's answer, for the completed edition.
        choices: Answers to choose from; without them, the reader types an answer.
    """
    if explanation is not None:
        return AnsweredGuess(question, explanation, tuple(choices or ()))
    from course_lib.exercises.workbook.guess_box import GuessBox  # widgets are slow to import

    package = Path(LIBRARY)
    kept = GUESSES.read(package).get(question, "") if package.is_dir() else ""
    return GuessBox(
        question,
        choices or (),
        explain=lambda: explanations().get(question, NOT_FOUND),
        keep=lambda answer: keep(question, answer),
        kept=kept,
    )


def keep(question: str, answer: str) -> None:
    """Store the latest answer to a question if the current folder has a ``my_lib``."""

    def add(entries: dict[str, Any]) -> bool:
        """Replace an earlier answer."""
        entries[question] = answer
        return True

    if Path(LIBRARY).is_dir():
        GUESSES.change(Path(LIBRARY), add)


@cache
def explanations() -> dict[str, str]:
    """Return the explanation for every question in the course's completed chapters."""
    paths = notebooks_in(COURSE / "notebooks")
    sources = [source for path in paths for source in Chapter.read(path).sources]
    calls = [call for call in map(stubs.guess_call, sources) if call and len(call.args) == 2]
    pairs = [[ast.literal_eval(argument) for argument in call.args] for call in calls]
    return {question: explanation for question, explanation in pairs}
