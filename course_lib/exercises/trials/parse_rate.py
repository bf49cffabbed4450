"""What is asked of parse_rate: which texts Python takes for programs, and which share they are."""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import Trial, refuses, value_trial
from course_lib.exercises.trials.evaluation import number

PROGRAMS = ("x = 1", "for i in y:\n    f(i)", '"a text"', "f(x", "def f(): pass", "else:")
TEXTS = {  # snippets, the share
    "two of three": (["x = 1", "y = = 2", "z += 3"], 2 / 3),
    "one of four": (["if x:", "x", "(", "def f()"], 1 / 4),
    "all programs": (["pass", "import os", "x: int"], 1.0),
    "no program": (["x = ", ")("], 0.0),
    "one that stands there twice": (["x = 1", "x = 1", "1 x"], 2 / 3),
    "one of several lines": (["for i in y:\n    print(i)\nelse:\n    pass", "for i in y:"], 1 / 2),
    "a word of Python's own as a name": (["True = 1", "true = 1"], 1 / 2),
    "a statement, and no expression": (["x = 1", "x + 1"], 1.0),
}
ENDS = {
    "spaces in front": (["    x = 1", "  y = = 2"], 1 / 2),
    "line ends and tabs around": (["\n\tx = 1\n", "\n  y = 2\n\n"], 1.0),
}
EMPTY = {
    "an empty text": (["", "x = 1"], 1 / 2),
    "nothing but spaces": (["   \n ", "x = 1", "y"], 2 / 3),
    "a comment alone": (["# to do", "x = 1  # done"], 1 / 2),
}
UNBOUND = {
    "names that nobody defined": (["print(no_such_name)", "no_such_name.f()"], 1.0),
    "a return outside of a function": (["return x", "x = 1"], 1.0),
    "a division by zero": (["1 / 0", "x ="], 1 / 2),
}
HARD = ["x = '\ud800'", "-" * 9000 + "1", "1 + " * 4000 + "1", "x = 1\0", "x = 1"]


def rates(label: str, texts: Mapping[str, tuple], says: str) -> Trial:
    """Ask for the share of each list of texts."""
    return value_trial(
        label,
        lambda candidate: {
            name: number(candidate(list(given))) for name, (given, _) in texts.items()
        },
        {name: share for name, (_, share) in texts.items()},
        stage="equality",
        says=says,
    )


def accepted(source: str) -> bool:
    """Ask Python itself, whatever it raises."""
    try:
        return bool(ast.parse(source.strip()).body)
    except Exception:  # of this Python; others raise other kinds
        return False


def share(texts: Sequence[str]) -> float:
    """Count what is accepted."""
    return len([text for text in texts if accepted(text)]) / len(texts)


def kind(candidate: Callable) -> dict[str, Any]:
    """Name what comes out."""
    answer = number(candidate(["x = 1", "x = = 1"]))
    return {"what comes out": "a number" if isinstance(answer, float) else type(answer).__name__}


EXERCISES = (
    Exercise(
        "parse_rate",
        "gpt",
        10,
        (
            value_trial(
                "two texts",
                kind,
                {"what comes out": "a number"},
                stage="shape",
                says="One number, the share.",
            ),
            rates("programs and others", TEXTS, "The share of the texts that `ast.parse` accepts."),
            rates("spaces at the ends", ENDS, "Spaces at both ends do not count: strip the text."),
            rates(
                "texts that do nothing",
                EMPTY,
                "A program has at least one statement: `ast.parse(…).body` holds them.",
            ),
            rates(
                "programs that would fail if they ran",
                UNBOUND,
                "Parsing only reads: nothing is run, and nothing compiled.",
            ),
            value_trial(
                "texts on which ast.parse stumbles",
                lambda candidate: {"the share": number(candidate(list(HARD)))},
                {"the share": share(HARD)},
                stage="equality",
                says="`ast.parse` may raise SyntaxError, ValueError, RecursionError and "
                "MemoryError; none of them is a program, and none may stop the count.",
            ),
            value_trial(
                "no text at all",
                lambda candidate: {"it raises": refuses(candidate, [])},
                {"it raises": "a ValueError"},
                says="Without a text there is no share: a ValueError.",
            ),
        ),
        (
            "A function that says of one text whether it is a program helps: it tries "
            "`ast.parse`, and answers False where that raises.",
            '`ast.parse("")` raises nothing: its `body` is an empty list. Strip the text first.',
            "`sum(…) / len(snippets)` counts what is True; begin with the empty list.",
        ),
    ),
)
