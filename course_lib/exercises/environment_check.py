"""Check that Python and the libraries fit the course."""

import sys
from importlib.metadata import PackageNotFoundError, version

PYTHON = (3, 11)
LIBRARIES = {
    "torch": "2.13",
    "matplotlib": "3.11",
    "ipywidgets": "8.1",
    "tokenizers": "0.23",
    "tqdm": "4.70",
    "unicode-rbnf": "2.4",
    "sacrebleu": "2.6",
    "course-lib": "0.1",
}
WAY_OUT = "run `make lab` in the course's folder (Windows: see README.md), then restart the kernel"


def check_installation() -> str:
    """Say in a sentence that Python and all libraries fit the course.

    Raises:
        ValueError: If something is missing or has another version.
    """
    wrong = [] if sys.version_info >= PYTHON else [f"Python 3.11 or newer (this is {sys.version})"]
    for library, wanted in LIBRARIES.items():
        try:
            found = version(library)
        except PackageNotFoundError:
            found = "not installed"
        if not f"{found}.".startswith(f"{wanted}."):
            wrong.append(f"{library} {wanted} ({found})")
    if wrong:
        raise ValueError(f"the course needs {', '.join(wrong)}: {WAY_OUT}")
    return f"Python and {len(LIBRARIES)} libraries: everything is installed"
