"""``course … --task multi30k``: one sentence for what is wrong, and nothing is lost."""

import hashlib
from types import SimpleNamespace

import pytest
import torch

from course_lib import cli
from course_lib.data import Tokenizer, multi30k_files
from course_lib.tasks import multi30k_commands as real
from course_lib.tasks import train_command
from course_lib.tasks.multi30k import SIZES, TEST, RealConfig, RealTranslator, read_pairs, score
from course_lib.tasks.multi30k_record import CAPTIONS, RUN, add_to_record, read_record
from course_lib.tasks.multi30k_training import Multi30k, val_loss
from course_lib.trainer.averaging import average_of_last, kept_weights
from course_lib.trainer.checkpoint import load_checkpoint, save_checkpoint
from course_lib.trainer.distributed import World
from course_lib.trainer.run_folder import LAST, read_kept
from course_lib.transformer import Transformer

TINY = "epochs=3 num_pairs=40 tokens=300 d_model=16 d_ff=24 num_layers=1 vocab_size=90".split()
SETTINGS = [word for setting in TINY for word in ("--set", setting)]


@pytest.fixture
def course(capsys, monkeypatch, tmp_path):
    """Run a command on the tiny translator; return its exit code and what it said."""
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path / "kept"))
    monkeypatch.delenv("COURSE_DATA", raising=False)

    def run(*words):
        code = cli.main([*words, "--task", "multi30k", "--size", "smoke", "--threads", "1"])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def trained(course):
    """Train the tiny translator."""
    assert course("train", *SETTINGS)[0] == 0
    return course


def test_the_options_reach_the_training(tmp_path, monkeypatch):
    asked = {}

    def begin(task, config, out, **where):
        asked.update(where, task=task, config=config, out=out)
        return SimpleNamespace(step=1, seconds={"wall": 0.0})

    monkeypatch.setattr(train_command, "start", begin)
    monkeypatch.setattr(train_command, "train", lambda run, out, **how: asked.update(how))
    monkeypatch.setattr(real, "bfloat16_pays", lambda: False)
    monkeypatch.setattr(torch, "set_num_threads", lambda number: asked.update(threads=number))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    words = "train --task multi30k --size gpu --direction en-de --seed 5 --device cuda --threads 3"
    words += f" --minutes 7 --clock cpu --shard --set epochs=9 --out {tmp_path / 'own'}"
    words += f" --data {tmp_path}"
    assert cli.main(words.split()) == 0
    config = dict(direction="en-de", seed=5, epochs=9, bfloat16=True)  # a GPU has it
    assert asked.pop("config") == RealConfig(**SIZES["gpu"] | config)
    assert not asked.pop("stop")()
    expected = dict(out=tmp_path / "own", data=tmp_path, device="cuda", threads=3, minutes=7.0)
    expected |= dict(task=Multi30k, clock="cpu", world=World(), sharded=True)
    assert expected.items() <= asked.items()


def test_weights_left_of_another_training_are_not_averaged(trained, tmp_path):
    folder = tmp_path / "kept" / "multi30k-smoke-de-en-seed0"
    (folder / LAST).unlink()
    assert trained("train", *SETTINGS, "--set", "epochs=2")[0] == 0
    assert len(kept_weights(folder)) == 2


def assert_one_sentence(result, *parts):
    code, out, error = result
    assert (code, out, error.count("\n")) == (2, "", 1), error
    assert all(str(part) in error for part in parts)


def test_weights_of_an_epoch_that_are_of_something_else_are_explained(trained, tmp_path):
    folder = tmp_path / "kept" / "multi30k-smoke-de-en-seed0"
    save_checkpoint(folder / "epoch-0003.pt", {"model": {"weight": torch.ones(2)}})
    assert_one_sentence(trained("translate", "ein", "--average", "1"), folder, "is no checkpoint")


@pytest.mark.parametrize(
    "words", [["train", "--minutes"], ["translate", "ein", "--alpha"], ["evaluate", "--alpha"]]
)
def test_a_number_that_is_none_is_explained(words, course):
    assert_one_sentence(course(*words, "nan"), "nan")


def test_a_missing_translator_is_explained_with_the_command_that_makes_it(course, tmp_path):
    code, _, error = course("translate", "ein", "--direction", "en-de", "--seed", "1")
    assert code == 2 and "multi30k-smoke-en-de-seed1;" in error
    assert "--direction en-de --seed 1 --size smoke\n" in error
    _, _, error = course("translate", "ein", "--out", str(tmp_path / "own"))
    assert f"in {tmp_path / 'own'};" in error and f"--out {tmp_path / 'own'}\n" in error


def test_what_translates_is_the_average_asked_for_with_the_options_given(
    trained, tmp_path, monkeypatch
):
    folder = tmp_path / "kept" / "multi30k-smoke-de-en-seed0"
    content = load_checkpoint(folder / LAST)
    pairs = read_pairs(RealConfig(**content["config"]), TEST)
    sources, references = map(list, zip(*pairs, strict=True))
    written = [reference[:-3] for reference in references]  # each one a little too short
    asked, devices = [], []

    def translate(self, texts, **how):
        asked.append((texts, how, self.model.training, self.model.state_dict()))
        return written

    monkeypatch.setattr(RealTranslator, "translate", translate)
    monkeypatch.setattr(
        Transformer, "to", lambda self, device: devices.append(device) or self, raising=False
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    how = ["--beam", "3", "--alpha", "0.2", "--average", "2", "--device", "cuda"]
    assert trained("translate", "ein", " zwei", *how)[1] == f"{written[0]}\n"
    said = trained("evaluate", "--split", TEST, *how)[1].splitlines()
    scores = score(written, references)
    for line, name in zip(said[:3], ("bleu", "bleu_lower", "chrf"), strict=True):
        assert line.startswith(f"{name} {scores[name]:.2f} ")
    assert said[3].startswith(f"60 sentences of {TEST}") and devices == ["cuda"] * 2
    assert [texts for texts, *_ in asked] == [["ein zwei"], sources]
    expected = average_of_last(folder, 2)
    for _, how, training, weights in asked:
        assert how == dict(beam_size=3, alpha=0.2) and not training
        assert all(torch.equal(value, expected[name]) for name, value in weights.items())


def test_evaluation_prints_the_scores_and_records_once_what_repeats_them(trained, tmp_path):
    folder, file = tmp_path / "kept" / "multi30k-smoke-de-en-seed0", tmp_path / "record.json"
    how = ["--beam", "1", "--alpha", "0.2", "--average", "2"]
    for _ in range(2):
        _, out, error = trained("evaluate", *how, "--split", TEST, "--record", str(file))
    lines = out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["bleu", "bleu_lower", "chrf"]
    assert "case:mixed" in lines[0] and "case:lc" in lines[1] and "version:" in lines[2]
    assert "choose on --split val" in error
    (entry,) = read_record(file)
    asked = dict(direction="de-en", seed=0, split=TEST, epochs=3, average=2, beam_size=1, alpha=0.2)
    assert asked.items() <= entry.items()
    content = load_checkpoint(folder / LAST)
    translator, _ = read_kept(RealTranslator, folder)
    translator.model.load_state_dict(average_of_last(folder, 2))
    pairs = read_pairs(translator.config, TEST)
    assert entry["loss"] == pytest.approx(val_loss(translator, pairs))
    assert entry["minutes"] == {name: value / 60 for name, value in content["seconds"].items()}
    assert entry["config"] == content["config"] and entry["steps"] == content["step"]
    assert [source for source, _ in entry["captions"]] == [german for german, _ in CAPTIONS]
    translator.model.eval()
    written = translator.translate(["Ein Mann fährt Fahrrad."], beam_size=1, alpha=0.2)
    assert entry["captions"][0][1] == written[0]
    _, _, error = trained("evaluate", "--beam", "1", "--average", "1", "--record", str(file))
    assert read_record(file)[-1]["history"] == content["history"] and "test set" not in error


@pytest.fixture
def data(course, tmp_path, monkeypatch):
    """Put a corpus of thirty lines a split in the place of the real one; return its folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    sums = {}
    for name in multi30k_files.SUMS:
        split, language = name.split(".")
        word = {"de": "Ein Hund", "en": "A dog"}[language]
        lines = [f"{word} {'sehr ' * (n % 5)}{split} {n}.\n" for n in range(30)]
        (folder / name).write_bytes("".join(lines).encode())
        sums[name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    monkeypatch.setattr(multi30k_files, "SUMS", sums)
    monkeypatch.setattr(multi30k_files, "LINES", {split: 30 for split in multi30k_files.LINES})
    return folder


@pytest.mark.parametrize("by", ["COURSE_DATA", "--data"])
def test_where_data_are_the_smoke_size_takes_a_slice_of_them(
    by, course, data, tmp_path, monkeypatch
):
    named = [by, str(data)] if by == "--data" else []
    if not named:
        monkeypatch.setenv(by, str(data))
    small = ["--set", "epochs=1", "--set", "d_model=16", "--set", "num_pairs=20"]
    assert course("train", *small, *named)[0] == 0
    content = load_checkpoint(tmp_path / "kept" / "multi30k-smoke-de-en-seed0" / LAST)
    slice_ = real.SLICE | dict(num_pairs=20)
    assert slice_.items() <= content["config"].items()
    pairs = read_pairs(RealConfig(**content["config"]), "train", data)
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.learn(texts, 1_000, split_punctuation=True)
    assert content["tokenizer"] == tokenizer.to_json()
    assert course("translate", "Ein Hund 7.")[0] == 0
    for split, size in (("val", 20), (TEST, 30)):
        _, out, _ = course("evaluate", "--beam", "1", "--split", split, *named)
        assert f"{size} sentences of {split} " in out


@pytest.mark.parametrize(("split", "size"), [("train", 20), ("val", 20), (TEST, 30)])
def test_the_first_pairs_are_learned_from_and_the_whole_test_set_measured(split, size, data):
    pairs = read_pairs(RealConfig(direction="en-de", num_pairs=20), split, data)
    assert len(pairs) == size and pairs[0] == (f"A dog {split} 0.", f"Ein Hund {split} 0.")
    assert len(read_pairs(RealConfig(), split, data)) == 30


def test_bfloat16_is_decided_by_measuring_and_kept_when_going_on(course, monkeypatch):
    chosen = [word for setting in TINY for word in ("--set", setting)]
    sizes = {**real.SIZES, "smoke": {k: v for k, v in real.SIZES["smoke"].items()}}
    del sizes["smoke"]["bfloat16"]
    monkeypatch.setattr(real, "SIZES", sizes)
    monkeypatch.setattr(real, "bfloat16_pays", lambda: True)
    assert course("train", *chosen, "--minutes", "0")[0] == 0
    monkeypatch.setattr(real, "bfloat16_pays", lambda: False)
    assert course("train", *chosen, "--resume")[0] == 0  # the same configuration as before


def test_a_download_says_where_the_files_are_and_what_comes_next(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(real, "download_multi30k", lambda folder: folder / "multi30k")
    assert cli.main(["download", "multi30k", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"in {tmp_path / 'multi30k'};" in out and out.endswith(f"--data {tmp_path}\n")


def test_a_download_without_a_network_is_explained(course, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        multi30k_files.download_multi30k,
        "__kwdefaults__",
        {"url": "http://127.0.0.1:9", "timeout": 1.0},
    )
    assert cli.main(["download", "multi30k", str(tmp_path)]) == 2
    assert "is there a network?" in capsys.readouterr().err


def test_runs_that_differ_in_one_thing_stand_side_by_side(tmp_path):
    entry = dict.fromkeys(RUN, 1)
    for name in RUN:
        add_to_record(tmp_path / name, entry | {name: 2})
        add_to_record(tmp_path / name, entry)
        assert [e[name] for e in read_record(tmp_path / name)] == [1, 2]  # in order
