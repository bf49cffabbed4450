"""``course train`` and later commands keep all results and explain mistakes."""

import io
import re
import shlex
import signal
import sys
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from parity import assert_same
from tiny_tasks import TASKS, WRITER, settings, write_play

from course_lib.beam_search import beam_search
from course_lib.cli import main as cli
from course_lib.cli import training_commands
from course_lib.data import (
    Tokenizer,
    draw_pairs,
    read_shakespeare,
    side_by_side,
)
from course_lib.data.multi30k_files import CAPTIONS
from course_lib.evaluation import corpus_scores
from course_lib.records.results import read_entries
from course_lib.tasks import language_model, multi30k
from course_lib.tasks.language_model import TextGenerator
from course_lib.tasks.multi30k import TEST, RealConfig, RealTranslator, read_pairs
from course_lib.tasks.numbers import Translator
from course_lib.trainer import loop
from course_lib.trainer.checkpoint import read_metadata
from course_lib.trainer.distributed import World
from course_lib.trainer.run_folder import find_checkpoint, load_average, load_pipeline, locked
from course_lib.transformer import Transformer

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture
def course(capsys, monkeypatch, tmp_path):
    """Run a command; return its exit code, its output and its error output."""
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path / "kept"))
    monkeypatch.setenv("COURSE_DATA", str(write_play(tmp_path / "data")))

    def run(task, *words):
        if task == "multi30k":  # number words instead of real sentences
            monkeypatch.delenv("COURSE_DATA", raising=False)
        which = ["--task", task, "--threads", "1", *TASKS[task].words]
        code = cli.main([words[0], *which, *map(str, words[1:])])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def task(course, tmp_path):
    """Return a task and a function that runs its commands."""
    chosen = SimpleNamespace(**vars(TASKS["numbers"]))
    chosen.folder = tmp_path / "kept" / chosen.name
    chosen.run = partial(course, "numbers")
    chosen.train = partial(chosen.run, "train", *settings(chosen.config))
    return chosen


@pytest.fixture
def trained(course):
    """Return a function that trains a tiny pipeline of a task, and one that runs its commands."""

    def train(name):
        assert course(name, "train", *settings(TASKS[name].config))[0] == 0
        return partial(course, name)

    return train


class Terminal(io.StringIO):
    """A stream that behaves like a terminal."""

    def isatty(self):
        return True


def contents(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.suffix != ".lock"}


def interrupt(*arguments, **options):
    """Raise the exception of Ctrl-C."""
    raise KeyboardInterrupt


def fill_the_disk(*arguments):
    """Raise the error of a write to a full disk."""
    raise OSError("the disk is full")


def assert_one_sentence(result, *parts):
    """Assert exit code 2, no output, and one line on stderr that contains all parts."""
    code, out, err = result
    announced = out.startswith(("Training ", "Continuing to train ")) and out.count("\n") <= 3
    assert (code, err.count("\n")) == (2, 1) and (not out or announced), err
    assert all(str(part) in err for part in parts)


def next_commands(out):
    """Return the words of the suggested next commands, without the program."""
    shown = [shlex.split(line)[1:] for line in out.splitlines() if line.startswith("Next: ")]
    return [words[words.index("-m") + 2 :] if "-m" in words else words[1:] for words in shown]


# --- course train, whatever it trains


def test_an_existing_run_is_resumed_or_replaced(task, monkeypatch):
    assert_one_sentence(task.train("--resume"), task.folder, "course train")
    assert task.train()[0] == 0
    before = contents(task.folder)
    assert_one_sentence(task.train(), "--resume continues it, and --force replaces it")
    assert contents(task.folder) == before
    code, out, _ = task.train("--resume")
    assert code == 0 and out.startswith("Continuing ") and f": {task.folder}\n" in out
    before = contents(task.folder)
    other = f"contains a training run with dropout={task.config.dropout}, not 0.5: use the same"
    assert_one_sentence(task.train("--set", "dropout=0.5", "--resume"), task.folder, other)
    wild = [word for setting in task.wild.items() for word in ("--set", "{}={}".format(*setting))]
    assert task.train("--set", "num_heads=5", "--force")[0] == 2
    assert_one_sentence(task.train(*wild, "--force"), "lower learning rate")
    with monkeypatch.context() as broken:
        broken.setattr("course_lib.trainer.checkpoint.write_whole", fill_the_disk)
        assert_one_sentence(task.train("--force"), "the disk is full")
    assert {*before.values()} <= {*contents(task.folder).values()}  # nothing is saved yet
    with monkeypatch.context() as stopped:
        stopped.setattr(training_commands, "train", interrupt)
        code, _, err = task.train("--force")
        assert code == 130 and err.endswith("course train: stopped\n")
    assert read_metadata(task.folder / "last-0000000")["step"] == task.measured[-1]
    linked = (task.folder / "last-0000000").rename(task.folder / "last-0000009-copy")
    (task.folder / "last-0000000").symlink_to(linked)
    (task.folder / "last-0000300").mkdir()  # incomplete
    assert task.train("--force", "--minutes", "0")[0] == 0
    names = {path.name for path in task.folder.iterdir()}
    assert names == {"last-0000001", linked.name, "training.lock"}
    assert read_metadata(linked)["step"] == task.measured[-1]
    assert task.train("--resume")[0] == 0


def test_a_folder_in_which_another_process_trains_is_left_alone(task):
    with locked(task.folder):
        assert_one_sentence(task.train(), f"another process is training in {task.folder}")
    assert not contents(task.folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_after_the_current_step_and_keeps_it(number, task, monkeypatch):
    make_step = loop.make_step

    def interrupted(run):
        make_step(run)
        if run.step == 3:
            signal.raise_signal(number)

    monkeypatch.setattr(loop, "make_step", interrupted)
    code, out, _ = task.train("--minutes", "60")
    assert code == 130 and "\nstopped at step 3," in out
    assert read_metadata(find_checkpoint(task.folder))["step"] == 3
    ((command, *words),) = next_commands(out)
    assert command == "train" and words[-1] == "--resume" and "--minutes" not in words
    assert cli.main([command, *words]) == 0
    assert read_metadata(find_checkpoint(task.folder))["step"] == task.measured[-1]


def test_the_suggested_next_commands_find_the_run(task, tmp_path):
    for own in ([], ["--set", "seed=3"], ["--out", tmp_path / "a folder"]):
        (use, measure) = next_commands(task.train(*own)[1])
        assert [use[0], measure[0]] == ["translate", "evaluate"]
        for words in (use, measure):
            options = cli.parser(cli.task_of(words)).parse_args(words)
            found = find_checkpoint(training_commands._folder(options))
            assert read_metadata(found)["config"]["seed"] == (3 if "seed=3" in own else 0)


def test_a_terminal_gets_a_bar_with_losses_and_a_pipe_gets_lines(task, monkeypatch):
    _, out, err = task.train()
    steps = re.findall(r"^step (\d+) of \d+: train loss \S+, val loss \S+$", out, re.M)
    assert [int(step) for step in steps] == task.measured and "\r" not in out + err
    monkeypatch.setattr(sys, "stderr", Terminal())
    _, out, _ = task.train("--force")
    assert "step 4" not in out
    assert re.search(r"train loss \d.*, val loss \d", sys.stderr.getvalue())


def test_number_words_use_one_thread_and_each_language_has_its_own_folder(
    course, tmp_path, monkeypatch
):
    words = ["--size", "smoke", "--to", "fr", "--steps", "3", "--seed", "2"]
    assert course("numbers", "train", *words)[0] == 0
    translator, content = load_pipeline(Translator, tmp_path / "kept" / "numbers-smoke-fr-seed2")
    config = translator.config
    assert (config.to, config.seed, config.steps, content["step"]) == ("fr", 2, 3, 3)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    monkeypatch.setattr(training_commands, "prepare_machine", lambda *machine: None)
    for name, threads in {"numbers": 1, "multi30k": 7, "gpt": 7}.items():
        training_commands.prepare(options := cli.parser(name).parse_args(["train"]))
        assert options.threads == threads


def test_bfloat16_is_measured_once_and_the_parts_of_a_batch_reach_the_run(tmp_path, monkeypatch):
    kept = SimpleNamespace(metadata={"config": {"bfloat16": True}})
    monkeypatch.setattr("course_lib.trainer.run_folder.read_checkpoint", lambda out: kept)
    start = lambda task, config, *_, accumulate, **__: (config.bfloat16, accumulate)  # noqa: E731
    monkeypatch.setattr(training_commands, "start", start)
    words = "train --task multi30k --device cpu --accumulate 4".split()
    for pays, more in ((True, []), (False, []), (False, ["--resume"])):
        monkeypatch.setattr(training_commands, "bfloat16_pays", lambda pays=pays: pays)
        options = cli.parser("multi30k").parse_args([*words, *more])
        run = training_commands._begin(options, tmp_path, World())
        assert run == (pays or bool(more), 4)


def test_the_size_of_a_large_model_is_printed_before_it_is_built(course, monkeypatch):
    def built(task, config, *others, **options):
        with torch.device("meta"):
            model = task.pipeline_class.model_class(config.of_model(60))
        raise ValueError(sum(parameter.numel() for parameter in model.parameters()))

    monkeypatch.setattr(training_commands, "start", built)
    _, out, err = course("gpt", "train", "--set", "d_model=3072")
    (least,) = re.findall(r"at least ([\d,]+) parameters", out)
    actual = int(err.split()[-1])
    assert 0.6 * actual < int(least.replace(",", "")) <= actual


@pytest.mark.parametrize(
    ("name", "words", "reason"),
    [
        ("gpt", ["train", "--set", "num_layer=3"], ". Did you mean `num_layers`?"),
        ("gpt", ["train", "--set", "steps=1.5"], "steps must be of type int"),
        ("numbers", ["train", "--threads", "0"], "--threads must be from 1 to"),
        ("gpt", ["train", "--device", "cuda"], "no CUDA device was found"),
        ("gpt", ["train", "--set", "num_layers=99999"], "must be from 1 to 1,000"),
        ("gpt", ["train", "--set", "d_model=999996"], "GB of memory"),
        ("multi30k", ["train", "--seed", "-1"], "seed=-1 must be from 0"),
        ("gpt", ["train", "--accumulate", "2000"], "--accumulate=2000 must be from 1 to 1,024"),
        ("numbers", ["translate", "one", "--to", "fr", "--out", "{}"], "with --to de, not fr"),
        ("numbers", ["translate", "-5"], "'-5' is not a whole number from 0 to 999,999"),
        ("numbers", ["translate", "zwei \udcff"], "surrogates not allowed"),
        ("multi30k", ["translate", "ein", "--alpha", "nan"], "alpha=nan"),
    ],
)
def test_impossible_commands_are_explained(
    name, words, reason, course, trained, monkeypatch, tmp_path
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    if words[0] != "train":
        trained(name)
    folder = tmp_path / "kept" / TASKS[name].name
    assert_one_sentence(course(name, *[word.format(folder) for word in words]), reason)


# --- loading a trained model


def test_missing_files_and_runs_are_explained(task, tmp_path):
    for words in (["translate", "one"], ["evaluate"]):
        assert_one_sentence(task.run(*words, "--seed", "3"), "seed3:", "course train")
        assert_one_sentence(task.run(*words, "--out", tmp_path / "own"), f"in {tmp_path / 'own'}:")


# --- course translate


def test_a_number_is_translated_however_the_user_types_it(trained, tmp_path, monkeypatch):
    run = trained("numbers")
    translator, _ = load_pipeline(Translator, tmp_path / "kept" / TASKS["numbers"].name)
    translator.model.eval()
    expected = translator.translate(["three hundred forty-five"])[0] + "\n"
    for words in (["three hundred forty-five"], ["  THREE   hundred\t", "forty-FIVE "]):
        assert run("translate", *words) == (0, expected, "")
    monkeypatch.setattr(sys, "stdout", None)  # the caller has closed it
    assert run("translate", *words)[0] == 0


def test_digits_are_read_as_words(trained):
    run = trained("numbers")
    translation = run("translate", "one thousand two hundred thirty-four")[1]
    told = "1,234 is read as one thousand two hundred thirty-four\n"
    assert run("translate", "1,234") == (0, translation, told)


def test_every_line_of_a_pipe_gets_a_line_and_a_bad_line_gets_an_explanation(trained, monkeypatch):
    run = trained("numbers")
    one = run("translate", "twelve")[1]
    monkeypatch.setattr(sys, "stdin", io.StringIO("12\n\nzwölf\n Twelve \n"))
    code, out, err = run("translate")
    assert (code, out) == (2, f"{one}\n\n{one}")
    assert err.startswith("12 is read as twelve\ncourse translate: 'zwölf' is not a word")
    assert err.count("\n") == 2


@pytest.mark.parametrize("end", ["\ntwelve\n", None])
def test_a_terminal_is_asked_for_lines_until_the_user_ends_it(end, trained, monkeypatch):
    run = trained("numbers")
    one = run("translate", "twelve")[1]
    monkeypatch.setattr(sys, "stdin", Terminal(f"zwölf\ntwelve\n{end}"))
    if end is None:
        monkeypatch.setattr("builtins.input", interrupt)
    code, out, err = run("translate")
    assert code == 0 and out.count(one) == (end is not None) == ("zwölf" in err)


# --- course sample


def test_a_sample_follows_its_options(trained, tmp_path):
    run = trained("gpt")
    writer, _ = load_pipeline(TextGenerator, tmp_path / "kept" / TASKS["gpt"].name)
    sampling = dict(temperature=1.5, top_k=7, top_p=0.9)
    options = "--temperature 1.5 --top-k 7 --top-p 0.9 --tokens 60 --draw 3 --prompt 1".split()
    assert run("sample", *options)[1] == writer.generate("1", 60, seed=3, **sampling)[0] + "\n"
    usual = writer.generate("1", 60, temperature=0.8)[0] + "\n"
    assert run("sample", "--tokens", "60", "--prompt", "1")[1] == usual
    cold = [run("sample", "--top-k", "1", "--draw", str(draw))[1] for draw in (1, -2, 10**30)]
    assert len(set(cold)) == 1  # the most likely character does not depend on chance
    assert run("sample", "--prompt", "") == run("sample")


# --- course evaluate


def recorded(name, run, tmp_path, *words):
    """Evaluate twice; return the output, the only entry, the pipeline and its checkpoint."""
    file = tmp_path / "new" / "record.json"
    for _ in range(2):
        code, out, error = run("evaluate", "--record", file, *words)
        assert code == 0, error
    (entry,) = read_entries(file)
    pipeline_class = TASKS[name].task_class.pipeline_class
    pipeline, content = load_pipeline(pipeline_class, tmp_path / "kept" / TASKS[name].name)
    assert entry["minutes"] == {n: seconds / 60 for n, seconds in content["seconds"].items()}
    assert entry["parameters"] == sum(p.numel() for p in pipeline.model.parameters())
    assert (entry["steps"], entry["machine"]) == (content["step"], content["machine"])
    assert content["config"].items() <= entry.items()
    pipeline.model.eval()
    return out, entry, pipeline, content


def test_a_finished_run_shows_what_its_model_writes(course, monkeypatch):
    known = dict(draw_pairs("test", 50)[:30])  # 345 is one of them

    def translate(translator, texts):
        assert not translator.model.training
        return [known.get(text, "zwe") for text in texts]

    monkeypatch.setattr(Translator, "translate", translate)
    _, out, _ = course("numbers", "train", *settings(TASKS["numbers"].config))
    shown = "30 of 50 held-out numbers are right; three hundred forty-five becomes "
    shown += "'dreihundertfünfundvierzig'"
    assert shown in out.splitlines()
    _, out, _ = course("gpt", "train", *settings(TASKS["gpt"].config))
    assert "\nit writes: '\\n" in out


def test_exact_matches_of_number_words_are_counted_and_recorded_once(
    trained, tmp_path, monkeypatch
):
    monkeypatch.setattr("course_lib.trainer.run_folder.describe_machine", lambda _: "another")
    known = dict(draw_pairs("test", 6)[:4])  # four of the six translations are correct

    def translate(translator, texts):
        return [known.get(text, "zwe") for text in texts]

    monkeypatch.setattr(Translator, "translate", translate)
    out, entry, _, _ = recorded("numbers", trained("numbers"), tmp_path, "--count", "6")
    assert out == "de, seed 0: exact match 0.667 on 6 numbers from the test split\n"
    assert (entry["exact_match"], entry["count"]) == (4 / 6, 6)
    assert entry["machine"] == "another"  # the machine that trained, not the one that evaluates


def test_the_requested_average_translates_and_its_scores_are_recorded(
    trained, tmp_path, monkeypatch
):
    run, asked, devices = trained("multi30k"), [], []

    def search(model, src, **options):
        asked.append((src, model, options))
        return beam_search(model, src, **options)

    def move(model, device):
        devices.append(device)
        return model

    monkeypatch.setattr(multi30k, "beam_search", search)
    monkeypatch.setattr(Transformer, "to", move, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    choices = ["--beam", "3", "--alpha", "0.2", "--average", "2", "--device", "cuda"]
    assert run("translate", "ein", " zwei", *choices)[0] == 0
    choices += ["--split", TEST]
    out, entry, translator, content = recorded("multi30k", run, tmp_path, *choices)
    load_average(tmp_path / "kept" / TASKS["multi30k"].name, 2, translator.model)
    assert devices == ["cuda"] * 3 and translator.tokenizer.decode(asked[0][0][0]) == "ein zwei"
    for _, model, options in asked:
        assert (options["beam_size"], options["alpha"], model.training) == (3, 0.2, False)
        assert_same(model.state_dict(), translator.model.state_dict())
    write = partial(translator.translate, beam_size=3, alpha=0.2)
    pairs = read_pairs(translator.config, TEST)
    sources, references = zip(*pairs, strict=True)
    scores = corpus_scores(write(sources), references)
    lines = [f"{name} {scores[name]:.2f}  {scores[f'{name}_signature']}"
             for name in ("bleu", "bleu_lower", "chrf")]  # fmt: skip
    assert out.splitlines()[:3] == lines and "case:lc" in lines[1]
    assert out.endswith(f"60 sentences of {TEST}\n")
    expected = scores | dict(split=TEST, average=2, beam=3, alpha=0.2, history=[])
    german = [ours for ours, _ in CAPTIONS]
    captions = [list(both) for both in zip(german, write(german), strict=True)]
    expected |= dict(captions=captions, loss=multi30k.val_loss(translator, pairs))
    assert expected.items() <= entry.items()
    run("evaluate", "--beam", "1", "--record", tmp_path / "val.json")
    assert read_entries(tmp_path / "val.json")[0]["history"] == content["history"]


def test_the_loss_of_a_gpt_is_printed_and_recorded_once(trained, course, tmp_path):
    out, entry, writer, content = recorded("gpt", trained("gpt"), tmp_path)
    text = read_shakespeare(tmp_path / "data")
    windows = side_by_side(text.val, 8)
    loss = language_model.loss_on(writer.model, windows)
    every = f"all {len(windows)} consecutive windows of 8"
    assert out == f"val loss {loss:.4f} nats per character, on {every}\n"
    assert entry["dropout"] == WRITER.dropout and entry["val_loss"] == loss
    assert entry["history"] == content["history"] and len(entry["history"]) == 3
    assert entry["characters"] == {"train": len(text.train), "val": len(text.val)}
    assert entry["sample"] == writer.generate("\n", 300)[0] and len(entry["sample"]) == 301
    for text in (10**5 * "[", '[{"text": 1}]'):
        (tmp_path / "other.json").write_text(text)
        refused = course("gpt", "evaluate", "--record", tmp_path / "other.json")
        assert_one_sentence(refused, "other.json is")
        assert (tmp_path / "other.json").read_text() == text
    own, file = ["--out", tmp_path / "own"], tmp_path / "new" / "record.json"
    course("gpt", "train", *settings(replace(WRITER, dropout=0.1)), *own)
    course("gpt", "evaluate", *own, "--record", file)
    assert [e["dropout"] for e in read_entries(file)] == [0.1, 0.3]


# --- real sentences


@pytest.fixture
def data(course, tmp_path, monkeypatch):
    """Replace the real pairs with thirty per split, and return their folder."""

    def load(split, *, direction, folder):
        assert folder == tmp_path
        texts = [f"{'sehr ' * (n % 5)}{split} {n}." for n in range(30)]
        pairs = [(f"Ein Hund {text}", f"A dog {text}") for text in texts]
        return pairs if direction == "de-en" else [pair[::-1] for pair in pairs]

    monkeypatch.setattr(multi30k, "load_multi30k", load)
    return tmp_path


def test_a_slice_of_the_real_corpus_makes_a_quick_trial_run(data, capsys):
    which = ["--task", "multi30k", "--size", "smoke", "--threads", "1", "--data", str(data)]
    small = dict(task="multi30k", epochs=1, d_model=16, num_pairs=20, vocab_size=1_000)
    assert cli.main(["train", *settings(SimpleNamespace(**small)), *which]) == 0
    out = data / "kept" / "multi30k-smoke-de-en-seed0"
    translator, _ = load_pipeline(RealTranslator, out)
    pairs = read_pairs(translator.config, "train", data)
    assert len(pairs) == 20 and len(read_pairs(RealConfig(), "train", data)) == 30
    turned = replace(translator.config, direction="en-de")
    assert read_pairs(turned, "train", data)[0] == pairs[0][::-1]
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.learn(texts, 1_000, split_punctuation=True)
    assert translator.vocabulary() == tokenizer.to_json()
    for split, size in (("val", 20), (TEST, 30)):
        capsys.readouterr()
        cli.main(["evaluate", "--beam", "1", "--split", split, *which])
        assert f"{size} sentences of {split}\n" in capsys.readouterr().out
