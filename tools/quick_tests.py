"""Run only the tests for the changed files, chosen by file name (`make test` runs everything).

For every file, we run the tests with its name, or else those that mention it, or else those with
the name of its folder. For a module, we also run its doctests, exercises and chapter.
"""

import re
import sys
from pathlib import Path

import run_tests
from changed_files import changed

from course_lib.exercises import exercises
from notebooks import ROOT, chapters, module_name

MODULES = {str(path.relative_to(ROOT)): module_name(path) for path in chapters()}  # by chapter
ALWAYS = "tests/repository/test_architecture.py"  # also compares the package with the exports
CHECKS = "tests/exercises/checking/test_checks.py"


def module_of(file: str) -> str:
    """Return the module that a chapter exports, or the name of another file without its suffix."""
    return MODULES.get(file) or Path(file).stem.lower()


def tests_of(file: str) -> tuple[str, list[str]]:
    """Return the first rule that finds tests for a file, and the test files that it finds."""
    tests = {path.relative_to(ROOT): path.read_text() for path in ROOT.glob("tests/**/test_*.py")}
    if Path(file) in tests:
        return "a test file", [file]
    stem, name = re.escape(Path(file).stem), re.escape(Path(file).name)
    naming = re.compile(rf"(import|from) [\w., ]*\b{stem}\b|[\"'/]{name}[\"']")
    rooms = Path(file).parts[1:-1]
    rules = {
        "tests with its name": lambda path: path.stem.startswith(f"test_{module_of(file)}"),
        "tests that mention it": lambda path: naming.search(tests[path]),
        "tests for its folder": lambda path: rooms and path.parts[1:-1] == rooms,
    }
    for rule, holds in rules.items():
        chosen = [str(path) for path in tests if path.parent.name != "browser" and holds(path)]
        if chosen:
            return rule, sorted(chosen)
    return "no rule applies, so only the tests that always run", []


def source(file: str) -> str:
    """Return the source of a module in the package, or of the module that a chapter exports."""
    path = ROOT / (f"course_lib/{module_of(file)}.py" if file in MODULES else file)
    ours = file in MODULES or file.startswith("course_lib/")
    return path.read_text() if ours and path.suffix == ".py" and path.exists() else ""


def select(files: list[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Print the rule for each file; return the parts to run, and the ones to run in parallel."""
    targets, notebooks, tasks = {ALWAYS}, set(), set()
    for file in files:
        rule, tests = tests_of(file)
        print(f"{file}: {rule}")
        targets |= {*tests, "tests/viz/test_javascript.py"} if file.endswith(".js") else set(tests)
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
