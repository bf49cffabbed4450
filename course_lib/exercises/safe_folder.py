"""Write files into a folder without losing anything that somebody wrote there before."""

import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

MANIFEST = ".workbook.json"  # checksums of the files that we wrote, to notice changes


def fill(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> list[Path]:
    """Write files, and first move those that somebody changed since the last time.

    We write everything to a temporary folder, then move it. If the process is killed, every
    changed file is where it was, or in the folder ``kept-1``, ``kept-2``, ….

    Args:
        folder: Where to write; it is made if it is missing.
        files: The content of each file, by its name in the folder, such as ``"my_lib/masks.py"``.
        force: Whether to write into a folder that is not empty.

    Returns:
        The new paths of the files that were moved.

    Raises:
        ValueError: If the folder is not empty, and ``force`` was not given.
    """
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise ValueError(
            f"{folder} is not empty; --force writes into it, and first moves the files you changed"
        )
    folder.mkdir(parents=True, exist_ok=True)
    written = {name: _checksum(content) for name, content in files.items()}
    changed = _changed(folder, written)
    content = {**files, MANIFEST: json.dumps(written, indent=1).encode()}
    staging = Path(tempfile.mkdtemp(prefix=".new-", dir=folder))
    try:
        for name in content:
            _parents(staging / name).write_bytes(content[name])
            _parents(folder / name)
        kept = _keep(folder, changed)
        for name in content:  # the manifest comes last
            os.replace(staging / name, folder / name)
    finally:
        shutil.rmtree(staging)
    return kept


def _changed(folder: Path, written: Mapping[str, str]) -> list[str]:
    """List the files to move: those that somebody changed, and those that we no longer write."""
    before, found = _manifest(folder), []
    for name in dict.fromkeys([*written, *before]):
        if (folder / name).exists():
            now = _checksum((folder / name).read_bytes())
            if name not in written or now not in (before.get(name), written[name]):
                found.append(name)
    return found


def _keep(folder: Path, names: list[str]) -> list[Path]:
    """Move files into the next free folder ``kept-N``."""
    free = (folder / f"kept-{number}" for number in itertools.count(1))
    aside = next(path for path in free if not path.exists())
    for name in names:
        os.replace(folder / name, _parents(aside / name))
    return [aside / name for name in names]


def _manifest(folder: Path) -> dict[str, str]:
    """Read the checksums of the last time; an unreadable list counts as empty."""
    try:
        kept = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    names = kept if isinstance(kept, dict) else {}
    return {n: kept[n] for n in names if not {"..", "/"} & set(PurePosixPath(n).parts)}


def _parents(path: Path) -> Path:
    """Make the folders that a file needs, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _checksum(content: bytes) -> str:
    """Return a checksum of a file's content."""
    return hashlib.sha256(content).hexdigest()
