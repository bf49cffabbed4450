"""Workbooks and ``my_lib`` folders written before a module moved still find it."""

import importlib

import pytest

from course_lib.support.former_names import MOVED


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


def test_other_names_are_still_unknown():
    with pytest.raises(ModuleNotFoundError, match="course_lib.no_such_module"):
        importlib.import_module("course_lib.no_such_module")
