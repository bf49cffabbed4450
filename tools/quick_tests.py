"""Run what a change touches, chosen by names and never by imports; `make test` runs everything.

A module is held by its tests, doctests, exercises and chapter; any other file by the tests of its
name, or else by the tests that name it, or else by the tests of its folder.
"""

import re
import sys
from pathlib import Path

import run_tests
from changed_files import changed

from course_lib.exercises import exercises
from notebooks import ROOT, chapters, module_name

MODULES = {str(path.relative_to(ROOT)): module_name(path) for path in chapters()}  # by chapter
ALWAYS = "tests/test_architecture.py"  # also compares the package with what the chapters export
CHECKS = "tests/exercises/test_checks.py"


def module_of(file: str) -> str:
    """Return the module that a chapter exports; of any other file, its name without its ending."""
    return MODULES.get(file) or Path(file).stem.lower()


def tests_of(file: str) -> tuple[str, list[str]]:
    """Return the first rule that chooses any test files for a file, and these test files."""
    tests = {path.relative_to(ROOT): path.read_text() for path in ROOT.glob("tests/**/test_*.py")}
    if Path(file) in tests:
        return "a test file", [file]
    stem, name = re.escape(Path(file).stem), re.escape(Path(file).name)
    naming = re.compile(rf"(import|from) [\w., ]*\b{stem}\b|[\"'/]{name}[\"']")
    folders = {f"test_{folder}" for folder in Path(file).parts[:-1]}
    rules = {
        "tests of its name": lambda path: path.stem.startswith(f"test_{module_of(file)}"),
        "tests that name it": lambda path: naming.search(tests[path]),
        "tests of its folder": lambda path: path.stem in folders,
    }
    for rule, holds in rules.items():
        chosen = [str(path) for path in tests if path.parent.name != "browser" and holds(path)]
        if chosen:
            return rule, sorted(chosen)
    return "no rule, only what always runs", []


def source(file: str) -> str:
    """Read a Python file of the package, which for a chapter is the module that it exports."""
    path = ROOT / (f"course_lib/{module_of(file)}.py" if file in MODULES else file)
    ours = file in MODULES or file.startswith("course_lib/")
    return path.read_text() if ours and path.suffix == ".py" and path.exists() else ""


def select(files: list[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Say by which rule we choose what to run; return the parts, and those to run beside them."""
    targets, notebooks, tasks = {ALWAYS}, set(), set()
    for file in files:
        rule, tests = tests_of(file)
        print(f"{file}: {rule}")
        targets |= {*tests, "tests/test_javascript.py"} if file.endswith(".js") else set(tests)
        if text := source(file):
            targets |= {file} - set(MODULES)
            tasks |= set(re.findall(r'"(\w+)"', text)) & set(exercises())
            notebooks |= {path for path, module in MODULES.items() if module == module_of(file)}
        notebooks |= {file} & set(MODULES)
    doctests = ["--doctest-modules", "-m", "not workbook", *sorted(targets)]
    parts = {**run_tests.STYLE, "tests and doctests": [*run_tests.PYTEST, *doctests]}
    beside = {}
    if tasks:
        beside["exercises"] = [*run_tests.PYTEST, CHECKS, "-k", " or ".join(sorted(tasks))]
    if notebooks:
        beside["chapters"] = [*run_tests.PYTEST, *run_tests.NBVAL, *sorted(notebooks)]
    return parts, beside


if __name__ == "__main__":
    parts, beside = select(changed())
    sys.exit(run_tests.main(parts, [beside]))
