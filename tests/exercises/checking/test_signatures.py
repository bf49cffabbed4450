"""Answers with other names and signatures are called like the course's own."""

from dataclasses import replace

import pytest
import torch
from textbooks.annotated import MultiHeadedAttention, NormWithA2AndB2
from torch import nn
from torch.testing import assert_close

from course_lib.add_norm import LayerNorm
from course_lib.exercises.checking.check import examine
from course_lib.exercises.checking.signatures import MissingOption, adapt, other_defaults
from course_lib.gpt import GPT, GPTConfig
from course_lib.multi_head import MultiHeadAttention

X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))


def test_parameters_with_other_names_are_found_under_the_courses_names_and_saved_once():
    norm = adapt(NormWithA2AndB2, LayerNorm)(d_model=8, eps=0.5)
    assert norm.eps == 0.5 and norm.weight is norm.a_2 and norm.bias is norm.b_2
    assert list(norm.state_dict()) == ["a_2", "b_2"]
    attention = adapt(MultiHeadedAttention, MultiHeadAttention)(8, 2)
    assert attention.d_k == 4 and attention.w_o is attention.linears[3]


def test_the_order_and_the_defaults_of_an_answer_do_not_matter():
    torch.manual_seed(0)
    attention = adapt(MultiHeadedAttention, MultiHeadAttention)(8, 2)
    assert (attention.h, attention.dropout.p) == (2, 0.0)
    assert not [*other_defaults(MultiHeadedAttention, MultiHeadAttention)]
    assert_close(attention(X, X, X)[0], attention.eval()(X, X, X)[0])
    with pytest.raises(MissingOption, match="need_weights=False"):
        attention(X, X, X, need_weights=True)


class ByLetters(nn.Module):
    """Four layers with the same shape and meaningless names, of which the output comes first."""

    def __init__(self, model_dimension, number_of_heads, dropout_probability=0.1):
        super().__init__()
        self.h = number_of_heads
        self.a, self.b, self.c, self.d = (
            nn.Linear(model_dimension, model_dimension) for _ in range(4)
        )

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (self.h, -1)).transpose(1, 2)
            for layer, x in ((self.d, q), (self.c, k), (self.b, v))
        )
        scores = q @ k.mT / q.size(-1) ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e9)
        return self.a((scores.softmax(-1) @ v).transpose(1, 2).flatten(2)), None


class ScaledTwice(ByLetters):
    """A layer that divides by the root a second time."""

    def forward(self, q, k, v, mask=None):
        return super().forward(q / (q.size(-1) // self.h) ** 0.5, k, v, mask)


def test_layers_with_the_same_shape_are_matched_in_the_right_order():
    assert examine("MultiHeadAttention", ByLetters).passed
    assert not examine("MultiHeadAttention", ScaledTwice).passed


class OldGPT(nn.Module):
    """A GPT that reads its configuration under other names and as a dictionary."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.shape = config["n_head"], config.block_size


def test_a_configuration_is_read_under_other_names_or_passed_field_by_field():
    config = GPTConfig(vocab_size=5, max_len=7, num_layers=1, num_heads=2, d_model=6)
    model = adapt(OldGPT, GPT)(config)
    assert model.shape == (2, 7) and model.config == config
    assert replace(model.config, d_model=8).n_embd == 8
    assert (model.config.get("n_layer"), model.config.get("absent", 3)) == (1, 3)
    with pytest.raises(AttributeError, match="no field n_layre"):
        _ = model.config.n_layre

    class Apart(nn.Module):
        def __init__(self, n_layer, n_head, n_embd, vocab_size, block_size):
            super().__init__()
            self.numbers = n_layer, n_head, n_embd, vocab_size, block_size

    assert adapt(Apart, GPT)(config).numbers == (1, 2, 6, 5, 7)
