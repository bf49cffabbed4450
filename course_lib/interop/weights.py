"""Find published weights in the course's data folder, or in an installed data package."""

import json
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pooch
from filelock import FileLock

from course_lib.support.atomic_write import write_whole
from course_lib.support.terminal import as_typed
from course_lib.support.user_folders import data_folder


@dataclass(frozen=True, kw_only=True)
class PublishedModel:
    """A published model: where it is, its license, and its files.

    It is either on the hub (in one commit of a repository) or on the Python Package Index (in a
    package, as a weights file or a zip file). ``files`` maps each file's name to its sha256, or to
    null if we do not know it: then we trust the first download, and remember its digest.
    """

    repository: str = ""
    revision: str = ""
    package: str = ""
    file: str = ""
    license: str
    megabytes: int
    first_try: Sequence[str]  #: a command that uses the model, without --weights
    files: Mapping[str, str | None]


CATALOG = Path(__file__).with_name("published_models.json")
MODELS = {
    name: PublishedModel(**entry)
    for name, entry in json.loads(CATALOG.read_text(encoding="utf-8")).items()
}


def find_weights(named: Path | str) -> Path:
    """Return the path to published weights, and check their digests.

    We look in the course's data folder, and then in the installed data package, whose code never
    runs. If the package contains a zip file, we unpack it once, into the data folder.

    Args:
        named: An existing path, which is returned unchanged, or a key of ``MODELS``.
            ``"smollm2-135m-instruct"`` is a GGUF file, and all other models are folders.

    Raises:
        FileNotFoundError: If the weights are in neither place; the message says how to get them.
        ValueError: If there is no such path or name, or a file is not the published one.
    """
    if Path(named).exists():
        return Path(named)
    name = str(named)
    if name not in MODELS:
        raise ValueError(
            f"there is no folder or file {name}, and no published model with this name; the "
            f"published models are {', '.join(MODELS)}"
        )
    model, folder = MODELS[name], data_folder() / name
    if not is_complete(folder, model):
        packed = _installed(model)
        if packed is None:
            clone = ", or in a clone of the course with `make weights`" if model.package else ""
            raise FileNotFoundError(
                f"the weights of {name} ({model.megabytes} MB) are missing; get them with "
                f"`{as_typed('download', name)}`{clone}"
            )
        if packed.suffix == ".zip":
            return fill(folder, model, partial(shutil.unpack_archive, packed))
        folder = packed.parent
    return checked_path(folder, model)


def find_or_warn(name: str) -> Path | None:
    """Return what ``find_weights`` finds; if the weights are missing, warn and return None."""
    try:
        return find_weights(name)
    except FileNotFoundError as error:
        warnings.warn(str(error), stacklevel=2)
        return None


def missing_weights() -> list[str]:
    """List the models that have a data package and are neither downloaded nor installed."""
    return [
        name
        for name, model in MODELS.items()
        if model.package and not is_complete(data_folder() / name, model) and not _installed(model)
    ]


def is_complete(folder: Path, model: PublishedModel) -> bool:
    """Return whether all files of a model are in a folder."""
    return all((folder / file).is_file() for file in model.files)


def fill(folder: Path, model: PublishedModel, fetch: Callable[[Path], object]) -> Path:
    """Fill a folder, unless it is complete; ``fetch`` writes the files to a temporary folder.

    The files get their final names only when all are complete and have the expected digests. Only
    one process at a time fills a folder. Returns the path that the loaders read.
    """
    scratch = folder.with_name(f".{folder.name}.download")
    with FileLock(scratch.with_suffix(".lock")):
        if not is_complete(folder, model):
            for link in (folder, scratch):
                if link.is_symlink():
                    raise ValueError(
                        f"{link} is a link, and files are only written below a real folder; "
                        "remove the link, and try again"
                    )
            shutil.rmtree(scratch, ignore_errors=True)  # left by a failed attempt
            scratch.mkdir()
            fetch(scratch)
            checked_path(scratch, model, folder)
            folder.mkdir(exist_ok=True)
            for file in model.files:
                os.replace(scratch / file, folder / file)
            shutil.rmtree(scratch)
    return checked_path(folder, model)


def checked_path(folder: Path, model: PublishedModel, home: Path | None = None) -> Path:
    """Check the digests of all files, and return the folder or GGUF file that a loader reads.

    If we do not know the digest of a file, we remember the one that it has when it is first used,
    in a file next to ``home``, which is by default the folder.
    """
    home = home or folder
    memory = home.with_name(f".{home.name}.sha256.json")
    seen = _first_digests(memory)
    before = dict(seen)
    for file, published in model.files.items():
        actual = pooch.file_hash(folder / file)
        if actual != (expected := published or seen.setdefault(file, actual)):
            reason = "so it is not the published file"
            if not published:
                reason = f"which it had when it was first used (to trust the new one: rm {memory})"
            raise ValueError(
                f"{folder / file} has the sha256 {actual} instead of {expected}, {reason}: "
                "remove it, and download or install it again"
            )
    if seen != before:
        with suppress(OSError):  # others may read a folder that they cannot change
            write_whole(memory, json.dumps(seen, indent=1))
    (first, *_) = model.files
    return folder / first if first.endswith(".gguf") else folder


def _first_digests(memory: Path) -> dict[str, str]:
    """Read the digests that files had when they were first used."""
    try:
        return dict(json.loads(memory.read_text(encoding="utf-8"))) if memory.exists() else {}
    except (ValueError, TypeError):
        raise ValueError(f"{memory} does not contain digests of files: remove it") from None


def _installed(model: PublishedModel) -> Path | None:
    """Find the weights file in the package that Python would import; do not import the package."""
    paths = (Path(folder, model.file) for folder in sys.path)
    first = next((path for path in paths if path.parent.is_dir()), None)
    return first if first and first.is_file() else None
