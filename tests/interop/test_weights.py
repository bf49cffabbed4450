"""Published weights are found and checked, and a missing model is explained."""

import hashlib
import re
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from runpy import run_path
from unittest.mock import Mock

import pytest
from parity import says

from course_lib.interop.weights import MODELS, find_or_warn, find_weights, missing_weights
from notebooks import NEEDS_WEIGHTS

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


def test_cells_that_need_weights_are_skipped_if_the_weights_are_missing(packages):
    skip_cells = run_path(str(ROOT / "conftest.py"))["pytest_collection_modifyitems"]
    other, tagged = (Mock(cell=Mock(metadata=tags)) for tags in ({}, {"tags": [NEEDS_WEIGHTS]}))
    skip_cells([other, tagged])
    assert not tagged.add_marker.called
    (packages / MODELS[FOLDER].file).unlink()
    skip_cells([other, tagged])
    ((mark,), _) = tagged.add_marker.call_args
    assert mark.name == "skip" and f"needs the weights of {FOLDER}," in mark.kwargs["reason"]
    assert not other.add_marker.called


@pytest.mark.parametrize("name", [FOLDER, f".{FOLDER}.download"])
def test_nothing_is_unpacked_through_a_link(packages, name):
    outside = packages / "outside"
    outside.mkdir()
    (packages / "data").mkdir(exist_ok=True)
    (packages / "data" / name).symlink_to(outside)
    with pytest.raises(ValueError, match=says(name, "is a link")):
        find_weights(FOLDER)
    assert not list(outside.iterdir())
