"""Workbooks and ``my_lib`` folders written before a module moved still find it."""

import importlib
import shutil
from pathlib import Path

import pytest

from course_lib.exercises import progress
from course_lib.exercises.library.separate_process import examine_apart
from course_lib.exercises.workbook.workbook_folder import make_workbook
from course_lib.support.former_names import MOVED

FIXTURE = Path(__file__).with_name("earlier_workbook")


@pytest.mark.parametrize("former, present", MOVED.items())
def test_a_former_name_is_the_same_module(former, present):
    module = importlib.import_module(former)
    assert module is importlib.import_module(present)
    assert module.__name__ == module.__spec__.name == present


def test_a_learners_module_written_before_the_move_loads(tmp_path, monkeypatch):
    """It also imports the exported names of the chapters, which have not moved."""
    lines = [
        "from course_lib.attention_capture import capture_attention",
        "from course_lib.input_checks import check_sizes",
        "from course_lib.masks import causal_mask",
    ]
    (tmp_path / "written_earlier.py").write_text("\n".join(lines))
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("written_earlier")
    with pytest.raises(ValueError, match="d_model"):
        module.check_sizes(d_model=0)


def test_a_workbook_written_before_the_move_loads(tmp_path, monkeypatch):
    """Its cells import former names; its answers and its progress stay as they were."""
    monkeypatch.chdir(tmp_path)
    make_workbook(tmp_path)
    shutil.copy(FIXTURE / "masks.txt", "my_lib/masks.py")
    shutil.copy(FIXTURE / "progress.json", "my_lib/progress.json")
    cells = (FIXTURE / "cells.txt").read_text(encoding="utf-8")
    exec(cells, {})
    states = {item.name: state for item, state in progress(tmp_path).states.items()}
    assert states["causal_mask"] == states["test_of_the_past"] == "correct"
    assert states["padding_mask"] == "not yet" and states["split_heads"] == "not attempted"
    report = examine_apart(tmp_path / "my_lib", {"masks": ["causal_mask"]}, 60)["causal_mask"]
    assert report.passed


def test_other_names_are_still_unknown():
    with pytest.raises(ModuleNotFoundError, match="course_lib.no_such_module"):
        importlib.import_module("course_lib.no_such_module")
