"""The committed records are what the README's commands make, and the README says what they say."""

import re
from dataclasses import asdict
from pathlib import Path
from statistics import fmean

import ablation
import pytest

from course_lib.tasks.language_model import TextGeneratorConfig
from course_lib.tasks.language_model_record import read_ablations, read_record

README = (Path(__file__).resolve().parent.parent / "README.md").read_text(encoding="utf-8")
GPT2_START = 0.02


def entries(**wanted):
    """Find the entries of these settings."""
    return [
        entry
        for entry in read_record()
        if all(entry["settings"][name] == value for name, value in wanted.items())
    ]


def test_the_readmes_commands_make_the_record():
    ours = [("library", 0), ("library", 1), ("library", 2)]
    ours += [(text.replace("library", "shakespeare"), seed) for text, seed in ours]
    expected = [asdict(TextGeneratorConfig(text=text, seed=seed)) for text, seed in ours]
    expected.append(asdict(TextGeneratorConfig(text="shakespeare", start_std=GPT2_START)))
    found = [entry["settings"] for entry in read_record()]
    assert len(found) == len(expected) and all(settings in expected for settings in found)


@pytest.mark.parametrize(("text", "row"), [("shakespeare", "Shakespeare"), ("library", "Python")])
def test_the_readmes_table_says_what_the_record_says(text, row):
    losses = [entry["val_loss"] for entry in entries(text=text, start_std=0.05)]
    (cells,) = re.findall(rf"^\| {row}[^|]*\|(.*)\|$", README, re.M)
    assert [float(cell) for cell in cells.split("|")] == [
        *(round(loss, 3) for loss in losses),
        round(fmean(losses), 3),
    ]


def test_the_readme_says_what_gpt2s_start_comes_to():
    (entry,) = entries(start_std=GPT2_START)
    assert f"ours comes to {entry['val_loss']:.2f}." in README
    assert entry["val_loss"] > max(
        e["val_loss"] for e in entries(text="shakespeare", start_std=0.05)
    )


def test_every_model_of_the_deletions_was_trained_from_every_seed():
    kept = [
        (entry["cut"], entry["name"], entry["seed"], entry["steps"]) for entry in read_ablations()
    ]
    steps = ablation.USUAL.steps
    names = enumerate(ablation.MODELS)
    assert kept == [(cut, name, seed, steps) for cut, name in names for seed in ablation.SEEDS]
