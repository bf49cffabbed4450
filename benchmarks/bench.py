"""Measure speed on this machine, and write medians and ranges to benchmarks/bench.json.

The part ``limit`` goes to course_lib/records/limit.json, because a side trip draws it.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # everything is measured on one core

import argparse
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bench_attention import bench_attention
from bench_decoding import bench_decoding
from bench_generate import bench_generate
from bench_gpt import bench_gpt
from bench_mixed import bench_mixed
from bench_training import bench_training
from timing import Row, line

from course_lib.records.results import add_entry, record_of
from course_lib.trainer.hardware import describe_machine, one_thread

RECORD = Path(__file__).with_name("bench.json")
OTHER_RECORDS = {"limit": record_of("limit")}


def bench_limit() -> Iterable[Row]:
    """Compare decoding to CTranslate2, which only this part needs."""
    import bench_limit

    return bench_limit.bench_limit()


PARTS: dict[str, Callable[[], Iterable[Row]]] = {  # they run in this order
    "attention": bench_attention,
    "training": bench_training,
    "mixed": bench_mixed,
    "decoding": bench_decoding,
    "generate": bench_generate,
    "gpt": bench_gpt,
    "limit": bench_limit,
}


def measure(names: Sequence[str]) -> None:
    """Run some parts, print each row, and record each part as soon as it is done.

    Args:
        names: Keys of ``PARTS``. The records keep their old entries for parts that are not run.
    """
    order = list(PARTS)
    with one_thread():
        machine = describe_machine("cpu")
        print(machine)
        for name in sorted(set(names), key=order.index):
            rows = []
            for row in PARTS[name]():
                print(line(row), flush=True)
                rows.append(row)
            entry = {"part": name, "machine": machine, "rows": rows}
            add_entry(
                OTHER_RECORDS.get(name, RECORD), entry, lambda entry: [order.index(entry["part"])]
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, and measure the parts that it names (all by default)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"parts to measure (default: {', '.join(PARTS)})")
    parts = parser.parse_args(arguments).parts
    unknown = [name for name in parts if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; choose from {', '.join(PARTS)}")
    measure(parts or list(PARTS))
    print("To update the figure and the tables, run: make figures results")
    return 0


if __name__ == "__main__":
    main()
