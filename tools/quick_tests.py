"""Run only the tests for the changed files, chosen by file name (`make test` runs everything).

For every file, we run the tests with its name, or else those that mention it. For a module, we also
run its doctests, exercises and chapter.
"""

import re
import sys
from pathlib import Path

import run_tests
from changed_files import changed

from course_lib.exercises.checking.exercise import exercises, find_exercise
from notebooks import ROOT, module_name, pages

MODULES = {str(path.relative_to(ROOT)): module_name(path) for path in pages()}  # by chapter
ALWAYS = "tests/repository/test_architecture.py"  # also compares the package with the exports
CHECKS = "tests/exercises/checking/test_checks.py"


def tests_of(file: str, module: str) -> list[str]:
    """Return the tests with a module's name; if there are none, those that mention the file."""
    tests = [str(path.relative_to(ROOT)) for path in ROOT.glob("tests/**/test_*.py")]
    if file in tests:
        return [file]
    tests = [test for test in tests if not test.startswith("tests/browser/")]
    stem, name = re.escape(Path(file).stem), re.escape(Path(file).name)
    naming = re.compile(rf"(import|from) [\w., ]*\b{stem}\b|[\"'/]{name}[\"']")
    named = [test for test in tests if Path(test).name.startswith(f"test_{module}")]
    return named or [test for test in tests if naming.search((ROOT / test).read_text())]


def select(files: list[str]) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the parts to run for some changed files, and the parts to run in parallel."""
    targets, executed, tasks = {ALWAYS}, set(), set()
    for file in files:
        module = MODULES.get(file) or Path(file).stem
        targets |= set(tests_of(file, module))
        if file.endswith(".js"):
            targets.add("tests/viz/test_javascript.py")
        elif file.startswith(("course_lib/", "notebooks/")):
            targets |= {file} if file.endswith(".py") else set()
            executed |= {path for path, name in MODULES.items() if file == path or module == name}
            tasks |= {name for name in exercises() if find_exercise(name).module == module}
    doctests = ["--doctest-modules", "-m", "not workbook", *sorted(targets)]
    parts = {**run_tests.STYLE, "tests and doctests": [*run_tests.PYTEST, *doctests]}
    beside = {}
    if tasks:
        beside["exercises"] = [*run_tests.PYTEST, CHECKS, "-k", " or ".join(sorted(tasks))]
    if executed:
        beside["chapters"] = [*run_tests.PYTEST, *run_tests.NBVAL, *sorted(executed)]
    return parts, beside


if __name__ == "__main__":
    parts, beside = select([file for file in changed() if (ROOT / file).exists()])
    sys.exit(run_tests.main(parts, [beside]))
