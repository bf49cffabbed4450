"""The workbench of the GPT: what each cut did is kept, and two equal models are timed."""

from dataclasses import replace

import ablation
import bench_gpt
import pytest
import torch
from bench_gpt import TorchGPT, our_model, row, stepper
from gpt_fixtures import write_library
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib.data import read_library
from course_lib.gpt import GPT
from course_lib.tasks import language_model
from course_lib.tasks.language_model_record import ABLATIONS, read_ablations
from course_lib.tasks.language_model_training import start, train_run

pytestmark = pytest.mark.usefixtures("no_network")
SMALL = replace(
    ablation.USUAL, max_len=8, num_layers=1, num_heads=2, d_model=12, batch_size=3, val_windows=5
)
NAMES = [
    "encoder and decoder",
    "no encoder",
    "norm first",
    "learned positions",
    "GELU",
    "one product",
    "louder positions",
    "start of chapter 18",
]


@pytest.fixture
def text(monkeypatch, tmp_path):
    """Make the models small and the library short; return it."""
    folder = write_library(tmp_path / "library")
    monkeypatch.setattr(ablation, "USUAL", SMALL)
    for room in (ablation, language_model):
        monkeypatch.setattr(room, "read_library", lambda: read_library(folder))
    return read_library(folder)


def delete(*words):
    """Run the tool on one thread."""
    return ablation.main([str(word) for word in words])


# --- what each cut did


def test_six_models_are_trained_from_each_seed_and_none_twice(text, tmp_path, monkeypatch, capsys):
    file = tmp_path / "ablation.json"
    assert delete("--steps", 3, "--seeds", 0, 1, "--file", file) == 0
    entries = read_ablations(file)
    assert [e["name"] for e in entries] == [name for name in NAMES for _ in range(2)]
    assert [e["seed"] for e in entries] == [0, 1] * 8
    assert len({e["val_loss"] for e in entries}) == 16
    printed = capsys.readouterr().out
    for entry in entries:
        said = f"seed {entry['seed']}: val loss {entry['val_loss']:.4f}, {entry['parameters']:,} "
        assert said in printed
        assert entry["minutes"]["wall"] > 0 and "torch" in entry["machine"]
    lost = entries.pop(7)
    file.unlink()
    for entry in entries:
        ablation.add_ablation(file, entry)
    trained, really = [], ablation.train_one

    def watch(name, config, text):
        trained.append((name, config.seed))
        return really(name, config, text)

    monkeypatch.setattr(ablation, "train_one", watch)
    assert delete("--steps", 3, "--seeds", 0, 1, "--file", file) == 0
    assert trained == [(lost["name"], lost["seed"])]
    assert read_ablations(file)[7]["val_loss"] == lost["val_loss"]  # the very same training


def test_what_is_trained_is_kept_at_once_and_a_stop_says_how_to_go_on(
    text, tmp_path, monkeypatch, capsys
):
    file, really = tmp_path / "ablation.json", ablation.train_one

    def stop(name, config, text):
        if name == "norm first":
            raise KeyboardInterrupt
        return really(name, config, text)

    monkeypatch.setattr(ablation, "train_one", stop)
    assert delete("--steps", 2, "--seeds", 0, "--file", file) == 130
    assert [e["name"] for e in read_ablations(file)] == NAMES[:2]
    assert "the same command goes on" in capsys.readouterr().err


def test_a_quick_try_is_not_written_into_the_record(text, tmp_path, monkeypatch):
    before = ABLATIONS.read_bytes() if ABLATIONS.exists() else None
    monkeypatch.setenv("COURSE_CHECKPOINTS", str(tmp_path))
    assert delete("--steps", 1, "--seeds", 0) == 0
    assert len(read_ablations(tmp_path / "deletion-1-steps.json")) == 8
    assert (ABLATIONS.read_bytes() if ABLATIONS.exists() else None) == before
    asked = []
    monkeypatch.setattr(ablation, "train_all", lambda *how: asked.append(how))
    assert delete() == 0
    assert asked == [((0, 1, 2), SMALL.steps, ABLATIONS)]


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
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_scores_the_end_of_a_window_without_seeing_it(name, text):
    V = len(text.characters)
    model = ablation.MODELS[name](V).eval()
    ids = text.val[:16].view(2, 8)
    places = 4 if name == NAMES[0] else 8
    logits = ablation.scores(model, ids)
    assert logits.shape == (2, places, V + (name == NAMES[0]))
    other = ids.clone()
    other[:, -1] = (other[:, -1] + 1) % V
    assert torch.equal(ablation.scores(model, other)[:, :-1], logits[:, :-1])
    other[:, 0] = (other[:, 0] + 1) % V  # and what was read first is seen in the last row
    assert not torch.equal(ablation.scores(model, other)[:, -2], logits[:, -2])


@pytest.mark.parametrize("name", [NAMES[0], NAMES[2], NAMES[5]])
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
    run, same = start(config, tmp_path)
    assert train_run(run, same, tmp_path)
    entry = ablation.train_one("one product", config, text)
    assert entry["val_loss"] == ablation.val_loss(run.language_model.model, text.val)
    assert entry["parameters"] == sum(p.numel() for p in run.language_model.model.parameters())


def test_a_training_makes_every_model_better(text):
    config = replace(SMALL, peak_rate=1e-2, warmup_steps=5)
    for name in NAMES:
        first, last = (
            ablation.train_one(name, replace(config, steps=n), text)["val_loss"] for n in (1, 60)
        )
        assert last < first - 0.3, name


# --- how fast


THEIRS = {
    "self_attn.w_qkv.weight": "self_attn.in_proj_weight",
    "self_attn.w_qkv.bias": "self_attn.in_proj_bias",
    "self_attn.w_o.weight": "self_attn.out_proj.weight",
    "self_attn.w_o.bias": "self_attn.out_proj.bias",
    "feed_forward.linear1.weight": "linear1.weight",
    "feed_forward.linear1.bias": "linear1.bias",
    "feed_forward.linear2.weight": "linear2.weight",
    "feed_forward.linear2.bias": "linear2.bias",
    "add_norm1.norm.weight": "norm1.weight",
    "add_norm1.norm.bias": "norm1.bias",
    "add_norm2.norm.weight": "norm2.weight",
    "add_norm2.norm.bias": "norm2.bias",
}


def test_torchs_layers_make_the_same_model_gradients_included():
    ours, generator = our_model((2, 3, 12, 8)).double(), torch.Generator().manual_seed(0)
    for parameter in ours.parameters():  # no bias is 0, and no gain is 1
        parameter.data += torch.randn(parameter.shape, generator=generator) / 5
    theirs = TorchGPT(ours)
    ids, targets = torch.randint(bench_gpt.VOCAB, (2, 4, 7), generator=generator)
    (logits, loss), (expected, their_loss) = ours(ids, targets), theirs(ids, targets)
    assert_close(logits, expected, rtol=0, atol=1e-10)
    assert_close(loss, their_loss, rtol=0, atol=1e-10)
    loss.backward()
    their_loss.backward()
    pairs = [(ours.embedding.weight, theirs.embedding.weight)]
    pairs += [(ours.positions.weight, theirs.positions)]
    pairs += [
        (ours.norm.weight, theirs.stack.norm.weight),
        (ours.norm.bias, theirs.stack.norm.bias),
    ]
    for mine, other in zip(ours.layers, theirs.stack.layers, strict=True):
        other = dict(other.named_parameters())
        assert sorted(other) == sorted(THEIRS.values())
        pairs += [(p, other[THEIRS[name]]) for name, p in mine.named_parameters()]
    assert len(pairs) == len(list(ours.parameters())) == len(list(theirs.parameters()))
    for mine, other in pairs:
        assert_close(mine.grad, other.grad, rtol=0, atol=1e-10)


def test_a_row_holds_medians_and_the_range_of_the_ratio():
    cells = row((1, 2, 3, 4), [(1.0, 3.0), (2.0, 2.0), (4.0, 10.0)], 10.0, "1.10").split()
    assert cells == [
        "(1,",
        "2,",
        "3,",
        "4)",
        "20.0",
        "30.0",
        "2.500",
        "1.000",
        "3.000",
        "1.10",
        "3",
    ]


def test_a_step_is_a_whole_one():
    model, same = our_model((1, 2, 12, 8)), our_model((1, 2, 12, 8))
    ids, targets = torch.randint(bench_gpt.VOCAB, (2, 3, 8))
    step = stepper(model, ids, targets)
    matrices = [p for p in same.parameters() if p.dim() > 1]
    rest = [p for p in same.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    plain = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99))
    for _ in range(3):
        loss = same(ids, targets)[1]
        assert step() == pytest.approx(loss.item(), rel=1e-5)
        plain.zero_grad()
        loss.backward()
        plain.step()
    # a bias whose slope is rounding noise moves by the rate, this way or that: 3 steps of 1e-3
    for mine, other in zip(model.parameters(), same.parameters(), strict=True):
        assert (mine - other).abs().max() < 6.5e-3 and (mine - other).abs().mean() < 1e-4


def test_both_tables_are_printed(monkeypatch, capsys):
    monkeypatch.setattr(bench_gpt, "SIZES", {(1, 2, 12, 16): (2, 1, 1.10)})
    threads = torch.get_num_threads()
    bench_gpt.bench_steps(bench_gpt.SIZES)
    bench_gpt.bench_sampling(bench_gpt.SIZES)
    lines = capsys.readouterr().out.splitlines()
    assert [line[:12] for line in lines if line] == [
        "training ste", "(1, 2, 12, 1", "    of ours ", "    of torch", "a token writ",
        "(1, 2, 12, 1"]  # fmt: skip
    assert lines[2].split()[-2:] == ["1.10", "2"] and torch.get_num_threads() == threads


def test_models_that_are_not_the_same_are_not_compared(monkeypatch):
    really = GPT.forward

    def other(self, ids, targets=None):
        logits, loss = really(self, ids, targets)
        return logits, loss if loss is None else 1.01 * loss

    monkeypatch.setattr(GPT, "forward", other)
    with pytest.raises(RuntimeError, match="not the same model"):
        bench_gpt.bench_steps({(1, 2, 12, 16): (2, 1, 1.10)})


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


def test_the_start_of_chapter_16_is_that_of_its_gpt():
    ours = dict(ablation.MODELS["start of chapter 18"](96).named_parameters())
    for name, parameter in ablation.new_model(ablation.USUAL, 96).named_parameters():
        name = name.replace("layers.", "stack.layers.").replace("w_qkv", "w_k")
        mine = ours[f"stack.{name}" if name.startswith("norm") else name]
        if parameter.dim() == 2:
            assert mine.std().item() == pytest.approx(parameter.std().item(), rel=0.05), name
        else:
            assert set(mine.tolist()) == set(parameter.tolist()), name


def test_the_time_of_a_step_is_shared_out_by_the_names_of_operations():
    a, b = torch.randn(2, 300, 300)
    products = bench_gpt.parts(lambda: [a @ b for _ in range(20)])
    copies = bench_gpt.parts(lambda: [torch.cat([a, b.clone()]) for _ in range(20)])
    assert 1 >= products["products"] > products["copies"] == products["attention"] == 0
    assert 1 >= copies["copies"] > copies["products"] == copies["attention"] == 0
