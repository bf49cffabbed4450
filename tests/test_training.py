"""Training: the loss counts real tokens, the schedule is the paper's, a stop changes nothing."""

import math
from copy import deepcopy
from functools import partial
from itertools import product

import pytest
import torch
from dimensions import PAD, SRC_VOCAB, TGT_VOCAB, B, S, T
from parity import assert_equal, assert_same, says, trace
from random_inputs import make_generator, normal, random_ids, tiny_transformer
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib.training import (
    ADAM,
    label_smoothed_cross_entropy,
    optimizer_step,
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
    """Return logits (B, T, V)."""
    return 2 * normal(generator, B, T, V)


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


# --- the loss: parity


@pytest.mark.parametrize("smoothing", [0.0, 0.1, SMOOTHING, 1.0])
@pytest.mark.parametrize("shape", [(), (T,), (B, T)])
def test_without_padding_the_loss_is_torchs_own(generator, shape, smoothing):
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


# --- the schedules

PAPER = partial(warmup_inverse_sqrt, d_model=16, warmup_steps=4)  # 1/4 · min(1/√step, step/8)
SHORT = partial(warmup_cooldown, d_model=16, warmup_steps=4)
COSINE = partial(warmup_cosine, warmup_steps=3, peak=0.8)
STABLE = partial(warmup_stable_decay, warmup_steps=4, peak=2.0)
RATES = {
    PAPER: {1: 1 / 32, 2: 1 / 16, 3: 3 / 32, 4: 1 / 8, 16: 1 / 16},  # at 4 both branches meet
    partial(SHORT, steps=18, scale=3, cooldown_steps=3): {  # as above, times 3
        2: 3 / 16,
        4: 3 / 8,
        9: 3 / 12,
        16: 3 / 16,  # (18 + 1 - 16) / 3 = 1: not yet
        17: 3 / (4 * 17**0.5) * 2 / 3,
        18: 3 / (4 * 18**0.5) / 3,  # one more step, and it would be 0
    },
    partial(STABLE, steps=12, decay_steps=5): dict(
        enumerate([0.5, 1, 1.5, 2, 2, 2, 2, 2, 1.6, 1.2, 0.8, 0.4], start=1)
    ),
    partial(COSINE, steps=10): {1: 0.8 / 3, 2: 1.6 / 3, 3: 0.8},
}
NAMED = dict(ids=lambda schedule: schedule.func.__name__)


@pytest.mark.parametrize("schedule", RATES, **NAMED)
def test_the_schedules_agree_with_their_formulas_by_hand(schedule):
    rates = {step: schedule(step) for step in RATES[schedule]}
    assert rates == pytest.approx(RATES[schedule], rel=1e-12)


def test_the_cosine_is_torchs_own_after_the_warm_up():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.8)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7, eta_min=0.1)
    for step in range(3, 11):  # from the peak to the last rate
        (group,) = optimizer.param_groups
        assert COSINE(step, steps=10, last=0.1) == pytest.approx(group["lr"], rel=1e-12)
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize(
    "schedule",
    [
        partial(PAPER, 5, warmup_steps=0), partial(PAPER, 5, d_model=0), partial(PAPER, 0),
        *(
            partial(SHORT, step, steps=7, scale=1, cooldown_steps=last)
            for step, last in [(0, 3), (8, 3), (5, 0)]
        ),
        *(
            partial(rule, step, warmup_steps=warmup_steps, steps=10)
            for rule in (COSINE, partial(STABLE, decay_steps=2))
            for step, warmup_steps in [(0, 3), (11, 3), (5, 0)]
        ),
        partial(STABLE, 5, steps=10, decay_steps=0),
    ],
    **NAMED,
)  # fmt: skip
def test_the_schedules_explain_impossible_steps(schedule):
    with pytest.raises(ValueError, match=says(schedule.args[0], "from 1")):
        schedule()


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


@pytest.mark.parametrize(("clip_norm", "expected"), [(math.inf, 2.0), (4.5, 2.0), (1.0, 0.5)])
def test_the_end_of_a_step_sets_the_rate_and_clips_all_gradients_together(clip_norm, expected):
    layer = nn.Linear(3, 1)
    before = deepcopy(layer.state_dict())
    for parameter in layer.parameters():
        parameter.grad = torch.full_like(parameter, 2.0)  # of four numbers: the norm is 4
    optimizer = torch.optim.SGD([{"params": [p]} for p in layer.parameters()], lr=7.0)
    optimizer_step(layer, optimizer, 0.1, clip_norm=clip_norm)
    for name, parameter in layer.named_parameters():
        assert_close(before[name] - parameter.detach(), torch.full_like(parameter, 0.1 * expected))
        assert parameter.grad is None


# --- many steps


def make_batch(step):
    """Draw the batch of a step, the same one for the same step."""
    generator = make_generator(step)
    ids = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B, T + 1)
    ids[1][1, T:] = PAD
    return ids


def test_every_step_has_its_rate_its_batch_and_its_report():
    model = tiny_transformer().eval()
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
        after_step=lambda step, loss: told.append((step, loss.item(), asked[-1], model.training)),
    )
    assert rates == [[rate, rate] for rate in schedule.values()]  # both groups
    assert asked == [1, 2, 3, 4, 5]
    assert told == [(step, loss, step, True) for step, loss in enumerate(losses, start=1)]
    assert all(isinstance(loss, float) for loss in losses)
    assert all(module.training for module in model.modules())


def test_training_in_two_parts_is_the_steps_one_by_one():
    model, twin = tiny_transformer(), tiny_transformer()
    optimizer, other = (torch.optim.Adam(each.parameters(), **ADAM) for each in (model, twin))
    how = dict(rate=lambda step: 0.01 / step, smoothing=SMOOTHING)
    losses = train(model, optimizer, make_batch, steps=2, **how)
    losses += train(model, optimizer, make_batch, first_step=3, steps=5, **how)
    for step, loss in enumerate(losses, start=1):
        other.param_groups[0]["lr"] = 0.01 / step
        assert loss == training_step(twin, other, *make_batch(step), SMOOTHING).item()
    assert_same(model.state_dict(), twin.state_dict())
