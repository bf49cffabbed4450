"""Run everything that CI runs, print the time of each part, and count all tests."""

import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build_site import MATHJAX

from notebooks import ROOT, pages

Parts = dict[str, list[str]]  # the name of a part, and its arguments for python
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
NO_NBVAL = [*PYTEST, "-p", "no:nbval"]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout", "300", "-o", "pythonpath="]
TRAINING = "notebooks/11_training.ipynb"
BESIDE_TRAINING = "notebooks/21_modern_models.ipynb"  # long, and loads nothing that 11 trains
FIRST = (TRAINING, BESIDE_TRAINING)
CHAPTERS = [path.relative_to(ROOT).as_posix() for path in pages()]
TWO = ["-n", "2", "--no-loadscope-reorder"]  # or a long file may be the last to begin
PARTS = {  # chapter 11 is first, because it trains the translator that tests and chapters load
    "chapter 11": [*PYTEST, *NBVAL, TRAINING],
    "tests and doctests": [
        *NO_NBVAL,
        *(*TWO, "--dist", "loadscope"),  # tests/conftest.py says which tests stay together
        *("--doctest-modules", "--ignore=tests/browser"),
        *("tests", "course_lib"),
    ],
    "chapters": [
        *PYTEST,
        *NBVAL,
        *(*TWO, "--dist", "loadfile"),
        # the long ones first, or one of them would run alone at the end
        *(chapter for chapter in reversed(CHAPTERS) if chapter not in FIRST),
    ],
}
SITE = {"site": ["tools/build_site.py"]} if MATHJAX.is_dir() else {}  # the browser tests open it
STYLE = {"style": ["-m", "ruff", "check", "."], "format": ["-m", "ruff", "format", "--check", "."]}
BESIDE = [  # only the first group loads what chapter 11 trains
    {**SITE, "browser": [*NO_NBVAL, "tests/browser"]},
    {**STYLE, "types": ["-m", "mypy"], "chapter 21": [*PYTEST, *NBVAL, BESIDE_TRAINING]},
]
Counts = tuple[int, int, int]  # how many tests passed, failed and were skipped
Result = tuple[Counts, float, str]  # the counts of a part, its seconds, and what it printed


def run(name: str, arguments: list[str], folder: Path, beside: bool = False) -> Result:
    """Run one part; if it runs in parallel with other parts, capture what it prints."""
    if not beside:
        print(f"== {name}", flush=True)
    start, report = time.perf_counter(), folder / f"{name}.xml"
    if arguments[:2] == PYTEST[:2]:
        arguments = [*arguments, f"--junitxml={report}"]
    settings = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    settings["PYTHONDONTWRITEBYTECODE"] = ""  # or every process would compile every module
    streams = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT) if beside else {}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=settings, text=True, **streams
    )
    return counted(report, done.returncode), time.perf_counter() - start, done.stdout or ""


def counted(report: Path, code: int) -> Counts:
    """Read the counts from a report; if there is no report, use the exit code instead."""
    if not report.exists():
        return int(code == 0), int(code != 0), 0
    suite = ET.parse(report).getroot().find("testsuite")
    ran, skipped = int(suite.get("tests")), int(suite.get("skipped"))
    failed = int(suite.get("failures")) + int(suite.get("errors"))
    unsaid = int(code != 0 and failed == 0)  # the runner failed, but none of its tests did
    return ran - skipped - failed, failed + unsaid, skipped


def run_each(parts: Parts, folder: Path, beside: bool = False) -> dict[str, Result]:
    """Run several parts, one after another."""
    return {name: run(name, arguments, folder, beside) for name, arguments in parts.items()}


def run_all(
    parts: Parts = PARTS, beside: Sequence[Parts] = BESIDE
) -> tuple[dict[str, float], Counts, list[str]]:
    """Run all parts, even if some fail, and run each group in ``beside`` in parallel with them.

    The first group starts after the first part, and the other groups start immediately. Returns
    the seconds for each part and in total, the total counts, and the names of the failed parts.
    """
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        first, *later = parts
        running = [pool.submit(run_each, group, Path(folder), True) for group in beside[1:]]
        results = run_each({first: parts[first]}, Path(folder))
        running += [pool.submit(run_each, group, Path(folder), True) for group in beside[:1]]
        results |= run_each({name: parts[name] for name in later}, Path(folder))
        for group in running:
            for name, result in group.result().items():
                print(f"== {name}, in parallel", result[2], sep="\n", flush=True)
                results[name] = result
    times = {name: seconds for name, (_, seconds, _) in results.items()}
    times["all"] = time.perf_counter() - start
    totals = tuple(map(sum, zip(*(counts for counts, _, _ in results.values()), strict=True)))
    return times, totals, [name for name, (counts, _, _) in results.items() if counts[1]]


def main(parts: Parts = PARTS, beside: Sequence[Parts] = BESIDE) -> int:
    """Run all parts, print a summary, and return the exit code."""
    times, (passed, failed, skipped), broken = run_all(parts, beside)
    print("\nseconds:", ", ".join(f"{name} {seconds:.0f}" for name, seconds in times.items()))
    if broken:
        print("failed (see above):", ", ".join(broken))
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
