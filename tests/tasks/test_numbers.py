"""The translator of the chapters is trained once, as in chapter 11, and then loaded."""

import os
from dataclasses import replace
from pathlib import Path
from threading import Thread

import pytest
import torch
from parity import assert_same, says
from platformdirs import user_data_path
from tiny_tasks import NUMBERS
from torch.testing import assert_close

import course_lib
from course_lib import training
from course_lib.data import Tokenizer, draw_pairs
from course_lib.evaluation import exact_match
from course_lib.support import user_folders
from course_lib.tasks import numbers as module
from course_lib.tasks.numbers import Numbers, Translator, TranslatorConfig, folder_of, load_or_train
from course_lib.trainer import loop
from course_lib.trainer.hardware import one_thread
from course_lib.trainer.loop import start, train
from course_lib.trainer.run_folder import locked

TINY = replace(NUMBERS, steps=7, cooldown_steps=2, rate_scale=0.5, dropout=0.0, val_every=50)
ROOT = Path(course_lib.__file__).parents[1]
KEPT = os.environ.get("COURSE_CHECKPOINTS", "")  # where the course keeps its own translator


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Keep every checkpoint of these tests under tmp_path."""
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path))
    return tmp_path


@pytest.fixture
def made(monkeypatch):
    """Record the steps of the trainer."""
    steps, make_step = [], loop.make_step

    def note(state):
        steps.append(state.step + 1)
        make_step(state)

    monkeypatch.setattr(loop, "make_step", note)
    return steps


@pytest.fixture(scope="module")
def untrained():
    with torch.random.fork_rng():
        return Numbers(TINY).pipeline


def as_taught():
    """Train as in chapter 11, and return the weights."""
    with torch.random.fork_rng():
        task = Numbers(TINY)
        model = task.pipeline.model
        optimizer = torch.optim.Adam(model.parameters(), fused=True, **training.ADAM)
        options = dict(pad_id=model.config.pad_id, smoothing=TINY.smoothing)
        for step in range(1, TINY.steps + 1):
            loss = training.translation_loss(model, *task.batches(step), **options)
            training.training_step(model, optimizer, [loss], TINY.rate(step))
    return model.state_dict()


# --- training happens once, as in the chapter


def test_the_translator_is_trained_once_as_in_chapter_11_and_then_loaded(made, monkeypatch):
    expected, random_state = as_taught(), torch.get_rng_state()
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    threads = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    for _ in ("trains", "loads"):
        translator = load_or_train(TINY)
        assert made == [1, 2, 3, 4, 5, 6, 7]
        assert torch.equal(torch.get_rng_state(), random_state)
        assert_same(translator.model.state_dict(), expected)
        assert translator.config == TINY and translator.tokenizer.decode([5])
        assert not any(part.training for part in translator.model.modules())
    assert threads == [1, 2, 1, 2]  # one for training, and then the same number as before


def test_processes_that_need_the_translator_wait_for_the_one_that_trains_it(made):
    waiting = Thread(target=load_or_train, args=(TINY,))
    with locked(folder_of(TINY)):
        waiting.start()
        waiting.join(0.2)
        assert waiting.is_alive() and made == []
        with one_thread():
            train(start(Numbers, TINY), folder_of(TINY))
    waiting.join(60)
    assert made == [1, 2, 3, 4, 5, 6, 7]


def test_a_stopped_training_run_is_finished(made):
    state = start(Numbers, TINY)
    train(state, folder_of(TINY), stop=lambda: state.step == 4)
    made.clear()
    translator = load_or_train(TINY)
    assert made == [5, 6, 7] and not translator.model.training
    assert_same(translator.model.state_dict(), as_taught())


def test_runs_are_saved_in_the_checkout_and_never_among_installed_files(folder, monkeypatch):
    assert folder_of(TranslatorConfig(to="fr", seed=2)) == folder / "numbers-course-fr-seed2"
    monkeypatch.setenv("COURSE_CHECKPOINTS", "~/x")
    assert folder_of(TINY).parent == Path.home() / "x"
    monkeypatch.delenv("COURSE_CHECKPOINTS")
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    assert folder_of(TINY).parent == ROOT / "checkpoints"
    installed = folder / "lib" / "site-packages"
    monkeypatch.setattr(user_folders, "PACKAGE", installed / "course_lib")
    checkpoints = user_data_path("course_lib", appauthor=False) / "checkpoints"
    assert folder_of(TINY).parent == checkpoints and installed not in checkpoints.parents


# --- before training


def test_only_training_texts_are_used_for_learning():
    with torch.random.fork_rng():
        task = Numbers(TINY)
    pairs = draw_pairs("train", 120)
    texts = {text for pair in pairs for text in pair}  # each once, however often it is drawn
    assert len(texts) < 2 * len(pairs)
    tokenizer = task.pipeline.tokenizer
    assert tokenizer.to_json() == Tokenizer.learn(texts, 70).to_json()
    rows = [[tokenizer.decode(ids) for ids in pair] for pair in task.batches.rows]
    assert [tuple(row) for row in rows] == pairs


def test_the_seed_determines_the_initial_weights_the_numbers_and_the_batches():
    with torch.random.fork_rng():
        one, same, other = (Numbers(replace(TINY, seed=seed)) for seed in (0, 0, 1))
    weights = [task.pipeline.model.state_dict() for task in (one, same, other)]
    assert_same(weights[0], weights[1])
    assert_same(one.batches(3), same.batches(3))
    name = "tgt_embedding.weight"
    assert not torch.equal(weights[0][name], weights[2][name])
    assert one.batches.rows != other.batches.rows and other.batches.seed == 1


def test_the_loss_on_unseen_numbers_has_no_smoothing():
    state = start(Numbers, TINY)
    task, model = state.task, state.pipeline.model.eval()
    src, tgt = task.val
    decode = task.pipeline.tokenizer.decode
    val = {(decode(s), decode(t)) for s, t in zip(src, tgt, strict=True)}
    assert len(val) > 50 and val <= set(draw_pairs("valid", module.VAL))
    logits = model(src, tgt[:, :-1])
    plain = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=task.pipeline.tokenizer.pad_id
    )
    assert_close(task.measure(state.pipeline, 1)["val_loss"], plain.item(), rtol=1e-6, atol=0)


# --- translating, and counting correct translations


def test_texts_that_cannot_be_translated_are_rejected(untrained):
    for text in ("", "  ", "one " * 101):
        with pytest.raises(
            ValueError, match=says("at least one word", "at most 100 tokens", text[:100])
        ):
            untrained.translate(["one", text, "two"])
    assert untrained.translate([]) == []


def test_the_trained_translator_translates_unseen_numbers(monkeypatch):
    monkeypatch.setenv("COURSE_CHECKPOINTS", KEPT)  # the course's own, trained once
    translator = load_or_train()
    assert isinstance(translator, Translator)
    sources, wanted = zip(*draw_pairs("test", 300), strict=True)
    assert exact_match(translator.translate(sources), wanted) >= 0.98
