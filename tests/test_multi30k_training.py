"""A training on sentences comes to what the plain way comes to, and learns to translate."""

from dataclasses import replace
from functools import partial
from math import exp

import pytest
import torch
from torch.nn import functional as F

from course_lib.data import draw_pairs
from course_lib.tasks import multi30k as real_translator
from course_lib.tasks.multi30k import SIZES, RealConfig, RealTranslator, read_pairs, score
from course_lib.tasks.multi30k_training import Multi30k, val_loss
from course_lib.trainer.averaging import kept_weights
from course_lib.trainer.batch_sampler import TokenBatches
from course_lib.trainer.checkpoint import load_checkpoint
from course_lib.trainer.loop import start, train
from course_lib.trainer.precision import mixed_precision
from course_lib.trainer.run_folder import read_kept
from course_lib.training import ADAM, label_smoothed_cross_entropy
from course_lib.transformer import Transformer

TINY = RealConfig(**{**SIZES["smoke"], "num_pairs": 40, "tokens": 300, "epochs": 2,
                     "d_model": 16, "d_ff": 24, "num_layers": 1, "dropout": 0.3, "vocab_size": 90,
                     "norm_first": False, "cooldown": 0.2})  # fmt: skip


def weights(run):
    return {name: value.clone() for name, value in run.pipeline.model.state_dict().items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Train without a stop; return the weights, the history and the folder."""
    out = tmp_path_factory.mktemp("whole")
    run = start(Multi30k, TINY, out)
    assert train(run, out)
    return weights(run), run.history, out


def mean_loss(model, rows):
    """Compute the loss of every token the plain way: one pair at a time, no smoothing."""
    losses = []
    for source, target in rows:
        logits = model.eval()(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
        losses += F.cross_entropy(logits, torch.tensor(target[1:]), reduction="none").tolist()
    return sum(losses) / len(losses)


def test_a_training_comes_to_what_the_plain_way_comes_to(tmp_path):
    config = replace(TINY, seed=3, epochs=3, tokens=130, pool_size=10, warmup_steps=3)
    config = replace(config, smoothing=0.2)
    torch.manual_seed(999)
    run = start(Multi30k, config, tmp_path)
    assert train(run, tmp_path)
    torch.manual_seed(3)
    model = Transformer(config.of_model(len(run.pipeline.tokenizer)))
    optimizer = torch.optim.Adam(model.parameters(), **ADAM)
    rows = run.pipeline.rows(read_pairs(config, "train"))
    batches = TokenBatches(rows, 130, seed=3, pool_size=10)
    plans = [batches.plan(epoch) for epoch in (1, 2, 3)]
    steps, step = sum(map(len, plans)), 0
    assert steps != 3 * len(plans[0])  # epochs are not of one length
    for plan, line in zip(plans, run.history, strict=True):
        losses = []
        for places in plan:
            step += 1
            optimizer.param_groups[0]["lr"] = config.rate(step, steps)
            torch.manual_seed(1_000_003 * 3 + step)
            src, tgt = batches.batch(places)
            real = tgt[:, 1:] != 0
            with mixed_precision(False):  # for its dropout
                logits = model.train()(src, tgt[:, :-1])[real]
            loss = label_smoothed_cross_entropy(logits, tgt[:, 1:][real], smoothing=0.2)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert line["step"] == step and line["rate"] == config.rate(step, steps)
        # float32, and sums in another order: 1e-4
        assert line["train_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
        plain = mean_loss(model, run.pipeline.rows(run.task.val))
        assert line["val_loss"] == pytest.approx(plain, rel=1e-4)


def test_the_loss_on_val_is_per_token_whatever_the_batches(whole):
    kept = read_kept(RealTranslator, whole[2])[0]
    pairs = read_pairs(replace(TINY, num_pairs=300), "train")  # more than one batch of them
    assert val_loss(kept, pairs) == pytest.approx(mean_loss(kept.model, kept.rows(pairs)), rel=1e-4)


def test_every_epoch_is_kept_for_the_average(whole):
    files = kept_weights(whole[2])
    assert len(files) == TINY.epochs
    last = load_checkpoint(files[-1])["model"]
    assert all(torch.equal(value, whole[0][name]) for name, value in last.items())


def test_a_kept_translator_translates_as_before(whole):
    kept = read_kept(RealTranslator, whole[2])[0]
    val = read_pairs(TINY, "val")
    assert val_loss(kept, val) == pytest.approx(whole[1][-1]["val_loss"])
    sources, references = zip(*val, strict=True)
    found = score(kept.translate(sources, beam_size=1), references)
    assert found["chrf"] == pytest.approx(whole[1][-1]["chrf"])


def test_the_test_set_is_not_read_by_a_training(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "course_lib.tasks.multi30k_training.read_pairs",
        lambda config, split, folder=None: asked.append(split) or read_pairs(config, split, folder),
    )
    train(start(Multi30k, TINY, tmp_path), tmp_path, minutes=0.0)
    assert set(asked) == {"train", "val"}


def test_the_vocabulary_saw_the_training_text_only(whole):
    kept = read_kept(RealTranslator, whole[2])[0]
    from course_lib.data import Tokenizer

    texts = [text for pair in read_pairs(TINY, "train") for text in pair]
    assert Tokenizer.learn(texts, TINY.vocab_size).to_json() == kept.tokenizer.to_json()


def test_the_rate_rises_peaks_and_ends_near_zero():
    config = replace(TINY, warmup_steps=10, peak_rate=0.5, cooldown=0.2)
    rates = [config.rate(step, 100) for step in range(1, 101)]
    assert rates[0] == pytest.approx(0.05) and max(rates) == rates[9] == 0.5
    assert all(a > b for a, b in zip(rates[9:], rates[10:], strict=False))
    assert 0 < rates[-1] < 0.02
    assert rates[39] == pytest.approx(0.25)  # √(10 / 40)
    assert replace(config, cooldown=0.0).rate(90, 100) == pytest.approx(0.5 / 3)  # √(10 / 90)


def test_translations_come_in_order_whatever_the_chunks(whole):
    kept = read_kept(RealTranslator, whole[2])[0]
    texts = [source for source, _ in read_pairs(TINY, "val")][:12]
    written = partial(kept.translate, beam_size=1)
    alone = [written([text])[0] for text in texts]
    assert written(texts, tokens=60) == written(texts) == alone
    assert len(set(alone)) > 1


def test_no_more_places_than_asked_for_are_computed_at_once(whole, monkeypatch):
    kept = read_kept(RealTranslator, whole[2])[0]
    places, search = [], RealTranslator._search

    def watch(self, src, beam_size, alpha):
        places.append(beam_size * src.numel())
        return search(self, src, beam_size, alpha)

    monkeypatch.setattr(RealTranslator, "_search", watch)
    texts = [source for source, _ in read_pairs(TINY, "val")][:12]
    kept.translate(texts, beam_size=2, tokens=100)
    assert len(places) > 1 and max(places) <= 100


def test_the_search_is_told_beams_and_alpha(whole, monkeypatch):
    kept = read_kept(RealTranslator, whole[2])[0]
    told, search = [], real_translator.beam_search

    def watch(*arguments, **how):
        told.append((how["beam_size"], how["alpha"]))
        return search(*arguments, **how)

    monkeypatch.setattr(real_translator, "beam_search", watch)
    kept.translate(["drei"], beam_size=3, alpha=0.2)
    kept.translate(["drei"])
    assert told == [(3, 0.2), (4, 0.6)]  # and §6.1 unless told


def test_texts_of_no_token_or_too_many_are_refused(whole):
    kept, long = read_kept(RealTranslator, whole[2])[0], "drei " * 200
    for text in ("", long):
        with pytest.raises(ValueError, match="from 1 to 128 tokens"):
            kept.translate(["drei", text])
    for pair in ((long, "three"), ("drei", long)):
        with pytest.raises(ValueError, match="tokens: this model reads 128"):
            kept.rows([("drei", "three"), pair])


def test_scores_computed_by_hand():
    short, sharp = score(["a b c d e"], ["a b c d e f g h"]), score(["A b c d e"], ["a b c d e"])
    assert short["bleu"] == pytest.approx(100 * exp(1 - 8 / 5))  # all right, but too short
    assert sharp["bleu"] == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert sharp["bleu_lower"] == pytest.approx(100) and 0 < sharp["chrf"] < 100


@pytest.mark.parametrize(
    ("split", "name", "size"),
    [("train", "train", 40), ("val", "valid", 60), ("test_2016_flickr", "test", 60)],
)
def test_number_words_come_from_their_own_splits_in_the_direction_asked_for(split, name, size):
    pairs = draw_pairs(name, size)
    assert read_pairs(replace(TINY, direction="en-de"), split) == pairs
    assert read_pairs(TINY, split) == [pair[::-1] for pair in pairs]
