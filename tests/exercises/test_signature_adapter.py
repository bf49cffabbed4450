"""Answers under other names: called as the course's own, and served to all later cells."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.add_norm import LayerNorm
from course_lib.attention import scaled_dot_product_attention
from course_lib.exercises.bank.add_norm import NormWithA2AndB2
from course_lib.exercises.bank.attention import textbook
from course_lib.exercises.bank.kv_cache import ConcatenatingCache
from course_lib.exercises.bank.multi_head import Annotated
from course_lib.exercises.check import examine, order_of
from course_lib.exercises.signature_adapter import MissingOption, adapt, serve
from course_lib.gpt import GPT, GPTConfig
from course_lib.kv_cache import AttentionCache
from course_lib.multi_head import MultiHeadAttention

X = torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(0))


def test_parameters_of_other_names_are_found_by_the_courses_and_saved_once():
    norm = adapt(NormWithA2AndB2, LayerNorm)(d_model=8, eps=0.5)
    assert norm.eps == 0.5 and norm.weight is norm.a_2 and norm.bias is norm.b_2
    assert list(norm.state_dict()) == ["a_2", "b_2"]
    attention = adapt(Annotated, MultiHeadAttention)(8, 2)
    assert attention.d_k == 4 and attention.w_o is attention.linears[3]


def test_the_order_and_the_defaults_of_an_answer_do_not_matter():
    torch.manual_seed(0)
    attention = adapt(Annotated, MultiHeadAttention)(8, 2)
    assert (attention.h, attention.dropout.p) == (2, 0.0)
    assert_close(attention(X, X, X)[0], attention.eval()(X, X, X)[0])
    with pytest.raises(MissingOption, match="need_weights=False"):
        attention(X, X, X, need_weights=True)


def test_a_served_answer_runs_itself_or_says_that_the_courses_runs(capsys):
    served = serve(Annotated, MultiHeadAttention)
    mine = served(8, 2).eval()
    output, _ = mine(X, X, X)
    assert isinstance(mine, Annotated) and capsys.readouterr().out == ""
    assert type(mine).__module__ == Annotated.__module__, "not the course's"
    again, weights = mine(X, X, X, need_weights=True)
    assert_close(again, output)
    assert weights.shape == (2, 2, 3, 3) and "need_weights" in capsys.readouterr().out
    again.sum().backward()
    assert mine.linears[0].weight.grad is not None, "the course's code, the learner's weights"
    assert type(served(8, 3, d_k=2, d_v=2)) is MultiHeadAttention
    assert (
        "With d_k, d_v the course's own MultiHeadAttention runs. Yours: Your"
        in capsys.readouterr().out
    )
    assert examine("MultiHeadAttention", served.served).passed


def test_a_served_function_drops_where_its_own_cannot(capsys):
    attend = serve(textbook, scaled_dot_product_attention)
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    assert_close(attend(X, X, X, mask), scaled_dot_product_attention(X, X, X, mask))
    torch.manual_seed(0)
    dropped = attend(X, X, X, mask, 0.5)
    torch.manual_seed(0)
    assert_close(dropped, scaled_dot_product_attention(X, X, X, mask, 0.5))
    assert capsys.readouterr().out.count("dropout_p") == 1


class Ignores(Annotated):
    """Take ``d_k``, and never use it; read a batch, or fail."""

    def __init__(self, d_model, num_heads, d_k=None, d_v=None, dropout=0.0):
        super().__init__(num_heads, d_model, dropout)

    def forward(self, query, key, value, mask=None):
        _, _, _ = query.shape
        return super().forward(query, key, value, mask)


def test_an_option_that_is_taken_and_not_used_runs_the_courses(capsys):
    report = examine("MultiHeadAttention", Ignores)
    assert report.passed and "d_k, d_v" in report.missed
    served = serve(Ignores, MultiHeadAttention, ["d_k, d_v"])
    assert isinstance(served(8, 2), Ignores) and capsys.readouterr().out == ""
    assert served(8, 2, d_k=3).w_q.out_features == 6
    assert "With d_k the course's own" in capsys.readouterr().out


def test_where_an_answer_fails_beyond_its_core_the_courses_runs(capsys):
    mine = serve(Ignores, MultiHeadAttention)(8, 2)
    assert_close(mine(X[0], X[0], X[0])[0], mine(X, X, X)[0][0])
    assert "Here the course's own MultiHeadAttention runs. Yours: not" in capsys.readouterr().out
    blocked = torch.zeros(3, 3, dtype=torch.bool)
    attend = serve(textbook, scaled_dot_product_attention, ["fully masked row"])
    assert not attend(X, X, X, blocked)[0].any()
    assert "With row the course's own scaled" in capsys.readouterr().out
    root = serve(lambda x: x.sqrt(), torch.abs)
    assert root(-X.abs()).equal(X.abs()) and "Yours: nan" in capsys.readouterr().out
    with pytest.raises(ValueError, match="mask"):
        attend(X, X, X, mask=torch.zeros(3, 7, dtype=torch.bool))


def test_weights_are_loaded_under_the_courses_names_and_a_word_is_said_once(capsys):
    served = serve(Annotated, MultiHeadAttention)
    course, holder = MultiHeadAttention(8, 2), nn.ModuleList([served(8, 2).eval()])
    course.eval()
    holder.load_state_dict(nn.ModuleList([course]).state_dict())
    assert_close(holder[0](X, X, X)[0], course(X, X, X)[0])
    for _ in range(3):
        holder[0](X, X, X, need_weights=True)
    assert capsys.readouterr().out.count("With need_weights") == 1


def test_a_class_that_is_not_a_module_is_served_as_it_is():
    assert serve(ConcatenatingCache, AttentionCache, ["room"]) is ConcatenatingCache


class ByLetters(nn.Module):
    """Name four layers of one shape so that nothing says which is which, the output first."""

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


class ByNumber(nn.Module):
    """Gate with the second layer, as in no order that names could tell."""

    def __init__(self, d_model, hidden_dim):
        super().__init__()
        self.fc1 = nn.Linear(d_model, hidden_dim, bias=False)
        self.fc2 = nn.Linear(d_model, hidden_dim, bias=False)
        self.fc3 = nn.Linear(hidden_dim, d_model, bias=False)

    def forward(self, x):
        return self.fc3(nn.functional.silu(self.fc2(x)) * self.fc1(x))


class ScaledTwice(ByLetters):
    """Divide by the root a second time."""

    def forward(self, q, k, v, mask=None):
        return super().forward(q / (q.size(-1) // self.h) ** 0.5, k, v, mask)


def test_layers_of_one_shape_are_matched_in_the_order_that_is_right(capsys):
    assert examine("MultiHeadAttention", ByLetters).passed
    assert examine("SwiGLU", ByNumber).passed
    assert not examine("MultiHeadAttention", ScaledTwice).passed
    served = serve(ByLetters, MultiHeadAttention, order=order_of("MultiHeadAttention", ByLetters))
    course, holder = MultiHeadAttention(8, 2), nn.ModuleList([served(8, 2)])
    assert holder[0].w_q is holder[0].d and capsys.readouterr().out == ""
    holder.load_state_dict(nn.ModuleList([course]).state_dict())
    assert_close(holder[0](X, X, X)[0], course(X, X, X)[0])


class OldGPT(nn.Module):
    """Read a configuration under other names, and as a dictionary."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.shape = config["n_head"], config.block_size


def test_a_configuration_is_read_under_other_names_or_taken_apart():
    config = GPTConfig(vocab_size=5, max_len=7, num_layers=1, num_heads=2, d_model=6)
    model = adapt(OldGPT, GPT)(config)
    assert model.shape == (2, 7) and model.config == config
    assert replace(model.config, d_model=8).n_embd == 8
    with pytest.raises(AttributeError, match="no field n_layre"):
        _ = model.config.n_layre

    class Apart(nn.Module):
        def __init__(self, n_layer, n_head, n_embd, vocab_size, block_size):
            super().__init__()
            self.numbers = n_layer, n_head, n_embd, vocab_size, block_size

    assert adapt(Apart, GPT)(config).numbers == (1, 2, 6, 5, 7)
