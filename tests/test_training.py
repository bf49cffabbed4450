"""Training: the loss counts real tokens, the schedule is the paper's, a stop changes nothing."""

import math
from copy import deepcopy
from functools import partial
from itertools import product

import pytest
import torch
from dimensions import PAD, SRC_VOCAB, TGT_VOCAB, B, S, T
from parity import assert_equal, says
from random_inputs import make_generator, normal, random_ids, seeded, tiny_transformer
from torch.nn import functional as F

from course_lib.training import (
    ADAM,
    label_smoothed_cross_entropy,
    train,
    training_step,
    warmup_cooldown,
    warmup_cosine,
    warmup_inverse_sqrt,
    warmup_stable_decay,
)

V = TGT_VOCAB
SMOOTHING = 0.3


@pytest.fixture
def logits(generator):
    """Return logits (B, T, V) of which gradients can be asked."""
    return (2 * normal(generator, B, T, V)).requires_grad_()


@pytest.fixture
def targets():
    """Return targets (B, T): one sentence of four tokens, one of two and padding."""
    return torch.tensor([[5, 0, 9, 1], [7, 1, PAD, PAD]])


def smoothed_target(right, pad_id, smoothing):
    """Write the distribution q down, entry by entry."""
    entries = [v for v in range(V) if v != pad_id]
    q = torch.zeros(V, dtype=torch.float64)
    for v in entries:
        q[v] = smoothing / len(entries) + (1 - smoothing) * (v == right)
    assert math.isclose(q.sum().item(), 1.0)
    return q


def loss_by_loops(logits, targets, pad_id, smoothing):
    """Measure -Σ q log p at one real token after another, and take the mean."""
    losses = []
    for position in product(*map(range, targets.shape)):
        right = targets[position].item()
        if right == pad_id:
            continue
        q, scores = smoothed_target(right, pad_id, smoothing), logits[position]
        total = sum(score.exp() for score in scores)
        losses.append(sum(-q[v] * (scores[v].exp() / total).log() for v in range(V) if q[v] > 0))
    return sum(losses) / len(losses)


def value_and_gradient(loss_of, logits):
    """Return a loss and its gradient at the logits."""
    leaf = logits.detach().clone().requires_grad_()
    loss = loss_of(leaf)
    loss.backward()
    return loss.detach(), leaf.grad


# --- the loss: parity


@pytest.mark.parametrize("smoothing", [0.0, 0.1, SMOOTHING, 1.0])
@pytest.mark.parametrize("shape", [(), (T,), (B, T)])
def test_without_padding_the_loss_is_torchs_own(generator, shape, smoothing):
    logits = normal(generator, *shape, V)
    targets = torch.randint(V, shape, generator=generator)
    ours = value_and_gradient(
        lambda x: label_smoothed_cross_entropy(x, targets, smoothing=smoothing), logits
    )
    flat = targets.reshape(-1)
    theirs = value_and_gradient(
        lambda x: F.cross_entropy(x.reshape(-1, V), flat, label_smoothing=smoothing), logits
    )
    assert_equal(ours, theirs)


@pytest.mark.parametrize("pad_id", [None, PAD, V - 1])
@pytest.mark.parametrize("how", [dict(smoothing=0.0), dict(smoothing=SMOOTHING), {}], ids=str)
def test_the_loss_is_the_cross_entropy_with_the_distribution_q(logits, targets, pad_id, how):
    ours = value_and_gradient(
        lambda x: label_smoothed_cross_entropy(x, targets, pad_id=pad_id, **how), logits
    )
    smoothing = how.get("smoothing", 0.1)  # §5.4
    loops = value_and_gradient(lambda x: loss_by_loops(x, targets, pad_id, smoothing), logits)
    assert_equal(ours, loops)


# --- the loss: properties


def test_a_model_that_rules_padding_out_is_not_punished(logits, targets):
    without = logits.detach().clone()
    without[..., PAD] = -torch.inf  # as in decoding, where padding is never chosen
    nearly = without.clone()
    nearly[..., PAD] = -1e3  # e^-1000 is 0 in float64
    for pad_logit in (without, nearly):
        loss, gradient = value_and_gradient(
            lambda x: label_smoothed_cross_entropy(x, targets, pad_id=PAD, smoothing=SMOOTHING),
            pad_logit,
        )
        assert gradient.isfinite().all()
        assert_equal(loss, loss_by_loops(nearly, targets, PAD, SMOOTHING))


# --- the loss: errors


@pytest.mark.parametrize(
    ("shape", "how", "words"),
    [
        ((B, T + 1), {}, [(B, T, V), (B, T), (B, T + 1)]),
        ((B, T), dict(smoothing=-0.1), ["[0, 1]", -0.1]),
        ((B, T), dict(smoothing=1.1), ["[0, 1]", 1.1]),
        ((B, T), dict(pad_id=V), [f"pad_id={V}", V]),
        ((B, T), dict(pad_id=-1), ["pad_id=-1", V]),
    ],
)
def test_the_loss_explains_what_does_not_fit(logits, shape, how, words):
    with pytest.raises(ValueError, match=says(*words)):
        label_smoothed_cross_entropy(logits, torch.zeros(shape, dtype=torch.long), **how)


# --- the schedule


@pytest.mark.parametrize(
    ("step", "rate"),
    [  # d_model = 16, warmup_steps = 4: 1/4 · min(1/√step, step/8)
        (1, 1 / 32),  # 1/4 · 1/8
        (2, 1 / 16),  # 1/4 · 2/8
        (3, 3 / 32),  # 1/4 · 3/8
        (4, 1 / 8),  # 1/4 · 1/2, where both branches meet
        (16, 1 / 16),  # 1/4 · 1/4
    ],
)
def test_the_schedule_agrees_with_the_formula_by_hand(step, rate):
    assert warmup_inverse_sqrt(step, d_model=16, warmup_steps=4) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("step", "rate"),
    [  # as above, times 3; of steps = 18 the last 3 cool down
        (2, 3 / 16),
        (4, 3 / 8),
        (9, 3 / 12),
        (16, 3 / 16),  # (18 + 1 - 16) / 3 = 1: not yet
        (17, 3 / (4 * 17**0.5) * 2 / 3),
        (18, 3 / (4 * 18**0.5) / 3),  # one more step, and it would be 0
    ],
)
def test_the_short_schedule_agrees_with_the_formula_by_hand(step, rate):
    ours = warmup_cooldown(step, 16, 4, steps=18, scale=3, cooldown_steps=3)
    assert ours == pytest.approx(rate, rel=1e-12)


def test_the_cosine_is_torchs_own_after_the_warm_up():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.8)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7, eta_min=0.1)
    ours = [warmup_cosine(step, 3, steps=10, peak=0.8, last=0.1) for step in range(1, 11)]
    theirs = []
    for _ in range(8):
        theirs.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    assert ours[:2] == pytest.approx([0.8 / 3, 1.6 / 3])
    assert ours[2:] == pytest.approx(theirs, rel=1e-12)  # from the peak to the last rate


def test_the_stable_schedule_keeps_its_peak_until_its_decay():
    rates = [
        warmup_stable_decay(step, 4, steps=12, peak=2.0, decay_steps=5) for step in range(1, 13)
    ]
    assert rates == pytest.approx([0.5, 1, 1.5, 2, 2, 2, 2, 2, 1.6, 1.2, 0.8, 0.4])


@pytest.mark.parametrize(
    "impossible",
    [
        *(
            partial(warmup_inverse_sqrt, *numbers)
            for numbers in [(5, 16, 0), (5, 0, 4), (0, 16, 4)]
        ),
        *(
            partial(warmup_cooldown, step, 16, 4, steps=7, scale=1, cooldown_steps=last)
            for step, last in [(0, 3), (8, 3), (5, 0)]
        ),
        *(
            partial(rule, step, warmup_steps, peak=1.0, steps=10, **how)
            for rule, how in [(warmup_cosine, {}), (warmup_stable_decay, dict(decay_steps=2))]
            for step, warmup_steps in [(0, 3), (11, 3), (5, 0)]
        ),
    ],
    ids=lambda call: f"{call.func.__name__}{call.args}",
)
def test_the_schedules_explain_impossible_steps(impossible):
    with pytest.raises(ValueError, match=says(impossible.args[0], "from 1")):
        impossible()


def test_adam_has_the_papers_numbers():
    assert ADAM == {"lr": 1.0, "betas": (0.9, 0.98), "eps": 1e-9}  # §5.3


# --- one step


@pytest.fixture
def batch():
    """Return source (B, S) and target (B, T + 1), bos 1 to eos 2, the second shorter."""
    src = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 12, PAD]])
    tgt = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 2, PAD, PAD]])
    return src, tgt


def test_a_step_predicts_each_next_token_and_follows_the_gradient(transformer, batch):
    src, tgt = batch
    before = deepcopy(transformer)
    expected = loss_by_loops(before(src, tgt[:, :-1]), tgt[:, 1:], PAD, SMOOTHING)
    expected.backward()
    lr = 0.5
    optimizer = torch.optim.SGD(transformer.parameters(), lr=lr)
    for parameter in transformer.parameters():
        parameter.grad = torch.ones_like(parameter)  # left over from an earlier step

    loss = training_step(transformer, optimizer, src, tgt, SMOOTHING)
    assert_equal(loss, expected.detach())  # of the weights before the step
    assert not loss.requires_grad
    for new, old in zip(transformer.parameters(), before.parameters(), strict=True):
        assert_equal(new.detach(), old.detach() - lr * old.grad)


# --- many steps


def make_batch(step):
    """Draw the batch of a step, the same one for the same step."""
    generator = make_generator(step)
    ids = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B, T + 1)
    ids[1][1, T:] = PAD
    return ids


def make_training(**changes):
    """Return a tiny model and its optimizer."""
    model = tiny_transformer(**changes)
    return model, torch.optim.Adam(model.parameters(), **ADAM)


def test_every_step_has_its_rate_its_batch_and_its_report():
    model = tiny_transformer()
    embeddings = {id(p) for n, p in model.named_parameters() if "embedding" in n}
    groups = [
        {"params": [p for p in model.parameters() if (id(p) in embeddings) is kept]}
        for kept in (True, False)
    ]
    optimizer = torch.optim.Adam(groups, **ADAM)
    rates, asked, told = [], [], []
    optimizer.register_step_pre_hook(
        lambda optimizer, *_: rates.append([group["lr"] for group in optimizer.param_groups])
    )
    schedule = {1: 0.01, 2: 0.03, 3: 0.02, 4: 0.005, 5: 0.001}
    losses = train(
        model,
        optimizer,
        lambda step: asked.append(step) or make_batch(step),
        steps=5,
        rate=schedule.__getitem__,
        after_step=lambda step, loss: told.append((step, loss.item(), asked[-1])),
    )
    assert rates == [[rate, rate] for rate in schedule.values()]  # both groups
    assert asked == [1, 2, 3, 4, 5]
    assert told == [(step, loss, step) for step, loss in enumerate(losses, start=1)]
    assert all(isinstance(loss, float) for loss in losses)


def test_training_in_two_parts_is_the_steps_one_by_one():
    model, optimizer = make_training()
    how = dict(rate=lambda step: 0.01 / step, smoothing=SMOOTHING)
    losses = train(model, optimizer, make_batch, steps=2, **how)
    losses += train(model, optimizer, make_batch, first_step=3, steps=5, **how)
    twin, optimizer = make_training()
    for step, loss in enumerate(losses, start=1):
        optimizer.param_groups[0]["lr"] = 0.01 / step
        assert loss == training_step(twin, optimizer, *make_batch(step), SMOOTHING).item()
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_training_trains_in_training_mode():
    model, optimizer = make_training(dropout=0.5)
    model.eval()
    modes = []
    model.register_forward_pre_hook(lambda model, _: modes.append(model.training))
    with seeded():
        train(model, optimizer, make_batch, steps=2, rate=lambda step: 0.01)
    assert modes == [True, True]
    assert all(module.training for module in model.modules())
