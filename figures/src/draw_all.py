"""Write every drawing of the course: python figures/src/draw_all.py [--check]."""

import argparse
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

SOURCES = Path(__file__).resolve().parent
FIGURES = SOURCES.parent
PATTERN = "[0-9][0-9]_*.py"


def sources() -> list[Path]:
    """The files that hold a drawing, in the order of the chapters."""
    return sorted(SOURCES.glob(PATTERN))


def load(source: Path) -> ModuleType:
    """Run a file whose name begins with digits, so that no import statement can name it."""
    if str(SOURCES) not in sys.path:
        sys.path.insert(0, str(SOURCES))
    spec = importlib.util.spec_from_file_location(f"figure_{source.stem}", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def redraw(source: Path) -> str:
    """Draw what a source draws."""
    return load(source).draw()


def target(source: Path, folder: Path = FIGURES) -> Path:
    """The file that shows what a source draws."""
    return folder / f"{source.stem}.svg"


def differing(folder: Path = FIGURES) -> list[str]:
    """Names of the drawings in a folder that are missing, out of date, or drawn by no source."""
    expected = {target(source, folder): redraw(source) for source in sources()}
    strays = [path for path in folder.glob("[0-9][0-9]_*.svg") if path not in expected]
    stale = [
        path
        for path, drawing in expected.items()
        if not path.exists() or path.read_text(encoding="utf-8") != drawing
    ]
    return sorted(path.name for path in stale + strays)


def write(folder: Path = FIGURES) -> None:
    """Write every drawing into a folder."""
    for source in sources():
        target(source, folder).write_text(redraw(source), encoding="utf-8", newline="\n")


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
