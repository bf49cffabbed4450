"""A GPT trains like plain code, and its loss, its lines and its records are correct."""

import math
from dataclasses import replace

import pytest
import torch
from tiny_tasks import WRITER as TINY
from tiny_tasks import write_play
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib.data import read_shakespeare, side_by_side
from course_lib.gpt import GPT, GPTConfig
from course_lib.tasks import language_model
from course_lib.tasks.language_model import LanguageModel, TextGenerator
from course_lib.trainer import loop
from course_lib.trainer.loop import start

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder that contains a small play."""
    return write_play(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def writer(data):
    """Return an untrained model and its characters."""
    with torch.random.fork_rng():
        return TextGenerator.new(TINY, read_shakespeare(data).characters)


# --- training


def plain_rate(step):
    """Return the rate of one of eleven steps: three of linear warm-up, then half a cosine wave."""
    if step <= 3:
        return 1e-2 * step / 3
    return 1e-3 + 9e-3 * math.cos(math.pi / 2 * (step - 3) / 8) ** 2


def plain_step(model, optimizer, ids, step, seed):
    """Make a step in plain code, and return its loss and the norm of its gradients."""
    torch.manual_seed(1_000_003 * seed + step)
    window = ids[torch.randint(len(ids) - 8, (3, 1)) + torch.arange(9)]  # (3, 9)
    log_probs = model.train()(window[:, :-1])[0].log_softmax(dim=-1)
    loss = -log_probs.gather(-1, window[:, 1:, None]).mean()
    model.zero_grad()
    loss.backward()
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in model.parameters()))
    for p in model.parameters():
        p.grad *= min(1.0, 1.1 / norm)
    for group in optimizer.param_groups:
        group["lr"] = plain_rate(step)
    optimizer.step()
    return loss.item(), norm


def plain_loss(model, ids, windows):
    """Measure the loss on the first windows, one at a time."""
    losses = []
    for n in range(windows):
        logits = model.eval()(ids[None, 8 * n : 8 * n + 8])[0][0]
        losses += F.cross_entropy(logits, ids[8 * n + 1 : 8 * n + 9], reduction="none").tolist()
    return sum(losses) / len(losses)


def test_a_training_run_gives_the_weights_of_a_plain_loop(tmp_path, data):
    config = replace(TINY, seed=3, clip_norm=1.1, weight_decay=5.0, beta1=0.8, bias=True)
    config = replace(config, init_std=0.07)
    torch.manual_seed(999)
    run = start(LanguageModel, config, data=data)
    assert loop.train(run, tmp_path)
    text = run.task.text
    torch.manual_seed(3)
    sizes = dict(max_len=8, num_layers=1, num_heads=2, d_model=12, dropout=0.3, bias=True)
    model = GPT(GPTConfig(vocab_size=len(text.characters), init_std=0.07, **sizes))
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 5.0}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.8, 0.99))
    losses, norms = [], []
    lines = {line["step"]: line for line in run.history}
    assert list(lines) == [4, 8, 11]
    for step in range(1, 12):
        loss, norm = plain_step(model, optimizer, text.train, step, seed=3)
        losses.append(loss)
        norms.append(norm)
        if step in lines:  # 1e-4, because float32 sums have another order
            line = lines[step]
            assert line["rate"] == pytest.approx(plain_rate(step))
            assert line["train_loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
            assert line["val_loss"] == pytest.approx(plain_loss(model, text.val, 7), rel=1e-4)
            losses = []
    assert min(norms) < 1.1 < max(norms)  # some were clipped, and some were not
    mine = dict(run.pipeline.model.named_parameters())
    for name, parameter in model.named_parameters():
        pair = [parameter.detach().clone(), mine[name].detach().clone()]
        if name.endswith("w_qkv.bias"):  # no loss feels a key's bias: what Adam makes of its
            for value in pair:  # rounding is as large as any other step
                value[12:24] = 0
        assert_close(*pair, rtol=1e-3, atol=1e-4)


# --- measuring


def test_the_loss_does_not_depend_on_chunks_or_dropout(writer, data, monkeypatch):
    text = read_shakespeare(data)
    windows = side_by_side(text.val, 8)
    expected = plain_loss(writer.model, text.val, len(windows))
    assert len(windows) % 4  # with 40 positions, the last chunk is smaller than the others
    for positions, training in ((1, True), (40, False), (8_192, True)):
        monkeypatch.setattr(language_model, "POSITIONS", positions)
        assert language_model.loss_on(writer.model.train(training), windows) == pytest.approx(
            expected, rel=1e-5
        )
