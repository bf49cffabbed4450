"""The losses of chapter 23 agree with the equations of their papers, gradients included."""

import math

import pytest
import torch
from torch.testing import assert_close

from course_lib.assistant import (
    ChatTokens,
    answer_mask,
    clipped_policy_loss,
    dpo_loss,
    group_advantages,
    respond,
    token_log_probs,
)
from course_lib.gpt import GPT, GPTConfig

TOKENS = ChatTokens(user=6, assistant=7, end=8)
PAD = 0


@pytest.fixture
def draw():
    """Draw float64 numbers that require gradients."""
    generator = torch.Generator().manual_seed(0)
    numbers = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator)  # noqa: E731
    return lambda *shape: numbers(*shape).requires_grad_()


def assert_same(ours, by_loop, inputs):
    assert_close(ours, by_loop, rtol=0, atol=1e-12)
    for mine, other in zip(*(torch.autograd.grad(x, inputs) for x in (ours, by_loop)), strict=True):
        assert_close(mine, other, rtol=0, atol=1e-12)


def test_dpo_is_equation_7(draw):
    inputs = [draw(5) for _ in range(4)]
    losses = []
    for won, lost, ref_won, ref_lost in zip(*inputs, strict=True):
        ratios = won.exp() / ref_won.exp(), lost.exp() / ref_lost.exp()
        difference = 0.3 * torch.log(ratios[0]) - 0.3 * torch.log(ratios[1])
        losses.append(-torch.log(1 / (1 + torch.exp(-difference))))
    assert_same(dpo_loss(*inputs, beta=0.3), sum(losses) / 5, inputs)


@pytest.mark.parametrize("size", [0.1, 1.0])  # at 1, most ratios are clipped
def test_grpo_is_equations_3_and_4(draw, size):
    new, old, ref = (size * draw(6, 5) for _ in range(3))
    rewards = draw(2, 3)
    mask = torch.arange(5) < torch.tensor([5, 1, 3, 2, 4, 5])[:, None]
    answers = []
    for i in range(6):
        group = [rewards[i // 3, j] for j in range(3)]
        mean = sum(group) / 3
        std = (sum((r - mean) ** 2 for r in group) / 2) ** 0.5
        advantage = (group[i % 3] - mean) / (std + 1e-4)
        terms = []
        for t in range(int(mask[i].sum())):
            ratio = new[i, t].exp() / old[i, t].exp()
            clipped = min(max(ratio, ratio * 0 + 0.8), ratio * 0 + 1.2)
            kl = (
                ref[i, t].exp() / new[i, t].exp() - torch.log(ref[i, t].exp() / new[i, t].exp()) - 1
            )
            terms.append(min(ratio * advantage, clipped * advantage) - 0.04 * kl)
        answers.append(sum(terms) / len(terms))
    advantages = group_advantages(rewards).flatten()
    loss = clipped_policy_loss(new, old, ref, advantages, mask)
    assert_same(loss, -sum(answers) / 6, [new, old, ref, rewards])


def test_the_log_probs_of_a_text_are_the_log_probs_of_its_next_tokens(draw):
    logits, ids = draw(2, 4, 9), torch.tensor([[3, 1, 4, 1], [5, 8, 2, 6]])
    found = token_log_probs(logits, ids)
    assert found.shape == (2, 3)
    for row in range(2):
        for t in range(3):
            scores = logits[row, t].tolist()
            wanted = scores[ids[row, t + 1]] - math.log(sum(map(math.exp, scores)))
            assert found[row, t].item() == pytest.approx(wanted, abs=1e-12)


def test_only_tokens_up_to_the_end_of_an_answer_count_in_every_turn():
    chat = TOKENS.chat([1, 2], [3, 4]) + TOKENS.chat([5], [1]) + [PAD]
    assert chat == [6, 1, 2, 7, 3, 4, 8, 6, 5, 7, 1, 8, 0]
    counted = answer_mask(torch.tensor([chat]), TOKENS)[0]
    assert torch.tensor(chat)[1:][counted].tolist() == [3, 4, 8, 1, 8]
    assert TOKENS.chat([1, 2]) == [6, 1, 2, 7]


def test_padding_follows_the_end_of_an_answer_and_the_prompt_stays():
    torch.manual_seed(0)
    sizes = dict(vocab_size=9, max_len=40, num_layers=1, num_heads=2, d_model=8, dropout=0.0)
    model, draw = GPT(GPTConfig(**sizes)), torch.Generator().manual_seed(1)
    prompts = torch.tensor([TOKENS.chat([TOKENS.end, 2])] * 50)
    ids = respond(model, prompts, TOKENS, PAD, 20, generator=draw)
    assert ids.shape == (50, 24) and ids[:, :4].equal(prompts)
    ended = [row.index(TOKENS.end) for row in ids[:, 4:].tolist() if TOKENS.end in row]
    assert len(ended) > 20
    for row in ids[:, 4:].tolist():
        if TOKENS.end in row:
            assert set(row[row.index(TOKENS.end) + 1 :]) <= {PAD}


@pytest.mark.parametrize(
    "chat, counted",
    [  # 6 is [user], 7 is [assistant], 8 is [end]
        ([6, 1, 8, 7, 2, 8], [2, 8]),  # the end token also ends the user's turns, as in ChatML
        ([6, 1, 8, 7, 2, 8, 6, 3, 8, 7, 4, 8], [2, 8, 4, 8]),
        ([6, 1, 7, 2, 8, 8, 6, 3, 7, 4, 8], [2, 8, 4, 8]),  # a doubled end token
        ([6, 1, 7, 2, 7, 3, 8, 6, 4, 7, 5, 8], [2, 7, 3, 8, 5, 8]),  # a stray role token
        ([8, 8, 6, 1, 7, 2, 8], [2, 8]),  # padding on the left with the end token
        ([6, 1, 7, 2, 8, 8, 8], [2, 8]),
    ],
)
def test_an_answer_ends_at_its_first_end_token(chat, counted):
    mask = answer_mask(torch.tensor([chat]), TOKENS)[0]
    assert torch.tensor(chat)[1:][mask].tolist() == counted


@pytest.mark.parametrize("junk", [-200.0, -math.inf, math.inf, math.nan])
def test_numbers_at_masked_places_and_rows_without_a_token_do_not_matter(draw, junk):
    clean = [draw(3, 4) for _ in range(3)]
    mask = torch.tensor([[True, True, False, False], [False] * 4, [True] * 4])
    dirty = [x.detach().masked_fill(~mask, junk).requires_grad_() for x in clean]
    advantages = torch.tensor([1.0, 2, -1]).double()
    losses = [clipped_policy_loss(*x, advantages, mask) for x in (clean, dirty)]
    two = [x.detach()[[0, 2]] for x in clean]
    assert_close(losses[1], clipped_policy_loss(*two, advantages[[0, 2]], mask[[0, 2]]) * 2 / 3)
    for mine, other in zip(
        *(torch.autograd.grad(loss, x) for loss, x in zip(losses, (clean, dirty), strict=True)),
        strict=True,
    ):
        assert_close(mine, other)


REFUSED = {
    "dpo (B,) and (B, 1)": (lambda: dpo_loss(*[ONES[0]] * 3, ONES.mT[:, :1]), r"\(4, 1\)"),
    "policy advantages": (lambda: clipped_policy_loss(*[ONES] * 3, ONES[:1, :1], MASK), "advant"),
    "policy reference": (lambda: clipped_policy_loss(ONES, ONES, ONES[:1], ONES[0], MASK), "ref_"),
    "ids too short": (lambda: token_log_probs(LOGITS, IDS[:, :2]), r"\(1, 2\)"),
    "ids ignored": (lambda: token_log_probs(LOGITS, IDS - 102), "-100"),
    "integer rewards": (lambda: group_advantages(IDS), "int64"),
    "groups of one": (lambda: group_advantages(ONES[:, :1]), "G = 2"),
}
ONES = torch.ones(4, 4)
MASK = ONES > 0
LOGITS, IDS = torch.zeros(1, 3, 5), torch.tensor([[2, 3, 4]])


@pytest.mark.parametrize("name", REFUSED)
def test_numbers_that_would_broadcast_are_refused(name):
    call, words = REFUSED[name]
    with pytest.raises(ValueError, match=words):
        call()


def test_log_probabilities_of_half_precision_are_summed_precisely():
    assert token_log_probs(LOGITS.half(), IDS).sum().item() == pytest.approx(-2 * math.log(5))
