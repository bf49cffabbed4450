"""Votes, steps under a grammar, and calls of a tool do what their papers describe."""

from collections import Counter

import pytest
import torch
from random_inputs import randomize

from course_lib.gpt import GPT, GPTConfig, sample
from course_lib.reasoning import constrained_step, majority_vote, run_with_tool

VOCAB, MAX_LEN = 9, 30
PLUS, CALL, EQUALS, END = 5, 6, 7, 8
MARKS = CALL, EQUALS, END
FREE = torch.zeros(1, VOCAB, dtype=torch.long)  # a grammar without rules
PROMPT = torch.tensor([3, 1, 4])


def gpt():
    """Build a GPT in eval mode."""
    config = GPTConfig(vocab_size=VOCAB, max_len=MAX_LEN, num_layers=2, num_heads=2, d_model=6)
    return randomize(GPT(config)).eval()


def sentence(*words):
    """Build a grammar that allows one token after the other, and then anything."""
    grammar = torch.full((len(words) + 1, VOCAB), -1)
    grammar[torch.arange(len(words)), torch.tensor(words)] = torch.arange(1, len(words) + 1)
    grammar[-1] = len(words)
    return grammar


def test_the_vote_is_the_most_common_answer_to_each_question():
    answers = torch.randint(4, (25, 40), generator=torch.Generator().manual_seed(0))
    for column, winner in zip(answers.T.tolist(), majority_vote(answers).tolist(), strict=True):
        votes = Counter(column)
        assert votes[winner] == max(votes.values())


def test_a_step_takes_the_best_of_the_allowed_tokens_and_follows_the_grammar():
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(50, VOCAB, generator=generator) - 10
    grammar = torch.randint(-2, 4, (4, VOCAB), generator=generator).clamp(min=-1)
    state = torch.randint(4, (50,), generator=generator)
    tokens, after = constrained_step(logits, state, grammar)
    for row in range(50):
        allowed = [t for t in range(VOCAB) if grammar[state[row], t] >= 0]
        assert tokens[row] == max(allowed, key=lambda t: logits[row, t])
        assert after[row] == grammar[state[row], tokens[row]]


def test_a_state_without_a_token_is_an_error():
    with pytest.raises(ValueError, match=r"state of \[0\].*no token"):
        constrained_step(torch.zeros(1, VOCAB), torch.tensor([0]), torch.full((1, VOCAB), -1))


def test_without_rules_and_calls_the_answer_is_the_greedy_one_up_to_the_end():
    model, marks = gpt(), (-1, -1, -1)  # no token is a mark
    greedy = sample(model, PROMPT[None], 10, top_k=1)[0, 3:].tolist()
    assert run_with_tool(model, PROMPT, marks, list, FREE, 10) == greedy
    marks = -1, -1, greedy[4]
    assert (
        run_with_tool(model, PROMPT, marks, list, FREE, 10) == greedy[: greedy.index(greedy[4]) + 1]
    )


def test_the_model_reads_what_the_tool_wrote():
    model, call = gpt(), [CALL, 2, PLUS, 3, EQUALS]
    endings = set()
    for result in ([first, second] for first in range(5) for second in range(5)):
        asked = []
        tool = lambda ids, result=result, asked=asked: asked.append(ids) or result  # noqa: E731
        answer = run_with_tool(model, PROMPT, MARKS, tool, sentence(*call), 12)
        assert asked[0] == [2, PLUS, 3] and answer[:7] == call + result
        text = torch.tensor([[*PROMPT.tolist(), *answer[:7]]])
        assert answer[7] == sample(model, text, 1, top_k=1)[0, -1]
        endings.add(tuple(answer[7:]))
    assert len(endings) > 1, "every result leads to the same answer; choose other weights"


def test_only_a_call_that_the_model_began_asks_the_tool():
    asked = []
    grammar = sentence(EQUALS, CALL, 2, EQUALS, EQUALS, END)
    run_with_tool(
        gpt(), torch.tensor([CALL, 1]), MARKS, lambda ids: asked.append(ids) or [], grammar
    )
    assert asked == [[2]]
