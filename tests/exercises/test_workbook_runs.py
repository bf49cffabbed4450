"""The workbook, executed: untouched, solved, and its exercises with one mistake in each."""

import ast
import shutil
from pathlib import Path

import nbformat
import pytest
from workbook_solver import (
    MODULES,
    ROOT,
    WORKED,
    asked_in,
    definition,
    put,
    put_worked_cells,
    reference_answers,
    run_chapter,
    written,
)

from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.catalogue import tasks as other_tasks
from course_lib.exercises.check import exercise
from course_lib.exercises.grade import grade_one
from course_lib.exercises.notebook_builder import LIBRARY, is_marked, source_of
from course_lib.exercises.stubs import defined
from course_lib.exercises.workbook import make_workbook
from course_lib.tasks.numbers import TranslatorConfig, checkpoint_path, load_or_train

pytestmark = pytest.mark.workbook
FIRST = {name: next(m for m in known_mistakes(name) if not m.tells) for name in exercises()}
every_chapter = pytest.mark.parametrize("file", WORKED)
LAST_WORDS = (
    "print(type(model).__module__, greedy_decode.__module__)\n"
    'print(translator.translate(["three hundred forty-five"])[0])'
)


def lend_the_translator(folder: Path) -> None:
    """Put the trained translator where the workbook keeps its own: it need not train again."""
    load_or_train()
    kept = checkpoint_path(TranslatorConfig())
    (folder / "checkpoints").mkdir()
    shutil.copy(kept, folder / "checkpoints" / kept.name)


def needed(cell) -> bool:
    """Say whether an exercise needs a cell: imports, definitions, and exercises themselves."""
    source = source_of(cell)
    marked = is_marked(source, "export") or is_marked(source, "exercise")
    return cell["cell_type"] == "code" and (marked or "import " in source)


@pytest.fixture(scope="module")
def workbook(tmp_path_factory):
    """Write a workbook once; the tests that share it change no file."""
    folder = tmp_path_factory.mktemp("workbook")
    make_workbook(folder)
    lend_the_translator(folder)
    return folder


def test_a_solved_workbook_is_all_green_and_its_own_model_translates(tmp_path):
    make_workbook(tmp_path)
    last = {}
    for file, worked in WORKED.items():
        notebook = put_worked_cells(written(tmp_path, file), worked, MODULES)
        notebook = put(notebook, reference_answers(worked))
        if worked.module == "decoding":
            notebook["cells"].append(dict(nbformat.v4.new_code_cell(LAST_WORDS)))
        said, last[worked.module] = run_chapter(notebook, tmp_path)
        red = {name: words for name, words in said.items() if f"Correct: {name}" not in words}
        assert not red
    assert "my_lib.transformer" in last["decoding"]
    assert "dreihundertfünfundvierzig" in last["decoding"]
    for name in exercises():
        file = f"{exercise(name).module}.py"
        mine, course = (
            (place / file).read_text(encoding="utf-8")
            for place in (tmp_path / LIBRARY, ROOT / "course_lib")
        )
        assert name in defined(mine), f"{name} still comes from the course"
        trees = [ast.dump(ast.parse(definition(text, name))) for text in (mine, course)]
        assert trees[0] == trees[1], name
    graded = list(grade_one("a learner", tmp_path / LIBRARY))
    assert {row.exercise for row in graded} == set(exercises())
    assert {row.state for row in graded} == {"correct"}


@every_chapter
def test_an_untouched_chapter_runs_and_nothing_is_attempted(file, workbook):
    said, _ = run_chapter(written(workbook, file), workbook)
    loud = {name: words for name, words in said.items() if "Not attempted yet" not in words}
    assert said and not loud


@every_chapter
def test_one_mistake_in_every_exercise_is_named(file, workbook):
    notebook = written(workbook, file)
    notebook["cells"] = [cell for cell in notebook["cells"] if needed(cell)]
    for cell in notebook["cells"]:
        source = source_of(cell)
        if is_marked(source, "exercise"):
            source = source.replace("= ...", "= -17.25")
            cell["source"] = source.replace("raise NotImplementedError", "pass")
    answers = {name: definition(mistake.source, name) for name, mistake in FIRST.items()}
    said, _ = run_chapter(put(notebook, answers), workbook)
    whole = written(workbook, file)["cells"]
    assert said.keys() == {name for cell in whole for name in asked_in(cell)} != set()
    for name, words in said.items():
        assert f"Not yet: {name}" in words
        assert name not in FIRST or FIRST[name].sentence in words, words


def test_every_exercise_stands_in_the_workbook_once(workbook):
    cells = [cell for file in WORKED for cell in written(workbook, file)["cells"]]
    asked = [name for cell in cells for name in asked_in(cell)]
    assert sorted(asked) == sorted([*exercises(), *(task.name for task in other_tasks())])
