"""Hints lead to the wrong line, even if the mistake does not have a name."""

import inspect
import warnings
from dataclasses import replace

import pytest
import torch
from torch import nn

from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.exercise import find_exercise
from course_lib.exercises.checking.matching import expected_outcomes
from course_lib.exercises.checking.mistake import define
from course_lib.exercises.checking.outcomes import leaves

ATTENTION = "scaled_dot_product_attention"


def altered(name, *edits, **beside):
    """Return the course's definition with some words changed and with other names in scope."""
    exercise = find_exercise(name)
    text = inspect.getsource(exercise.definition)
    for old, new in edits:
        assert old in text, f"{old!r} is not in the source of {name}"
        text = text.replace(old, new)
    return define(text, exercise.module, name, f"<{name}, altered>", beside)


# --- mistakes that are not in the bank


@pytest.mark.parametrize("name", exercises())
def test_a_wrong_number_in_any_trial_is_explained(name):
    exercise = find_exercise(name)
    for trial, right in zip(exercise.trials, expected_outcomes(name), strict=True):
        if any(isinstance(value, torch.Tensor | float) for _, value in leaves(right.values)):
            assert trial.says or exercise.formula, f"explain {trial.label!r}"


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("causal_mask", ".tril()", ".tril().fliplr()"),
        ("adam_update", "gradient**2", "(gradient**2).sin()"),
        ("greedy_decode", ": position + 1]", ": position + 1].flip(1)"),
        ("beam_step", "ended < bar", "ended < bar + 0.7"),
        ("training_step", "optimizer.step()", "optimizer.step() or optimizer.step()"),
        ("GroupedQueryAttention", "apply_rope(q, angles)", "apply_rope(q, 2 * angles)"),
        ("random_windows", "window[:, 1:]", "window[:, 1:].flip(1)"),
        ("dpo_loss", ".mean()", ".square().mean()"),
        ("ablate_head", "heads[:, :, head] = 0", "heads[:, :, head] = 1"),
    ],
)
def test_a_mistake_that_is_not_in_the_bank_is_found_and_described(name, old, new):
    report = examine(name, altered(name, (old, new)))
    assert not report.passed and report.attempted
    assert report.mistake is None, f"called {report.mistake}"
    assert "The numbers in" not in report.hint, "give the exercise a formula"
    assert len(report.hint.split()) > 4 and (report.detail or report.kind == "unchanged")


@pytest.mark.parametrize(
    "name, old, new, words",
    [
        (
            ATTENTION,
            "weights @ value, weights",
            "weights, weights @ value",
            "output and weights are returned in the wrong order",
        ),
        ("EncoderLayer", "(y, y, y, mask)[0]", "(y, y, y, mask)", "A pair was passed where one"),
        ("EncoderLayer", "super().__init__()", "pass", "Call super().__init__() first"),
    ],
)
def test_a_hint_says_in_plain_words_what_is_wrong(name, old, new, words):
    report = examine(name, altered(name, (old, new)))
    assert not report.passed and words in f"{report.hint} {report.detail}"


def test_an_option_that_a_part_does_not_get_is_not_blamed_on_the_formula():
    report = examine(
        "EncoderLayer", altered("EncoderLayer", ("d_k=d_k, d_v=d_v", "d_k=d_v, d_v=d_k"))
    )
    assert report.passed and report.mistake is None
    assert report.hint.startswith("With d_k=4 and d_v=7: does every part that needs this option")


def test_a_global_variable_that_an_answer_reads_is_named():
    report = examine(ATTENTION, altered(ATTENTION, ("    d_k = query.size(-1)\n", ""), d_k=6))
    assert "Your code reads the notebook's variables: d_k (6)" in report.detail


def test_other_attribute_names_are_accepted_in_the_core():
    edits = [("self.encoding", "self.pe"), ('"encoding"', '"pe"')]
    edits += [(", start: int = 0)", ")"), ("check_fits(x, self.pe, start)", "start = 0")]
    report = examine("PositionalEncoding", altered("PositionalEncoding", *edits))
    assert report.passed and "has no argument `start` yet" in report.hint


def test_missing_names_and_unknown_names_are_shown_together():
    class Capital(nn.Module):
        def __init__(self, d_model, *_, **__):
            super().__init__()
            self.W_qkv = nn.Linear(d_model, 3 * d_model, bias=False)

    detail = examine("MultiHeadAttention", Capital).detail
    assert "missing: w_" in detail and "not expected: W_qkv.weight" in detail


def test_two_mistakes_are_both_mentioned():
    def triangle_of_words(length, device=None):  # transposed, and wrong for a single word
        return torch.ones(length, length).bool().triu() & (length > 1)

    report = examine("causal_mask", triangle_of_words)
    assert report.mistake == "causal_transposed"
    assert report.detail.startswith("It first shows up with three positions: every position")
    assert report.second.startswith("With length 1: ") and report.second not in report.hint
    assert f"There is also a second problem. {report.second}" in repr(report)
    assert f"problem</summary>{report.second}</details>" in report._repr_html_()


def test_a_check_prints_an_answers_output_once_and_hides_its_warnings(capsys):
    noise = "    print('here')\n    warnings.warn('from inside')\n    d_k ="
    chatty = altered(ATTENTION, ("    d_k =", noise), warnings=warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert examine(ATTENTION, chatty).passed
    assert capsys.readouterr().out == "here\n"


# --- correct names


def test_nan_is_a_separate_symptom_from_zero():
    infinite = "scores = scores + mask * -torch.inf"
    masked = 'scores = scores.masked_fill(~mask, float("-inf"))'
    added = altered(ATTENTION, (masked, infinite))
    report = examine(ATTENTION, added)
    assert not report.passed and report.mistake is None
    assert (report.kind, "some entries of output are nan" in report.hint) == ("finite", True)


def lone(*edits):
    """Return only the output, with further mistakes if there are edits."""
    both = altered(ATTENTION, *edits)
    return lambda query, key, value, mask=None: both(query, key, value, mask)[0]


def test_a_tensor_instead_of_a_pair_is_compared_as_the_output_and_both_mistakes_are_named():
    report = examine(ATTENTION, lone())
    assert report.mistake is None and "caller expects a pair" in report.hint
    report = examine(ATTENTION, lone(("math.sqrt(d_k)", "1.0")))
    assert report.mistake == "scale_missing" and "caller expects a pair" in report.second
    report = examine(ATTENTION, lone(("math.sqrt(d_k)", "d_k ** 0.4")))
    assert report.mistake is None and "equation (1) is" in report.hint
    assert "caller expects a pair" in report.second
    one, other = (m for m in known_mistakes("MultiHeadAttention") if m.name in LONE_AND_SCALED)
    both = replace(other, edits=one.edits + other.edits).implementation
    report = examine("MultiHeadAttention", both)
    assert report.mistake == "scale_missing" and "caller expects a pair" in report.second


LONE_AND_SCALED = ("scale_missing", "only_the_output")


def test_two_known_mistakes_at_once_are_both_named():
    name = "sinusoidal_encoding"
    bank = {mistake.name: mistake for mistake in known_mistakes(name)}
    first, second = bank["cosine_first"], bank["positions_from_one"]
    both = replace(first, edits=first.edits + second.edits).implementation
    report = examine(name, both)
    assert set(report.mistake.split(" + ")) == {first.name, second.name}
    assert first.sentence in report.hint and second.sentence in report.hint


def test_an_option_that_works_in_some_trials_is_not_called_unused():
    called = "check_widths(self.w_q.in_features, query, key, value)"
    blind = f"{called}\n        mask = mask if mask is not None and mask.dim() == 4 else None"
    report = examine("MultiHeadAttention", altered("MultiHeadAttention", (called, blind)))
    assert not report.passed and report.mistake is None
    unused = altered("MultiHeadAttention", (called, f"{called}\n        mask = None"))
    assert examine("MultiHeadAttention", unused).mistake == "mask_ignored"
    extras = 'scores = scores.masked_fill(~mask, float("-inf"))'
    report = examine(ATTENTION, altered(ATTENTION, ("math.sqrt(d_k)", "1.0"), (extras, "pass")))
    assert report.mistake == "scale_missing" and report.second
