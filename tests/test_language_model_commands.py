"""``course … --task gpt``: it trains, writes, measures, and says in a sentence what is wrong."""

import re
from dataclasses import asdict, replace

import pytest
import torch
from gpt_fixtures import SETTINGS, TINY, write_library, write_play

from course_lib import cli
from course_lib.data import read_library, read_shakespeare
from course_lib.tasks import language_model_commands as language
from course_lib.tasks import train_command
from course_lib.tasks.language_model import SIZES, TextGenerator, TextGeneratorConfig
from course_lib.tasks.language_model_record import (
    add_ablation,
    add_to_record,
    read_ablations,
    read_record,
)
from course_lib.tasks.language_model_scores import loss_on, share_that_parses, side_by_side
from course_lib.tasks.language_model_training import LanguageModel
from course_lib.trainer.checkpoint import save_checkpoint
from course_lib.trainer.distributed import World
from course_lib.trainer.run_folder import LAST, read_kept

pytestmark = pytest.mark.usefixtures("no_network")
PLAY = ["--task", "gpt", "--text", "shakespeare", "--threads", "1", "--device", "cpu"]


@pytest.fixture
def course(capsys, monkeypatch, tmp_path):
    """Run a command about the small play; return its exit code and what it said."""
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path / "kept"))
    monkeypatch.setenv("COURSE_DATA", str(write_play(tmp_path / "data")))

    def run(*words, which=PLAY):
        code = cli.main([*words, *which])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def trained(course):
    """Train the tiny writer."""
    assert course("train", *SETTINGS)[0] == 0
    return course


@pytest.fixture
def folder(tmp_path):
    """Return where the tiny writer is kept."""
    return tmp_path / "kept" / "gpt-cpu-shakespeare-seed0"


def assert_one_sentence(result, command, *parts):
    """Find exit code 2, nothing on out, and one line on err that holds all the parts."""
    code, out, error = result
    assert (code, out, error.count("\n")) == (2, "", 1), error
    assert error.startswith(f"course {command}: ")
    for part in parts:
        assert str(part) in error


# --- course train


def test_a_training_says_what_came_out(course, folder, tmp_path):
    code, out, _ = course("train", *SETTINGS)
    first, loss, parameters, minutes, cached = out.splitlines()
    assert code == 0 and re.fullmatch(
        rf"trained to step 11, 0.\d minutes in all: {re.escape(str(folder))}", first
    )
    writer, content = read_kept(TextGenerator, folder)
    windows = side_by_side(read_shakespeare(tmp_path / "data").val, 8)
    measured = loss_on(writer.model, windows)
    assert loss == (
        f"val loss {measured:.4f} nats per character, on all {len(windows)} windows of 8, "
        "side by side"
    )
    V = len(writer.characters)  # the matrices of a layer are 12 · width² and its norms 2 · width
    assert parameters == f"parameters {12 * (V + 8 + 12 * 12 + 2 + 1):,}"
    spent = {name: f"{seconds / 60:.1f}" for name, seconds in content["seconds"].items()}
    assert minutes == f"minutes {spent['wall']} by the clock, {spent['cpu']} of processor time"
    assert cached == "cached sampling equals uncached: True"


def test_a_cache_that_is_wrong_is_printed(course, monkeypatch):
    monkeypatch.setattr(language, "caching_is_exact", lambda *arguments: False)
    assert course("train", *SETTINGS)[1].endswith("cached sampling equals uncached: False\n")


def test_the_options_reach_the_training(tmp_path, monkeypatch):
    asked = {}

    def begin(task, config, out, **where):
        asked.update(where, task=task, config=config, out=out)
        raise ValueError("enough")

    monkeypatch.setattr(train_command, "start", begin)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: asked.update(threads=number))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    words = "train --task gpt --size gpu --text shakespeare --seed 5 --device cuda --threads 3"
    words += f" --steps 70 --set dropout=0.5 --out {tmp_path / 'own'} --data {tmp_path}"
    assert cli.main(words.split()) == 2
    config = dict(text="shakespeare", seed=5, steps=70, dropout=0.5)
    assert asked.pop("config") == TextGeneratorConfig(**SIZES["gpu"] | config)
    expected = dict(out=tmp_path / "own", data=tmp_path, device="cuda", threads=3, anew=True)
    assert asked == expected | dict(task=LanguageModel, world=World(), sharded=False)


# --- what cannot be done


def test_impossible_numbers_are_explained(course, folder):
    assert_one_sentence(course("train", *SETTINGS, "--set", "steps=0"), "train", "steps=0")
    assert not folder.exists()


OTHERS = [
    {"config": asdict(TINY) | {"text": None}},
    {"config": asdict(TINY), "characters": "abc", "model": {}},
    {"config": asdict(TINY) | {"peak_rate": "high"}},
]


@pytest.mark.parametrize("content", OTHERS)
def test_a_checkpoint_whose_parts_do_not_fit_is_explained(content, course, folder):
    save_checkpoint(folder / LAST, content)
    assert_one_sentence(course("sample"), "sample", folder / LAST, "is no checkpoint of a GPT")


def test_a_stop_of_another_command_is_no_traceback(trained, monkeypatch):
    def stop(*arguments, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(language, "read_text", stop)
    assert trained("evaluate") == (130, "", "\ncourse evaluate: stopped\n")


# --- course sample


def test_a_sample_begins_with_the_prompt_and_is_as_long_as_asked_for(trained):
    code, out, error = trained("sample", "--prompt", "7 and", "--tokens", "40")
    assert (code, error, len(out)) == (0, "", 5 + 40 + 1) and out.startswith("7 and")
    assert trained("sample")[1].startswith("\n") and len(trained("sample")[1]) == 302


def test_a_sample_is_drawn_as_asked_for(trained, folder):
    writer, _ = read_kept(TextGenerator, folder)
    how = dict(temperature=1.5, top_k=7, top_p=0.9)
    options = "--temperature 1.5 --top-k 7 --top-p 0.9 --tokens 60 --draw 3 --prompt 1".split()
    assert trained("sample", *options)[1] == writer.generate("1", 60, seed=3, **how)[0] + "\n"
    usual = writer.generate("1", 60, temperature=0.8)[0] + "\n"
    assert trained("sample", "--tokens", "60", "--prompt", "1")[1] == usual
    cold = [trained("sample", "--top-k", "1", "--draw", str(draw))[1] for draw in (1, -2, 10**30)]
    assert len(set(cold)) == 1  # the likeliest of all is no matter of chance


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["--prompt", "7 Ω"], "'Ω' is none of the 22 characters"),
        (["--prompt", ""], "prompt ids must have a shape"),
        (["--temperature", "nan"], "--temperature nan is not in"),
        (["--top-p", "1.5"], "top_p"),
    ],
)
def test_what_cannot_be_sampled_is_explained(options, part, trained):
    assert_one_sentence(trained("sample", *options), "sample", part)


def test_only_a_gpt_samples_and_it_does_not_translate(course, capsys):
    for task in ([], ["--task", "multi30k"]):
        result = course("sample", "--prompt", "def ", "--tokens", "9", which=task)
        assert_one_sentence(result, "sample", "add --task gpt")
    with pytest.raises(SystemExit, match="2"):
        course("translate", "one")
    assert "invalid choice: 'translate'" in capsys.readouterr().err


def test_a_missing_writer_is_explained_with_the_command_that_makes_it(course, tmp_path):
    for command in ("sample", "evaluate"):
        result = course(command, "--size", "smoke", "--seed", "3")
        made = "course train --task gpt --size smoke --text shakespeare --seed 3\n"
        assert_one_sentence(result, command, "gpt-smoke-shakespeare-seed3;", made)
        result = course(command, "--out", str(tmp_path / "own"))
        assert_one_sentence(result, command, f"--seed 0 --out {tmp_path / 'own'}\n")


# --- course evaluate


def test_evaluation_measures_what_the_training_measured(trained):
    (line,) = trained("evaluate")[1].splitlines()
    again = trained("train", *SETTINGS, "--resume")[1].splitlines()[1]
    assert line == again and re.match(r"val loss \d\.\d{4} nats", line)


def test_a_writer_is_not_measured_on_another_alphabet(trained, tmp_path):
    path = tmp_path / "data" / "tinyshakespeare" / "input.txt"
    path.write_text(path.read_text() + "!")
    assert_one_sentence(trained("evaluate"), "evaluate", "other characters")


# --- the record


def test_a_result_is_recorded_once_with_all_that_repeats_it(trained, folder, tmp_path):
    file = tmp_path / "new" / "record.json"
    for _ in range(2):
        assert trained("train", *SETTINGS, "--resume", "--record", str(file))[0] == 0
    (entry,) = read_record(file)
    writer, content = read_kept(TextGenerator, folder)
    text = read_shakespeare(tmp_path / "data")
    assert TextGeneratorConfig(**entry["settings"]) == TINY
    assert entry["val_loss"] == loss_on(writer.model, side_by_side(text.val, 8))
    assert entry["history"] == content["history"] and len(entry["history"]) == 3
    assert entry["minutes"] == {name: value / 60 for name, value in content["seconds"].items()}
    assert entry["parameters"] == sum(p.numel() for p in writer.model.parameters())
    assert entry["characters"] == {"train": len(text.train), "val": len(text.val)}
    assert entry["sample"] == writer.generate("\n", 300)[0] and len(entry["sample"]) == 301
    assert "torch" in entry["machine"] and "parse_rate" not in entry
    trained("train", *SETTINGS, "--force", "--set", "seed=2", "--record", str(file))
    assert [e["settings"]["seed"] for e in read_record(file)] == [0, 2]


def test_of_python_the_lines_are_parsed(course, tmp_path, monkeypatch):
    folder = write_library(tmp_path / "library")
    monkeypatch.setattr(
        "course_lib.tasks.language_model.read_library", lambda: read_library(folder)
    )
    file, own = tmp_path / "record.json", ["--out", str(tmp_path / "own")]
    words = ["train", *SETTINGS, "--set", "steps=150", *own, "--record", str(file)]
    assert course(*words, which=["--task", "gpt", "--threads", "1"])[0] == 0
    (entry,) = read_record(file)
    writer, _ = read_kept(TextGenerator, tmp_path / "own")
    written = writer.generate("def ", 300, copies=20)
    assert entry["sample"] == written[0] and entry["sample"].startswith("def ")
    assert entry["parse_rate"] == share_that_parses(written)
    assert course("sample", *own, which=["--task", "gpt"])[1].startswith("def ")


def test_runs_that_differ_in_any_number_stand_side_by_side(tmp_path):
    file = tmp_path / "record.json"
    for config in (TINY, replace(TINY, dropout=0.1), replace(TINY, val_windows=8), TINY):
        add_to_record(file, {"settings": asdict(config), "val_loss": 1.0})
    found = [(e["settings"]["dropout"], e["settings"]["val_windows"]) for e in read_record(file)]
    assert found == [(0.1, 7), (0.3, 7), (0.3, 8)]


def test_deletions_stand_in_the_order_of_the_cuts_and_seeds(tmp_path):
    file = tmp_path / "deletion.json"
    entry = dict(cut=1, name="a", seed=0, steps=10, val_loss=2.0)
    for change in ({}, dict(seed=1), dict(cut=0), dict(steps=5), dict(val_loss=1.0)):
        add_ablation(file, entry | change)
    found = [(e["cut"], e["seed"], e["steps"], e["val_loss"]) for e in read_ablations(file)]
    assert found == [(0, 0, 10, 2.0), (1, 0, 5, 2.0), (1, 0, 10, 1.0), (1, 1, 10, 2.0)]
