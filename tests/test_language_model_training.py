"""A GPT's training comes to what plain code comes to; its loss, its cache, its lines."""

import math
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from gpt_fixtures import TINY, write_play
from reference import says
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib import gpt, kv_cache
from course_lib.data import read_shakespeare
from course_lib.gpt import GPT, GPTConfig
from course_lib.kv_cache import AttentionCache
from course_lib.tasks import language_model_scores
from course_lib.tasks.language_model import (
    TextGeneratorConfig,
    new_generator,
    new_model,
)
from course_lib.tasks.language_model_scores import (
    caching_is_exact,
    loss_on,
    program_lines,
    share_that_parses,
    side_by_side,
)
from course_lib.tasks.language_model_training import LanguageModel
from course_lib.trainer import loop
from course_lib.trainer.loop import start

pytestmark = pytest.mark.usefixtures("no_network")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Return a folder with a small play in it."""
    return write_play(tmp_path_factory.mktemp("data"))


def train(config, out, data):
    """Train without a stop."""
    run = start(LanguageModel, config, out, data=data)
    assert loop.train(run, out)
    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory, data):
    """Train without a stop; return the run and its folder."""
    out = tmp_path_factory.mktemp("whole")
    return train(TINY, out, data), out


# --- what is learned


def plain_rate(step):
    """Return the rate of a step of eleven: three up in a line, then half a wave of the cosine."""
    if step <= 3:
        return 1e-2 * step / 3
    return 1e-3 + 9e-3 * math.cos(math.pi / 2 * (step - 3) / 8) ** 2


def plain_step(model, optimizer, ids, step, seed):
    """Make a step in plain code; return its loss and the norm of its gradients."""
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


def test_matrices_start_as_loud_as_the_configuration_says():
    config = TextGeneratorConfig(d_model=64, num_layers=8, start_std=0.08, bias=True)
    model = new_model(config, vocab_size=90)
    into_sum = ("w_o.weight", "linear2.weight")
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2:
            expected = 0.08 / (4 if name.endswith(into_sum) else 1)  # √(2 · 8)
            assert parameter.std().item() == pytest.approx(expected, rel=0.05), name
        else:
            assert parameter.unique().tolist() == [float("norm.weight" in name)], name


def test_a_training_comes_to_what_plain_code_comes_to(tmp_path, data):
    config = replace(TINY, seed=3, clip_norm=1.1, weight_decay=5.0, beta1=0.8, bias=True)
    config = replace(config, start_std=0.07)
    torch.manual_seed(999)
    run = train(config, tmp_path, data)
    text = run.task.text
    torch.manual_seed(3)
    sizes = dict(max_len=8, num_layers=1, num_heads=2, d_model=12, dropout=0.3, bias=True)
    model = GPT(GPTConfig(vocab_size=len(text.characters), **sizes))
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() == 1]
    for matrix in matrices:
        matrix.data *= 0.07 / 0.02
    groups = [{"params": matrices, "weight_decay": 5.0}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, betas=(0.8, 0.99))
    losses, norms = [], []
    lines = {line["step"]: line for line in run.history}
    assert list(lines) == [4, 8, 11]
    for step in range(1, 12):
        loss, norm = plain_step(model, optimizer, text.train, step, seed=3)
        losses.append(loss)
        norms.append(norm)
        if step in lines:  # float32, and sums in another order: 1e-4
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


def test_a_training_may_end_with_its_warm_up():
    assert replace(TextGeneratorConfig(), steps=100).rate(100) == 1e-3  # nothing is left to fall


# --- what is refused

WRONG = [dict(text="bible"), dict(num_heads=3), dict(steps=2.0), dict(last_rate=1.0)]
WRONG += [dict(weight_decay=2000.0), dict(beta1=1.0), dict(seed=2**32)]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_fits_nothing_is_refused(wrong):
    with pytest.raises(ValueError, match=says(*wrong)):
        TextGeneratorConfig(**wrong)


def test_a_text_too_short_for_a_window_is_refused_before_anything_is_made(tmp_path, data):
    val = len(read_shakespeare(data).val)
    start(LanguageModel, replace(TINY, max_len=val - 1), tmp_path, data=data)
    with pytest.raises(ValueError, match=f"{val} characters hold no window of {val} \\+ 1"):
        start(LanguageModel, replace(TINY, max_len=val), tmp_path, data=data)
    assert not list(tmp_path.iterdir())


# --- measuring


@pytest.mark.parametrize(("length", "windows"), [(3, 3), (4, 2)])
def test_windows_share_no_prediction_and_leave_out_only_the_rest(length, windows):
    cut = side_by_side(torch.arange(10), length)
    assert cut.shape == (windows, length + 1)
    assert cut[:, 1:].flatten().tolist() == list(range(1, windows * length + 1))
    assert torch.equal(cut[:, 1:], cut[:, :-1] + 1)


def test_the_loss_does_not_depend_on_the_chunks(whole, data, monkeypatch):
    run, text = whole[0], read_shakespeare(data)
    windows = side_by_side(text.val, 8)
    expected = plain_loss(run.pipeline.model, text.val, len(windows))
    for places in (1, 40, 8_192):  # with 40, the last chunk is smaller than the others
        monkeypatch.setattr(language_model_scores, "PLACES", places)
        assert loss_on(run.pipeline.model, windows) == pytest.approx(expected, rel=1e-5)
    assert len(windows) % 4  # so it is


def test_measuring_leaves_the_mode_as_it_was_and_drops_nothing(whole, data):
    model, windows = deepcopy(whole[0].pipeline.model), side_by_side(read_shakespeare(data).val, 8)
    losses = {}
    for mode in (True, False):
        losses[mode] = {loss_on(model.train(mode), windows) for _ in range(3)}
    assert losses[True] == losses[False] and len(losses[True]) == 1
    assert not model.training
    loss_on(model.train(), windows)
    assert model.training


class Hazy(AttentionCache):
    """Forget the keys, or the values, of what was read before."""

    part = "keys"

    def append(self, keys, values):
        if self.keys is not None:
            getattr(self, self.part).zero_()
        return super().append(keys, values)


class HazyValues(Hazy):
    part = "values"


def loud(writer):
    """Return a writer whose positions matter: a trained one's do."""
    model = deepcopy(writer.model)
    for parameter in model.parameters():
        if parameter.dim() == 2:
            parameter.data.mul_(8)
    return replace(writer, model=model)


@pytest.mark.parametrize("wrong", [Hazy, HazyValues])
def test_a_cache_that_is_wrong_is_found(wrong, data, monkeypatch):
    text = read_shakespeare(data)
    writer = loud(new_generator(replace(TINY, max_len=40), text.characters))
    assert caching_is_exact(writer, text.val) is True
    monkeypatch.setattr(kv_cache, "AttentionCache", wrong)
    assert caching_is_exact(writer, text.val) is False


def test_the_cache_is_tried_in_float64_and_beyond_the_window(data, monkeypatch):
    tried, really = [], language_model_scores.sample

    def watch(model, ids, tokens, **how):
        tried.append((how["use_cache"], ids.size(1) + tokens, ids.size(1), model))
        return really(model, ids, tokens, **how)

    monkeypatch.setattr(language_model_scores, "sample", watch)
    text = read_shakespeare(data)
    writer = new_generator(replace(TINY, max_len=40), text.characters)
    assert caching_is_exact(writer, text.val)
    assert [use_cache for use_cache, *_ in tried] == [True, False]
    for _, end, begin, model in tried:
        assert (begin, end) == (40 - 32, 40 + 16)
        assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert {p.dtype for p in writer.model.parameters()} == {torch.float32}


def test_lines_are_whole_and_say_something():
    text = "def f(x):\n    return x\n\n# a remark\n  x = = 1  \ny = 2\nnot finis"
    assert program_lines(text) == ["return x", "x = = 1", "y = 2"]
    assert share_that_parses([text]) == pytest.approx(2 / 3)  # a bare return is a statement
    assert share_that_parses([text, "a\nx = 1\nb"]) == pytest.approx(3 / 4)
    assert share_that_parses(["no line", ""]) is None


# --- the writer


def test_a_writer_goes_on_as_sample_does(whole):
    writer = whole[0].pipeline
    ids = writer.characters.encode("3 and").repeat(2, 1)
    how = dict(temperature=0.7, top_k=5, top_p=0.9)
    written = gpt.sample(writer.model, ids, 20, **how, generator=torch.Generator().manual_seed(4))
    expected = [writer.characters.decode(row) for row in written]
    assert writer.generate("3 and", 20, copies=2, seed=4, **how) == expected
    assert all(len(text) == 25 and text.startswith("3 and") for text in expected)
    assert writer.generate("3 and", 20, seed=5) != writer.generate("3 and", 20, seed=4)
