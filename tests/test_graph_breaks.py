"""torch.compile compiles each model to one graph."""

import pytest
import torch
from dimensions import D_MODEL, PAD, SRC_VOCAB, TGT_VOCAB, B, H
from random_inputs import make_generator, random_ids, seeded, tiny_transformer

from course_lib.gpt import GPT, GPTConfig

SIZES = dict(max_len=16, dropout=0.1)


def language_model():
    return GPT(GPTConfig(vocab_size=TGT_VOCAB, num_layers=1, num_heads=H, d_model=D_MODEL, **SIZES))


def pairs():
    """Draw sources and targets, with padding on both sides."""
    src = random_ids(make_generator(), SRC_VOCAB, B, 6)
    tgt = random_ids(make_generator(), TGT_VOCAB, B, 7)
    src[1, 2:] = tgt[0, 2:] = PAD
    return src, tgt


def text():
    """Draw texts, and the next token after each token."""
    return random_ids(make_generator(), TGT_VOCAB, 2, B, 6).unbind()


CASES = {
    "Transformer, training": (tiny_transformer(**SIZES), pairs()),
    "GPT, training": (language_model(), text()),
}


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
