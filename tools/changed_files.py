"""Find the files that changed since the last commit, or since the last `make sync`."""

import hashlib
import json
import subprocess
from collections.abc import Callable, Iterable

from notebooks import ROOT

STATE = ROOT / ".build" / "sync.json"  # checksums of the changed files at the last sync
CODE = ": code"  # marks the checksum of a chapter's code cells


def git(*arguments: str) -> list[str]:
    """Return the lines that a git command prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    return done.stdout.decode().splitlines()


def uncommitted() -> list[str]:
    """List the files that differ from the last commit."""
    return git("diff", "--name-only", "HEAD") + git("ls-files", "--others", "--exclude-standard")


def changed() -> list[str]:
    """List the files that differ from the last commit; if none do, the files in that commit."""
    return uncommitted() or git("show", "--name-only", "--format=", "HEAD")


def on_disk(file: str) -> bytes:
    """Return the content of a file, or nothing if the file was deleted."""
    return (ROOT / file).read_bytes() if (ROOT / file).is_file() else b""


def in_the_last_commit(file: str) -> bytes:
    """Return the content of a file in the last commit, or nothing if the file is not in it."""
    return subprocess.run(["git", "show", f"HEAD:{file}"], cwd=ROOT, capture_output=True).stdout


def code_of(chapter: bytes) -> str:
    """Return the source of a chapter's code cells."""
    cells = json.loads(chapter or '{"cells": []}')["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")


def checksums(files: Iterable[str], content: Callable[[str], bytes]) -> dict[str, str]:
    """Return a checksum of each file, and a second one of each chapter's code."""
    parts = {file: content(file) for file in files}
    for file in list(parts):
        if file.endswith(".ipynb"):
            parts[file + CODE] = code_of(parts[file]).encode()
    return {name: hashlib.sha256(part).hexdigest() for name, part in parts.items()}


def before_and_now() -> tuple[dict[str, str], dict[str, str]]:
    """Return checksums of the files that may have changed: at the last sync or commit, and now."""
    synced = json.loads(STATE.read_text(encoding="utf-8")) if STATE.exists() else {}
    files = {*uncommitted(), *(name for name in synced if not name.endswith(CODE))}
    return checksums(files, in_the_last_commit) | synced, checksums(files, on_disk)


def since_sync() -> set[str]:
    """List the files, and the chapters' code, that changed since the last sync or commit."""
    before, now = before_and_now()
    return {name for name, checksum in now.items() if checksum != before[name]}


def keep() -> None:
    """Save the checksums of the files as they are now."""
    _, now = before_and_now()
    STATE.parent.mkdir(exist_ok=True)
    STATE.write_text(json.dumps(now, indent=1), encoding="utf-8")
