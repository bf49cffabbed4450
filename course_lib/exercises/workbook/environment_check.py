"""Check that Python and the libraries have versions that the course supports."""

import re
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from course_lib.support.terminal import as_typed

COURSE = Path(__file__).resolve().parents[3]
PYTHON = (3, 11)
TESTED = {  # the libraries whose versions affect the chapters' outputs
    "torch": "2.13",
    "matplotlib": "3.11",
    "ipywidgets": "8.1",
    "tokenizers": "0.23",
    "unicode-rbnf": "2.4",
    "sacrebleu": "2.6",
    "sentencepiece": "0.2",
    "course-lib": "1.0",
}


def check_installation() -> str:
    """Check Python and the libraries, and return a sentence if everything is fine.

    Warns about libraries whose versions differ from the tested ones.

    Raises:
        ValueError: If Python is too old, or a library is missing or its major version is too old.
    """
    if sys.version_info < PYTHON:
        raise ValueError(f"the course needs Python 3.11 or newer, but this is {sys.version}")
    unusable: dict[str, str] = {}
    untested = []
    for library, tested in TESTED.items():
        try:
            installed = version(library)
        except PackageNotFoundError:
            unusable[library] = f"{library} {tested}, which is not installed"
            continue
        if _release(installed)[0] < _release(tested)[0]:
            unusable[library] = f"{library} {tested} or newer, not {installed}"
        elif _release(installed) != _release(tested):
            untested.append(f"{library} {installed} instead of {tested}")
    if unusable:
        wanted = {name: f"{name}=={tested}.*" for name, tested in TESTED.items()}
        wanted["course-lib"] = str(COURSE)  # it is not in the package index
        remedy = as_typed("install", *map(wanted.__getitem__, unusable), program="pip")
        what = "; ".join(unusable.values())
        raise ValueError(f"the course needs {what}: run `{remedy}`, then restart the kernel")
    if untested:
        warnings.warn(
            f"you have {', '.join(untested)}: the course should run, but the outputs it shows come "
            f"from the tested versions and may differ from yours",
            stacklevel=2,
        )
    return f"Python and {len(TESTED)} libraries: everything is installed"


def _release(text: str) -> list[int]:
    """Return the first two numbers of a version."""
    return [int(number) for number in re.findall(r"\d+", text)[:2]]
