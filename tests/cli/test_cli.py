"""The command line responds to every mistake with one sentence and an exit code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import course_lib
from course_lib.cli import main as cli
from course_lib.cli import model_commands
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
        ("train --steps 0", 2, ""),
        ("train --to fr", 7, "Training a number-word translator, English to French, trained"),
        ("progress w", 0, "0 of "),
        ("check caused_mask", 2, ""),
        ("check causal_mask --folder w", 1, "○ Not attempted yet: causal_mask"),
        ("grade w --out .", 0, "the learners' code runs"),
    ]:
        command = [sys.executable, "-m", "course_lib.cli", *words.split()]
        done = subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == code and done.stdout.startswith(said), done


@pytest.mark.skipif(not FULL.exists(), reason="this system has no full disk to write to")
def test_help_that_cannot_be_written_is_an_error():
    command = [sys.executable, "-m", "course_lib.cli", "--help"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with FULL.open("w") as full:
        done = subprocess.run(command, cwd=ROOT, env=buffered, stdout=full, stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr.count(b"\n")) == (2, 1)
    assert done.stderr.startswith(b"course") and done.stderr.endswith(b"No space left on device\n")


def test_a_download_prints_where_the_files_are_and_the_next_command(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(model_commands, "download_multi30k", lambda folder: folder / "multi30k")
    assert main(["download", "multi30k", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"in {tmp_path / 'multi30k'}. Next: " in out and out.endswith(f"--data {tmp_path}\n")
