"""Each experiment fills and continues its record, and changes only what its name says."""

from dataclasses import replace
from functools import partial
from statistics import fmean

import ablation
import assistant
import corpus_stats
import difference_effects
import digit_reversal
import encoder_only
import gpt_samples
import gpt_starts
import long_context
import modern_parts
import mutant_tables
import mutants
import pytest
import scaling
import tokenizer_speed
import torch
import training_runs
import waiting
import warm_ups
from tiny_tasks import write_library
from torch import nn
from torch.nn import functional as F

from course_lib import masks, transformer
from course_lib.data import read_library
from course_lib.modern_decoder import RMSNorm
from course_lib.records.results import read_entries, read_record, record_of, write_entries
from course_lib.tasks.language_model import LanguageModel
from course_lib.trainer.loop import fit

pytestmark = pytest.mark.usefixtures("no_network")
LIBRARY_SIZES = dict(max_len=8, num_layers=1, num_heads=2, batch_size=3, val_windows=5)
SMALL = replace(ablation.USUAL, **LIBRARY_SIZES, d_model=12)
TRAIN = [("Die Lehrerin, die Lehrerin", "the teacher ."), ("Ein rotes Rad", "a red bike")]
VAL = [("Die rotes Katze .", "the the red cat")]
ASSISTANTS = ("base", "all counted", "votes", "GRPO", "more answers")
CONTROLS = ("RoPE", "sinusoids", "in every layer")
SOME_MISTAKES = (None, "causal_sees_next", "causal_device_ignored", "padding_on_queries")


@pytest.fixture
def text(monkeypatch, tmp_path):
    """Make the models small and the library short, and return the library."""
    folder = write_library(tmp_path / "library")
    tiny = replace(gpt_starts.USUAL, **LIBRARY_SIZES, d_model=12, steps=4, val_every=2)
    settings, reversal = scaling.settings, partial(digit_reversal.ReversalConfig, steps=8)
    monkeypatch.setattr(ablation, "USUAL", SMALL)
    monkeypatch.setattr(modern_parts, "USUAL", SMALL)
    short_windows = replace(long_context.USUAL, **LIBRARY_SIZES, d_model=12)
    long_windows = replace(short_windows, max_len=32, steps=2, warmup_steps=1)
    sizes = dict(USUAL=short_windows, TUNED=long_windows, TRAINED=8, LONG=32, STRETCH=4)
    for name, value in sizes.items():
        monkeypatch.setattr(long_context, name, value)
    monkeypatch.setattr(gpt_starts, "USUAL", tiny)
    monkeypatch.setattr(gpt_samples, "USUAL", tiny)
    monkeypatch.setattr(gpt_samples, "LOOKS", (2, 4))
    words = replace(warm_ups.USUAL, num_pairs=300, vocab_size=80, d_model=16, steps=16)
    monkeypatch.setattr(warm_ups, "USUAL", words)
    monkeypatch.setattr(waiting, "USUAL", words)
    monkeypatch.setattr(scaling, "settings", lambda run: replace(settings(run), **LIBRARY_SIZES))
    monkeypatch.setattr(difference_effects, "ReversalConfig", reversal)
    monkeypatch.setattr(mutants, "ReversalConfig", reversal)
    monkeypatch.setattr(mutants, "SEEDS", (0,))
    monkeypatch.setattr(mutants, "alarms", lambda *_, **__: ["causality"])
    few_words = encoder_only.Words(below=130)
    less = dict(words=lambda: few_words, STEPS=4, LOOKS=(2, 4), BATCH_SIZE=4, EPOCHS=1)
    for name, value in (less | dict(LABELS=(1, 2), FINE_TUNING_STEPS=2)).items():
        monkeypatch.setattr(encoder_only, name, value)
    encoder_only.trained_gap_model.cache_clear()
    monkeypatch.setattr(corpus_stats, "SIZES", (60,))
    monkeypatch.setattr(corpus_stats, "OURS", 60)
    monkeypatch.setattr(corpus_stats, "load_multi30k", {"train": TRAIN * 20, "val": VAL}.get)
    monkeypatch.setattr(tokenizer_speed, "load_multi30k", {"train": TRAIN * 20}.get)
    monkeypatch.setattr(tokenizer_speed, "MERGES", 30)
    monkeypatch.setattr("course_lib.data.text.read_library", lambda: read_library(folder))
    sums = assistant.chapter()
    monkeypatch.setitem(sums, "pretrain", partial(sums["pretrain"], steps=3))
    monkeypatch.setitem(sums, "TEST", sums["TEST"][:6])
    monkeypatch.setattr(assistant, "STEPS", dict.fromkeys(assistant.STEPS, 2))
    monkeypatch.setattr(assistant, "EVERY", 1)
    return read_library(folder)


def mistake(name):
    return next(each for each in mutants.mutants() if each.name == name)


def short(runs, *, seeds=(0,), **changes):
    """Return shorter runs of these seeds."""
    return [run | changes for run in runs if run["seed"] in seeds]


some_mutants = [mutants.identity(name and mistake(name)) for name in SOME_MISTAKES]
some_encoders = [encoder_only.RUNS[n] for n in (0, 6, 21, 27, 45, 48)]
train_part = partial(ablation.train_one, models=modern_parts.PARTS)
EXPERIMENTS = {
    "ablation": (short(ablation.RUNS, steps=3), ablation.train_one),
    "modern_parts": (short(modern_parts.RUNS, steps=3), train_part),
    "gpt_starts": (short(gpt_starts.RUNS), gpt_starts.train_one),
    "gpt_samples": (gpt_samples.RUNS, gpt_samples.train_one),
    "long_context": (short(long_context.RUNS, seeds=(0, 1), steps=3), long_context.train_one),
    "scaling": (short(scaling.RUNS[:4], seeds=(0, 1), steps=4), scaling.train_one),
    "difference_effects": (short(difference_effects.RUNS), difference_effects.train_one),
    "mutants": (some_mutants, mutants.train_one),
    "encoder_only": (some_encoders, encoder_only.train_one),
    "warm_ups": (short(warm_ups.RUNS[:3]), warm_ups.train_one),
    "waiting": (short(waiting.RUNS[:9]), waiting.train_one),
    "corpus_stats": ([{}], corpus_stats.measure),
    "tokenizer_speed": ([{}], tokenizer_speed.measure),
    "assistant": ([{"name": name, "seed": 0} for name in ASSISTANTS], assistant.train_one),
}


def without_time(file):
    """Read a record without the fields that differ between executions."""
    return [{name: v for name, v in e.items() if name != "minutes"} for e in read_entries(file)]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_fills_its_record_and_repeats_missing_runs(name, text, tmp_path):
    runs, train_one = EXPERIMENTS[name]
    file, repeated = tmp_path / "record.json", []

    def train_again(run):
        """Record which run is repeated."""
        repeated.append(run)
        return train_one(run)

    training_runs.main("", file, runs, train_one, [])
    entries = without_time(file)
    identity = runs[0].keys()
    results = [{k: v for k, v in entry.items() if k not in identity} for entry in entries]
    assert all(results.count(result) == 1 for result in results), "two runs gave the same result"
    if len(runs) > 1:
        write_entries(file, read_entries(file)[:1] + read_entries(file)[2:] + [{"name": "old"}])
        training_runs.main("", file, runs, train_again, [])
        assert (without_time(file), repeated) == (entries, [runs[1]])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('[{"name": "other"}]', "another experiment"),
        ('{"name": "GPT"}', "not a record"),
        ("[1, 2", "Expecting"),
        (None, "does not exist"),
    ],
)
def test_a_record_that_cannot_be_used_is_explained_before_anything_is_trained(
    content, words, tmp_path, capsys
):
    file = tmp_path / ("record.json" if content else "no_folder/record.json")
    if content:
        file.write_text(content)
    options = ["--file", str(file)]
    with pytest.raises(SystemExit):
        training_runs.main("", file, [{"name": "GPT"}], lambda run: 1 / 0, options)
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("record", "runs"),
    [
        (record_of("ablation"), ablation.RUNS),
        (record_of("modern_parts"), modern_parts.RUNS),
        (record_of("long_context"), long_context.RUNS),
        (record_of("gpt_starts"), gpt_starts.RUNS),
        (record_of("gpt_samples"), gpt_samples.RUNS),
        (record_of("scaling"), scaling.RUNS),
        (record_of("encoder_only"), encoder_only.RUNS),
        (record_of("warm_ups"), warm_ups.RUNS),
        (record_of("waiting"), waiting.RUNS),
        (record_of("assistant"), assistant.RUNS),
        (difference_effects.RECORD, difference_effects.RUNS),
        (mutants.RECORD, mutants.runs()),
    ],
    ids=lambda value: getattr(value, "stem", ""),
)
def test_the_record_has_every_run(record, runs):
    assert training_runs.entries_of(record, runs) == read_entries(record)


# --- chapters 18, 19 and 21


def parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def test_each_cut_and_each_part_changes_what_its_name_says(text):
    V = len(text.characters)
    attention, norm, ff = 4 * (12 * 12 + 12), 2 * 12, 12 * 48 + 48 + 48 * 12 + 12
    stack, positions = attention + ff + 2 * norm, 8 * 12
    both_stacks = stack + (stack + attention + norm) + 12 * (V + 1)  # and a vector for padding
    assert [parameters(build(V)) for build in ablation.MODELS.values()] == [
        both_stacks,
        stack + 12 * V,
        stack + 12 * V + norm,
        *[stack + 12 * V + norm + positions] * 5,
        both_stacks,
        stack + 12 * V + norm + positions,
    ]
    models = {name: build(V) for name, build in modern_parts.PARTS.items()}
    extra = {name: parameters(model) - parameters(models["GPT"]) for name, model in models.items()}
    learned = ("GPT", "RMSNorm", "SwiGLU")
    assert extra == {name: 0 if name in learned else -positions for name in modern_parts.PARTS}
    assert sum(isinstance(part, RMSNorm) for part in models["RMSNorm"].modules()) == 3
    assert not any(isinstance(part, nn.LayerNorm) for part in models["RMSNorm"].modules())
    for model in models.values():
        assert not any(name.endswith("bias") for name, _ in model.named_parameters())
        std = model.get_parameter("layers.0.feed_forward.linear2.weight").std().item()
        assert std == pytest.approx(SMALL.init_std / 2**0.5, rel=0.2)


@pytest.mark.parametrize("name", ["encoder and decoder", "no encoder", "GPT", *CONTROLS])
def test_predictions_depend_only_on_earlier_tokens_and_their_order(name, text):
    V = len(text.characters)
    model = (ablation.MODELS | modern_parts.PARTS)[name](V).eval()
    ids = torch.arange(16).view(2, 8) % V
    logits = ablation.scores(model, ids)
    assert logits.shape == ((2, 4, V + 1) if name == "encoder and decoder" else (2, 8, V))
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % V
    torch.testing.assert_close(ablation.scores(model, other)[:, :-1], logits[:, :-1])
    other[:, :2] = ids[:, :2].flip(1)  # the first tokens, in another order
    assert not torch.allclose(ablation.scores(model, other)[:, -2], logits[:, -2], atol=1e-7)


@pytest.mark.parametrize("name", ["encoder and decoder", "one projection"])
def test_the_loss_is_measured_on_the_second_halves(name, text, monkeypatch):
    model = ablation.MODELS[name](len(text.characters)).eval()
    monkeypatch.setattr(ablation, "WINDOWS_AT_ONCE", 2)  # the last chunk contains one window
    losses = []
    for n in range(5):
        window = text.val[8 * n : 8 * n + 9]
        logits = ablation.scores(model, window[None, :8])[0, -4:]
        losses += F.cross_entropy(logits, window[5:], reduction="none").tolist()
    assert ablation.val_loss(model, text.val) == pytest.approx(fmean(losses), rel=1e-5)


def test_the_last_cut_is_trained_like_chapter_19s_gpt(text):
    task = LanguageModel(replace(SMALL, steps=9, seed=2), None)
    state = fit(task, task.pipeline.model)
    entry = ablation.train_one({"name": "one projection", "seed": 2, "steps": 9})
    assert entry["val_loss"] == ablation.val_loss(state.pipeline.model, text.val)


def test_positions_with_the_variance_or_the_rate_of_embeddings_change_nothing_else():
    built = {}
    for name in ("learned positions", "larger positions", "fast positions"):
        torch.manual_seed(0)
        built[name] = ablation.MODELS[name](96)
    quiet, loud, fast = built.values()
    embeddings = loud.embedding.weight * 128**0.5
    assert loud.positions.weight.std().item() == pytest.approx(embeddings.std().item(), rel=0.02)
    assert quiet.positions.weight.std() < embeddings.std() / 40
    for name, value in loud.state_dict().items():
        assert "positions" in name or value.equal(quiet.state_dict()[name])
    ids, zeros = torch.arange(8)[None], torch.zeros(1, 8, 128)
    torch.testing.assert_close(fast(ids), quiet(ids))
    before = fast.positions(zeros)
    fast(ids).square().mean().backward()
    torch.optim.Adam(fast.parameters(), lr=0.001).step()
    moved = (fast.positions(zeros) - before).abs().median().item()
    assert moved == pytest.approx(0.001 * 128**0.5, rel=0.01)
    for name, scale in {"sinusoids": 1, "sinusoids, × 3": 3}.items():
        control = modern_parts.PARTS[name](96)
        size = control.positions.encoding.square().mean().sqrt().item()
        assert size == pytest.approx(scale * control.embedding.weight.std().item(), rel=0.05)


def test_only_the_named_matrices_start_larger():
    built = {}
    for larger in gpt_starts.LARGER:
        torch.manual_seed(0)
        built[larger] = dict(gpt_starts.new_model(10, larger).named_parameters())
    plain = built["GPT-2's"]
    for larger, beginnings in gpt_starts.LARGER.items():
        changed = [name for name, value in built[larger].items() if not value.equal(plain[name])]
        counts = {"embedding": 1, "positions": 1, "layers": 4 * gpt_starts.USUAL.num_layers}
        assert len(changed) == sum(counts[beginning] for beginning in beginnings)
        for name in changed:
            assert name.startswith(beginnings)
            torch.testing.assert_close(built[larger][name], 2.5 * plain[name])


# --- chapter 20


@pytest.mark.parametrize("name", encoder_only.GAPS)
def test_a_model_that_fills_gaps_reads_and_learns_as_its_name_says(name, text):
    words = encoder_only.words()
    model, ids = encoder_only.GapFiller(name), words.train[-4:, :8].clone()
    vectors = model(ids)[:, 0]
    ids[:, 5] = 0
    assert torch.equal(model(ids)[:, 0], vectors) == ("left" in name)
    draw = torch.Generator().manual_seed(0)
    inputs, targets = encoder_only.inputs_and_targets(name, words.train.repeat(20, 1), draw)
    known = targets != words.pad_id
    masked = (inputs[known] == words.mask_id).float().mean().item()
    share = 0.0 if "next" in name else 1.0 if "always" in name else 0.8
    assert masked == pytest.approx(share, abs=0.02 * (0 < share < 1))
    if "next" in name:
        assert torch.equal(inputs[:, 1:][known[:, :-1]], targets[:, :-1][known[:, :-1]])
        part = known.sum() / (words.train[:, 1:] != words.pad_id).sum() / 20
        assert part.item() == pytest.approx(0.15 if "15" in name else 1.0, abs=0.02)


@pytest.mark.parametrize("name", encoder_only.WINDOWS)
def test_a_window_shows_as_many_characters_as_its_name_says(name, text, monkeypatch):
    windows = []
    monkeypatch.setattr(encoder_only.GapFiller, "forward", noting(windows))
    encoder_only.fill_windows(name, 0)
    before, after = encoder_only.WINDOWS[name]
    mask_id = encoder_only.words().mask_id
    for ids in windows:
        places = (ids == mask_id).nonzero()
        assert ids.size(1) == before + 1 + after and (places[:, 1] == before).all()
        assert len(places) == len(ids), "each window needs exactly one gap"


def noting(windows):
    """Return a forward pass that records its inputs."""
    forward = encoder_only.GapFiller.forward
    return lambda model, ids: windows.append(ids) or forward(model, ids)


# --- known mistakes, and the model that writes digits backwards


def test_a_mistake_is_planted_wherever_the_name_is_used_and_removed_again():
    right = masks.causal_mask
    with pytest.raises(ZeroDivisionError), mutants.planted(mistake("causal_sees_next")):
        assert transformer.causal_mask(2).all() and masks.causal_mask is transformer.causal_mask
        raise ZeroDivisionError
    assert masks.causal_mask is transformer.causal_mask is right


def test_digits_are_reversed():
    src, tgt = digit_reversal.reversals(50, torch.Generator().manual_seed(0))
    for source, target in zip(src, tgt, strict=True):
        digits = source[source != digit_reversal.PAD]
        wanted = [*digits.flip(0).tolist(), digit_reversal.EOS]
        assert target[1 : len(digits) + 2].tolist() == wanted


def test_the_record_of_a_mistake_agrees_with_todays_probes(monkeypatch):
    run = mutants.identity(mistake("one_norm"))
    (entry,) = filter(None, training_runs.entries_of(mutants.RECORD, [run]))
    monkeypatch.setattr(mutants, "scores_of", lambda mistake, seed: entry["runs"][seed])
    assert run | mutants.train_one(run) == entry


def test_most_mistakes_in_complete_models_are_caught_and_errors_are_recorded():
    seen = [bool(entry["probes"]) for _, entry in mutant_tables.assembled()]
    assert fmean(seen) >= 0.75
    assert mutants.scores_of(mistake("padding_on_queries"), 0)["outcome"] == "ValueError"


# --- the corpus of chapter 17


def test_words_and_subword_tokens_of_the_corpus_are_counted():
    new = corpus_stats.new_words(TRAIN, VAL)  # by occurrence, without punctuation
    assert new == pytest.approx({"German": 1 / 3, "English": 1 / 4})
    seen = corpus_stats.seen_words(TRAIN)
    assert {word for word, count in seen.items() if count} == {"Die", "Lehrerin"}
    assert list(seen) == list(read_record("multi30k_corpus")[0]["seen_words"])
    facts, rows = corpus_stats.vocabulary(TRAIN * 20, 60)
    assert facts["German"] == fmean(len(source) for source, _ in rows)
    assert facts["English"] == fmean(len(target) - 2 for _, target in rows)  # no bos, no eos
    assert {(target[0], target[-1]) for _, target in rows} == {(1, 2)}
