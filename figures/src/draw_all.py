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
    """Return the source of every drawing: the chapters, the benchmarks and the kill matrix."""
    return [
        *sorted(SOURCES.glob(PATTERN)),
        SOURCES / "benchmark_charts.py",
        SOURCES / "mistake_detection.py",
    ]


def load(source: Path) -> ModuleType:
    """Import a file whose name begins with digits, so that an import statement does not work."""
    if str(SOURCES) not in sys.path:
        sys.path.insert(0, str(SOURCES))
    spec = importlib.util.spec_from_file_location(f"figure_{source.stem}", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def redraw(source: Path) -> dict[str, str]:
    """Run a source, and return the text of each file that it produces, by suffix."""
    module = load(source)
    tables = {".md": module.markdown()} if hasattr(module, "markdown") else {}
    return {".svg": module.draw(), **tables}


def expected(folder: Path) -> dict[Path, str]:
    """Return the text of every file that a folder of drawings should contain."""
    return {
        folder / f"{source.stem}{ending}": content
        for source in sources()
        for ending, content in redraw(source).items()
    }


def differing(folder: Path = FIGURES) -> list[str]:
    """Return the names of the drawings that are missing, out of date, or without a source."""
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
    """Write the drawings or, with --check, list the drawings that differ from their files."""
    parser = argparse.ArgumentParser(description="Draw all pictures of the course.")
    parser.add_argument(
        "--check", action="store_true", help="only check; exit with 1 if a drawing differs"
    )
    if not parser.parse_args().check:
        write()
        return 0
    names = differing()
    for name in names:
        print(f"{name} differs from its source; run: make figures")
    return 1 if names else 0


if __name__ == "__main__":
    sys.exit(main())
