"""Checkpoints: whole or not at all, data and never code, and a sentence for every bad file."""

import multiprocessing
import os
import pickle
import signal
import time
import zipfile
from pathlib import Path

import pytest
import torch
from parity import assert_same, says
from random_inputs import normal

from course_lib.trainer.checkpoint import FORMAT, explaining, load_checkpoint, save_checkpoint

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture
def content(generator):
    """Return what a training keeps: tensors, numbers, texts, lists and dicts of them."""
    return {
        "model": {"weight": normal(generator, 2, 3), "ids": torch.tensor([1, 2])},
        "optimizer": {"state": {0: {"step": torch.tensor(4.0)}}, "groups": [{"lr": 0.5}]},
        "step": 4,
        "tokenizer": "zwölf",
        "nothing": None,
        "flags": [True, (1, 2.5)],
    }


@pytest.fixture
def kept(tmp_path, content):
    """Return a checkpoint on disk."""
    path = tmp_path / "kept.pt"
    save_checkpoint(path, content)
    return path


class Code:
    """Make a file when somebody reads this back: what a hostile checkpoint does."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def assert_refused(path):
    """Find the path and a way out in the one line of the error."""
    with pytest.raises(ValueError, match=says(path, "train")) as caught:
        load_checkpoint(path)
    said = str(caught.value)
    assert "\n" not in said and "weights_only" not in said and "pickle" not in said


# --- whole


def test_what_was_saved_last_comes_back_to_the_last_bit_and_nothing_lies_beside(tmp_path, content):
    path = tmp_path / "some" / "where" / "kept.pt"  # missing folders are made
    for step in (4, 5):
        save_checkpoint(str(path), content | {"step": step})
    loaded = load_checkpoint(str(path))
    assert_same({key: loaded[key] for key in content}, content | {"step": 5})
    assert os.listdir(path.parent) == [path.name]


# --- or not at all


@pytest.mark.parametrize("error", [OSError, RuntimeError])  # both are torch's words for it
def test_a_failure_in_the_middle_of_writing_leaves_the_old_one(error, kept, content, monkeypatch):
    before = kept.read_bytes()

    def save_half(what, file):
        file.write(before[:700])
        raise error("the disk is full")

    monkeypatch.setattr(torch, "save", save_half)
    with pytest.raises(OSError, match="the disk is full"):
        save_checkpoint(kept, content | {"step": 5})
    assert kept.read_bytes() == before
    assert os.listdir(kept.parent) == [kept.name]


def save_for_ever(path):
    """Save one large checkpoint after another, until somebody puts an end to it."""
    step = 0
    while True:
        step += 1
        save_checkpoint(path, {"step": step, "weights": torch.full((1_000_000,), float(step))})


def test_bytes_are_on_the_disk_before_they_take_the_old_ones_place(kept, content, monkeypatch):
    happened = []
    for name in ("fsync", "replace"):
        really = getattr(os, name)
        note = lambda *words, n=name, do=really: (happened.append(n), do(*words))  # noqa: E731
        monkeypatch.setattr(os, name, note)
    save_checkpoint(kept, content)
    assert happened == ["fsync", "replace"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_explained_and_left_alone(kept, content):
    kept.parent.chmod(0o500)
    with pytest.raises(OSError, match=says(kept)):
        save_checkpoint(kept, content)
    kept.parent.chmod(0o700)
    assert_same(load_checkpoint(kept)["model"], content["model"])


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_process_killed_while_saving_leaves_a_whole_checkpoint(tmp_path):
    path = tmp_path / "kept.pt"
    context = multiprocessing.get_context("fork")
    for wait in (0.0, 0.009, 0.021):  # seconds: other points in the writing
        path.unlink(missing_ok=True)
        saver = context.Process(target=save_for_ever, args=(path,))
        saver.start()
        while not path.exists():
            assert saver.is_alive()
            time.sleep(0.001)
        time.sleep(wait)
        saver.kill()
        saver.join()
        assert saver.exitcode == -signal.SIGKILL
        loaded = load_checkpoint(path)
        assert loaded["weights"].eq(loaded["step"]).all()


# --- bad files


def test_a_checkpoint_cut_off_anywhere_is_explained(kept):
    whole = kept.read_bytes()
    for length in [0, 1, 3, *range(7, len(whole), 97), len(whole) - 1]:
        kept.write_bytes(whole[:length])
        assert_refused(kept)


def test_a_flipped_bit_in_the_weights_is_noticed(kept, content):
    whole = kept.read_bytes()
    place = whole.index(content["model"]["weight"].numpy().tobytes())
    kept.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    torch.load(kept, weights_only=True)  # torch does not
    with pytest.raises(ValueError, match=says(kept, "was changed")):
        load_checkpoint(kept)


@pytest.mark.parametrize(
    "foreign",
    [
        b"a text that somebody wrote\n",
        b"(lost",
        b"J",
        b"\x80\x04",
        pickle.dumps({"step": 4}),
        pickle.dumps([1, 2], protocol=2),
    ],
)
def test_a_foreign_file_is_explained_and_nothing_else_is_said(tmp_path, foreign, recwarn):
    path = tmp_path / "foreign.pt"
    path.write_bytes(foreign)
    assert_refused(path)
    assert [str(warning.message) for warning in recwarn] == []  # torch would say a word on some


def test_what_is_no_checkpoint_of_this_edition_is_explained(tmp_path):
    assert_refused(tmp_path / "missing.pt")
    assert_refused(tmp_path)
    with zipfile.ZipFile(tmp_path / "foreign.pt", "w") as archive:
        archive.writestr("letter.txt", "dear reader")
    assert_refused(tmp_path / "foreign.pt")
    for theirs in ({"step": 4}, {"format": "other"}, [1, 2]):
        torch.save(theirs, tmp_path / "theirs.pt")
        assert_refused(tmp_path / "theirs.pt")
    torch.save({"format": "course_lib checkpoint 1"}, tmp_path / "old.pt")
    with pytest.raises(ValueError, match=says("first edition", "train again")):
        load_checkpoint(tmp_path / "old.pt")


@pytest.mark.parametrize("by_torch", [True, False])
def test_code_in_a_file_never_runs(tmp_path, by_torch):
    path, touched = tmp_path / "hostile.pt", tmp_path / "touched"
    hostile = {"format": FORMAT, "model": Code(touched)}
    torch.save(hostile, path) if by_torch else path.write_bytes(pickle.dumps(hostile, protocol=2))
    assert_refused(path)
    assert not touched.exists()
    if by_torch:  # the file is as hostile as it should be
        torch.load(path, weights_only=False)
        assert touched.exists()


# --- of something else


@pytest.mark.parametrize(
    ("use", "parts"),
    [
        (lambda: {"step": 4}["model"], ["KeyError", "model"]),
        (lambda: torch.nn.Linear(2, 3).load_state_dict({}), ["RuntimeError", "Linear"]),
        (lambda: dict(**{"step": 4}, step=5), ["TypeError", "step"]),
        (lambda: None.items(), ["AttributeError", "items"]),
        (lambda: int("many"), ["ValueError", "many"]),
    ],
)
def test_content_that_does_not_fit_is_explained_in_one_line(use, parts):
    with pytest.raises(ValueError, match=says("some.pt", "a GPT", "train again", *parts)) as caught:
        with explaining("some.pt", "a GPT"):
            use()
    assert "\n" not in str(caught.value)


def test_a_long_reason_is_quoted_in_part_and_a_stop_stays_a_stop():
    with pytest.raises(ValueError, match="x" * 150) as caught, explaining("some.pt", "a GPT"):
        raise ValueError("x" * 10_000)
    assert "x" * 201 not in str(caught.value)
    with pytest.raises(KeyboardInterrupt), explaining("some.pt", "a GPT"):
        raise KeyboardInterrupt
