"""The ablation of chapter 18: what each cut did is kept, once for each seed."""

from dataclasses import replace

import ablation
import pytest
import torch
from tiny_tasks import write_library
from torch import nn
from torch.nn import functional as F

from course_lib.data import read_library
from course_lib.modern_decoder import RMSNorm
from course_lib.tasks.language_model import LanguageModel
from course_lib.trainer.loop import start, train
from course_lib.trainer.results import read_record, record_of

pytestmark = pytest.mark.usefixtures("no_network")
SMALL = replace(
    ablation.USUAL, max_len=8, num_layers=1, num_heads=2, d_model=12, batch_size=3, val_windows=5
)


@pytest.fixture
def text(monkeypatch, tmp_path):
    """Make the models small and the library short; return it."""
    folder = write_library(tmp_path / "library")
    monkeypatch.setattr(ablation, "USUAL", SMALL)
    monkeypatch.setattr("course_lib.data.text.read_library", lambda: read_library(folder))
    return read_library(folder)


def test_a_quick_try_is_not_written_into_the_record(text, tmp_path, monkeypatch):
    asked, seeds = [], (0, 1, 2)
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr(ablation, "train_all", lambda *how: asked.append(how))
    for words in ([], ["--parts"], ["--steps", "1"]):
        assert ablation.main(words) == 0
    assert asked == [
        (ablation.MODELS, seeds, SMALL.steps, record_of("ablation")),
        (ablation.PARTS, seeds, 500, record_of("modern_parts")),
        (ablation.MODELS, seeds, 1, tmp_path / "ablation-1-steps.json"),
    ]


def test_each_cut_takes_away_what_it_says(text):
    V = len(text.characters)
    counts = [sum(p.numel() for p in build(V).parameters()) for build in ablation.MODELS.values()]
    attention, norm, ff = 4 * (12 * 12 + 12), 2 * 12, 12 * 48 + 48 + 48 * 12 + 12
    stack = attention + ff + 2 * norm
    assert counts == [
        stack + (stack + attention + norm) + 12 * (V + 1),  # and a vector for padding
        stack + 12 * V,
        stack + 12 * V + norm,
        *[stack + 12 * V + norm + 8 * 12] * 5,
        stack + (stack + attention + norm) + 12 * (V + 1),
        stack + 12 * V + norm + 8 * 12,
    ]


@pytest.mark.parametrize("name", ["encoder and decoder", "no encoder", "one product"])
def test_a_model_scores_the_end_of_a_window_without_seeing_it(name, text):
    V = len(text.characters)
    model = ablation.MODELS[name](V).eval()
    ids = text.val[:16].view(2, 8)
    logits = ablation.scores(model, ids)
    assert logits.shape == ((2, 4, V + 1) if name == "encoder and decoder" else (2, 8, V))
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % V
    assert torch.equal(ablation.scores(model, other)[:, :-1], logits[:, :-1])
    other[:, 0] = (other[:, 0] + 1) % V  # and what was read first is seen in the last row
    assert not torch.equal(ablation.scores(model, other)[:, -2], logits[:, -2])


@pytest.mark.parametrize("name", ["encoder and decoder", "one product"])
def test_the_loss_is_that_of_the_second_halves(name, text, monkeypatch):
    model = ablation.MODELS[name](len(text.characters)).eval()
    monkeypatch.setattr(ablation, "PLACES", 2)  # the last chunk holds one window
    losses = []
    for n in range(5):
        window = text.val[8 * n : 8 * n + 9]
        logits = ablation.scores(model, window[None, :8])[0, -4:]
        losses += F.cross_entropy(logits, window[5:], reduction="none").tolist()
    assert len(losses) == 20
    assert ablation.val_loss(model, text.val) == pytest.approx(sum(losses) / 20, rel=1e-5)


def test_the_last_model_is_trained_as_the_command_trains_it(text, tmp_path):
    config = replace(SMALL, steps=9, seed=2)
    run = start(LanguageModel, config)
    assert train(run, tmp_path)
    entry = ablation.train_one("one product", config)
    assert entry["val_loss"] == ablation.val_loss(run.pipeline.model, text.val)
    assert entry["parameters"] == sum(p.numel() for p in run.pipeline.model.parameters())


def test_louder_positions_are_as_loud_as_words_and_differ_in_nothing_else():
    torch.manual_seed(0)
    quiet = ablation.MODELS["learned positions"](96)
    torch.manual_seed(0)
    loud = ablation.MODELS["louder positions"](96)
    words = loud.embedding.weight * loud.config.d_model**0.5
    assert loud.positions.weight.std().item() == pytest.approx(words.std().item(), rel=0.02)
    assert quiet.positions.weight.std() < words.std() / 40
    rest = {name: value for name, value in loud.state_dict().items() if "positions" not in name}
    assert all(value.equal(quiet.state_dict()[name]) for name, value in rest.items())


def test_fast_positions_begin_as_learned_ones_and_move_as_far_as_words():
    ids, built = torch.arange(8)[None], {}
    for name in ("learned positions", "fast positions"):
        torch.manual_seed(0)
        built[name] = ablation.MODELS[name](96)
    slow, fast = built.values()
    torch.testing.assert_close(fast(ids), slow(ids))
    before = fast.positions(torch.zeros(1, 8, 128))
    fast(ids).square().mean().backward()
    torch.optim.Adam(fast.parameters(), lr=0.001).step()
    moved = (fast.positions(torch.zeros(1, 8, 128)) - before).abs().median().item()
    assert moved == pytest.approx(0.001 * 128**0.5, rel=0.01)


def test_each_part_takes_the_place_of_one_and_nothing_has_biases(text):
    V = len(text.characters)
    models = {name: build(V) for name, build in ablation.PARTS.items()}
    plain = sum(p.numel() for p in models["GPT"].parameters())
    extra = {name: sum(p.numel() for p in m.parameters()) - plain for name, m in models.items()}
    positions = 8 * 12
    assert extra == dict(GPT=0, RMSNorm=0, SwiGLU=0, RoPE=-positions, sinusoids=-positions)
    for model in models.values():
        started = dict(model.named_parameters())
        assert not any(name.endswith("bias") for name in started)
        std = started["layers.0.feed_forward.linear2.weight"].std().item()
        assert std == pytest.approx(SMALL.init_std / 2**0.5, rel=0.2)
    assert sum(isinstance(m, RMSNorm) for m in models["RMSNorm"].modules()) == 3
    assert not any(isinstance(m, nn.LayerNorm) for m in models["RMSNorm"].modules())


@pytest.mark.parametrize("name", ["GPT", "RoPE", "sinusoids"])
def test_a_part_sees_the_order_of_the_tokens_before_and_none_after(name, text):
    model = ablation.PARTS[name](len(text.characters)).eval()
    ids = torch.tensor([[1, 2, 3, 4], [2, 1, 3, 5]])
    logits = ablation.scores(model, ids)[:, 2]
    assert not torch.allclose(logits[0], logits[1], atol=1e-7)  # 1 and 2 changed places
    assert torch.allclose(ablation.scores(model, ids[:, :3])[:, 2], logits, atol=1e-6)


def test_the_control_s_positions_are_as_large_as_its_words():
    model = ablation.PARTS["sinusoids"](96)
    size = model.positions.encoding.square().mean().sqrt().item()
    assert size == pytest.approx(model.embedding.weight.std().item(), rel=0.05)


@pytest.mark.parametrize(
    ("record", "models", "steps"),
    [
        ("ablation", ablation.MODELS, ablation.USUAL.steps),
        ("modern_parts", ablation.PARTS, ablation.PARTS_STEPS),
    ],
    ids=["chapter 18", "chapter 21"],
)
def test_every_model_of_an_ablation_was_trained_from_every_seed(record, models, steps):
    kept = [
        (entry["cut"], entry["name"], entry["seed"], entry["steps"])
        for entry in read_record(record)
    ]
    assert kept == [
        (cut, name, seed, steps)
        for cut, name in enumerate(models)
        for seed in ablation.SEEDS[: 1 if name in ablation.LONGER else None]
    ]
