"""What a check says besides the names of known mistakes, so that the wrong line is found."""

import inspect
import warnings

import pytest
import torch
from torch import nn

from course_lib.exercises import exercises
from course_lib.exercises.check import examine
from course_lib.exercises.exercise_bank import exercise
from course_lib.exercises.mistake_catalogue import define

ATTENTION = "scaled_dot_product_attention"


def altered(name, *edits, **beside):
    """Define what the course defines, but for some words, among other names."""
    task = exercise(name)
    text = inspect.getsource(task.given)
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return define(text, task.module, name, f"<{name}, altered>", beside)


# --- mistakes that stand in no bank


@pytest.mark.parametrize("name", exercises())
def test_a_mistake_of_no_bank_is_found_and_described(name):
    old, new = exercise(name).unnamed
    report = examine(name, altered(name, (old, new)))
    assert not report.passed and report.attempted
    assert report.mistake is None, f"called {report.mistake}"
    assert len(report.hint.split()) > 4 and (report.detail or report.kind == "unchanged")


@pytest.mark.parametrize(
    "name, old, new, words",
    [
        (
            ATTENTION,
            "F.dropout(weights, dropout_p) @ value, weights",
            "weights, F.dropout(weights, dropout_p) @ value",
            "output and weights have changed places",
        ),
        (
            ATTENTION,
            "dropout_p)",
            "dropout_p or 0.1)",
            "Nothing may be dropped unless dropout_p is passed",
        ),
        (
            ATTENTION,
            "weights = scores",
            "value = value.float()\n    weights = scores.float()",
            "float64",
        ),
        (
            "EncoderLayer",
            "(y, y, y, mask)[0]",
            "(y, y, y, mask)",
            "A pair came where one tensor is wanted",
        ),
        (
            "EncoderLayer",
            "lambda y: self.self_attn(y, y, y, mask)[0]",
            "self.self_attn(x, x, x, mask)[0]",
            "A function is wanted there",
        ),
        ("EncoderLayer", "super().__init__()", "pass", "Call super().__init__() first"),
    ],
)
def test_what_is_wrong_is_told_in_plain_words(name, old, new, words):
    report = examine(name, altered(name, (old, new)))
    assert not report.passed and words in f"{report.hint} {report.detail}"


def test_an_exception_is_shown_with_its_line_and_the_shapes_there():
    report = examine(ATTENTION, altered(ATTENTION, ("key.transpose(-2, -1)", "key")))
    assert report.kind == "runs" and "RuntimeError" in report.hint
    assert "scores = query @ key" in report.detail
    assert "query (2, 3, 4, 6)" in report.detail and "key (2, 3, 5, 6)" in report.detail

    def squared(x):
        return x @ x

    report = examine(ATTENTION, lambda query, *_, **__: squared(query))
    assert "return x @ x" in report.detail, "the deepest of the learner's lines"


def test_what_is_read_from_the_notebook_is_named():
    report = examine(ATTENTION, altered(ATTENTION, ("    d_k = query.size(-1)\n", ""), d_k=6))
    assert "read from the notebook, not from the arguments: d_k (6)" in report.detail


def test_a_name_of_ones_own_is_welcome_in_the_core():
    edits = [("self.encoding", "self.pe"), ('"encoding"', '"pe"')]
    edits += [(", start: int = 0)", ")"), ("check_fits(x, self.pe, start)", "start = 0")]
    report = examine("PositionalEncoding", altered("PositionalEncoding", *edits))
    assert report.passed and "There is no argument `start` yet" in report.hint


def test_names_that_are_missing_and_names_that_are_strange_stand_together():
    class Capital(nn.Module):
        def __init__(self, d_model, *_, **__):
            super().__init__()
            self.W_qkv = nn.Linear(d_model, 3 * d_model, bias=False)

    detail = examine("MultiHeadAttention", Capital).detail
    assert "missing: w_" in detail and "not expected: W_qkv.weight" in detail


def test_two_mistakes_are_both_spoken_of():
    def triangle_of_words(length, device=None):  # transposed, and blind for a single word
        return torch.ones(length, length).bool().triu() & (length > 1)

    report = examine("causal_mask", triangle_of_words)
    assert report.mistake == "causal_transposed"
    assert "Beside it, something else is not right" in report.hint
    assert report.detail.startswith("What shows first")


def test_what_is_not_written_yet_hides_nothing_that_is_wrong():
    scale = "self.src_embedding(src) * math.sqrt(self.config.d_model)"
    wrong = altered("Transformer", (scale, "self.src_embedding(src)"))

    def forward(self, src, tgt):
        raise NotImplementedError

    wrong.forward = forward
    assert examine("Transformer", wrong).mistake == "scale_missing_source"


def test_a_print_is_read_once_and_a_warning_not_at_all(capsys):
    noise = "    print('here')\n    warnings.warn('from inside')\n    d_k ="
    chatty = altered(ATTENTION, ("    d_k =", noise), warnings=warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert examine(ATTENTION, chatty).passed
    assert capsys.readouterr().out == "here\n"
