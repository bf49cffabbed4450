"""Run everything that CI runs, and print the time of each part."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from build_site import MATHJAX

ROOT = Path(__file__).resolve().parent.parent
Parts = dict[str, list[str]]  # the name of a part, and its arguments for python
PYTEST = ["-m", "pytest", "-q", "-p", "no:cacheprovider"]
NO_NBVAL = [*PYTEST, "-p", "no:nbval"]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout", "300"]
TRAINING = "notebooks/11_training.ipynb"
CHAPTERS = [f"notebooks/{path.name}" for path in sorted(ROOT.glob("notebooks/*.ipynb"))]
TWO = ["-n", "2", "--dist", "loadgroup"]  # tests of a group share what they computed
PARTS = {  # chapter 11 is first, because it trains the translator that tests and chapters load
    "chapter 11": [*PYTEST, *NBVAL, TRAINING],
    "tests and doctests": [
        *NO_NBVAL,
        *TWO,
        *("--doctest-modules", "--ignore=tests/browser", "-m", "not workbook"),
        *("tests", "course_lib"),
    ],
    "workbook": [*NO_NBVAL, *TWO, "-m", "workbook and not textbooks", "tests/exercises"],
    "chapters": [
        *PYTEST,
        *NBVAL,
        *("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"),
        # the long ones first, or one of them would run alone at the end
        *(chapter for chapter in reversed(CHAPTERS) if chapter != TRAINING),
    ],
}
SITE = {"site": ["tools/build_site.py"]} if MATHJAX.is_dir() else {}  # the browser tests open it
STYLE = {"style": ["-m", "ruff", "check", "."], "format": ["-m", "ruff", "format", "--check", "."]}
BESIDE = [  # the first group loads what chapter 11 trains, and mostly waits
    {**SITE, "browser": [*NO_NBVAL, "tests/browser"]},
    {**STYLE, "types": ["-m", "mypy"]},
]
Result = tuple[bool, float, str]  # whether a part failed, its seconds, and what it printed


def run(name: str, arguments: list[str], beside: bool = False) -> Result:
    """Run one part; if it runs in parallel with other parts, capture what it prints."""
    if not beside:
        print(f"== {name}", flush=True)
    start = time.perf_counter()
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    streams = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT) if beside else {}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=one_thread, text=True, **streams
    )
    return done.returncode != 0, time.perf_counter() - start, done.stdout or ""


def run_each(parts: Parts, beside: bool = False) -> dict[str, Result]:
    """Run several parts, one after another."""
    return {name: run(name, arguments, beside) for name, arguments in parts.items()}


def main(parts: Parts = PARTS, beside: Sequence[Parts] = BESIDE) -> int:
    """Run all parts, even if some fail, and run each group in ``beside`` in parallel with them.

    The first group starts after the first part, and the other groups start immediately. Prints the
    seconds of each part, and returns the exit code.
    """
    start = time.perf_counter()
    with ThreadPoolExecutor() as pool:
        first, *later = parts
        running = [pool.submit(run_each, group, True) for group in beside[1:]]
        results = run_each({first: parts[first]})
        running += [pool.submit(run_each, group, True) for group in beside[:1]]
        results |= run_each({name: parts[name] for name in later})
        for group in running:
            for name, result in group.result().items():
                print(f"== {name}, in parallel", result[2], sep="\n", flush=True)
                results[name] = result
    times = [f"{name} {seconds:.0f}" for name, (_, seconds, _) in results.items()]
    print("\nseconds:", ", ".join([*times, f"all {time.perf_counter() - start:.0f}"]))
    failed = [name for name, (has_failed, *_) in results.items() if has_failed]
    print("failed (see above):" if failed else "everything passed", ", ".join(failed))
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
