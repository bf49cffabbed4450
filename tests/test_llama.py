"""A model in Llama's layout says what the library ``transformers`` says, read from real files."""

import pytest
import tokenizers
import torch
from hf_fixtures import MAX_LEN, VOCAB, published
from parity import assert_equal
from random_inputs import make_generator
from torch import nn

from course_lib import cli
from course_lib.gpt import sample
from course_lib.interop import llama
from course_lib.modern_decoder import ModernEngine

BASE = 500.0
ROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=BASE))


class DoubleNorm(nn.Module):
    """The library's norm, which computes in float32, written in float64."""

    def __init__(self, theirs):
        super().__init__()
        self.weight, self.eps = theirs.weight, theirs.variance_epsilon

    def forward(self, x):
        return self.weight * x / (x.pow(2).mean(-1, keepdim=True) + self.eps).sqrt()


class DoubleRotary(nn.Module):
    """The library's angles, which are float32, in float64."""

    def __init__(self, d_k):
        super().__init__()
        self.d_k = d_k

    def forward(self, x, position_ids):
        even = torch.arange(0, self.d_k, 2, dtype=torch.float64)
        angles = position_ids.double()[..., None] / BASE ** (even / self.d_k)  # (B, T, d_k / 2)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


def in_float64(theirs):
    """Replace what the library computes in float32 on purpose."""
    theirs.model.rotary_emb = DoubleRotary(theirs.config.head_dim)
    theirs.model.norm = DoubleNorm(theirs.model.norm)
    for layer in theirs.model.layers:
        layer.input_layernorm = DoubleNorm(layer.input_layernorm)
        layer.post_attention_layernorm = DoubleNorm(layer.post_attention_layernorm)
    return theirs


def read_double(folder):
    """Load ours in float64, angles and all."""
    model = llama.from_pretrained(folder)[0].double()
    c = model.config
    d_k = c.d_model // c.num_heads
    even = torch.arange(0, d_k, 2, dtype=torch.float64)
    angles = torch.arange(c.max_len, dtype=torch.float64)[:, None] / c.rope_base ** (even / d_k)
    torch.testing.assert_close(model.angles, angles, rtol=1e-6, atol=1e-6)
    model.angles = angles
    return model


def some_ids(length=9):
    """Draw three texts."""
    return torch.randint(VOCAB, (3, length), generator=make_generator())


@pytest.mark.parametrize("heads", [(6, 2), (6, 6), (3, 1)])
@pytest.mark.parametrize("tied", [True, False])
def test_the_logits_are_the_library_s_with_and_without_an_engine(tmp_path, heads, tied):
    sizes = dict(num_attention_heads=heads[0], num_key_value_heads=heads[1])
    theirs = published("llama", tmp_path, **sizes, **ROPE, tie_word_embeddings=tied)
    ours, ids = read_double(tmp_path), some_ids()
    expected = in_float64(theirs)(ids).logits
    assert_equal(ours(ids)[0], expected)
    engine = ModernEngine(ours, MAX_LEN)
    parts = [engine.step(new, all_positions=True) for new in ids.split((4, 1, 2, 2), dim=1)]
    assert_equal(torch.cat(parts, dim=1), expected.detach())
    assert engine.caches[0].keys.shape == (3, heads[1], MAX_LEN, 24 // heads[0])


def test_as_the_library_is_the_logits_are_close(tmp_path):
    theirs = published("llama", tmp_path, **ROPE, initializer_range=0.1)
    ids = some_ids()
    found = llama.from_pretrained(tmp_path)[0](ids)[0]
    torch.testing.assert_close(found, theirs.float()(ids).logits, rtol=1e-5, atol=1e-5)


def test_a_folder_with_a_tokenizer_goes_on_with_a_text(tmp_path, capsys):
    published("llama", tmp_path, max_position_embeddings=30)
    letters = tokenizers.Tokenizer(
        tokenizers.models.BPE({c: i for i, c in enumerate("abcdefghijk")}, [])
    )
    letters.save(str(tmp_path / "tokenizer.json"))
    model, tokenizer = llama.from_pretrained(tmp_path)
    written = sample(model, torch.tensor([[1, 0, 3]]), 9, top_k=1)[0].tolist()
    words = ["sample", "--weights", str(tmp_path), "--tokens", "9", "--top-k", "1"]
    assert cli.main([*words, "--prompt", "bad"]) == 0
    assert capsys.readouterr().out == tokenizer.decode(written) + "\n"
    assert cli.main(words) == 2 and "prompt" in capsys.readouterr().err
