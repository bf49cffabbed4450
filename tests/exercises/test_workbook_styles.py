"""The workbook, solved in other styles than the course's: after a ✓ the rest of a chapter runs."""

import ast
import inspect
from importlib import import_module

import pytest
from workbook_solver import MODULES, WORKED, put, put_worked_cells, run_chapter, written

from course_lib.exercises import exercises
from course_lib.exercises.check import exercise
from course_lib.exercises.notebook_builder import is_marked
from course_lib.exercises.workbook import make_workbook

pytestmark = pytest.mark.workbook
BUILDING = [file for file in WORKED if "01" <= file[:2] <= "09"]


def other_style(name: str) -> str:
    """Return what defines an exercise's name as its first right answer in another style."""
    answer = import_module(f"course_lib.exercises.solutions.{exercise(name).module}").ANSWERS[name][
        0
    ]
    return (
        f"from {answer.__module__} import {answer.__name__} as {name}\n{name}.__name__ = '{name}'"
    )


ANSWERS = {name: other_style(name) for name in exercises()}


@pytest.fixture(scope="module")
def workbook(tmp_path_factory):
    """Write a workbook once; what a chapter exports, later chapters may import."""
    folder = tmp_path_factory.mktemp("workbook")
    make_workbook(folder)
    return folder


@pytest.mark.parametrize("file", BUILDING)
def test_a_chapter_runs_with_right_answers_in_another_style(file, workbook):
    notebook = put_worked_cells(written(workbook, file), WORKED[file], MODULES)
    said, _ = run_chapter(put(notebook, ANSWERS), workbook)
    refused = {name: words for name, words in said.items() if f"Correct: {name}" not in words}
    assert said and not refused


@pytest.mark.parametrize("file", WORKED)
def test_a_chapter_calls_its_functions_by_place(file):
    """A learner may give parameters other names."""
    cells = (source for source in WORKED[file].sources if not is_marked(source, "export"))
    calls = [n for cell in cells for n in ast.walk(ast.parse(cell)) if isinstance(n, ast.Call)]
    for call in calls:
        name = getattr(call.func, "id", None)
        if name in exercises() and not isinstance(exercise(name).given, type):
            by_place = set(inspect.getfullargspec(inspect.unwrap(exercise(name).given)).args)
            assert not by_place & {keyword.arg for keyword in call.keywords}, ast.unparse(call)
