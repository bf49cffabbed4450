"""The translator: a stop changes nothing, training happens once, and nobody sees the answers."""

import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from reference import assert_same, says

import course_lib
from course_lib.data import BatchMaker, Tokenizer, draw_pairs
from course_lib.tasks import numbers as module
from course_lib.tasks.numbers import (
    Translator,
    TranslatorConfig,
    checkpoint_path,
    load_or_train,
    load_translator,
    prepare,
    train_translator,
    translated_exactly,
)
from course_lib.trainer.checkpoint import load_checkpoint, save_checkpoint

pytestmark = pytest.mark.usefixtures("no_network")

SIZES = dict(num_pairs=120, vocab_size=70, d_model=12, num_heads=3, num_layers=1, d_ff=20)
TINY = TranslatorConfig(
    **SIZES,
    batch_size=5,
    steps=7,
    warmup_steps=3,
    cooldown_steps=2,
    rate_scale=0.5,
    dropout=0.2,
    max_len=100,
)
ROOT = Path(course_lib.__file__).parents[1]
KEPT = os.environ.get("COURSE_CHECKPOINTS", "")  # where the course keeps its own translator


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Keep every checkpoint of these tests under tmp_path."""
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return what an uninterrupted training of the tiny translator leaves on disk."""
    path = tmp_path_factory.mktemp("whole") / "whole.pt"
    train_translator(TINY, path=path)
    return load_checkpoint(path)


@pytest.fixture(scope="module")
def untrained():
    """Return a new translator, which writes nonsense."""
    with torch.random.fork_rng():
        return prepare(TINY)[0]


@pytest.fixture
def asked(monkeypatch):
    """Note the steps whose batches a training asks for."""
    steps, really_draw = [], BatchMaker.__call__

    def draw(self, step):
        steps.append(step)
        return really_draw(self, step)

    monkeypatch.setattr(BatchMaker, "__call__", draw)
    return steps


def train_and_stop(config, path, *, after, save_every):
    """Train, and stop as by Ctrl-C when the checkpoint of a step has been written."""

    def stop(step):
        if step == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_translator(config, path=path, save_every=save_every, after_save=stop)


# --- a stop changes nothing


def test_training_that_goes_on_after_a_stop_ends_the_same_to_the_last_bit(folder, whole):
    path = folder / "parts.pt"
    train_and_stop(TINY, path, after=4, save_every=2)
    assert load_checkpoint(path)["step"] == 4
    torch.rand(17)  # somebody else draws in between
    train_translator(TINY, path=path, resume=True)
    assert_same(load_checkpoint(path), whole)  # weights, optimizer, random state, step, config


def test_training_may_go_on_to_another_end_before_it_cools_down(folder, whole):
    path = folder / "longer.pt"
    train_and_stop(replace(TINY, steps=9), path, after=4, save_every=2)
    train_translator(TINY, path=path, resume=True)
    assert_same(load_checkpoint(path), whole)


def test_training_that_has_cooled_down_cannot_go_on_to_another_end(folder):
    path = folder / "longer.pt"
    train_translator(replace(TINY, steps=4), path=path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=says(path, "steps=4", "steps=7")):
        train_translator(TINY, path=path, resume=True)  # it would not end as 7 steps in one do
    assert path.read_bytes() == before


def test_checkpoints_are_written_every_now_and_then_and_at_the_end(folder):
    path = folder / "kept.pt"
    kept = []
    train_translator(
        TINY,
        path=path,
        save_every=3,
        after_save=lambda step: kept.append((step, load_checkpoint(path)["step"])),
    )
    assert kept == [(3, 3), (6, 6), (7, 7)]


@pytest.mark.parametrize("changes", [{"to": "fr"}, {"dropout": 0.0}])
def test_going_on_with_another_configuration_is_refused(folder, whole, changes):
    path = folder / "kept.pt"
    save_checkpoint(path, whole)
    before = path.read_bytes()
    ((name, value),) = changes.items()
    with pytest.raises(
        ValueError, match=says(path, f"{name}={value!r}", f"{name}={getattr(TINY, name)!r}")
    ):
        train_translator(replace(TINY, **changes), path=path, resume=True)
    assert path.read_bytes() == before


# --- training happens once


def test_the_translator_is_trained_once_and_then_loaded(folder, asked, whole, monkeypatch):
    first = load_or_train(TINY)
    assert asked == [1, 2, 3, 4, 5, 6, 7]
    path = checkpoint_path(TINY)
    written = path.stat().st_mtime_ns
    monkeypatch.delattr(module, "train_translator")  # no more training, not even of no steps
    second = load_or_train(TINY)
    assert len(asked) == 7 and path.stat().st_mtime_ns == written
    for translator in (first, second):
        assert_same(translator.model.state_dict(), whole["model"])
        assert translator.tokenizer.to_json() == whole["tokenizer"]
        assert translator.config == TINY
        assert not any(part.training for part in translator.model.modules())


def test_a_training_that_was_stopped_is_finished(folder, asked, whole):
    train_and_stop(TINY, checkpoint_path(TINY), after=4, save_every=2)
    asked.clear()
    translator = load_or_train(TINY)
    assert asked == [5, 6, 7]
    assert_same(translator.model.state_dict(), whole["model"])
    assert not translator.model.training


def test_a_translator_of_another_configuration_is_trained_anew(folder, asked):
    train_translator(TINY)
    asked.clear()
    other = replace(TINY, smoothing=0.0)
    assert load_or_train(other).config == other
    assert asked == list(range(1, other.steps + 1))
    assert load_translator(checkpoint_path(TINY))[0].config == other


def test_an_unreadable_translator_is_kept_and_named(folder, asked):
    path = checkpoint_path(TINY)
    path.write_text("half of something")
    with pytest.raises(ValueError, match=says(path, "move it away")):
        load_or_train(TINY)
    assert path.read_text() == "half of something" and asked == []


def test_each_language_and_seed_has_a_checkpoint_of_its_own(folder, monkeypatch):
    configs = [TranslatorConfig(to=to, seed=seed) for to in ("de", "fr") for seed in (0, 1)]
    paths = {checkpoint_path(config) for config in configs}
    assert len(paths) == 4 and {path.parent for path in paths} == {folder}
    monkeypatch.delenv("COURSE_CHECKPOINTS")
    assert checkpoint_path(TINY).parent == ROOT / "checkpoints"


# --- what a translator starts from


def test_the_tokenizer_sees_training_texts_only(monkeypatch):
    really_draw, splits = module.draw_pairs, []

    def draw(split, *args, **kwargs):
        splits.append(split)
        return really_draw(split, *args, **kwargs)

    monkeypatch.setattr(module, "draw_pairs", draw)
    with torch.random.fork_rng():
        translator, batches = prepare(TINY)
    assert splits == ["train"]
    pairs = draw_pairs("train", 120)
    texts = {text for pair in pairs for text in pair}  # each once, however often it is drawn
    assert len(texts) < 2 * len(pairs)
    assert translator.tokenizer.to_json() == Tokenizer.learn(texts, 70).to_json()
    rows = [[translator.tokenizer.decode(ids) for ids in pair] for pair in batches.rows]
    assert [tuple(row) for row in rows] == pairs


def test_the_seed_decides_the_first_weights_the_numbers_and_the_batches():
    with torch.random.fork_rng():
        (one, batches), (same, same_batches) = prepare(TINY), prepare(TINY)
        other, other_batches = prepare(replace(TINY, seed=1))
    assert_same(one.model.state_dict(), same.model.state_dict())
    assert_same(batches(3), same_batches(3))
    assert not torch.equal(one.model.tgt_embedding.weight, other.model.tgt_embedding.weight)
    assert batches.rows != other_batches.rows and other_batches.seed == 1


def test_training_follows_the_short_schedule_of_the_configuration(folder, monkeypatch):
    really_train, rates = module.train, []

    def listen(model, optimizer, *args, **kwargs):
        optimizer.register_step_pre_hook(lambda *_: rates.append(optimizer.param_groups[0]["lr"]))
        return really_train(model, optimizer, *args, **kwargs)

    monkeypatch.setattr(module, "train", listen)
    train_translator(TINY)
    # half of 1/√12 · min(1/√step, step/√27), and of that at the last step (7 + 1 - 7) / 2
    paper = [0.5 / 12**0.5 * min(n**-0.5, n * 3**-1.5) for n in range(1, 8)]
    assert rates == pytest.approx([*paper[:-1], paper[-1] / 2])


def test_the_model_is_built_from_the_configuration():
    config = TINY.of_model(vocab_size=33)
    assert (config.src_vocab_size, config.tgt_vocab_size, config.pad_id) == (33, 33, 0)
    assert config.num_encoder_layers == config.num_decoder_layers == TINY.num_layers
    for name in ("d_model", "num_heads", "d_ff", "dropout", "max_len"):
        assert getattr(config, name) == getattr(TINY, name)


# --- the caller keeps what is the caller's


@pytest.fixture
def two_threads():
    """Let the caller compute with two threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


def test_training_and_loading_leave_random_numbers_and_threads_alone(folder, two_threads):
    path, threads = checkpoint_path(TINY), []

    def stop(step):
        threads.append(torch.get_num_threads())
        raise KeyboardInterrupt

    def train_until_stopped():
        with pytest.raises(KeyboardInterrupt):
            train_translator(TINY, save_every=2, after_save=stop)

    for use in (
        train_until_stopped,
        lambda: train_translator(TINY, resume=True),
        lambda: load_translator(path),
        lambda: load_or_train(TINY),  # loads
        lambda: load_or_train(replace(TINY, steps=2)),  # trains
    ):
        state = torch.get_rng_state()
        use()
        assert torch.equal(torch.get_rng_state(), state)
        assert torch.get_num_threads() == 2
    assert threads == [1]


# --- a translator on disk


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("config", {"to": "de", "colour": "red"}),
        ("config", asdict(TINY) | {"d_ff": 21}),
        ("tokenizer", "{}"),
        ("step", None),
    ],
)
def test_a_checkpoint_that_fits_no_translator_is_explained_in_one_line(
    folder, whole, what, changed
):
    path = folder / "odd.pt"
    save_checkpoint(path, whole | {what: changed})
    with pytest.raises(ValueError, match=says(path, "move it away")) as caught:
        load_translator(path)
    assert "\n" not in str(caught.value)


# --- translating


def test_texts_translated_together_are_translated_as_alone(untrained):
    texts = ["one", "seven hundred seventy-seven thousand one hundred eleven", "six hundred"]
    together = untrained.translate(texts)
    assert together == [untrained.translate([text])[0] for text in texts]


def test_empty_texts_no_text_and_too_long_a_text_are_refused(untrained):
    with pytest.raises(ValueError, match="text 2 of 3 is empty"):
        untrained.translate(["one", "  ", "two"])
    with pytest.raises(ValueError, match="row"):
        untrained.translate([])
    with pytest.raises(ValueError, match=says("max_len=100")):
        untrained.translate(["one " * 101])


# --- exact match


class Phrasebook:
    """Translate by looking up, and note what it was asked."""

    def __init__(self, **words):
        self.words = words
        self.asked = []

    def translate(self, texts):
        self.asked.append(list(texts))
        return [self.words[text] for text in texts]


@pytest.mark.parametrize("batch", [2, 250])
def test_exact_match_counts_to_the_last_letter(batch):
    book = Phrasebook(one="eins", two="zwei", three="drei", four="vier", five="fünf")
    pairs = [
        ("one", "eins"),
        ("two", "zwe"),  # a letter missing
        ("three", "dreii"),
        ("four", "Vier"),
        ("five", "fünf"),
    ]
    assert translated_exactly(book, pairs, batch=batch) == 2 / 5
    assert [text for texts in book.asked for text in texts] == [source for source, _ in pairs]
    assert max(map(len, book.asked)) <= batch


def test_exact_match_is_measured_without_seeing_the_answers(untrained):
    sources = [source for source, _ in draw_pairs("test", 6)]
    own = untrained.translate(sources)  # nonsense, and no answer was there to see
    assert translated_exactly(untrained, list(zip(sources, own, strict=True)), batch=4) == 1.0
    right = [target for _, target in draw_pairs("test", 6)]
    assert translated_exactly(untrained, list(zip(sources, right, strict=True))) == 0.0


def test_exact_match_of_nothing_is_refused(untrained):
    with pytest.raises(ValueError, match="no pairs"):
        translated_exactly(untrained, [])


def test_the_trained_translator_translates_numbers_it_has_never_seen(monkeypatch):
    monkeypatch.setenv("COURSE_CHECKPOINTS", KEPT)  # the course's own, trained once
    translator = load_or_train()
    assert isinstance(translator, Translator)
    assert translated_exactly(translator, draw_pairs("test", 300)) >= 0.98
