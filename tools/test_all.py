"""Run everything that CI runs, print the time of each part, and sum the counts of all runners."""

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout", "300"]
PARTS = {  # the translator comes first: tests and chapters load it
    "style": ["-m", "ruff", "check", "."],
    "format": ["-m", "ruff", "format", "--check", "."],
    "translator": ["-c", "from course_lib.translator import load_or_train; load_or_train()"],
    "tests and doctests": [
        *PYTEST,
        *("-n", "2", "--doctest-modules", "--ignore=tests/browser", "-m", "not workbook"),
        *("tests", "course_lib"),
    ],
    "workbook": [*PYTEST, "-n", "2", "-m", "workbook", "tests/learn"],
    "browser": [*PYTEST, "-n", "2", "tests/browser"],
    "chapters": [
        *PYTEST,
        *NBVAL,
        *("-n", "2", "--dist", "loadfile"),
        "notebooks",
    ],
}


def run(name: str, arguments: list[str], folder: Path) -> tuple[int, int, int]:
    """Run one part; return how many passed, failed and were skipped."""
    report = folder / f"{name}.xml"
    if arguments[:2] == PYTEST[:2]:
        arguments = [*arguments, f"--junitxml={report}"]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    code = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=one_thread).returncode
    if not report.exists():
        return int(code == 0), int(code != 0), 0
    suite = ET.parse(report).getroot().find("testsuite")
    ran, skipped = int(suite.get("tests")), int(suite.get("skipped"))
    failed = int(suite.get("failures")) + int(suite.get("errors"))
    unsaid = int(code != 0 and failed == 0)  # a runner that broke without a failing test
    return ran - skipped - failed, failed + unsaid, skipped


def main() -> int:
    """Run all parts, whatever fails on the way; return the exit code."""
    totals, times, broken = [0, 0, 0], {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in PARTS.items():
            print(f"== {name}", flush=True)
            start = time.perf_counter()
            counts = run(name, arguments, Path(folder))
            times[name] = time.perf_counter() - start
            totals = [a + b for a, b in zip(totals, counts, strict=True)]
            broken += [name] if counts[1] else []
    passed, failed, skipped = totals
    print("\nseconds:", ", ".join(f"{name} {seconds:.0f}" for name, seconds in times.items()))
    if broken:
        print("look above at:", ", ".join(broken))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
