"""The experiments: four sizes and eight starts of a GPT, and the cuts that lead to it."""

import json
from dataclasses import replace

import ablation
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
    """Shorten the library and the experiments; return where a record may be written."""
    folder = write_library(tmp_path / "library")
    small = {"max_len": 8, "num_layers": 1, "num_heads": 2, "batch_size": 3, "val_windows": 5}
    one = gpt_starts.USUAL
    monkeypatch.setattr(
        gpt_starts, "USUAL", replace(one, **small, d_model=12, steps=4, val_every=2)
    )
    monkeypatch.setattr(gpt_starts, "SEEDS", (0, 1))
    monkeypatch.setattr(ablation, "USUAL", replace(ablation.USUAL, **small, d_model=12))
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


@pytest.mark.parametrize(
    "tool, words, count",
    [
        (gpt_starts, [], 4),
        (scaling, ["--steps", "4"], 6),
        (ablation, ["--steps", "3", "--seeds", "0", "1"], 19),  # one is trained from one seed only
    ],
)
def test_what_the_record_lacks_is_trained_again_to_the_same(tool, words, count, file, monkeypatch):
    def entries():
        """Run the tool, and read what it found without what differs from run to run."""
        assert tool.main([*words, "--file", str(file)]) == 0
        found = read_entries(file)
        return [{k: v for k, v in entry.items() if k != "minutes"} for entry in found]

    first = entries()
    ends = {str(entry["history" if tool is scaling else "val_loss"]) for entry in first}
    assert len(first) == len(ends) == count
    trained, name = [], "train" if tool is scaling else "fit"
    learn = getattr(tool, name)
    monkeypatch.setattr(tool, name, lambda *run, **how: trained.append(run) or learn(*run, **how))
    written = json.loads(file.read_text())
    file.write_text(json.dumps(written[:1] + written[2:]))
    assert entries() == first and len(trained) == 1
