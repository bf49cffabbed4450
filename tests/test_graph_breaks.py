"""torch.compile compiles each model to one graph."""

from functools import partial

import pytest
import torch
from dimensions import D_MODEL, PAD, SRC_VOCAB, TGT_VOCAB, B, H
from random_inputs import make_generator, random_ids, seeded, tiny_transformer
from torch._dynamo.testing import CompileCounter

from course_lib.attention import scaled_dot_product_attention
from course_lib.gpt import GPT, GPTConfig
from course_lib.masks import causal_mask

SIZES = dict(max_len=16, dropout=0.1)
translator = partial(tiny_transformer, **SIZES)


def language_model():
    return GPT(GPTConfig(vocab_size=TGT_VOCAB, num_layers=1, num_heads=H, d_model=D_MODEL, **SIZES))


def pairs(length=6):
    """Draw sources and targets, with padding on both sides."""
    src = random_ids(make_generator(), SRC_VOCAB, B, length)
    tgt = random_ids(make_generator(), TGT_VOCAB, B, length + 1)
    src[1, 2:] = tgt[0, 2:] = PAD
    return src, tgt


def text(length=6):
    """Draw texts, and the next token after each token."""
    return random_ids(make_generator(), TGT_VOCAB, 2, B, length).unbind()


CASES = {
    "attention by hand": (
        scaled_dot_product_attention, (*torch.randn(3, 2, 3, 5, 4), causal_mask(5))
    ),
    "Transformer, training": (translator(), pairs()),
    "Transformer, norm first, eval": (translator(norm_first=True).eval(), pairs()),
    "GPT, training": (language_model(), text()),
    "GPT without targets, eval": (language_model().eval(), text()[:1]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def fresh():
    """Reset the compiler, so that no earlier graph is left."""
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
def test_other_lengths_need_at_most_two_graphs(build, draw):
    counter = CompileCounter()
    compiled = torch.compile(build().eval(), backend=counter, dynamic=True)
    for length in (6, 7, 12, 3):
        compiled(*draw(length))
    assert counter.frame_count <= 2
