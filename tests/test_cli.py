"""The command line: one sentence for every mistake, and Ctrl-C loses nothing that was kept."""

import os
import signal
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest
import torch

import course_lib
from course_lib import cli
from course_lib.cli import main
from course_lib.data import BatchMaker, draw_pairs
from course_lib.tasks import numbers
from course_lib.tasks.numbers import TranslatorConfig, checkpoint_path, load_translator
from course_lib.trainer.checkpoint import load_checkpoint

pytestmark = pytest.mark.usefixtures("no_network")

SIZES = dict(num_pairs=120, vocab_size=70, d_model=12, num_heads=3, num_layers=1, d_ff=20)
TINY = SIZES | dict(
    batch_size=5, steps=7, warmup_steps=3, cooldown_steps=1, dropout=0.2, max_len=100
)
ROOT = Path(course_lib.__file__).parents[1]
KEPT = os.environ.get("COURSE_CHECKPOINTS", "")  # where the course keeps its own translator


def tiny_translator_config(**changes):
    """Describe a translator that is trained in no time."""
    return TranslatorConfig(**(TINY | changes))


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Make the commands train tiny translators; return where they are kept."""
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr(cli, "TranslatorConfig", tiny_translator_config)
    return checkpoint_path(tiny_translator_config())


@pytest.fixture
def course(capfd):
    """Return a function that runs a command: its exit code, and what it wrote to out and err."""

    def run(*arguments):
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        return code, *capfd.readouterr()

    return run


@pytest.fixture
def trained(monkeypatch):
    """Use the course's own translator, trained once."""
    monkeypatch.setenv("COURSE_CHECKPOINTS", KEPT)
    cli.load_or_train()


def assert_one_sentence(result, command, *parts):
    """Find exit code 2, nothing on out, and one line on err that holds all the parts."""
    code, out, err = result
    assert (code, out, err.count("\n")) == (2, "", 1), err
    assert err.startswith(f"course {command}: ") and "Traceback" not in err
    for part in parts:
        assert str(part) in err


def weights(path):
    """Return the weights and the step that a file keeps."""
    kept, step = load_translator(path)
    return kept.model.state_dict(), step


def assert_same_training(path, other):
    """Agree in weights and step to the last bit."""
    (mine, step), (theirs, other_step) = weights(path), weights(other)
    assert step == other_step
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def says_all(line, *parts):
    """Find all the parts in a line."""
    return all(part in line for part in parts)


# --- course train


def test_training_says_where_the_translator_is(tiny, course):
    code, out, err = course("train")
    assert code == 0 and "step 7" in out and str(tiny) in out
    assert "7/7" in err  # the progress bar
    assert load_translator(tiny)[1] == 7
    assert load_checkpoint(tiny)["config"] == TINY | {
        "to": "de",
        "seed": 0,
        "rate_scale": TranslatorConfig().rate_scale,
        "smoothing": TranslatorConfig().smoothing,
    }


def test_a_translator_of_your_own_in_another_language(tiny, course, tmp_path, monkeypatch):
    path = tmp_path / "own" / "french.pt"
    saved, really_save = [], numbers.save_checkpoint

    def save(path, content):
        saved.append((path, content["step"]))
        really_save(path, content)

    monkeypatch.setattr(numbers, "save_checkpoint", save)
    code, out, _ = course(
        "train", "--to", "fr", "--seed", 2, "--steps", 3, "--checkpoint", path, "--save-every", 2
    )
    assert code == 0 and str(path) in out and not tiny.exists()
    config = load_translator(path)[0].config
    assert (config.to, config.seed, config.steps) == ("fr", 2, 3)
    assert saved == [(path, 2), (path, 3)]


def test_a_translator_that_is_there_is_not_overwritten(tiny, course):
    course("train", "--steps", 2)
    before = tiny.read_bytes()
    assert_one_sentence(course("train", "--steps", 2), "train", tiny, "--resume", "--force")
    assert tiny.read_bytes() == before


def test_force_starts_anew(tiny, course):
    course("train")
    before, changed = tiny.read_bytes(), tiny.stat().st_mtime_ns
    assert course("train", "--force")[0] == 0
    assert tiny.read_bytes() == before and tiny.stat().st_mtime_ns > changed


def test_what_cannot_be_resumed_is_explained_in_one_sentence(tiny, course):
    assert_one_sentence(course("train", "--resume"), "train", tiny)  # nothing is there
    course("train", "--steps", 3)
    again = ("train", "--resume", "--checkpoint", tiny)
    assert_one_sentence(course(*again, "--to", "zh"), "train", "to='de'", "to='zh'")
    assert_one_sentence(course(*again, "--steps", 2), "train", "step 3", "steps=2")
    tiny.write_bytes(tiny.read_bytes()[:5000])
    assert_one_sentence(course(*again), "train", tiny, "move it away")


def test_a_folder_that_cannot_be_written_is_explained(tiny, course, tmp_path):
    (tmp_path / "file").write_text("not a folder")
    code, out, err = course("train", "--checkpoint", tmp_path / "file" / "kept.pt")
    assert code == 2 and out == "" and "Traceback" not in err
    assert err.splitlines()[-1].startswith("course train: ") and "file" in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["train", "--to", "it"], ["it", "de", "fr", "zh"]),
        (["translate", "one", "--to", "en"], ["en", "de", "fr", "zh"]),
        (["train", "--steps", "0"], ["--steps", "0"]),
        (["train", "--task", "letters"], ["letters", "numbers", "multi30k"]),
        (["train", "--task", "numbers", "--size", "smoke"], ["unrecognized", "--size"]),
        (["train", "--save-every", "-1"], ["--save-every", "-1"]),
        ([], ["command"]),
        (["fly"], ["fly", "train", "translate", "evaluate"]),
    ],
)
def test_impossible_options_are_explained(tiny, capsys, arguments, parts):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    err = capsys.readouterr().err
    assert all(part in err.splitlines()[-1] for part in parts)
    assert not tiny.exists()


# --- Ctrl-C


def test_ctrl_c_says_what_is_kept_and_resume_ends_as_if_nothing_had_been(tiny, course, tmp_path):
    whole, really_draw, stop_at = tmp_path / "whole.pt", BatchMaker.__call__, [2, 6]

    def draw(self, step):
        if step == stop_at[0]:
            raise KeyboardInterrupt
        return really_draw(self, step)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BatchMaker, "__call__", draw)
        code, out, err = course("train", "--save-every", "2")
        assert code == 130 and out == "" and "nothing is kept yet" in err and not tiny.exists()
        stop_at.pop(0)
        code, out, err = course("train", "--save-every", "2")
    last = err.splitlines()[-1]
    assert code == 130 and "kept up to step 4" in last and "--resume" in last
    assert course("train", "--resume")[0] == 0
    course("train", "--checkpoint", whole)
    assert_same_training(tiny, whole)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal")
def test_a_plain_kill_ends_the_step_and_keeps_it(tiny, course, monkeypatch):
    really_draw = BatchMaker.__call__

    def draw(self, step):
        if step == 3:
            signal.raise_signal(signal.SIGTERM)
        return really_draw(self, step)

    monkeypatch.setattr(BatchMaker, "__call__", draw)
    code, _, err = course("train")
    assert code == 130 and "kept up to step 3" in err.splitlines()[-1]
    assert load_checkpoint(tiny)["step"] == 3


@pytest.mark.parametrize("error", [MemoryError, RuntimeError])
def test_a_model_beyond_the_memory_is_explained(error, tiny, course, monkeypatch):
    def refuse(*words, **how):
        raise error("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(cli, "train_translator", refuse)
    code, out, err = course("train")
    assert (code, out) == (2, "") and "does not fit into the memory" in err


def test_a_fault_of_our_own_is_not_hidden(tiny, course, monkeypatch):
    def fail(*words, **how):
        raise RuntimeError("unsupported memory format")

    monkeypatch.setattr(cli, "train_translator", fail)
    with pytest.raises(RuntimeError, match="memory format"):
        course("train")


# --- course translate


def test_a_translator_of_another_language_is_not_passed_off_as_this_one(trained, course):
    path = checkpoint_path(TranslatorConfig())
    code, out, err = course("translate", "one", "--to", "fr", "--checkpoint", path)
    assert (code, out) == (2, "") and "translates to --to de, not fr" in err


def test_a_reader_that_has_enough_is_no_error(trained, course, monkeypatch):
    def refuse(*words):
        raise BrokenPipeError

    monkeypatch.setattr(cli, "check_number_words", refuse)
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # it is replaced: nothing is flushed at the end
    assert cli.main(["translate", "one"]) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["three hundred forty-five"],
        ["  THREE   hundred\t", "forty-FIVE "],
    ],
)
def test_a_number_is_translated_however_it_is_typed(trained, course, words):
    assert course("translate", *words) == (0, "dreihundertfünfundvierzig\n", "")


def test_a_translation_comes_from_the_checkpoint_that_is_named(tiny, course, tmp_path):
    path = tmp_path / "own.pt"
    course("train", "--checkpoint", path)
    expected = load_translator(path)[0].translate(["one hundred"])[0]
    assert course("translate", "one hundred", "--checkpoint", path) == (0, expected + "\n", "")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("three hundred and five", "'and'"),
        ("forty five", "'forty-five'"),
        (" \n ", "nothing"),
        ("thousand " * 99, "number"),
    ],
)
def test_what_is_no_number_is_refused_in_one_sentence(tiny, course, text, part):
    course("train", "--steps", 1)
    assert_one_sentence(course("translate", text), "translate", part)


def test_a_missing_translator_is_explained_with_the_command_that_makes_it(tiny, course):
    missing = checkpoint_path(tiny_translator_config(to="fr", seed=4))
    result = course("translate", "one", "--to", "fr", "--seed", 4)
    assert_one_sentence(result, "translate", missing, "course train --to fr --seed 4\n")
    own = missing.with_name("own.pt")
    result = course("translate", "one", "--checkpoint", own)
    assert_one_sentence(result, "translate", f"course train --to de --seed 0 --checkpoint {own}\n")


def test_a_process_ends_with_the_exit_code_and_the_sentence(tiny, course):
    tiny.write_text("some text\n")
    command = [sys.executable, "-m", "course_lib.cli", "translate", "One", "--checkpoint", tiny]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert_one_sentence((done.returncode, done.stdout, done.stderr), "translate", tiny)


def test_the_command_is_called_course():
    (command,) = entry_points(group="console_scripts", name="course")
    assert command.value == "course_lib.cli:main"


# --- course evaluate


def test_evaluation_prints_each_seed_and_the_mean_on_test_numbers(tiny, course, monkeypatch):
    shares, measured = {0: 0.5, 4: 0.75}, []

    def measure(translator, pairs):
        measured.append((translator.config, pairs))
        return shares[translator.config.seed]

    monkeypatch.setattr(cli, "translated_exactly", measure)
    code, out, _ = course("evaluate", "--to", "fr", "--count", 6, "--seeds", 0, 4)
    assert code == 0
    configs = [tiny_translator_config(to="fr", seed=seed) for seed in shares]
    assert measured == [(config, draw_pairs("test", 6, to="fr")) for config in configs]
    first, second, mean = out.splitlines()
    assert says_all(first, "fr", "seed 0", "0.500", "6 numbers")
    assert says_all(second, "fr", "seed 4", "0.750", "6 numbers")
    assert says_all(mean, "mean 0.6250", "0.500 to 0.750")  # (1/2 + 3/4) / 2 = 5/8
