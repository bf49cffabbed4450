"""The command line responds to every mistake with one sentence and an exit code."""

import os
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import course_lib
from course_lib.cli import main as cli
from course_lib.cli import model_commands, training_commands
from course_lib.cli.command_options import TASK_OPTIONS
from course_lib.cli.main import main

ROOT = Path(course_lib.__file__).parents[1]
FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Keep every checkpoint of these tests under tmp_path."""
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path / "kept"))


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["train", "--to", "it"], ["it", "de", "fr", "zh"]),
        (["train", "--steps", "0"], ["--steps", "0"]),
        (["train", "--task", "gpt", "--to", "fr"], ["unrecognized", "--to"]),
        (["train", "--out", ""], ["--out", "is empty"]),
        (["translate", "one", "--task", "gpt"], ["task gpt has no command translate", "sample"]),
        (["sample", "--task", "letters"], ["'letters'", "gpt"]),
        (["fly"], ["fly", "train", "translate", "evaluate"]),
    ],
)
def test_impossible_options_are_explained(capsys, arguments, parts):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    sentence = capsys.readouterr().err.splitlines()[-1]
    assert all(part in sentence for part in parts)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["trian"], "train"),
        (["smple"], "sample"),
        (["tranlate", "--task", "gpt"], "translate"),
        (["train", "--task", "nubmers"], "numbers"),
        (["download", "gpt-2", "here"], "gpt2"),
        (["train", "--forc"], "--force"),
    ],
)
def test_a_similar_word_is_suggested(capsys, arguments, meant):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.endswith(f". Did you mean `{meant}`?\n")


@pytest.mark.parametrize(("command", "tasks"), [("sample", 1), ("translate", 2), ("train", 3)])
def test_a_command_offers_only_the_tasks_whose_models_it_uses(capsys, command, tasks):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    (listed,) = re.findall(r"--task \{(.*?)\}\s+what", capsys.readouterr().out)
    assert len(listed.split(",")) == tasks


def test_the_help_lists_every_command_and_task(capsys):
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 0
    listed, examples = capsys.readouterr().out.split("Examples:")
    tops = [cli.parser(), cli.parser("gpt")]
    known = {name for top in tops for name in top.commands.choices} | {*TASK_OPTIONS}
    assert sorted(re.findall(r"^  (\w+) +\S", listed, re.M)) == sorted(known)
    assert cli.parser("numbers", "train").commands.choices.keys() == tops[0].commands.choices.keys()
    assert "train" in examples


def test_the_first_output_does_not_wait_for_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise SystemExit(7)")
    (tmp_path / "w" / "my_lib").mkdir(parents=True)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    for words, code, said in [
        ("", 0, "Learn the Transformer"),
        ("--version", 0, "course "),
        ("trian", 2, ""),
        ("train --help", 0, "usage: course train"),
        ("train --steps 0", 2, ""),
        ("train --to fr", 7, "Training a number-word translator, English to French, trained"),
        ("progress w", 0, "0 of "),
        ("check caused_mask", 2, ""),
        ("check causal_mask --folder w", 1, "○ Not attempted yet: causal_mask"),
        ("grade w --out .", 0, "the learners' code runs"),
        ("learn w/new --copy-only", 7, ""),
    ]:
        command = [sys.executable, "-m", "course_lib.cli", *words.split()]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == code and done.stdout.startswith(said), done


def test_out_of_memory_errors_are_explained_and_our_own_bugs_are_not_hidden(monkeypatch, capsys):
    errors = [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")]
    errors += [RuntimeError("unsupported memory format"), BrokenPipeError()]  # | head breaks a pipe

    def fail(*words, **options):
        raise errors.pop(0)

    monkeypatch.setattr(training_commands, "start", fail)
    for _ in range(2):
        assert main(["train"]) == 2
        assert "not enough memory" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="memory format"):
        main(["train"])
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # replaced, so nothing is flushed at the end
    assert main(["train"]) == 0


def test_a_process_ends_with_the_exit_code_and_the_sentence(tmp_path):
    command = [sys.executable, "-m", "course_lib.cli", "sample", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"course sample: there is no checkpoint in {tmp_path}: ")


@pytest.mark.parametrize("words", ["--help", "train --help", "--version", "download -h"])
@pytest.mark.skipif(not FULL.exists(), reason="this system has no full disk to write to")
def test_help_that_cannot_be_written_is_an_error(words):
    command = [sys.executable, "-m", "course_lib.cli", *words.split()]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with FULL.open("w") as full:
        done = subprocess.run(command, cwd=ROOT, env=buffered, stdout=full, stderr=subprocess.PIPE)
        mute = subprocess.run([*command[:3], "trian"], cwd=ROOT, env=buffered, stderr=full)
    assert (done.returncode, done.stderr.count(b"\n"), mute.returncode) == (2, 1, 2)
    assert done.stderr.startswith(b"course") and done.stderr.endswith(b"No space left on device\n")


def test_the_command_is_called_course():
    (command,) = entry_points(group="console_scripts", name="course")
    assert command.value == "course_lib.cli.main:main"


def test_a_download_prints_where_the_files_are_and_the_next_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(model_commands, "download_multi30k", lambda folder: folder / "multi30k")
    assert main(["download", "multi30k", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"in {tmp_path / 'multi30k'}. Next: " in out and out.endswith(f"--data {tmp_path}\n")
