"""Find published weights in the course's data folder, or in an installed data package."""

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from course_lib.command_line import as_typed
from course_lib.data.user_folders import data_folder


@dataclass(frozen=True, kw_only=True)
class PublishedModel:
    """Describe a published model: where it is, its licence, and its files.

    It is on the hub, in a commit of a repository, or in a package of the Python Package Index, as
    a file of weights or a zip file. ``files`` maps the names of files that are checked to their
    sha256. null means that we do not know it, so that the first download is trusted.
    """

    repository: str = ""
    revision: str = ""
    package: str = ""
    file: str = ""
    licence: str
    megabytes: int
    first_try: Sequence[str]  #: a command that uses it, without its option --weights
    files: Mapping[str, str | None]


CATALOG = Path(__file__).with_name("published_models.json")
MODELS = {
    name: PublishedModel(**entry)
    for name, entry in json.loads(CATALOG.read_text(encoding="utf-8")).items()
}


def find_weights(name: str) -> Path:
    """Return the path of published weights, and check their digests.

    We look in the course's data folder, and then in the installed data package, whose code never
    runs. A folder that such a package contains is unpacked once, into the data folder.

    Args:
        name: A key of ``MODELS``. ``"smollm2-135m-instruct"`` is a GGUF file, and the others are
            folders.

    Raises:
        FileNotFoundError: If the weights are in neither place; the message says how to get them.
        ValueError: If the name is unknown, or a file is not the published one.
    """
    model, folder = published_model(name), data_folder() / name
    (first, *_) = model.files
    if not is_complete(folder, model):
        installed = _installed(model.file)
        if installed is None:
            clone = ", or in a clone of the course with `make weights`" if model.package else ""
            raise FileNotFoundError(
                f"the weights of {name} ({model.megabytes} MB) are missing; get them with "
                f"`{as_typed('download', name)}`{clone}"
            )
        if installed.name == first:
            check_digest(installed, model.files[first], "install the package again")
            return installed
        with filling(folder) as scratch:
            if not is_complete(folder, model):  # another process may have been faster
                unpack(installed, model, scratch, folder)
    for file, digest in model.files.items():
        check_digest(folder / file, digest, f"remove {folder}, and get it again")
    return path_in(folder, model)


def weights_path(named: Path | str) -> Path:
    """Return a path that somebody named, or where the published model of this name is.

    Raises ValueError if there is neither, and FileNotFoundError as ``find_weights`` does.
    """
    path = Path(named)
    if path.exists():
        return path
    if str(named) in MODELS:
        return find_weights(str(named))
    raise ValueError(
        f"there is no folder or file {path}, and no published model of this name; the published "
        f"models are {', '.join(MODELS)}"
    )


def path_in(folder: Path, model: PublishedModel) -> Path:
    """Return what a loader reads: a folder, or the GGUF file in it."""
    (first, *_) = model.files
    return folder / first if first.endswith(".gguf") else folder


def missing_weights() -> list[str]:
    """Name the weights in data packages that ``find_weights`` does not find."""
    missing = []
    for name, model in MODELS.items():
        try:
            if model.package:
                find_weights(name)
        except FileNotFoundError:
            missing.append(name)
    return missing


def published_model(name: str) -> PublishedModel:
    """Return the description of a model; raise ValueError if there is none of this name."""
    if name not in MODELS:
        raise ValueError(f"there is no model {name!r}; choose one of {', '.join(MODELS)}")
    return MODELS[name]


def is_complete(folder: Path, model: PublishedModel) -> bool:
    """Return whether all files of a model are in a folder."""
    return all((folder / file).is_file() for file in model.files)


@contextmanager
def filling(target: Path) -> Iterator[Path]:
    """Keep other processes from filling a folder; yield a temporary folder next to it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name}.download-"
    with FileLock(target.with_name(f".{target.name}.lock")):
        for leftover in target.parent.glob(f"{prefix}*"):  # of a process that was killed
            shutil.rmtree(leftover)
        with TemporaryDirectory(dir=target.parent, prefix=prefix) as scratch:
            yield Path(scratch)


def unpack(packed: Path, model: PublishedModel, scratch: Path, target: Path) -> None:
    """Unpack the file of a package; the folder gets its name when it is complete and checked."""
    content = scratch / "content"
    if packed.suffix == ".zip":
        with zipfile.ZipFile(packed) as archive:
            archive.extractall(content)
    else:
        content.mkdir()
        os.replace(packed, content / packed.name)
    for file, digest in model.files.items():
        check_digest(content / file, digest, "install or download the package again")
    os.replace(content, target)


def check_digest(path: Path, digest: str | None, remedy: str) -> None:
    """Raise ValueError, with the remedy, if a file does not have this sha256; None allows any."""
    about = path.stat()
    actual = _sha256(path, about.st_size, about.st_mtime_ns) if digest else None
    if actual != digest:
        raise ValueError(
            f"{path.name} has the sha256 {actual} instead of {digest}, so it is not the published "
            f"file: {remedy}"
        )


@cache
def _sha256(path: Path, size: int, modified: int) -> str:
    """Return the sha256 of a file; it is computed again when the size or the time has changed."""
    with path.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _installed(file: str) -> Path | None:
    """Return the path of a package's file, or None; the package is not imported."""
    module, _, name = file.partition("/")
    spec = find_spec(module) if module else None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder) / name).is_file():
            return path
    return None
