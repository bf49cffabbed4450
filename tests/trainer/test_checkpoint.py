"""A checkpoint is complete or ignored, contains no code, and damage is explained."""

import json
import os
import pickle
from pathlib import Path

import pytest
import torch
from parity import assert_same, says
from random_inputs import normal
from safetensors.torch import load_file
from torch.distributed.checkpoint import CheckpointException

from course_lib.trainer.checkpoint import (
    METADATA,
    checksums,
    explaining,
    load_tensors,
    read_metadata,
    save_checkpoint,
)
from course_lib.trainer.run_folder import find_checkpoint

FACTS_KEPT = {"step": 4, "tokenizer": "zwölf", "nothing": None, "losses": [0.1, [True, 2.5e-310]]}


@pytest.fixture
def tensors(generator):
    """Return the named tensors of a training run; one is float64, and one has no axes."""
    wide = normal(generator, 4, dtype=torch.float64)
    return {"model.w": normal(generator, 2, 3).float(), "model.b": wide, "step": torch.tensor(4.0)}


@pytest.fixture
def kept(tmp_path, tensors):
    save_checkpoint(tmp_path / "kept", FACTS_KEPT, tensors)
    return tmp_path / "kept"


def file_of(folder):
    return next(folder.glob("*.safetensors"))


def test_the_last_checkpoint_is_read_to_the_last_bit_and_no_other_file_is_left(kept, tensors):
    save_checkpoint(kept, FACTS_KEPT | {"step": 5}, tensors)
    loaded = {name: torch.zeros_like(value) for name, value in tensors.items()}
    load_tensors(kept, loaded)
    assert_same(loaded, tensors)
    facts = read_metadata(kept)
    assert {name: facts[name] for name in FACTS_KEPT} == FACTS_KEPT | {"step": 5}
    assert sorted(os.listdir(kept)) == [METADATA, file_of(kept).name]
    assert load_file(file_of(kept)).keys() == tensors.keys()  # other programs can read it


@pytest.mark.parametrize("names", [("model.other", "model.w"), ("model.w", "model.other")])
def test_tied_weights_are_read_under_either_name(names, kept, tensors):
    tied = torch.zeros(2, 3)
    load_tensors(kept, dict.fromkeys(names, tied))
    assert tied.equal(tensors["model.w"])


# --- incomplete checkpoints


def test_an_incomplete_checkpoint_from_a_full_disk_is_ignored(tmp_path, tensors, monkeypatch):
    save_checkpoint(tmp_path / "last-0000001", FACTS_KEPT, tensors)

    def write_half(*words, **options):
        reason = OSError("the disk is full")
        raise CheckpointException("save", {0: (reason, None)})

    monkeypatch.setattr("torch.distributed.checkpoint.save", write_half)
    with pytest.raises(OSError, match="last-0000002 could not be written: .*the disk is full"):
        save_checkpoint(tmp_path / "last-0000002", FACTS_KEPT, tensors)
    assert find_checkpoint(tmp_path).name == "last-0000001"


def test_the_bytes_are_on_disk_before_the_metadata(tmp_path, tensors, monkeypatch):
    happened = []
    for name in ("fsync", "replace"):
        really = getattr(os, name)
        note = lambda *words, n=name, do=really: (happened.append(n), do(*words))  # noqa: E731
        monkeypatch.setattr(os, name, note)
    save_checkpoint(tmp_path / "kept", {}, tensors)
    assert happened == ["fsync", "fsync", "replace"]  # tensors, metadata, name


def test_the_newest_complete_checkpoint_is_found(tmp_path):
    for step in (10, 9, 200):
        save_checkpoint(tmp_path / f"last-{step:07d}", {}, {})
    for name in ("last-week", "last-0000009-copy"):  # somebody else's
        save_checkpoint(tmp_path / name, {}, {})
    (tmp_path / "last-0000300").mkdir()  # incomplete
    assert find_checkpoint(tmp_path).name == "last-0000200"


# --- errors


@pytest.mark.parametrize("harm", ["flipped", "cut", "gone", "added", "edited"])
def test_changed_bytes_are_detected(harm, kept):
    path = file_of(kept)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1  # safetensors does not notice
    if harm == "gone":
        path.unlink()
    elif harm == "added":
        (kept / "shard-9.safetensors").write_bytes(content)
    elif harm == "edited":
        path = kept / METADATA
        path.write_text(path.read_text().replace('"step": 4', '"step": 5'))
    else:
        path.write_bytes(content if harm == "flipped" else content[:-9])
    with pytest.raises(ValueError, match=says(kept, "has been changed", "train again")):
        read_metadata(kept)


@pytest.mark.parametrize("text", ['{"format": "cour', "[]", '{"format": "pieces 1"}', 10**5 * "["])
def test_truncated_or_foreign_metadata_is_explained_in_a_sentence(text, tmp_path):
    (tmp_path / METADATA).write_text(text)
    with pytest.raises(ValueError, match=r"is cut off|is missing") as caught:
        read_metadata(tmp_path)
    assert str(tmp_path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_tensor_that_is_missing_or_has_another_shape_is_named(kept):
    for name, value in (("model.c", torch.zeros(2)), ("model.w", torch.zeros(3, 2))):
        with pytest.raises(ValueError, match=name) as caught:
            load_tensors(kept, {name: value})
        assert "\n" not in str(caught.value)


class Code:
    """A hostile object that creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_code_in_a_file_never_runs(kept, tensors, tmp_path, caplog):
    touched = tmp_path / "touched"
    hostile = pickle.dumps(Code(touched))
    for name in (file_of(kept).name, ".metadata"):
        (kept / name).write_bytes(hostile)
    facts = json.loads((kept / METADATA).read_text())
    del facts["checksums"]
    facts["checksums"] = checksums(kept, facts)  # a hostile author can compute it
    (kept / METADATA).write_text(json.dumps(facts))
    read_metadata(kept)
    with pytest.raises(ValueError, match=says("kept", "a GPT", "train again")):
        with explaining(kept, "a GPT"):
            load_tensors(kept, tensors)
    assert not touched.exists() and not caplog.records  # torch logs a traceback
    pickle.loads(hostile)  # it really is hostile
    assert touched.exists()
