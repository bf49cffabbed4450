"""The schedules agree with the paper's formula and with torch."""

from functools import partial

import pytest
import torch

from course_lib.tasks.numbers import warmup_cooldown
from course_lib.trainer.schedules import warmup_cosine
from course_lib.training import warmup_inverse_sqrt

PAPER = partial(warmup_inverse_sqrt, d_model=16, warmup_steps=4)  # 1/4 · min(1/√step, step/8)
SHORT = partial(warmup_cooldown, d_model=16, warmup_steps=4)
COSINE = partial(warmup_cosine, warmup_steps=3, peak=0.8)
RATES = {
    PAPER: {1: 1 / 32, 2: 1 / 16, 3: 3 / 32, 4: 1 / 8, 16: 1 / 16},  # at 4 both branches meet
    partial(SHORT, steps=18, scale=3, cooldown_steps=3): {  # as above, times 3
        2: 3 / 16,
        4: 3 / 8,
        9: 3 / 12,
        16: 3 / 16,  # (18 + 1 - 16) / 3 = 1: not yet
        17: 3 / (4 * 17**0.5) * 2 / 3,
        18: 3 / (4 * 18**0.5) / 3,  # after one more step, it would be 0
    },
    partial(COSINE, steps=10): {1: 0.8 / 3, 2: 1.6 / 3, 3: 0.8},
}
NAMED = dict(ids=lambda schedule: schedule.func.__name__)


@pytest.mark.parametrize("schedule", RATES, **NAMED)
def test_the_schedules_agree_with_their_formulas_by_hand(schedule):
    rates = {step: schedule(step) for step in RATES[schedule]}
    assert rates == pytest.approx(RATES[schedule], rel=1e-12)


def test_the_cosine_agrees_with_torch_after_the_warm_up():
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.8)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=7, eta_min=0.1)
    for step in range(3, 11):  # from the peak to the last rate
        (group,) = optimizer.param_groups
        assert COSINE(step, steps=10, last=0.1) == pytest.approx(group["lr"], rel=1e-12)
        optimizer.step()
        schedule.step()
