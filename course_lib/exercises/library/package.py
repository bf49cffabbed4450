"""Write and read the modules of the learner's library ``my_lib``, and detect manual changes."""

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from course_lib.support.terminal import as_typed

LIBRARY = "my_lib"
INIT = '"""Your own Transformer, chapter by chapter."""\n'
MARK = "# %% yours: "  # the line above each of the learner's cells
SEAL = "# As it was written: "
TEXT = '''"""Your `{module}`."""
# export_mine() writes this file: change your cell in the notebook, run it, then export_mine().

import math  # your cells in the notebook can use these imports as well

import torch
from torch import nn
from torch.nn import functional as F

from course_lib.exercises import core_only, provide_fallbacks

provide_fallbacks(globals())  # the course's definitions, built from your parts below
'''
CHANGED = (
    "{0} was changed by hand, so we did not overwrite it. Copy what you want to keep into your "
    "cell, run the cell, delete {0}, and run this cell again"
)


def module_text(module: str, cells: Mapping[str, str] | None = None) -> str:
    """Return the text of a module of the learner's library; several names may share a cell."""
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
    """Return whether a module differs from what ``module_text`` wrote."""
    seal = re.search(rf"^{re.escape(SEAL)}(\w+)\n", text, re.M)
    return seal is None or seal[1] != _digest(text.replace(seal[0], "", 1))


def find_library(folder: Path) -> Path:
    """Return a folder's ``my_lib``, or the folder itself if it is one, or raise ValueError."""
    package = folder if folder.resolve().name == LIBRARY else folder / LIBRARY
    if not package.is_dir():
        make = as_typed("learn", "workbook")
        raise ValueError(f"there is no {LIBRARY} in {folder}; `{make}` creates a workbook")
    return package


def _digest(text: str) -> str:
    """Return a checksum of a string."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
