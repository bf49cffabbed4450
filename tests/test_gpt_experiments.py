"""The two experiments of chapter 18: four sizes, and eight starts."""

import json
from dataclasses import replace

import gpt_starts
import pytest
import scaling
import torch
from tiny_tasks import write_library

from course_lib.data import read_library
from course_lib.gpt import GPT
from course_lib.trainer.results import read_entries

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture
def file(monkeypatch, tmp_path):
    """Shorten the library and both experiments; return where a record may be written."""
    folder = write_library(tmp_path / "library")
    small = {"max_len": 8, "num_layers": 1, "num_heads": 2, "batch_size": 3, "val_windows": 5}
    one = gpt_starts.USUAL
    monkeypatch.setattr(
        gpt_starts, "USUAL", replace(one, **small, d_model=12, steps=4, val_every=2)
    )
    monkeypatch.setattr(gpt_starts, "SEEDS", (0, 1))
    monkeypatch.setattr(gpt_starts, "LARGER", {"GPT-2's": (), "layers": ("layers",)})
    settings = scaling.settings
    monkeypatch.setattr(scaling, "settings", lambda *run: replace(settings(*run), **small))
    monkeypatch.setattr(scaling, "WIDTHS", (4, 8))
    monkeypatch.setattr(scaling, "RUNS", [(1e-3, 0), (1e-3, 1), (3e-3, 0)])
    monkeypatch.setattr(scaling, "checkpoints_folder", lambda: tmp_path)
    monkeypatch.setattr("course_lib.data.text.read_library", lambda: read_library(folder))
    return tmp_path / "record.json"


def test_only_the_matrices_that_are_named_start_larger():
    config = gpt_starts.USUAL.of_model(10)
    torch.manual_seed(0)
    plain = dict(GPT(config).named_parameters())
    for beginnings in gpt_starts.LARGER.values():
        torch.manual_seed(0)
        model = GPT(config)
        gpt_starts.enlarge(model, beginnings)
        changed = {key for key, found in model.named_parameters() if not found.equal(plain[key])}
        parts = {"embedding": 1, "positions": 1, "layers": 4 * config.num_layers}
        assert len(changed) == sum(parts[beginning] for beginning in beginnings)
        assert all(key.startswith(beginnings) for key in changed)
        for key in changed:
            torch.testing.assert_close(model.get_parameter(key), 2.5 * plain[key])


@pytest.mark.parametrize("tool, count", [(gpt_starts, 4), (scaling, 6)])
def test_what_the_record_lacks_is_trained_again_to_the_same(tool, count, file, monkeypatch):
    arguments = ["--file", str(file), *(["--steps", "4"] if tool is scaling else [])]
    losses = {gpt_starts: "val_loss", scaling: "history"}[tool]
    assert tool.main(arguments) == 0
    entries = read_entries(file)
    ends = [entry[losses][-1] for entry in entries]
    assert len(entries) == len({str(end) for end in ends}) == count
    trained, train = [], tool.train
    monkeypatch.setattr(
        tool, "train", lambda *state, **how: trained.append(state) or train(*state, **how)
    )
    file.write_text(json.dumps(entries[:1] + entries[2:]))
    assert tool.main(arguments) == 0
    assert len(trained) == 1 and [entry[losses][-1] for entry in read_entries(file)] == ends
