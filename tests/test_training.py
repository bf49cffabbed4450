"""The loss counts real tokens, Adam is torch's, and a step follows the gradient."""

import math
from copy import deepcopy
from itertools import product

import pytest
import torch
from dimensions import PAD, TGT_VOCAB, B, T
from parity import assert_equal, trace
from random_inputs import normal
from torch import nn
from torch.nn import functional as F

from course_lib.training import (
    ADAM,
    adam_update,
    label_smoothed_cross_entropy,
    training_step,
    translation_loss,
)

V = TGT_VOCAB
SMOOTHING = 0.3


@pytest.fixture
def logits(generator):
    return 2 * normal(generator, B, T, V)


@pytest.fixture
def targets():
    """Return targets (B, T): a sentence of four tokens, and one of two tokens with padding."""
    return torch.tensor([[5, 0, 9, 1], [7, 1, PAD, PAD]])


def smoothed_target(right, pad_id, smoothing):
    """Compute the distribution q entry by entry."""
    entries = [v for v in range(V) if v != pad_id]
    q = torch.zeros(V, dtype=torch.float64)
    for v in entries:
        q[v] = smoothing / len(entries) + (1 - smoothing) * (v == right)
    assert math.isclose(q.sum().item(), 1.0)
    return q


def loss_by_loops(logits, targets, pad_id, smoothing):
    """Compute the mean of -Σ q log p over the real tokens, one token at a time."""
    losses = []
    for position in product(*map(range, targets.shape)):
        right = targets[position].item()
        if right == pad_id:
            continue
        q, scores = smoothed_target(right, pad_id, smoothing), logits[position]
        total = sum(score.exp() for score in scores)
        losses.append(sum(-q[v] * (scores[v].exp() / total).log() for v in range(V) if q[v] > 0))
    return sum(losses) / len(losses)


# --- the loss: parity


@pytest.mark.parametrize("smoothing", [0.0, 0.1, SMOOTHING, 1.0])
@pytest.mark.parametrize("shape", [(), (T,), (B, T)])
def test_without_padding_the_loss_agrees_with_torch(generator, shape, smoothing):
    logits = [normal(generator, *shape, V)]
    targets = torch.randint(V, shape, generator=generator)
    flat = targets.reshape(-1)
    theirs = trace(
        lambda x: F.cross_entropy(x.reshape(-1, V), flat, label_smoothing=smoothing), logits
    )
    ours = trace(lambda x: label_smoothed_cross_entropy(x, targets, smoothing=smoothing), logits)
    assert_equal(ours, theirs)


@pytest.mark.parametrize("pad_id", [None, PAD, V - 1])
@pytest.mark.parametrize("how", [dict(smoothing=0.0), dict(smoothing=SMOOTHING), {}], ids=str)
def test_the_loss_is_the_cross_entropy_with_the_distribution_q(logits, targets, pad_id, how):
    smoothing = how.get("smoothing", 0.1)  # §5.4
    loops = trace(lambda x: loss_by_loops(x, targets, pad_id, smoothing), [logits])
    ours = trace(lambda x: label_smoothed_cross_entropy(x, targets, pad_id=pad_id, **how), [logits])
    assert_equal(ours, loops)


# --- the loss: properties


@pytest.mark.parametrize("pad_logit", [-torch.inf, -1e3], ids=str)  # e^-1000 is 0 in float64
def test_a_model_that_rules_padding_out_is_not_punished(logits, targets, pad_logit):
    logits[..., PAD] = pad_logit  # as in decoding, where padding is never chosen
    how = dict(pad_id=PAD, smoothing=SMOOTHING)
    ours = trace(lambda x: label_smoothed_cross_entropy(x, targets, **how), [logits])
    assert ours["inputs"][0].isfinite().all()
    logits[..., PAD] = -1e3
    assert_equal(ours["outputs"][0], loss_by_loops(logits, targets, PAD, SMOOTHING))


# --- Adam


@pytest.mark.parametrize("options", [{}, dict(betas=(0.7, 0.9), eps=1e-3)], ids=str)
def test_adam_agrees_with_torch_over_fifty_steps(generator, options):
    weight = normal(generator, 2, 3)  # float64
    m, v, parameter = 0 * weight, 0 * weight, nn.Parameter(weight.clone())
    optimizer = torch.optim.Adam([parameter], **{**ADAM, "lr": 0.1, **options})
    for step in range(1, 51):
        gradient = normal(generator, 2, 3) * 10.0 ** (step % 9 - 6)  # from 1e-6 to 100
        parameter.grad = gradient.clone()
        update, m, v = adam_update(gradient, m, v, step, **options)
        weight = weight - 0.1 * update
        optimizer.step()
        torch.testing.assert_close(weight, parameter.detach(), rtol=0, atol=1e-12)


# --- one step


@pytest.fixture
def batch():
    """Return sources (B, S) and targets (B, T + 1) from bos 1 to eos 2, with one shorter row."""
    src = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 12, PAD]])
    tgt = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 2, PAD, PAD]])
    return src, tgt


def test_the_loss_of_a_batch_is_the_loss_of_its_next_tokens(transformer, batch):
    src, tgt = batch
    expected = loss_by_loops(transformer(src, tgt[:, :-1]), tgt[:, 1:], PAD, SMOOTHING)
    assert_equal(translation_loss(transformer, src, tgt, pad_id=PAD, smoothing=SMOOTHING), expected)


def squares(layer, inputs):
    """Yield one loss after another; each weight's gradient depends on all weights."""
    for x in inputs:
        yield layer(x).square().sum()


@pytest.mark.parametrize("clip_norm", [math.inf, 1e3, 0.5])
@pytest.mark.parametrize("count", [1, 3])
def test_a_step_follows_the_gradient_of_the_sum_of_its_losses(generator, count, clip_norm):
    layer = nn.Linear(3, 2).double()
    inputs = normal(generator, count, 3)
    before = deepcopy(layer)
    expected = sum(squares(before, inputs))
    expected.backward()
    if clip_norm < math.inf:  # together: the norm of all gradients
        nn.utils.clip_grad_norm_(before.parameters(), clip_norm)
    optimizer = torch.optim.SGD([{"params": [p]} for p in layer.parameters()], lr=7.0)
    for parameter in layer.parameters():
        parameter.grad = torch.ones_like(parameter)  # left over from an earlier step

    losses = squares(layer, inputs)
    total = training_step(layer, optimizer, losses, 0.1, clip_norm=clip_norm)
    assert_equal(total, expected.detach())  # with the weights before the step
    assert not total.requires_grad
    for new, old in zip(layer.parameters(), before.parameters(), strict=True):
        assert_equal(new.detach(), old.detach() - 0.1 * old.grad)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.1]


def test_several_losses_are_computed_one_after_another():
    """The graph of a loss is freed before the next loss is computed."""
    layer, seen = nn.Linear(3, 2), []
    layer.weight.register_hook(lambda _: seen.append("gradient"))

    def losses():
        for x in torch.eye(3)[:2]:
            seen.append("loss")
            yield layer(x).sum()

    training_step(layer, torch.optim.SGD(layer.parameters()), losses(), 0.1)
    assert seen == ["loss", "gradient"] * 2


@pytest.mark.parametrize("pad_id", [None, PAD])
def test_a_logit_of_minus_infinity_changes_nothing_without_smoothing(pad_id):
    logits = torch.tensor([[2.0, 1.0, -torch.inf, -torch.inf]], requires_grad=True)
    loss = label_smoothed_cross_entropy(logits, torch.tensor([1]), pad_id=pad_id, smoothing=0)
    loss.backward()
    assert loss.item() == pytest.approx(1.3133, abs=1e-4)  # log(1 + e)
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("pad_id", [None, PAD])
def test_a_long_sum_in_half_precision_is_finite(pad_id):
    logits, targets = torch.zeros(20_000, 64).half(), torch.full((20_000,), 5)
    loss = label_smoothed_cross_entropy(logits, targets, pad_id=pad_id)
    torch.testing.assert_close(loss.item(), math.log(64), rtol=1e-4, atol=0)
    wide = label_smoothed_cross_entropy(torch.zeros(2, 100_000).half(), targets[:2], pad_id=pad_id)
    torch.testing.assert_close(wide.item(), math.log(100_000), rtol=1e-4, atol=0)


@pytest.mark.parametrize("clip_norm", [-1.0, math.nan])
def test_a_limit_that_would_turn_gradients_around_is_refused(clip_norm):
    model = nn.Linear(1, 1)
    before = model.weight.clone()
    with pytest.raises(ValueError, match=f"clip_norm={clip_norm}"):
        loss = model(torch.ones(1)).sum()
        training_step(model, torch.optim.SGD(model.parameters()), [loss], 1, clip_norm=clip_norm)
    assert model.weight.equal(before)
