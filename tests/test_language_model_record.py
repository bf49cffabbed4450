"""The committed records are what the commands of ``docs/results.md`` make."""

from dataclasses import asdict

import ablation

from course_lib.tasks.language_model import TextGeneratorConfig
from course_lib.tasks.language_model_record import read_ablations, read_record

GPT2_START = 0.02


def test_the_commands_of_the_page_make_the_record():
    ours = [(text, seed) for text in ("library", "shakespeare") for seed in (0, 1, 2)]
    expected = [asdict(TextGeneratorConfig(text=text, seed=seed)) for text, seed in ours]
    expected.append(asdict(TextGeneratorConfig(text="shakespeare", start_std=GPT2_START)))
    found = [entry["settings"] for entry in read_record()]
    assert len(found) == len(expected) and all(settings in found for settings in expected)


def test_gpt2s_start_is_worse_than_ours_from_every_seed():
    losses = {0.05: [], GPT2_START: []}
    for entry in read_record():
        if entry["settings"]["text"] == "shakespeare":
            losses[entry["settings"]["start_std"]].append(entry["val_loss"])
    assert min(losses[GPT2_START]) > max(losses[0.05])


def test_every_model_of_the_ablation_was_trained_from_every_seed():
    kept = [
        (entry["cut"], entry["name"], entry["seed"], entry["steps"]) for entry in read_ablations()
    ]
    steps = ablation.USUAL.steps
    names = enumerate(ablation.MODELS)
    assert kept == [(cut, name, seed, steps) for cut, name in names for seed in ablation.SEEDS]
