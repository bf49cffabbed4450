"""Published weights are found and checked, and a missing model is explained."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from parity import says

import notebooks
from course_lib.interop.weights import MODELS, find_or_warn, find_weights, missing_weights

ROOT = Path(__file__).resolve().parents[2]
MODEL, FOLDER = "smollm2-135m-instruct", "all-minilm-l6-v2"
CONTENT = b"seven weights"


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """Install two small packages in place of the real ones; their code must not run."""
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "data"))
    monkeypatch.syspath_prepend(tmp_path)
    digest = hashlib.sha256(CONTENT).hexdigest()
    for name in (MODEL, FOLDER):
        path = tmp_path / MODELS[name].file
        path.parent.mkdir()
        (path.parent / "__init__.py").write_text("raise SystemExit('the code of a package ran')")
        if path.suffix == ".zip":
            with zipfile.ZipFile(path, "w") as archive:
                for file in (*MODELS[name].files, "1_Pooling/config.json"):
                    archive.writestr(file, CONTENT)
        else:
            path.write_bytes(CONTENT)
        files = dict.fromkeys(MODELS[name].files, digest)
        monkeypatch.setitem(MODELS, name, replace(MODELS[name], files=files))
    return tmp_path


def test_weights_are_found_in_the_data_folder_first_and_then_in_the_packages(packages):
    installed = packages / MODELS[MODEL].file
    assert find_weights(MODEL) == installed and missing_weights() == []
    with ThreadPoolExecutor() as pool:
        folders = set(pool.map(find_weights, 4 * [FOLDER]))
    assert folders == {packages / "data" / FOLDER}
    unpacked = {path.name for path in (packages / "data" / FOLDER).rglob("*")}
    assert unpacked == {"config.json", "tokenizer.json", "model.safetensors"}
    (packages / "data" / MODEL).mkdir()
    shutil.move(installed, packages / "data" / MODEL)
    assert find_weights(MODEL) == packages / "data" / MODEL / installed.name
    (packages / MODELS[FOLDER].file).unlink()
    assert find_weights(FOLDER) == packages / "data" / FOLDER  # it is unpacked once


def test_weights_are_specified_by_a_path_or_a_known_name(packages, tmp_path):
    assert find_weights(tmp_path) == tmp_path
    with pytest.raises(ValueError, match=says("smolm2", "no folder or file", *MODELS)):
        find_weights("smolm2")


def test_make_installs_the_packages_on_the_list():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = re.search(r"^WEIGHTS := (.*)$", makefile, re.M)[1].split()
    assert named == [model.package for model in MODELS.values() if model.package]


def test_missing_and_changed_weights_are_explained(packages):
    installed = packages / MODELS[MODEL].file
    installed.write_bytes(CONTENT[::-1])
    with pytest.raises(ValueError, match=says("not the published file", "install it again")):
        find_weights(MODEL)
    installed.write_bytes(CONTENT)
    assert find_weights(MODEL) == find_or_warn(MODEL) == installed
    installed.unlink()
    with pytest.raises(FileNotFoundError, match=says("94 MB", f"download {MODEL}", "make weights")):
        find_weights(MODEL)
    with pytest.warns(UserWarning, match=says("94 MB", f"download {MODEL}")):
        assert find_or_warn(MODEL) is None
    (packages / MODELS[FOLDER].file).unlink()
    assert missing_weights() == [MODEL, FOLDER]
    with pytest.raises(FileNotFoundError, match="550 MB.* download gpt2`$"):
        find_weights("gpt2")


@pytest.fixture
def chapter(tmp_path):
    """Write a chapter of two cells; the second one needs weights and has a wrong output."""
    cells = [nbformat.v4.new_code_cell("n = 1"), nbformat.v4.new_code_cell("print(n)")]
    cells[1].metadata["tags"] = [notebooks.NEEDS_WEIGHTS]
    cells[1].outputs = [nbformat.v4.new_output("stream", text="2\n")]
    path = tmp_path / "chapter.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    shutil.copy(ROOT / "conftest.py", tmp_path)
    return path


def strict_nbval(chapter: Path, *folders: Path) -> str:
    """Compare a chapter with its outputs in a process that imports from these folders first."""
    words = ["-m", "pytest", "-rs", "--nbval", "--nbval-current-env", "-n", "0", chapter]
    paths = os.pathsep.join(map(str, [*folders, ROOT]))
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, *words], cwd=chapter.parent, env=environment, text=True, stdout=-1
    )
    return done.stdout


def test_cells_that_need_weights_are_skipped_if_the_weights_are_missing(packages, chapter):
    for name in (MODEL, FOLDER):
        (packages / MODELS[name].file).unlink()
    said = strict_nbval(chapter, packages)
    assert f"needs the weights of {MODEL} and {FOLDER}" in said and "1 passed, 1 skipped" in said
    with pytest.raises(SystemExit, match=f"{MODEL} and {FOLDER}; run: make weights"):
        notebooks.run(chapter)


def test_cells_that_need_weights_are_compared_and_saved_if_the_weights_exist(published, chapter):
    for name in (MODEL, FOLDER):
        assert published(name).exists()
    said = strict_nbval(chapter)
    assert "1 failed, 1 passed" in said
    notebooks.run(chapter)
    assert nbformat.read(chapter, as_version=4).cells[1].outputs[0].text == "1\n"


@pytest.mark.parametrize("name", [FOLDER, f".{FOLDER}.download"])
def test_nothing_is_unpacked_through_a_link(packages, name):
    outside = packages / "outside"
    outside.mkdir()
    (packages / "data").mkdir(exist_ok=True)
    (packages / "data" / name).symlink_to(outside)
    with pytest.raises(ValueError, match=says(name, "is a link")):
        find_weights(FOLDER)
    assert not list(outside.iterdir())
