"""Exercises for chapter 24: trials, known mistakes and correct answers."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.trial import Trial, as_trial, filled, function_trial
from course_lib.gpt import GPT, GPTConfig

ANSWERS_GIVEN = torch.tensor(  # (n, B), without a tie
    [[4, 0, 5], [1, 3, 0], [1, 3, 5], [6, 0, 2], [1, 2, 5], [6, 0, 1], [2, 0, 6]]
)
VOTED = "For each question, return the answer that occurs most often among the n."
STATES, V = 4, 7
RULES = torch.full((STATES, V), -1)
RULES[0, [1, 4]] = torch.tensor([2, 0])
RULES[1, [0, 6]] = torch.tensor([3, 1])
RULES[2, [2, 3, 5]] = torch.tensor([0, 1, 3])
RULES[3, 5] = 0
SCORES = torch.tensor(  # all negative; in most rows, the largest is forbidden
    [
        [-1.0, -5.0, -2.0, -7.0, -4.0, -3.0, -6.0],
        [-6.0, -1.0, -4.0, -3.0, -2.0, -7.0, -5.0],
        [-1.5, -6.0, -5.0, -4.0, -2.0, -7.0, -3.0],
        [-2.0, -1.0, -3.0, -4.0, -5.0, -6.0, -7.0],
        [-7.0, -3.0, -2.0, -4.0, -6.0, -5.0, -1.0],
    ]
)
IN_STATE = torch.tensor([0, 1, 2, 3, 1])
ALLOWED = (
    "Each row gets the most likely token that the grammar allows in that row's state, and then the "
    "state that this token leads to."
)

NUMBERS, PLUS, CALL, EQUALS, END = range(5), 5, 6, 7, 8
MARKS = CALL, EQUALS, END
NAMES = {PLUS: "+", CALL: "<call>", EQUALS: "=", END: "<end>"}
PROMPT = torch.tensor([2, CALL, 4, 0, END])
TOLD = (
    "The tool gets the tokens between the two marks. Its result follows in the answer, and the "
    "model reads it."
)
STOPS = "Stop after the end mark, or once the answer has `max_new_tokens` tokens."
NO_CALL = "An equals mark ends a call only if the model itself has begun one since the last."


def spelled(ids: Any) -> str:
    """Write ids as words; a tensor is not an id, because the chapter looks ids up in a dict."""
    return " ".join(NAMES.get(token, str(token)) for token in ids)


def rules(*allowed: Sequence[int]) -> Tensor:
    """Build a grammar that allows some tokens in state 0, then some in state 1, and so on."""
    grammar = torch.full((len(allowed) + 1, END + 1), -1)
    for state, tokens in enumerate(allowed):
        grammar[state, list(tokens)] = state + 1
    grammar[-1] = len(allowed)
    return grammar


def runs(
    label: str, says: str, *allowed: Sequence[int], limit: Any = (16,), result: Any = None
) -> Trial:
    """Compare the answer, and what the tool was asked."""

    @as_trial(label, says, "equality")
    def measure(candidate: Callable[..., Any]) -> dict[str, Any]:
        model = filled(GPT(GPTConfig(vocab_size=END + 1, max_len=40, num_layers=2, num_heads=2,
                                     d_model=8, dropout=0.0))).eval()  # fmt: skip
        asked: list[list[int]] = []

        def tool(call: Sequence[int]) -> Sequence[int]:
            """Return the result, or two numbers that depend on the call."""
            asked.append([*call])
            return result or [sum(asked[-1]) % 5, len(asked[-1]) % 5]

        answer = candidate(model, PROMPT.clone(), MARKS, tool, rules(*allowed), *limit)
        return {"the tool was asked": " | ".join(map(spelled, asked)), "answer": spelled(answer)}

    return measure


SUM = ([CALL], NUMBERS, [PLUS], NUMBERS, [EQUALS])
EXERCISES = (
    Exercise(
        "majority_vote",
        5,
        core={
            "votes": (
                function_trial("seven answers", {"answers": ANSWERS_GIVEN}, says=VOTED),
                function_trial("one answer", {"answers": ANSWERS_GIVEN[:1]}, says=VOTED),
                function_trial("one question", {"answers": ANSWERS_GIVEN[:, :1]}, says=VOTED),
            ),
        },
        hints=(
            "Answers are ids, so you can count how often each id occurs, separately for each "
            "question.",
            "`F.one_hot(answers)` is (n, B, V). A sum over the n answers counts them.",
            "`argmax(dim=-1)` of the counts (B, V) is the answer with the most votes.",
        ),
    ),
    Exercise(
        "constrained_step",
        10,
        core={
            "choice": (
                function_trial(
                    "five rows in four states",
                    {"logits": SCORES, "state": IN_STATE, "grammar": RULES},
                    ("tokens", "states"),
                    says=ALLOWED,
                ),
                function_trial(
                    "one row with large differences",
                    {"logits": 200 * SCORES[2:3], "state": IN_STATE[2:3], "grammar": RULES},
                    ("tokens", "states"),
                    says=ALLOWED,
                ),
            ),
        },
        hints=(
            "`grammar[state]` is (B, V): for each row, the state that each token would lead to.",
            "A forbidden token has a -1 there. `masked_fill` with -inf keeps it from being chosen, "
            "even if all logits are negative.",
            "`gather(1, tokens.unsqueeze(1))` looks up, in each row, where its token leads.",
        ),
        rejects=("(SCORES[:1], IN_STATE[:1], torch.full((4, 7), -1))",),
    ),
    Exercise(
        "run_with_tool",
        25,
        core={
            "calls": (
                runs("one call", TOLD, *SUM, NUMBERS, [END]),
                runs("two calls", TOLD, *SUM, NUMBERS, [CALL], NUMBERS, [EQUALS], NUMBERS, [END]),
            ),
            "end": (
                runs("an end in the middle", STOPS, NUMBERS, [END]),
                runs("a limit", STOPS, NUMBERS, NUMBERS, NUMBERS, NUMBERS, [END], limit=(3,)),
                runs("a limit that the result reaches", STOPS, *SUM, NUMBERS, [END], limit=(7,)),
            ),
            "no call": (
                runs("an equals mark alone", NO_CALL, [EQUALS], NUMBERS, [END]),
                runs("a second equals mark", NO_CALL, *SUM, NUMBERS, [EQUALS], [END]),
            ),
        },
        hints=(
            "Keep the answer in a list, and the tokens that the engine hasn't read yet in another. "
            "At first, these are the prompt's.",
            "In each round: `engine.step(torch.tensor([new]))`, then `constrained_step`. If the "
            "token begins a call, note where.",
            "If it ends a call that has begun, the result comes right after it, both "
            "in the answer and in what the engine reads next.",
        ),
        extras={
            "tuple": (runs("a tool that returns a tuple", TOLD, *SUM, [END], result=(2, 3)),),
            "end from the tool": (runs("a tool's end mark", STOPS, *SUM, result=[END]),),
            "default limit": (runs("the default limit", STOPS, *14 * [NUMBERS], limit=()),),
        },
    ),
)


# known mistakes


COUNTED = "counts.argmax(dim=-1)"
MASKED = 'logits.masked_fill(following < 0, float("-inf"))'
CHOSEN = f"{MASKED}.argmax(dim=1)"
NEXT = "following.gather(1, tokens.unsqueeze(1)).squeeze(1)"
RESULT = "new += tool(answer[start:])"
STEP = "constrained_step(logits, state, grammar)"


MISTAKES = {
    "majority_vote": {
        "first_taken: the first answer is returned, whatever the others are": (
            COUNTED,
            "answers[0]",
        ),
        "averaged: the ids are averaged, but an id between two answers is another answer": (
            COUNTED,
            "answers.double().mean(dim=0).round().long()",
        ),
        "median: the median of the ids is returned, not the most frequent one": (
            COUNTED,
            "answers.median(dim=0).values",
        ),
        "votes_returned: the number of votes is returned, not the answer that got them": (
            COUNTED,
            "counts.max(dim=-1).values",
        ),
        "rarest: the answer with the fewest votes is returned": (
            COUNTED,
            "counts.masked_fill(counts == 0, len(answers) + 1).argmin(dim=-1)",
        ),
        "all_questions_together: the votes for all questions are added up, so each gets the same "
        "answer": (
            COUNTED,
            "counts.sum(dim=0, keepdim=True).argmax(dim=-1).expand(answers.size(1))",
        ),
        "squeezed: squeeze removes the axis of one question": (COUNTED, f"{COUNTED}.squeeze()"),
        "counted_across_questions: the sum runs over the questions, not over the n answers": (
            "sum(dim=0)",
            "sum(dim=1)",
        ),
    },
    "constrained_step": {
        "unmasked: the most likely of all tokens is chosen, even if the grammar forbids it": (
            CHOSEN,
            "logits.argmax(dim=1)",
        ),
        "masked_with_zero: forbidden tokens get a logit of 0, which may be the largest": (
            CHOSEN,
            "logits.masked_fill(following < 0, 0.0).argmax(dim=1)",
        ),
        "probabilities_masked: the softmax comes before the mask, and may round the probabilities "
        "of all allowed tokens to 0": (MASKED, "(logits.softmax(dim=1) * (following >= 0))"),
        "mask_reversed: the allowed tokens are masked, and the forbidden ones are left": (
            CHOSEN,
            'logits.masked_fill(following >= 0, float("-inf")).argmax(dim=1)',
        ),
        "state_zero_forbidden: a token that leads to state 0 is masked too, but only -1 forbids": (
            CHOSEN,
            'logits.masked_fill(following <= 0, float("-inf")).argmax(dim=1)',
        ),
        "least_likely: the least likely allowed token is chosen": (
            CHOSEN,
            'logits.masked_fill(following < 0, float("inf")).argmin(dim=1)',
        ),
        "place_among_the_allowed: the token's place among the allowed tokens is returned, not its "
        "id": (CHOSEN, "torch.stack([x[ok].argmax() for x, ok in zip(logits, following >= 0)])"),
        "state_kept: the old states are returned, not those that the tokens lead to": (
            NEXT,
            "state",
        ),
        "state_of_the_forbidden: the state is looked up for the most likely token, even if the "
        "grammar forbids "
        "that token": (NEXT, "following.gather(1, logits.argmax(dim=1, keepdim=True)).squeeze(1)"),
        "first_state_for_all: every row follows the state of the first row": (
            "grammar[state]",
            "grammar[state[:1]].expand(len(state), -1)",
        ),
    },
    "run_with_tool": {
        "result_missing: the tool is asked, but its result isn't added to the text": (
            RESULT,
            "tool(answer[start:])",
        ),
        "mark_replaced: the result replaces the equals mark, but should follow it": (
            RESULT,
            "new = list(tool(answer[start:]))",
        ),
        "equals_in_the_call: the tool also gets the equals mark": (
            RESULT,
            "new += tool([*answer[start:], equals])",
        ),
        "whole_answer: the tool gets the whole answer so far, not only the call": (
            RESULT,
            "new += tool(answer)",
        ),
        "without_grammar: the most likely token is taken, and the grammar is ignored": (
            STEP,
            "(logits.argmax(dim=1), state)",
        ),
        "state_forgotten: every token is chosen in state 0": (STEP, f"({STEP}[0], state)"),
        "result_not_read: the result is in the answer, but the model never reads it": (
            "answer += new",
            "answer += new\n        new = new[:1]",
        ),
        "result_not_in_the_answer: the model reads the result, but it is missing in the returned "
        "answer": ("answer += new", "answer += new[:1]"),
        "equals_not_read: the model reads the result, but not the equals mark that comes before "
        "it": ("answer += new", "answer += new\n        new = new[1:] or new"),
        "call_mark_in_the_call: the tool also gets the mark that begins the call": (
            "start = len(answer) + 1",
            "start = len(answer)",
        ),
        "call_never_over: after a call, each later equals mark asks the tool again": (
            "            start = None",
            "            pass",
        ),
        "equals_alone_calls: an equals mark asks the tool even if no call has begun": (
            (" and start is not None", ""),
            (RESULT, "new += tool(answer[start or 0 :])"),
        ),
        "never_stops: the answer goes on after the end mark, up to the limit": (
            " and answer[-1:] != [end]",
            "",
        ),
        "steps_counted: `max_new_tokens` limits the tokens of the model, without those of the "
        "tool": (
            "while len(answer) < max_new_tokens",
            "steps = 0\n    while (steps := steps + 1) <= max_new_tokens",
        ),
        "list_needed: the tool's result has to be a list": ("new += tool(", "new = new + tool("),
        "read_again: the engine gets the whole text "
        "in each step, but it remembers what it has read": ("[new]", "[prompt.tolist() + answer]"),
        "result_partly_read: the model reads only the last token of the result": (
            "answer += new",
            "answer += new\n        new = new[-1:]",
        ),
        "no_limit: `max_new_tokens` is ignored": (
            "len(answer) < max_new_tokens",
            "len(answer) < 30",
        ),
        "prompt_returned: the prompt is returned as part of the answer": (
            "return answer",
            "return prompt.tolist() + answer",
        ),
        "end_left_out: the end mark is left out of the answer": (
            "return answer",
            "return [token for token in answer if token != end]",
        ),
    },
}


# right answers

ANSWERS = {
    "run_with_tool": {
        "without_engine: the model reads the whole text again for every token": (
            "engine.step(torch.tensor([new]))",
            "model(torch.tensor([prompt.tolist() + answer]))[0][:, -1]",
        ),
    },
}
