"""The folders for the files that the course downloads and for the models that it trains."""

import os
from pathlib import Path

from platformdirs import user_data_path

PACKAGE = Path(__file__).resolve().parents[1]


def user_folder(variable: str, name: str) -> Path:
    """Return the folder that an environment variable names, or else one next to the package.

    If the package is installed, the latter is in the user's data folder instead.
    """
    if chosen := os.environ.get(variable):
        try:
            return Path(chosen).expanduser()
        except RuntimeError:  # there is no such user
            raise ValueError(f"{variable}={chosen} names a user who has no home folder") from None
    installed = PACKAGE.parent.name in ("site-packages", "dist-packages")
    return (user_data_path("course_lib", appauthor=False) if installed else PACKAGE.parent) / name


def data_folder() -> Path:
    """Return the folder for corpora and published weights: COURSE_DATA, or ``data``."""
    return user_folder("COURSE_DATA", "data")
