"""The learner's library ``my_lib``: how its modules are written and read, and changes seen."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

LIBRARY = "my_lib"
INIT = '"""Your own Transformer, chapter by chapter."""\n\nEDITION = 2  # of the course\n'
MARK = "# %% yours: "  # stands above every cell of the learner's
SEAL = "# As it was written: "
TEXT = '''"""Your `{module}`."""
# export_mine() writes this file: change your cell in the notebook, run it, then export_mine().

import math  # what cells of the notebook can use, too

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.exercises import core_only, provide_fallbacks

provide_fallbacks(globals())  # what is not yours below is the course's, and uses your parts
'''
OLD = (
    "{} is of the course's first edition; make a new workbook in another folder "
    "(`course workbook DIR`), and paste your answers into its cells"
)
CHANGED = (
    "{0} was changed by hand since it was written, and stays as it is; put what you want to keep "
    "into your cell, run it, delete {0}, then run this again"
)


def module_text(module: str, cells: Mapping[str, str] | None = None) -> str:
    """Write a module of the learner's library.

    Args:
        module: Its name, such as ``"masks"``.
        cells: The learner's definitions: for each name its cell. Two names may share one.
    """
    together: dict[str, list[str]] = {}
    for name, cell in (cells or {}).items():
        together.setdefault(cell.strip("\n"), []).append(name)
    parts = [f"\n\n{MARK}{', '.join(names)}\n{cell}\n" for cell, names in together.items()]
    text = TEXT.format(module=module) + "".join(parts)
    return text.replace("\n\n", f"\n{SEAL}{_digest(text)}\n\n", 1)


def cells_in(text: str) -> dict[str, str]:
    """Return the learner's cells in a module, by name."""
    parts = re.split(rf"^{re.escape(MARK)}(.*)\n", text, flags=re.M)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: cell.strip("\n") for names, cell in pairs for name in names.split(", ")}


def changed_by_hand(text: str) -> bool:
    """Say whether a module is not as ``module_text`` wrote it."""
    seal = re.search(rf"^{re.escape(SEAL)}(\w+)\n", text, re.M)
    return seal is None or seal[1] != _digest(text.replace(seal[0], "", 1))


def check_edition(package: Path) -> None:
    """Refuse a library of the first edition.

    Raises:
        ValueError: If it is one; the message says how to go on.
    """
    first = package / "__init__.py"
    text = first.read_bytes() if first.is_file() and first.stat().st_size < 10_000 else b""
    if b"EDITION = 2" not in text:
        raise ValueError(OLD.format(package))


def _digest(text: str) -> str:
    """Return what tells one text from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
