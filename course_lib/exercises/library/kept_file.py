"""The learner's JSON files, which are locked, replaced in one step, and renamed if unreadable."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from course_lib.support.atomic_write import set_aside, write_whole

LOCK = ".progress.lock"
PATIENCE = 10  # seconds to wait for another chapter


@dataclass(frozen=True)
class KeptFile:
    """A JSON file in the learner's package that stores entries by name.

    Args:
        name: The name of the file.
        content: What messages call the content, such as ``"your progress"``.
        is_valid: Returns whether an entry has the right format; may also raise an exception.
    """

    name: str
    content: str
    is_valid: Callable[[Any], bool]

    def read(self, package: Path) -> dict[str, Any]:
        """Read all entries; if the file cannot be read, rename it."""
        path = package / self.name
        if not path.exists():
            return {}
        unreadable = (ValueError, TypeError, KeyError, AttributeError, RecursionError)
        with suppress(*unreadable, IsADirectoryError):
            entries = json.loads(path.read_text(encoding="utf-8"))
            if all(map(self.is_valid, entries.values())):
                return entries
        aside = set_aside(path)
        print(f"{path} could not be read; we renamed it to {aside.name}", file=sys.stderr)
        return {}

    def change(self, package: Path, add: Callable[[dict[str, Any]], bool]) -> None:
        """Let a function change the entries, and write them if it returns ``True``.

        A lock makes this safe when several chapters are open. If writing fails, we print a message.
        """
        try:
            with FileLock(package / LOCK, timeout=PATIENCE):
                entries = self.read(package)
                if add(entries):
                    text = json.dumps(entries, indent=1, sort_keys=True)
                    write_whole(package / self.name, f"{text}\n")
        except (OSError, NotImplementedError) as error:  # the latter: no locks on this disk
            print(f"{self.content} could not be saved: {error}", file=sys.stderr)
