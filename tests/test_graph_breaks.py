"""torch.compile sees each model as one graph: nothing in it sends the compiler back to Python."""

import pytest
import torch
from random_inputs import seeded
from torch._dynamo.testing import CompileCounter

from course_lib.attention import scaled_dot_product_attention
from course_lib.gpt import GPT, GPTConfig
from course_lib.masks import causal_mask
from course_lib.transformer import Transformer, TransformerConfig

V, MAX_LEN = 23, 16


def translator(norm_first=False):
    """Build a small Transformer that drops a tenth."""
    config = TransformerConfig(
        src_vocab_size=V, tgt_vocab_size=V, d_model=12, num_heads=3, num_encoder_layers=1,
        num_decoder_layers=1, d_ff=17, dropout=0.1, max_len=MAX_LEN, norm_first=norm_first,
    )  # fmt: skip
    return Transformer(config)


def writer():
    """Build a small GPT that drops a tenth."""
    sizes = dict(num_layers=1, num_heads=2, d_model=12, dropout=0.1)
    return GPT(GPTConfig(vocab_size=V, max_len=MAX_LEN, **sizes))


def pairs(length=6):
    """Draw sources and targets, with padding on both sides."""
    src, tgt = torch.randint(3, V, (4, length)), torch.randint(3, V, (4, length + 1))
    src[1, 3:], tgt[2, 2:] = 0, 0
    return src, tgt


def text(length=6):
    """Draw texts, and what follows each token."""
    return tuple(torch.randint(V, (3, length)) for _ in range(2))


def by_hand():
    """Return chapter 01's attention and what it reads, with a mask and with dropout."""
    q, k, v = torch.randn(3, 2, 3, 5, 4)
    return scaled_dot_product_attention, (q, k, v, causal_mask(5), 0.1)


CASES = {
    "attention by hand": by_hand(),
    "Transformer, training": (translator(), pairs()),
    "Transformer, norm first, eval": (translator(norm_first=True).eval(), pairs()),
    "GPT, training": (writer(), text()),
    "GPT without targets, eval": (writer().eval(), text()[:1]),
}


@pytest.fixture(autouse=True)
def fresh():
    """Forget what was compiled before."""
    torch._dynamo.reset()
    with seeded():
        yield
    torch._dynamo.reset()


def graphs(act, inputs):
    """Compile without a C++ compiler; return how many graphs there were, and the answer."""
    counter = CompileCounter()
    with seeded():
        answer = torch.compile(act, backend=counter)(*inputs)
    return counter.frame_count, answer


def gradients(act, answer):
    """Return the gradient of every parameter; there is none of a function."""
    answer = next(x for x in ([answer] if torch.is_tensor(answer) else answer))
    parameters = list(act.parameters()) if isinstance(act, torch.nn.Module) else []
    return torch.autograd.grad(answer.square().mean(), parameters) if parameters else ()


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_one_graph_that_says_the_same_and_learns_the_same(name):
    act, inputs = CASES[name]
    count, answer = graphs(act, inputs)
    assert count == 1
    with seeded():
        expected = act(*inputs)
    torch.testing.assert_close(answer, expected)
    torch.testing.assert_close(gradients(act, answer), gradients(act, expected))


@pytest.mark.parametrize("build, draw", [(translator, pairs), (writer, text)])
def test_other_lengths_need_two_graphs_at_most(build, draw):
    counter = CompileCounter()
    compiled = torch.compile(build().eval(), backend=counter, dynamic=True)
    for length in (6, 7, 12, 3):
        compiled(*draw(length))
    assert counter.frame_count <= 2
