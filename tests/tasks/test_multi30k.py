"""A sentence translator trains like plain code, and its search and scores are correct."""

import shutil
from dataclasses import replace

import pytest
import torch
from tiny_tasks import REAL as TINY
from torch.nn import functional as F

from course_lib.batching import TokenBatches
from course_lib.data import Tokenizer, draw_pairs, pad_rows
from course_lib.evaluation import corpus_scores
from course_lib.tasks import multi30k
from course_lib.tasks.multi30k import Multi30k, RealTranslator, read_pairs
from course_lib.trainer.loop import start, train
from course_lib.trainer.run_folder import load_pipeline, load_weights, read_checkpoint, saved_epochs
from course_lib.training import ADAM, label_smoothed_cross_entropy
from course_lib.transformer import Transformer


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Train without a stop, and return the run and its folder."""
    out = tmp_path_factory.mktemp("whole")
    run = start(Multi30k, TINY)
    assert train(run, out)
    return run, out


@pytest.fixture(scope="module")
def kept(whole):
    """Return the saved translator."""
    return load_pipeline(RealTranslator, whole[1])[0]


def mean_loss(model, rows):
    """Compute the mean loss per token in the plain way, pair by pair and without smoothing."""
    losses = []
    for source, target in rows:
        logits = model.eval()(torch.tensor([source]), torch.tensor([target[:-1]]))[0]
        losses += F.cross_entropy(logits, torch.tensor(target[1:]), reduction="none").tolist()
    return sum(losses) / len(losses)


def test_a_training_run_gives_the_weights_of_a_plain_loop(tmp_path):
    config = replace(TINY, seed=3, epochs=3, tokens=130, pool_size=10, warmup_steps=3)
    config = replace(config, smoothing=0.2)
    torch.manual_seed(999)
    run = start(Multi30k, config)
    assert train(run, tmp_path)
    torch.manual_seed(3)
    model = Transformer(config.of_model(len(run.pipeline.tokenizer)))
    optimizer = torch.optim.Adam(model.parameters(), **ADAM)
    rows = run.pipeline.rows(read_pairs(config, "train"))
    batches = TokenBatches(rows, 130, seed=3, pool_size=10)
    plans = [batches.plan(epoch) for epoch in (1, 2, 3)]
    steps, step = sum(map(len, plans)), 0
    assert steps != 3 * len(plans[0])  # epochs differ in length
    for plan, line in zip(plans, run.history, strict=True):
        losses = []
        for places in plan:
            step += 1
            optimizer.param_groups[0]["lr"] = config.rate(step, steps)
            torch.manual_seed(1_000_003 * 3 + step)
            src, tgt = batches.batch(places)
            real = tgt[:, 1:] != 0
            logits = model.train()(src, tgt[:, :-1])[real]
            loss = label_smoothed_cross_entropy(logits, tgt[:, 1:][real], smoothing=0.2)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert line["step"] == step and line["rate"] == config.rate(step, steps)
        # 1e-4, because float32 sums have another order
        assert line["train_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
        plain = mean_loss(model, run.pipeline.rows(run.task.val))
        assert line["val_loss"] == pytest.approx(plain, rel=1e-4)


def test_the_loss_on_val_is_per_token_and_independent_of_the_batches(kept):
    pairs = read_pairs(replace(TINY, num_pairs=300), "train")  # more than one batch of them
    assert multi30k.val_loss(kept, pairs) == pytest.approx(
        mean_loss(kept.model, kept.rows(pairs)), rel=1e-4
    )


def test_every_epoch_is_kept_for_the_average_and_the_last_one_translates_as_before(whole, kept):
    run, out = whole
    files = saved_epochs(out)
    assert len(files) == TINY.epochs
    shutil.rmtree(files[-1])  # as if the process had been killed before it wrote this
    start(Multi30k, TINY, read_checkpoint(out))
    assert saved_epochs(out) == files
    load_weights(files[-1], kept.model)
    for name, value in run.pipeline.model.state_dict().items():
        assert torch.equal(value, kept.model.state_dict()[name])
    val = read_pairs(TINY, "val")
    sources, references = zip(*val, strict=True)
    scores = corpus_scores(kept.translate(sources, beam_size=1), references) | {
        "val_loss": multi30k.val_loss(kept, val)
    }
    for name in ("val_loss", "bleu", "chrf"):
        assert scores[name] == pytest.approx(run.history[-1][name])


def test_neither_training_nor_vocabulary_sees_the_test_set(kept, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        multi30k, "read_pairs", lambda c, split, folder: asked.append(split) or read_pairs(c, split)
    )
    train(start(Multi30k, TINY), tmp_path, minutes=0.0)
    assert set(asked) == {"train", "val"}
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


def test_a_translation_without_an_end_is_cut_off_at_its_own_limit(kept, monkeypatch):
    def endless(model, src, *, max_new_tokens, **options):
        return torch.full((len(src), 1, max_new_tokens), 7), torch.zeros(len(src), 1)

    monkeypatch.setattr(multi30k, "beam_search", endless)
    for sources, written in (([3, 1], [16, 12]), ([100, 4], [128, 18])):  # at most max_len
        src = pad_rows([[5] * length for length in sources], pad_id=0)
        assert (kept.search(src) == 7).sum(dim=1).tolist() == written


@pytest.mark.parametrize(
    ("split", "name", "size"),
    [("train", "train", 40), ("val", "valid", 60), ("test_2016_flickr", "test", 60)],
)
def test_number_words_come_from_their_own_splits_in_the_requested_direction(split, name, size):
    pairs = draw_pairs(name, size)
    assert read_pairs(replace(TINY, direction="en-de"), split) == pairs
    assert read_pairs(TINY, split) == [pair[::-1] for pair in pairs]
