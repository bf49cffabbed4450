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


def language_model():
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


CASES = {
    "attention by hand": (
        scaled_dot_product_attention, (*torch.randn(3, 2, 3, 5, 4), causal_mask(5), 0.1)
    ),
    "Transformer, training": (translator(), pairs()),
    "Transformer, norm first, eval": (translator(norm_first=True).eval(), pairs()),
    "GPT, training": (language_model(), text()),
    "GPT without targets, eval": (language_model().eval(), text()[:1]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    """Forget what was compiled before."""
    torch._dynamo.reset()
    with seeded():
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_one_graph_that_gives_the_same_answer(name):
    model, inputs = CASES[name]
    with seeded():
        answer = torch.compile(model, backend="eager", fullgraph=True)(*inputs)
    with seeded():
        torch.testing.assert_close(answer, model(*inputs))


@pytest.mark.parametrize("build, draw", [(translator, pairs), (language_model, text)])
def test_other_lengths_need_two_graphs_at_most(build, draw):
    counter = CompileCounter()
    compiled = torch.compile(build().eval(), backend=counter, dynamic=True)
    for length in (6, 7, 12, 3):
        compiled(*draw(length))
    assert counter.frame_count <= 2
