"""The workbook runs when it is solved, untouched, wrong, or solved in another style."""

import re
import shutil
import symtable

import pytest
from chapter_runner import Runner
from workbook_solver import (
    WORKED,
    asked_in,
    definition,
    filled,
    reference_answers,
    run_chapter,
    write_workbook,
)

from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.checking.exercise import right_ways
from course_lib.exercises.checking.mistake import PRELUDE
from course_lib.exercises.checking.report import CORRECT
from course_lib.exercises.library.package import LIBRARY, cells_in, module_text
from course_lib.exercises.library.separate_process import examine_apart
from course_lib.exercises.questions.question import questions
from course_lib.exercises.workbook.notebook_builder import (
    SIDE_TRIPS,
    is_marked,
    new_cell,
    source_of,
)

pytestmark = pytest.mark.workbook
KINDS = [  # chapters that use a learner's work in different ways
    "00_start_here.ipynb",  # a prediction and a test, no definitions
    "06_masks.ipynb",  # plain functions
    "08_decoder.ipynb",  # classes, assembled from the learner's own parts and stand-ins
    "12_decoding.ipynb",  # loads the translator that chapter 11 trained
]
CLINIC = "16_"  # its exercises are the same in both editions, and long
FIRST = {name: next(m for m in known_mistakes(name) if not m.pattern) for name in exercises()}
TRAINING = """
import os
os.environ["COURSE_CHECKPOINTS"] = "trained"
from my_lib.tasks.numbers import Numbers, load_or_train
print(type(load_or_train(TranslatorConfig(**Numbers.sizes["smoke"])).model).__module__)
"""
LAST_WORDS = """
from my_lib.tasks.numbers import load_or_train
translator = load_or_train()
model = translator.model
print(type(model).__module__, greedy_decode.__module__)
print(translator.translate(["three hundred forty-five"])[0])
"""


def other_styles() -> dict[str, str]:
    """Return code that defines exercises with a correct answer in another style."""
    ways = {name: way for name in exercises() for way in right_ways(name)[:1]}
    return {name: f"{PRELUDE}\n\n{way.source}" for name, way in ways.items()}


def globals_of(table: symtable.SymbolTable) -> tuple[set[str], set[str]]:
    """Return the names that a cell defines, and the global names that it uses."""
    made, used = set(), set()
    for symbol in table.get_symbols():
        if table.get_type() == "module" and (symbol.is_assigned() or symbol.is_namespace()):
            made.add(symbol.get_name())
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            used.add(symbol.get_name())
    for child in table.get_children():
        used |= globals_of(child)[1]
    return made, used


def needed(cells: list) -> list:
    """Return the cells of exercises, imports and exports, and those that define what they use."""
    words = re.compile(r"^#\| (export|exercise)\b|^(import|from) |export_mine", re.M)
    kept, wanted = [], set()
    for cell in reversed([c for c in cells if c["cell_type"] == "code"]):
        made, used = globals_of(symtable.symtable(source_of(cell), "cell", "exec"))
        changed = set(re.findall(r"^(\w+)\.\w+ = ", source_of(cell), re.M))
        if words.search(source_of(cell)) or (made | changed) & wanted:
            kept.append(cell)
            wanted = (wanted - made) | used
    return kept[::-1]


def refused(said: dict[str, str]) -> dict[str, str]:
    """Return the reports of the exercises that are not correct."""
    return {name: words for name, words in said.items() if f"Correct: {name}" not in words}


@pytest.fixture(scope="module")
def runner():
    """Run chapters in forks of one process."""
    with Runner() as process:
        yield process


@pytest.fixture(scope="module")
def workbook(tmp_path_factory):
    """Write a workbook that tests do not change."""
    return write_workbook(tmp_path_factory.mktemp("workbook"))


@pytest.fixture(scope="module")
def solved(workbook, tmp_path_factory):
    """Copy the workbook, with every module as the learner's, as if all chapters were solved."""
    folder = tmp_path_factory.mktemp("solved") / "workbook"
    shutil.copytree(workbook, folder)
    for module, answers in ANSWERS.items():
        (folder / LIBRARY / f"{module}.py").write_text(module_text(module, answers))
    return folder


ANSWERS: dict[str, dict[str, str]] = {}  # by module, to which side trips may add
for chapter in (each for each in WORKED.values() if each.module):
    right = {n: a for n, a in reference_answers(chapter).items() if n in exercises()}
    ANSWERS.setdefault(chapter.module, {}).update(right)


@pytest.mark.parametrize("file", [file for file in WORKED if CLINIC not in file])
def test_a_solved_chapter_passes_every_check_and_becomes_the_learners_module(file, solved, runner):
    module = WORKED[file].module
    cells = needed(filled(solved, file, ANSWERS.get(module, {}), others=True))
    mine = solved / LIBRARY / f"{module}.py"
    if module:
        mine.write_text(module_text(module))
    for last, words in (("training", TRAINING), ("decoding", LAST_WORDS)):
        if module == last:
            cells.append(new_cell("last-words", words, "code"))
    said, shown = run_chapter(runner, cells, (solved / file).parent)
    assert (said or file.startswith(SIDE_TRIPS)) and not refused(said)
    if module:
        exported = cells_in(mine.read_text(encoding="utf-8"))
        assert set(exported) == ANSWERS[module].keys() & set(WORKED[file].exported)
        for name, cell in exported.items():
            assert definition(cell, name) == ANSWERS[module][name]
            assert "core_only" not in cell, "later chapters run it"
    if module == "training":
        assert shown[-1].endswith("my_lib.transformer\n") and list((solved / "trained").iterdir())
    if module == "decoding":
        assert "my_lib.transformer" in shown[-1] and "dreihundertfünfundvierzig" in shown[-1]
        (parts,) = [text for text in shown if text.startswith("your parts in")]
        assert parts.endswith("19 of 20; the course's: greedy_decode\n")  # not yet written


def test_another_process_grades_a_solved_library_as_correct(workbook):
    asked = {module: list(answers) for module, answers in ANSWERS.items()}
    texts = {module: module_text(module, answers) for module, answers in ANSWERS.items()}
    marks = examine_apart(workbook / LIBRARY, asked, 120, texts)
    assert set(marks) == set(exercises())
    assert {name: mark for name, mark in marks.items() if mark.state != CORRECT} == {}


@pytest.mark.parametrize("file", KINDS)
def test_an_untouched_chapter_runs_and_does_not_count_as_an_attempt(file, workbook, runner):
    said, _ = run_chapter(runner, needed(filled(workbook, file)), workbook)
    loud = {name: words for name, words in said.items() if "Not attempted yet" not in words}
    assert said and not loud


def test_a_mistake_in_every_exercise_is_named(workbook, runner):
    answers = {name: definition(mistake.source, name) for name, mistake in FIRST.items()}
    whole = filled(workbook, "06_masks.ipynb", answers)
    for cell in whole:
        source = source_of(cell)
        if is_marked(source, "exercise"):
            source = source.replace("= ...", "= -17.25")
            cell["source"] = source.replace("raise NotImplementedError", "pass")
    said, _ = run_chapter(runner, needed(whole), workbook)
    assert said.keys() == {name for cell in whole for name in asked_in(cell)} != set()
    for name, words in said.items():
        assert f"Not yet: {name}" in words
        assert name not in FIRST or FIRST[name].sentence in words, words


def test_a_chapter_runs_with_correct_answers_in_another_style(solved, runner):
    cells = filled(solved, "08_decoder.ipynb", other_styles(), others=True)
    cells = [cell for cell in cells if "export_mine()" not in source_of(cell)]
    said, _ = run_chapter(runner, cells, solved)
    assert said and not refused(said)


def test_every_exercise_is_in_the_workbook_once(workbook):
    cells = [cell for file in WORKED for cell in filled(workbook, file)]
    asked = [name for cell in cells for name in asked_in(cell)]
    assert sorted(asked) == sorted([*exercises(), *(question.name for question in questions())])
