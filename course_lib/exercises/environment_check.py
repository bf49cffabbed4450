"""Check that Python and the libraries fit the course."""

import re
import sys
import warnings
from importlib.metadata import PackageNotFoundError, version

PYTHON = (3, 11)
TESTED = {  # the libraries whose versions show in the outputs of the chapters
    "torch": "2.13",
    "matplotlib": "3.11",
    "ipywidgets": "8.1",
    "tokenizers": "0.23",
    "unicode-rbnf": "2.4",
    "sacrebleu": "2.6",
    "sentencepiece": "0.2",
    "course-lib": "0.1",
}
REMEDY = "run `make lab` in the course's folder (Windows: see README.md), then restart the kernel"


def check_installation() -> str:
    """Check Python and the libraries, and return a sentence that says that they fit.

    Another version of a library than the tested one gives a warning.

    Raises:
        ValueError: If Python is too old, or a library is missing or has an older main version.
    """
    unusable = [] if sys.version_info >= PYTHON else [f"Python 3.11 or newer, not {sys.version}"]
    untested = []
    for library, tested in TESTED.items():
        try:
            installed = version(library)
        except PackageNotFoundError:
            unusable.append(f"{library} {tested}, which is not installed")
            continue
        if _release(installed)[0] < _release(tested)[0]:
            unusable.append(f"{library} {tested} or newer, not {installed}")
        elif _release(installed) != _release(tested):
            untested.append(f"{library} {installed} instead of {tested}")
    if unusable:
        raise ValueError(f"the course needs {'; '.join(unusable)}: {REMEDY}")
    if untested:
        warnings.warn(
            f"this is {', '.join(untested)}: the course should run, but its outputs come from the "
            f"tested versions and may differ from yours",
            stacklevel=2,
        )
    return f"Python and {len(TESTED)} libraries: everything is installed"


def _release(text: str) -> list[int]:
    """Read the first two numbers of a version."""
    return [int(number) for number in re.findall(r"\d+", text)[:2]]
