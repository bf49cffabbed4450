"""Measure on this machine, by medians and ranges, and keep it in benchmarks/bench.json."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # everything is measured on one core
os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler's own messages are no result

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tools"))  # the driver of the browser, the tests

from bench_attention import bench_attention
from bench_decoding import bench_decoding
from bench_generate import bench_generate
from bench_gpt import bench_gpt
from bench_mixed import bench_mixed
from bench_record import RECORD, draw, keep
from bench_roofline import bench_roofline
from bench_training import bench_training
from bench_widgets import bench_widgets
from run_tests import run_all
from timing import Row

from course_lib.trainer.hardware import describe_machine, one_thread


def bench_tests() -> list[Row]:
    """Run everything that CI runs, and return the seconds of each part.

    Raises:
        RuntimeError: If something failed.
    """
    times, (passed, failed, _), broken = run_all()
    if failed:
        raise RuntimeError(f"not kept, as tests failed; look above at: {', '.join(broken)}")
    print("\nseconds:", ", ".join(f"{name} {seconds:.0f}" for name, seconds in times.items()))
    rows = [{"name": name, "seconds": round(seconds, 1)} for name, seconds in times.items()]
    rows[-1]["passed"] = passed  # of all
    return [{"table": "make test", **row} for row in rows]


PARTS = {  # what a name on the command line runs, in this order
    "widgets": bench_widgets,
    "attention": bench_attention,
    "training": bench_training,
    "mixed": bench_mixed,
    "roofline": bench_roofline,
    "decoding": bench_decoding,
    "generate": bench_generate,
    "gpt": bench_gpt,
    "tests": bench_tests,  # last: it takes longest
}
LONG = {"tests": "all that `make test` runs: about ten minutes"}


def measure(names: Sequence[str], path: Path = RECORD) -> None:
    """Run some parts in their order; keep and draw each as soon as it is done.

    Args:
        names: Keys of ``PARTS``.
        path: The record. Parts that are not run stay in it as they are.
    """
    with one_thread():
        print(describe_machine("cpu"))
        for name in sorted(set(names), key=list(PARTS).index):
            print(f"\n== {name}" + (f", {LONG[name]}" if name in LONG else ""), flush=True)
            start = time.perf_counter()
            keep(name, PARTS[name](), list(PARTS), path)
            print(f"\n{name} took {time.perf_counter() - start:.0f} s; {draw(path)}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the command line, and measure what it names: all, unless it names parts."""
    reader = argparse.ArgumentParser(description=__doc__)
    known = ", ".join(PARTS)
    reader.add_argument("parts", nargs="*", help=f"all, unless some are named: {known}")
    parts = reader.parse_args(arguments).parts
    unknown = [name for name in parts if name not in PARTS]
    if unknown:
        reader.error(f"there is no part {', '.join(map(repr, unknown))}; the parts are {known}")
    measure(parts or list(PARTS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
