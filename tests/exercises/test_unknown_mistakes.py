"""Mistakes that stand in no bank: found all the same, with words for the first thing wrong."""

import inspect

import pytest

from course_lib.exercises import exercises
from course_lib.exercises.check import examine, exercise
from course_lib.exercises.mistake_catalogue import define

UNKNOWN = {  # exercise: what stands in the right source, what stands there instead, the stage
    "scaled_dot_product_attention": ("math.sqrt(d_k)", "d_k ** 0.4", "equality"),
    "split_heads": (".transpose(-3, -2)", ".transpose(-3, -2).flip(-2)", "equality"),
    "MultiHeadAttention": (
        "self.w_o(joined), weights",
        "self.w_o(joined.tanh()), weights",
        "equality",
    ),
    "sinusoidal_encoding": ("10000 **", "9000 **", "equality"),
    "PositionalEncoding": ("x + self.encoding", "x + 0.5 * self.encoding", "equality"),
    "LayerNorm": ("self.weight * centred", "self.weight.abs() * centred", "equality"),
    "AddNorm": ("total = x + ", "total = x * ", None),
    "FeedForward": (
        "self.linear2(self.dropout(features))",
        "self.linear2(features.sin())",
        "equality",
    ),
    "padding_mask": ("(ids != pad_id)", "(ids != pad_id).roll(1, 1)", None),
    "causal_mask": (".tril()", ".tril().fliplr()", None),
    "EncoderLayer": ("return self.add_norm2(x,", "return 2 * self.add_norm2(x,", "equality"),
    "Encoder": ("x = layer(x, mask)", "x = layer(x, mask).relu()", "equality"),
    "DecoderLayer": ("return self.add_norm3(x,", "return 2 * self.add_norm3(x,", "equality"),
    "Transformer": ("math.sqrt(self.config.d_model)", "2.0", None),
    "label_smoothed_cross_entropy": ("smoothing * doubt)", "2 * smoothing * doubt)", None),
    "warmup_inverse_sqrt": ("step**-0.5", "step**-0.6", None),
    "training_step": ("optimizer.step()", "optimizer.step() or optimizer.step()", None),
    "sample_tokens": ("probs.cumsum(dim=-1)", "probs.sqrt().cumsum(dim=-1)", None),
    "greedy_decode": ("return tgt[:, 1:T]", "return tgt[:, 1:T].flip(1)", None),
    "token_accuracy": ("right.sum().item() /", "right.sum().item() ** 0.5 /", "equality"),
    "batch_by_tokens": ("sum(grown) > tokens", "sum(grown) > 0.8 * tokens", "property"),
    "random_windows": ("window[:, 1:]", "window[:, 1:].flip(1)", "property"),
    "DecoderOnly": ("return self.output(", "return 2 * self.output(", "equality"),
    "CausalSelfAttention": ("heads.transpose(1, 2)", "heads.flip(1).transpose(1, 2)", "equality"),
    "RMSNorm": (".rsqrt()", ".pow(-0.4)", "property"),
    "SwiGLU": ("F.silu(self.gate(x))", "F.silu(self.gate(x)).square()", "equality"),
    "attention_flops": ("return 2 * num_heads", "return 4 * num_heads", "equality"),
    "token_loss_scale": ("world_size * num_tokens / all_tokens", "1 + num_tokens", "equality"),
}


def test_the_table_covers_every_exercise():
    assert UNKNOWN.keys() == set(exercises())


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_mistake_of_no_bank_is_found_and_described(name):
    task, (old, new, stage) = exercise(name), UNKNOWN[name]
    source = inspect.getsource(task.given)
    assert old in source
    wrong = define(source.replace(old, new), task.module, name, f"<{name}, wrong>")
    report = examine(name, wrong)
    assert not report.passed and report.attempted
    assert report.mistake is None, f"called {report.mistake}"
    assert report.kind == stage or stage is None
    assert len(report.hint.split()) > 4 and (report.detail or report.kind == "unchanged")
