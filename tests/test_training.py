"""Training: the loss counts real tokens, the schedule is the paper's, a stop changes nothing."""

import math
from copy import deepcopy
from itertools import product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from reference import (
    PAD,
    SRC_VOCAB,
    TGT_VOCAB,
    B,
    S,
    T,
    assert_equal,
    make_generator,
    normal,
    overheard,
    random_ids,
    says,
    seeded,
    tiny_transformer,
)
from torch.nn import functional as F

from course_lib.training import (
    ADAM,
    label_smoothed_cross_entropy,
    train,
    training_step,
    warmup_cooldown,
    warmup_inverse_sqrt,
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
    for place in product(*map(range, targets.shape)):
        right = targets[place].item()
        if right == pad_id:
            continue
        q = smoothed_target(right, pad_id, smoothing)
        total = sum(score.exp() for score in logits[place])
        losses.append(
            sum(-q[v] * (logits[place][v].exp() / total).log() for v in range(V) if q[v] > 0)
        )
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


def test_without_smoothing_padding_is_torchs_ignored_index(logits, targets):
    ours = value_and_gradient(
        lambda x: label_smoothed_cross_entropy(x, targets, pad_id=PAD, smoothing=0.0), logits
    )
    theirs = value_and_gradient(
        lambda x: F.cross_entropy(x.flatten(0, 1), targets.flatten(), ignore_index=PAD), logits
    )
    assert_equal(ours, theirs)


@pytest.mark.parametrize("pad_id", [None, PAD, V - 1])
@pytest.mark.parametrize("smoothing", [0.0, SMOOTHING, 1.0])
def test_the_loss_is_the_cross_entropy_with_the_distribution_q(logits, targets, pad_id, smoothing):
    ours = value_and_gradient(
        lambda x: label_smoothed_cross_entropy(x, targets, pad_id=pad_id, smoothing=smoothing),
        logits,
    )
    loops = value_and_gradient(lambda x: loss_by_loops(x, targets, pad_id, smoothing), logits)
    assert_equal(ours, loops)


def test_smoothing_is_a_tenth_unless_given(logits, targets):
    assert_equal(
        label_smoothed_cross_entropy(logits, targets, pad_id=PAD),
        loss_by_loops(logits, targets, PAD, 0.1),  # §5.4
    )


# --- the loss: properties


def test_the_gradient_is_p_minus_q_for_each_real_token(logits, targets):
    _, gradient = value_and_gradient(
        lambda x: label_smoothed_cross_entropy(x, targets, pad_id=PAD, smoothing=SMOOTHING), logits
    )
    num_real = 6  # four tokens and two
    probs = logits.detach().softmax(dim=-1)
    for place in product(range(B), range(T)):
        expected = torch.zeros(V, dtype=torch.float64)
        if targets[place] != PAD:  # -Σ q (z - log Σ exp z) has the gradient p - q, as Σ q = 1
            q = smoothed_target(targets[place].item(), PAD, SMOOTHING)
            expected = (probs[place] - q) / num_real
            # q is 0 at padding: nothing pulls its logit up, and all of its probability pushes down
            assert_equal(gradient[place][PAD], probs[place][PAD] / num_real)
        assert_equal(gradient[place], expected)


def test_padding_counts_for_nothing_whatever_its_logits(logits, targets):
    padding = (targets == PAD).unsqueeze(-1)

    def run(scores):
        return value_and_gradient(
            lambda x: label_smoothed_cross_entropy(x, targets, pad_id=PAD, smoothing=SMOOTHING),
            scores,
        )

    loss, gradient = run(logits)
    assert gradient.masked_select(padding).eq(0).all()
    for other in (-1e9, 0.0, 1e9):
        changed = torch.where(padding, other * torch.arange(V), logits)
        changed_loss, changed_gradient = run(changed)
        assert torch.equal(changed_loss, loss)
        assert torch.equal(changed_gradient, gradient)


@given(more=st.integers(1, 5), seed=st.integers(0, 99))
def test_more_padding_does_not_dilute_the_loss(more, seed):
    generator = make_generator(seed)
    logits, targets = normal(generator, B, T + more, V), random_ids(generator, V, B, T)
    padded = torch.cat([targets, torch.full((B, more), PAD)], dim=1)
    assert_equal(
        label_smoothed_cross_entropy(logits, padded, pad_id=PAD),
        label_smoothed_cross_entropy(logits[:, :T], targets, pad_id=PAD),
    )


def test_every_real_token_weighs_the_same_in_short_and_long_sentences(logits, targets):
    long, short = (
        label_smoothed_cross_entropy(logits[row], targets[row], pad_id=PAD) for row in range(B)
    )
    both = label_smoothed_cross_entropy(logits, targets, pad_id=PAD)
    assert_equal(both, (4 * long + 2 * short) / 6)  # not (long + short) / 2


def test_the_loss_is_least_where_the_model_says_q():
    # V = 4 with padding 0 and smoothing 0.3: q = (0, 0.1, 0.1, 0.8); the least loss is its entropy
    entropy = -(0.1 * math.log(0.1) + 0.1 * math.log(0.1) + 0.8 * math.log(0.8))
    q = torch.tensor([1e-300, 0.1, 0.1, 0.8], dtype=torch.float64).log().requires_grad_()
    loss = label_smoothed_cross_entropy(q, torch.tensor(3), pad_id=0, smoothing=0.3)
    loss.backward()
    assert loss.item() == pytest.approx(entropy, abs=1e-10)
    assert_equal(q.grad, torch.zeros(4, dtype=torch.float64))


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


# --- the loss: limits and errors


def test_one_token_of_a_uniform_model_costs_the_logarithm_of_the_vocabulary():
    loss = label_smoothed_cross_entropy(torch.zeros(V), torch.tensor(2), smoothing=SMOOTHING)
    assert loss.item() == pytest.approx(math.log(V))


def test_the_loss_leaves_its_inputs_alone(logits, targets):
    before = logits.detach().clone(), targets.clone()
    label_smoothed_cross_entropy(logits, targets, pad_id=PAD)
    assert torch.equal(logits, before[0]) and torch.equal(targets, before[1])


def test_the_loss_explains_shapes_that_do_not_fit(logits):
    with pytest.raises(ValueError, match=says((B, T, V), (B, T), (B, T + 1))):
        label_smoothed_cross_entropy(logits, torch.zeros(B, T + 1, dtype=torch.long))


@pytest.mark.parametrize("smoothing", [-0.1, 1.1])
def test_the_loss_explains_an_impossible_smoothing(logits, targets, smoothing):
    with pytest.raises(ValueError, match=says("[0, 1]", smoothing)):
        label_smoothed_cross_entropy(logits, targets, smoothing=smoothing)


@pytest.mark.parametrize("pad_id", [V, -1])
def test_the_loss_explains_padding_that_is_no_entry(logits, targets, pad_id):
    with pytest.raises(ValueError, match=says(f"pad_id={pad_id}", V)):
        label_smoothed_cross_entropy(logits, targets, pad_id=pad_id)


# --- the schedule


def test_the_base_model_peaks_at_step_4000():
    # 1/√512 · 1/√4000 = 1/√2,048,000
    peak = warmup_inverse_sqrt(4000, d_model=512, warmup_steps=4000)
    assert peak == pytest.approx(1 / math.sqrt(2_048_000))
    for step in (1, 3999, 4001, 100_000):
        assert warmup_inverse_sqrt(step, d_model=512, warmup_steps=4000) < peak


@pytest.mark.parametrize(
    ("step", "rate"),
    [  # d_model = 16, warmup_steps = 4: 1/4 · min(1/√step, step/8)
        (1, 1 / 32),  # 1/4 · 1/8
        (2, 1 / 16),  # 1/4 · 2/8
        (3, 3 / 32),  # 1/4 · 3/8
        (4, 1 / 8),  # 1/4 · 1/2, where both branches meet
        (9, 1 / 12),  # 1/4 · 1/3
        (16, 1 / 16),  # 1/4 · 1/4
    ],
)
def test_the_schedule_agrees_with_the_formula_by_hand(step, rate):
    assert warmup_inverse_sqrt(step, d_model=16, warmup_steps=4) == pytest.approx(rate, rel=1e-12)


@given(warmup_steps=st.integers(1, 500), d_model=st.integers(1, 600), step=st.integers(1, 2000))
def test_the_rate_rises_in_a_line_and_falls_as_one_over_the_root(warmup_steps, d_model, step):
    rate = warmup_inverse_sqrt(step, d_model, warmup_steps)
    if step <= warmup_steps:
        first = warmup_inverse_sqrt(1, d_model, warmup_steps)
        assert rate == pytest.approx(step * first)
    else:
        assert rate == pytest.approx(2 * warmup_inverse_sqrt(4 * step, d_model, warmup_steps))


@pytest.mark.parametrize(
    ("step", "d_model", "warmup_steps"), [(0, 16, 4), (-3, 16, 4), (5, 16, 0), (5, 0, 4)]
)
def test_the_schedule_counts_from_one(step, d_model, warmup_steps):
    with pytest.raises(ValueError, match=says("from 1", step, d_model, warmup_steps)):
        warmup_inverse_sqrt(step, d_model, warmup_steps)


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


@given(step=st.integers(1, 60), more=st.integers(0, 9), warmup_steps=st.integers(1, 40))
def test_a_cooldown_of_one_step_is_none(step, more, warmup_steps):
    ours = warmup_cooldown(step, 18, warmup_steps, steps=step + more, scale=0.5, cooldown_steps=1)
    assert ours == 0.5 * warmup_inverse_sqrt(step, 18, warmup_steps)


@given(steps=st.integers(1, 60), cooldown_steps=st.integers(1, 80))
def test_the_short_schedule_is_never_zero_before_its_end(steps, cooldown_steps):
    for step in range(1, steps + 1):
        rate = warmup_cooldown(step, 18, 5, steps=steps, scale=1, cooldown_steps=cooldown_steps)
        assert 0 < rate <= warmup_inverse_sqrt(step, 18, 5)


@pytest.mark.parametrize(
    ("step", "steps", "cooldown_steps"), [(8, 7, 3), (5, 7, 0), (5, 7, -2), (0, 7, 3)]
)
def test_the_short_schedule_explains_impossible_steps(step, steps, cooldown_steps):
    with pytest.raises(ValueError, match=says(f"step={step}", "from 1")):
        warmup_cooldown(step, 16, 4, steps=steps, scale=1, cooldown_steps=cooldown_steps)


def test_adam_has_the_papers_numbers():
    assert ADAM == {"lr": 1.0, "betas": (0.9, 0.98), "eps": 1e-9}  # §5.3


# --- one step


@pytest.fixture
def batch():
    """Return source (B, S) and target (B, T + 1), bos 1 to eos 2, the second shorter."""
    src = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 11, 12, PAD]])
    tgt = torch.tensor([[1, 4, 5, 6, 2], [1, 7, 2, PAD, PAD]])
    return src, tgt


def test_a_step_predicts_each_next_token_and_walks_down_the_gradient(transformer, batch):
    src, tgt = batch
    before = deepcopy(transformer)
    expected = loss_by_loops(before(src, tgt[:, :-1]), tgt[:, 1:], PAD, SMOOTHING)
    expected.backward()
    lr = 0.5
    optimizer = torch.optim.SGD(transformer.parameters(), lr=lr)
    for parameter in transformer.parameters():
        parameter.grad = torch.ones_like(parameter)  # left over by somebody else

    heard = overheard(
        transformer,
        [""],
        lambda: assert_equal(  # the loss is that of the weights before the step
            training_step(transformer, optimizer, src, tgt, SMOOTHING), expected.detach()
        ),
    )
    (heard_src, tgt_in), _, _ = heard[""]
    assert torch.equal(heard_src, src)
    assert tgt_in.tolist() == [[1, 4, 5, 6], [1, 7, 2, PAD]]  # all but the last column
    for new, old in zip(transformer.parameters(), before.parameters(), strict=True):
        assert_equal(new.detach(), old.detach() - lr * old.grad)


def test_the_loss_of_a_step_is_detached_and_falls_by_the_next(transformer, batch):
    optimizer = torch.optim.SGD(transformer.parameters(), lr=0.01)
    first = training_step(transformer, optimizer, *batch, SMOOTHING)
    second = training_step(transformer, optimizer, *batch, SMOOTHING)
    assert not first.requires_grad and first.shape == ()
    assert second < first


# --- many steps


def make_batch(step):
    """Draw the batch of a step, the same one for the same step."""
    generator = make_generator(step)
    ids = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B, T + 1)
    ids[1][1, T:] = PAD
    return ids


def slowly(step):
    """Return a learning rate that is another one at every step."""
    return 0.01 / step


def make_training(**changes):
    """Return a tiny model and its optimizer."""
    model = tiny_transformer(**changes)
    return model, torch.optim.Adam(model.parameters(), **ADAM)


def test_every_step_is_made_at_the_rate_that_the_schedule_gives_it():
    model = tiny_transformer()
    embeddings = {id(p) for n, p in model.named_parameters() if "embedding" in n}
    groups = [
        {"params": [p for p in model.parameters() if (id(p) in embeddings) is kept]}
        for kept in (True, False)
    ]
    optimizer = torch.optim.Adam(groups, **ADAM)
    rates = []
    optimizer.register_step_pre_hook(
        lambda optimizer, *_: rates.append([group["lr"] for group in optimizer.param_groups])
    )
    schedule = {1: 0.01, 2: 0.03, 3: 0.02, 4: 0.005, 5: 0.001}
    train(model, optimizer, make_batch, steps=5, rate=schedule.__getitem__)
    assert rates == [[rate, rate] for rate in schedule.values()]  # both groups


def test_training_asks_for_each_step_once_and_reports_each_loss():
    model, optimizer = make_training()
    asked, told = [], []

    def ask(step):
        asked.append(step)
        return make_batch(step)

    losses = train(
        model,
        optimizer,
        ask,
        steps=4,
        rate=slowly,
        after_step=lambda step, loss: told.append((step, loss.item(), asked[-1])),
    )
    assert asked == [1, 2, 3, 4]
    assert told == [(step, loss, step) for step, loss in enumerate(losses, start=1)]
    assert all(isinstance(loss, float) for loss in losses)


def test_training_is_the_steps_one_by_one():
    model, optimizer = make_training()
    losses = train(model, optimizer, make_batch, steps=3, rate=slowly, smoothing=SMOOTHING)
    twin, twin_optimizer = make_training()
    for step, loss in enumerate(losses, start=1):
        for group in twin_optimizer.param_groups:
            group["lr"] = 0.01 / step
        assert loss == training_step(twin, twin_optimizer, *make_batch(step), SMOOTHING).item()
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_training_in_two_parts_is_training_in_one():
    whole, optimizer = make_training()
    losses = train(whole, optimizer, make_batch, steps=7, rate=slowly)
    parts, optimizer = make_training()
    first = train(parts, optimizer, make_batch, steps=3, rate=slowly)
    rest = train(parts, optimizer, make_batch, first_step=4, steps=7, rate=slowly)
    assert first + rest == losses
    for mine, other in zip(parts.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, other)


def test_training_trains_in_training_mode():
    model, optimizer = make_training(dropout=0.5)
    model.eval()
    modes = []
    handle = model.register_forward_pre_hook(lambda model, _: modes.append(model.training))
    with seeded():
        train(model, optimizer, make_batch, steps=2, rate=slowly)
    handle.remove()
    assert modes == [True, True]
    assert all(module.training for module in model.modules())


def test_a_tiny_model_learns_one_batch_by_heart(batch):
    model, optimizer = make_training()
    losses = train(
        model,
        optimizer,
        lambda step: batch,
        steps=120,
        rate=lambda step: 0.4 * warmup_inverse_sqrt(step, 18, 20),
        smoothing=0.0,
    )
    assert losses[0] > 1 and losses[-1] < 0.05
    src, tgt = batch
    right = model(src, tgt[:, :-1]).argmax(dim=-1) == tgt[:, 1:]
    assert right[tgt[:, 1:] != PAD].all()


def test_nothing_is_left_to_do_after_the_last_step():
    model, optimizer = make_training()
    before = deepcopy(model.state_dict())
    assert train(model, optimizer, make_batch, steps=4, first_step=5, rate=slowly) == []
    assert all(torch.equal(model.state_dict()[name], kept) for name, kept in before.items())
