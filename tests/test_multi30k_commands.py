"""``course … --task multi30k``: one sentence for what is wrong, and nothing is lost."""

import hashlib
import json
from dataclasses import asdict
from types import SimpleNamespace

import pytest
import torch

from course_lib import cli
from course_lib.data import Tokenizer, multi30k_files
from course_lib.tasks import multi30k_commands as real
from course_lib.tasks.language_model import TextGeneratorConfig
from course_lib.tasks.multi30k import SIZES, TEST, RealConfig, RealTranslator, read_pairs, score
from course_lib.tasks.multi30k_checkpoint import LAST, load_translator
from course_lib.tasks.multi30k_record import CAPTIONS, RECORD, RUN, add_to_record, read_record
from course_lib.tasks.multi30k_training import val_loss
from course_lib.trainer.averaging import average_of_last, kept_weights
from course_lib.trainer.checkpoint import load_checkpoint, save_checkpoint
from course_lib.trainer.distributed import World
from course_lib.transformer import Transformer

TINY = "epochs=3 num_pairs=40 tokens=300 d_model=16 d_ff=24 num_layers=1 vocab_size=90".split()
SETTINGS = [word for setting in TINY for word in ("--set", setting)]


@pytest.fixture
def course(capsys, monkeypatch, tmp_path):
    """TrainState a command on the tiny translator; return its exit code and what it said."""
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


def test_a_training_says_where_it_is_kept_and_is_not_overwritten(trained, tmp_path):
    folder = tmp_path / "kept" / "multi30k-smoke-de-en-seed0"
    assert len(kept_weights(folder)) == 3
    code, _, error = trained("train", *SETTINGS)
    assert code == 2 and "--resume goes on from it, --force starts anew" in error
    code, out, _ = trained("train", *SETTINGS, "--resume")
    assert code == 0 and out.startswith("trained for 3 epochs") and str(folder) in out


def test_force_starts_anew_and_leaves_nothing_of_the_old_one(trained, tmp_path):
    folder = tmp_path / "kept" / "multi30k-smoke-de-en-seed0"
    assert trained("train", *SETTINGS, "--set", "epochs=2", "--force")[0] == 0
    assert len(kept_weights(folder)) == 2


def test_the_options_reach_the_training(tmp_path, monkeypatch):
    asked = {}

    def begin(config, out, **where):
        asked.update(where, config=config, out=out)
        translator = SimpleNamespace(config=config)
        return SimpleNamespace(step=1, seconds={"wall": 0.0}, translator=translator), []

    monkeypatch.setattr(real, "start", begin)
    monkeypatch.setattr(real, "train_run", lambda run, val, out, **how: asked.update(how) or True)
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
    expected |= dict(clock="cpu", world=World(), sharded=True)
    assert expected.items() <= asked.items()


@pytest.mark.parametrize("wrong", [["--set", "task=multi30k"], ["--set", "tokens=5"]])
def test_force_removes_nothing_when_the_new_training_cannot_begin(wrong, trained, tmp_path):
    folder = tmp_path / "kept" / "multi30k-smoke-de-en-seed0"
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert trained("train", *SETTINGS, *wrong, "--force")[0] == 2
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_force_and_resume_together_are_refused_and_remove_nothing(trained, tmp_path):
    folder = tmp_path / "kept" / "multi30k-smoke-de-en-seed0"
    with pytest.raises(SystemExit, match="2"):
        trained("train", *SETTINGS, "--force", "--resume")
    assert len(kept_weights(folder)) == 3 and (folder / LAST).exists()


def test_weights_left_of_another_training_are_not_averaged(trained, tmp_path):
    folder = tmp_path / "kept" / "multi30k-smoke-de-en-seed0"
    (folder / LAST).unlink()
    assert trained("train", *SETTINGS, "--set", "epochs=2")[0] == 0
    assert len(kept_weights(folder)) == 2


@pytest.mark.parametrize(
    ("wrong", "part"),
    [
        (["--beam", "0"], "beam_size=0 must be at least 1"),
        (["--device", "cuda"], "there is no CUDA device here"),
    ],
)
def test_what_cannot_be_computed_is_explained(wrong, part, trained, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    code, _, error = trained("translate", "ein", *wrong)
    assert code == 2 and part in error


def test_no_thread_at_all_is_explained(tmp_path, capsys):
    words = ["translate", "ein", "--task", "multi30k", "--threads", "0", "--out", str(tmp_path)]
    assert cli.main(words) == 2
    assert "--threads 0: at least one is needed" in capsys.readouterr().err


WRONG = "smoothing=2 epochs=0 peak_rate=nan peak_rate=inf peak_rate=0 peak_rate=-1 cooldown=1.5 "
WRONG += "cooldown=-0.1 cooldown=nan dropout=nan smoothing=nan warmup_steps=0 num_layers=0 d_ff=0 "
WRONG += "d_model=-4 num_heads=0 vocab_size=0 max_len=0 tokens=0 pool_size=0 num_pairs=-1"


@pytest.mark.parametrize("wrong", WRONG.split())
def test_impossible_numbers_are_explained(wrong, course, tmp_path):
    code, out, error = course("train", *SETTINGS, "--set", wrong)
    assert code == 2 and wrong in error and out == "" and error.count("\n") == 1
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("fine", ["cooldown=0", "cooldown=1", "smoothing=1", "dropout=1"])
def test_the_ends_of_a_range_belong_to_it(fine):
    name, value = fine.split("=")
    assert getattr(RealConfig(**{name: float(value)}), name) == float(value)


OTHERS = [{"model": {}}, {"config": 3}, {"config": asdict(TextGeneratorConfig())}]
COMMANDS = [["train", *SETTINGS, "--resume"], ["translate", "ein"], ["evaluate"]]


def assert_one_sentence(result, *parts):
    code, out, error = result
    assert (code, out, error.count("\n")) == (2, "", 1), error
    assert all(str(part) in error for part in parts)


@pytest.mark.parametrize("content", OTHERS)
@pytest.mark.parametrize("words", COMMANDS)
def test_a_checkpoint_of_another_kind_is_explained(words, content, course, tmp_path):
    path = tmp_path / "kept" / "multi30k-smoke-de-en-seed0" / LAST
    save_checkpoint(path, content)
    before = path.read_bytes()
    says = (path, "is no checkpoint of a translator of sentences", "take another folder")
    assert_one_sentence(course(*words), *says)
    assert path.read_bytes() == before


@pytest.mark.parametrize("part", ["optimizer", "step", "losses", "model", "tokenizer"])
def test_a_checkpoint_that_lacks_something_is_explained(part, trained, tmp_path):
    path = tmp_path / "kept" / "multi30k-smoke-de-en-seed0" / LAST
    content = load_checkpoint(path)
    save_checkpoint(path, {name: value for name, value in content.items() if name != part})
    result = trained("train", *SETTINGS, "--resume")
    assert_one_sentence(result, path, "is no checkpoint", f"KeyError: '{part}'")


@pytest.mark.parametrize("content", [{"epoch": 3}, {"model": {"weight": torch.ones(2)}}])
def test_kept_weights_of_another_kind_are_explained(content, trained, tmp_path):
    folder = tmp_path / "kept" / "multi30k-smoke-de-en-seed0"
    save_checkpoint(folder / "epoch-0003.pt", content)
    assert_one_sentence(trained("translate", "ein", "--average", "1"), folder, "is no checkpoint")


@pytest.mark.parametrize("place", ["start", "train_run"])
def test_a_stop_that_does_not_wait_says_what_is_kept(place, course, monkeypatch):
    def stop(*arguments, **how):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(real, place, stop)
        code, out, error = course("train", *SETTINGS)
        assert (code, out) == (130, "") and "nothing is kept yet" in error
    assert course("train", *SETTINGS, "--minutes", "0")[0] == 0
    monkeypatch.setattr(real, place, stop)
    code, out, error = course("train", *SETTINGS, "--resume")
    assert (code, out) == (130, "") and "--resume goes on from it" in error
    assert "Traceback" not in error


def test_a_task_that_is_abbreviated_is_the_same_task(capsys):
    words = ["translate", "ein", "--tas", "multi30k", "--seed", "9", "--out", "nowhere"]
    assert cli.main(words) == 2
    assert "course train --task multi30k" in capsys.readouterr().err


def test_another_configuration_is_not_gone_on_with(trained):
    code, _, error = trained("train", *SETTINGS, "--set", "d_ff=25", "--resume")
    assert code == 2 and "take another folder" in error


def test_time_that_is_up_is_said_and_can_be_gone_on_from(course):
    code, out, _ = course("train", *SETTINGS, "--minutes", "0")
    assert code == 0 and out.startswith("stopped at step 1,") and "--resume" in out
    assert course("train", *SETTINGS, "--resume")[0] == 0


def test_a_sentence_is_translated(trained):
    code, out, _ = trained("translate", "dreihundert", "fünf")
    assert code == 0 and out.endswith("\n") and len(out.splitlines()) == 1


def test_a_missing_translator_is_explained_with_the_command_that_makes_it(course):
    code, _, error = course("translate", "ein")
    assert code == 2 and "course train --task multi30k --direction de-en --seed 0" in error


def test_every_size_direction_and_seed_has_a_folder_of_its_own(course, tmp_path):
    _, _, error = course("translate", "ein", "--direction", "en-de", "--seed", "1")
    assert "multi30k-smoke-en-de-seed1;" in error
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


def test_evaluation_prints_all_three_scores_with_their_signatures(trained):
    code, out, error = trained("evaluate", "--beam", "1")
    lines = out.splitlines()
    assert code == 0 and [line.split()[0] for line in lines[:3]] == ["bleu", "bleu_lower", "chrf"]
    assert "case:mixed" in lines[0] and "case:lc" in lines[1] and "version:" in lines[2]
    assert "test set" not in error


def test_the_test_set_says_what_it_is_for(trained):
    code, _, error = trained("evaluate", "--beam", "1", "--split", "test_2016_flickr")
    assert code == 0 and "choose on --split val" in error


def test_a_result_is_recorded_once_with_all_that_repeats_it(trained, tmp_path):
    file = tmp_path / "record.json"
    for _ in range(2):
        assert trained("evaluate", "--beam", "1", "--record", str(file))[0] == 0
    for how in (["--beam", "2"], ["--beam", "1", "--average", "3"]):
        assert trained("evaluate", *how, "--record", str(file))[0] == 0
    first, wider, averaged = read_record(file)
    assert [e["beam_size"] for e in (first, wider, averaged)] == [1, 2, 1]
    assert first["average"] == wider["average"] == 1 and averaged["average"] == 3
    assert len(first["history"]) == len(wider["history"]) == 3 and not averaged["history"]
    assert first["steps"] > 0 and first["parameters"] > 1000
    assert first["minutes"]["cpu"] > 0 and "torch" in first["machine"]
    assert first["config"]["d_ff"] == 24
    assert first["loss"] == pytest.approx(first["loss"]) and first["loss"] > 0


def test_a_record_holds_what_was_asked_for_and_measured(trained, tmp_path):
    folder, file = tmp_path / "kept" / "multi30k-smoke-de-en-seed0", tmp_path / "record.json"
    how = ["--beam", "1", "--alpha", "0.2", "--average", "2"]
    trained("evaluate", *how, "--split", TEST, "--record", str(file))
    (entry,) = read_record(file)
    asked = dict(direction="de-en", seed=0, split=TEST, epochs=3, average=2, beam_size=1, alpha=0.2)
    assert asked.items() <= entry.items()
    content = load_checkpoint(folder / LAST)
    translator = load_translator(content)
    translator.model.load_state_dict(average_of_last(folder, 2))
    pairs = read_pairs(translator.config, TEST)
    assert entry["loss"] == pytest.approx(val_loss(translator, pairs))
    assert entry["minutes"] == {name: value / 60 for name, value in content["seconds"].items()}
    assert entry["config"] == content["config"] and entry["steps"] == content["step"]
    assert [source for source, _ in entry["captions"]] == [german for german, _ in CAPTIONS]
    translator.model.eval()
    written = translator.translate(["Ein Mann fährt Fahrrad."], beam_size=1, alpha=0.2)
    assert entry["captions"][0][1] == written[0]
    trained("evaluate", "--beam", "1", "--average", "1", "--record", str(file))
    assert read_record(file)[-1]["history"] == content["history"]


def test_averages_of_more_epochs_than_are_kept_are_refused(trained):
    code, _, error = trained("evaluate", "--average", "7")
    assert code == 2 and "keeps 3 epochs; 7 cannot be averaged" in error


@pytest.mark.parametrize(
    ("setting", "part"),
    [
        ("depth=3", "'depth' is none of task, direction"),
        ("epochs=many", "epochs is int, not 'many'"),
        ("bfloat16=1", "bfloat16 is True or False, not '1'"),
    ],
)
def test_wrong_settings_are_explained(course, capsys, setting, part):
    with pytest.raises(SystemExit, match="2"):
        course("train", "--set", setting)
    assert part in capsys.readouterr().err


def test_without_data_a_real_training_says_how_to_get_them(course):
    code, _, error = course("train", "--set", "task=multi30k")
    assert code == 2 and "course download multi30k DIR" in error


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


@pytest.mark.parametrize("direction", ["de-en", "en-de"])
@pytest.mark.parametrize(("split", "size"), [("train", 20), ("val", 20), (TEST, 30)])
def test_the_first_pairs_are_learned_from_and_the_whole_test_set_measured(
    direction, split, size, data
):
    config = RealConfig(direction=direction, num_pairs=20)
    pairs = read_pairs(config, split, data)
    assert len(pairs) == size and len(read_pairs(RealConfig(), split, data)) == 30
    first = {"de": f"Ein Hund {split} 0.", "en": f"A dog {split} 0."}
    assert pairs[0] == tuple(first[language] for language in direction.split("-"))


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


def test_the_record_that_is_committed_can_be_read_and_names_no_one_twice():
    entries = read_record()
    keys = [tuple(entry[name] for name in RUN) for entry in entries]
    assert keys == sorted(set(keys))
    assert RECORD.read_text(encoding="utf-8").endswith("]\n") and json.loads(RECORD.read_text())


def test_a_record_keeps_other_entries(tmp_path):
    file = tmp_path / "record.json"
    entry = dict.fromkeys(RUN, 1) | {"bleu": 1.0}
    add_to_record(file, entry)
    add_to_record(file, entry | {"seed": 0, "bleu": 2.0})
    add_to_record(file, entry | {"bleu": 3.0})
    assert [(e["seed"], e["bleu"]) for e in read_record(file)] == [(0, 2.0), (1, 3.0)]


@pytest.mark.parametrize("name", RUN)
def test_runs_that_differ_in_one_thing_stand_side_by_side(name, tmp_path):
    file = tmp_path / "record.json"
    entry = dict.fromkeys(RUN, 1) | {name: 1}
    add_to_record(file, entry | {name: 2})
    add_to_record(file, entry)
    assert [e[name] for e in read_record(file)] == [1, 2]  # in order
