"""What a check says besides the names of known mistakes, so that the wrong line is found."""

import inspect
import math
import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm
from course_lib.exercises.check import examine, exercise
from course_lib.exercises.mistake_catalogue import define
from course_lib.feed_forward import FeedForward
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import sinusoidal_encoding

ATTENTION = "scaled_dot_product_attention"
d_k = 6  # as a learner's notebook holds it


def attend(query, key, value, mask=None, dropout_p=0.0, width=None, default=0.0):
    """Attend rightly, unless a width or another default of dropout is given."""
    scores = query @ key.mT / math.sqrt(width or query.size(-1))
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(-1).nan_to_num(0.0)
    return F.dropout(weights, dropout_p or default) @ value, weights


def test_what_is_read_from_the_notebook_is_named():
    def reads_d_k(query, key, value, mask=None, dropout_p=0.0):
        return attend(query, key, value, mask, dropout_p, width=d_k)

    report = examine(ATTENTION, reads_d_k)
    assert "read from the notebook, not from the arguments: d_k (6)" in report.detail


def test_results_in_the_wrong_order_are_named():
    report = examine(ATTENTION, lambda *given: attend(*given)[::-1])
    assert report.kind == "shape"
    assert "output and weights have changed places" in report.hint


def test_dropout_that_nobody_asked_for_is_named():
    def drops(query, key, value, mask=None, dropout_p=0.0):
        return attend(query, key, value, mask, dropout_p, default=0.1)

    assert "Nothing is dropped unless asked for" in examine(ATTENTION, drops).hint


def test_another_kind_of_numbers_is_noticed():
    report = examine(ATTENTION, lambda *given: [x.float() for x in attend(*given)])
    assert not report.passed and "float64" in report.detail


class EncoderLayer(nn.Module):
    """Be a right encoder layer but for the options and for ``forward``."""

    def __init__(self, d_model, num_heads, d_ff, *_, **__):
        super().__init__()
        self.self_attn, self.feed_forward = (
            MultiHeadAttention(d_model, num_heads),
            FeedForward(d_model, d_ff),
        )
        self.add_norm1, self.add_norm2 = AddNorm(d_model), AddNorm(d_model)


class KeepsThePair(EncoderLayer):
    def forward(self, x, mask=None):
        x = self.add_norm1(x, lambda x: self.self_attn(x, x, x, mask))
        return self.add_norm2(x, self.feed_forward)


class GivesAValue(EncoderLayer):
    def forward(self, x, mask=None):
        x = self.add_norm1(x, self.self_attn(x, x, x, mask)[0])
        return self.add_norm2(x, self.feed_forward)


class ForgetsSuper(nn.Module):
    def __init__(self, *_, **__):
        self.self_attn = nn.Linear(2, 2)


class WrapsTorchs(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *_, **__):
        super().__init__()
        self.inner = nn.TransformerEncoderLayer(d_model, num_heads, d_ff, batch_first=True)

    def forward(self, x, mask=None):
        return self.inner(x)


@pytest.mark.parametrize(
    "candidate, words",
    [
        (KeepsThePair, "A pair came where one tensor is wanted"),
        (GivesAValue, "A function is wanted there"),
        (ForgetsSuper, "Call super().__init__() first"),
        (WrapsTorchs, "torch's own attention layer"),
    ],
)
def test_what_torch_says_is_told_in_other_words(candidate, words):
    report = examine("EncoderLayer", candidate)
    assert not report.passed and words in report.hint


def test_options_that_are_lost_get_no_name_that_belongs_to_another_trial():
    class LosesOptions(EncoderLayer):
        def forward(self, x, mask=None):
            x = self.add_norm1(x, lambda x: self.self_attn(x, x, x, mask)[0])
            return self.add_norm2(x, self.feed_forward)

    report = examine("EncoderLayer", LosesOptions)
    assert "norm_first=True" in f"{report.hint} {report.detail}"
    assert report.passed and report.mistake in (None, "norm_first_ignored")


def test_a_name_of_ones_own_is_welcome_in_the_core():
    class PositionalEncoding(nn.Module):
        def __init__(self, d_model, max_len, dropout=0.0):
            super().__init__()
            table = sinusoidal_encoding(max_len, d_model)
            self.register_buffer("pe", table, persistent=False)
            self.dropout = nn.Dropout(dropout)

        def forward(self, x):
            return self.dropout(x + self.pe[: x.size(-2)])

    report = examine("PositionalEncoding", PositionalEncoding)
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
    text = inspect.getsource(exercise("Transformer").given)
    old, new = "self.src_embedding(src) * math.sqrt(self.config.d_model)", "self.src_embedding(src)"
    assert old in text
    wrong = define(text.replace(old, new), "transformer", "Transformer", "<half a Transformer>")

    def attention_maps(self, src, tgt):
        raise NotImplementedError

    wrong.attention_maps = attention_maps
    assert examine("Transformer", wrong).mistake == "scale_missing_source"


def test_a_print_is_read_once_and_a_warning_not_at_all(capsys):
    def chatty(query, key, value, mask=None, dropout_p=0.0):
        print("here")
        warnings.warn("from inside", stacklevel=1)
        return attend(query, key, value, mask, dropout_p)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert examine(ATTENTION, chatty).passed
    assert capsys.readouterr().out == "here\n"
