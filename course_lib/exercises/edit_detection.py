"""Tell a module of the learner's as ``export_mine`` wrote it from one changed by hand."""

import ast
import hashlib
import re
from collections.abc import Collection

from course_lib.exercises.module_writer import NOTE
from course_lib.exercises.source_analysis import bound, imports_in
from course_lib.exercises.stubs import defined
from course_lib.exercises.workbook import fresh_module

YOURS, BACK = "# Yours in it: ", "# Put back to the course's by hand: "
SEAL = "# As export_mine() wrote it: "


def stamped(text: str, yours: Collection[str], back: Collection[str]) -> str:
    """Write into a module what tells later whether it is still as it was written.

    Args:
        text: The module.
        yours: The definitions in it that are the learner's.
        back: Those that the learner put back to the course's by hand.
    """
    said = f"\n{YOURS}{', '.join(yours)}" if yours else ""
    said += f"\n{BACK}{', '.join(back)}" if back else ""
    text = text.replace(NOTE, NOTE + said, 1)
    return text.replace(NOTE, f"{NOTE}\n{SEAL}{_digest(text)}", 1)


def by_hand(text: str, module: str) -> bool:
    """Say whether somebody changed a module since the workbook or an export wrote it."""
    seal = re.search(rf"^{re.escape(SEAL)}(\w*)\n", text, re.M)
    if seal:
        return seal[1] != _digest(text.replace(seal[0], "", 1))
    return bool(text) and not _is_fresh(text, module)


def put_back(text: str, module: str) -> set[str]:
    """Find the definitions that were the learner's, and come from the course now."""
    body, own = ast.parse(text).body, f"from course_lib.{module} import "
    course = {name for name, line in imports_in(body) if line == own + name}
    course -= bound([node for node in body if not isinstance(node, ast.ImportFrom)])
    return course & (_named(text, YOURS) | _named(text, BACK))


def lost(before: str, after: str) -> list[str]:
    """Name the functions and classes that another text has not, or not so."""
    old, new = ({n: ast.dump(d) for n, d in defined(t).items()} for t in (before, after))
    return [name for name in old if old[name] != new.get(name)]


def _named(text: str, words: str) -> set[str]:
    """Return the names in a line of the stamp."""
    line = re.search(rf"^{re.escape(words)}(.*)$", text, re.M)
    return set(line[1].split(", ")) if line else set()


def _is_fresh(text: str, module: str) -> bool:
    """Say whether a module is as the workbook gives it: it hands on the course's names."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign) and bound([node]) == {"__all__"}:
            try:
                return text == fresh_module(module, ast.literal_eval(node.value))
            except (ValueError, TypeError):
                return False
    return False


def _digest(text: str) -> str:
    """Return what tells one text from another."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
