"""Write every drawing of the course: python figures/src/draw_all.py [--check]."""

import argparse
import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

SOURCES = Path(__file__).resolve().parent
FIGURES = SOURCES.parent
PATTERN = "[0-9][0-9]_*.py"


def sources() -> list[Path]:
    """The files that hold a drawing: one for each chapter, the bench, and the kill matrix."""
    return [
        *sorted(SOURCES.glob(PATTERN)),
        SOURCES / "benchmark_charts.py",
        SOURCES / "mistake_detection.py",
    ]


def load(source: Path) -> ModuleType:
    """Run a file whose name begins with digits, so that no import statement can name it."""
    if str(SOURCES) not in sys.path:
        sys.path.insert(0, str(SOURCES))
    spec = importlib.util.spec_from_file_location(f"figure_{source.stem}", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def redraw(source: Path) -> dict[str, str]:
    """Draw what a source draws: the text of each file by its ending."""
    module = load(source)
    tables = {".md": module.markdown()} if hasattr(module, "markdown") else {}
    return {".svg": module.draw(), **tables}


def expected(folder: Path) -> dict[Path, str]:
    """The text of every file that a folder of drawings should hold."""
    return {
        folder / f"{source.stem}{ending}": content
        for source in sources()
        for ending, content in redraw(source).items()
    }


def differing(folder: Path = FIGURES) -> list[str]:
    """Names of the drawings in a folder that are missing, out of date, or drawn by no source."""
    wanted = expected(folder)
    strays = [path for path in folder.glob("*.*") if path not in wanted]
    stale = [
        path
        for path, content in wanted.items()
        if not path.exists() or path.read_text(encoding="utf-8") != content
    ]
    return sorted(path.name for path in stale + strays)


def write(folder: Path = FIGURES) -> None:
    """Write every drawing into a folder."""
    for path, content in expected(folder).items():
        path.write_text(content, encoding="utf-8", newline="\n")


def main() -> int:
    """Write the drawings, or with --check name those that differ from their files."""
    parser = argparse.ArgumentParser(description="Draw the opening pictures of the chapters.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 on a difference"
    )
    if not parser.parse_args().check:
        write()
        return 0
    names = differing()
    for name in names:
        print(f"{name} differs from what its source draws; run: make figures")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
