"""Write files into a folder, and lose nothing that somebody wrote there before."""

import hashlib
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

MANIFEST = ".workbook.json"  # what was written here, so that a change is seen


def fill(folder: Path, files: Mapping[str, bytes], *, force: bool = False) -> list[Path]:
    """Write files, and move aside first what somebody changed since the last time.

    Everything is written to a place beside, then moved in: a process killed at any moment
    leaves every changed file where it was or in its folder ``kept-1``, ``kept-2``, ….

    Args:
        folder: Where; made if it is missing.
        files: What to write under which name, such as ``"my_lib/masks.py"``.
        force: Whether to go on where something is there already.

    Returns:
        The files that were moved aside, where they are now.

    Raises:
        ValueError: If the folder is not empty, and ``force`` was not given.
    """
    if folder.is_dir() and any(folder.iterdir()) and not force:
        raise ValueError(
            f"{folder} is not empty; --force writes it anew, and keeps aside what you changed there"
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
    """Name what is in the way: not what we wrote before, and not what we shall write.

    A file that we wrote before and shall write no more is in the way, too.
    """
    before, found = _manifest(folder), []
    for name in dict.fromkeys([*written, *before]):
        if (folder / name).exists():
            now = _checksum((folder / name).read_bytes())
            if name not in written or now not in (before.get(name), written[name]):
                found.append(name)
    return found


def _keep(folder: Path, names: list[str]) -> list[Path]:
    """Move files into the next free folder for what is kept."""
    free = (folder / f"kept-{number}" for number in itertools.count(1))
    aside = next(path for path in free if not path.exists())
    for name in names:
        os.replace(folder / name, _parents(aside / name))
    return [aside / name for name in names]


def _manifest(folder: Path) -> dict[str, str]:
    """Read what was written here the last time; if nobody can say, nothing was."""
    try:
        kept = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    names = kept if isinstance(kept, dict) else {}
    return {n: kept[n] for n in names if not {"..", "/"} & set(PurePosixPath(n).parts)}


def _parents(path: Path) -> Path:
    """Make the folders above a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _checksum(content: bytes) -> str:
    """Return what tells one content from another."""
    return hashlib.sha256(content).hexdigest()
