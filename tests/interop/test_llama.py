"""A model in Llama's layout, loaded from files, agrees with the ``transformers`` library."""

import pytest
import tokenizers
import torch
from hf_fixtures import MAX_LEN, VOCAB, edit_config, published
from parity import assert_equal
from random_inputs import make_generator
from torch import nn

from course_lib.cli import main as cli
from course_lib.gpt import sample
from course_lib.interop import llama
from course_lib.modern_decoder import ModernEngine

BASE = 500.0
ROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=BASE))


class DoubleNorm(nn.Module):
    """The library's norm in float64 (the original computes in float32)."""

    def __init__(self, theirs):
        super().__init__()
        self.weight, self.eps = theirs.weight, theirs.variance_epsilon

    def forward(self, x):
        return self.weight * x / (x.pow(2).mean(-1, keepdim=True) + self.eps).sqrt()


class DoubleRotary(nn.Module):
    """The library's angles in float64 (the original computes in float32)."""

    def __init__(self, rotary):
        super().__init__()
        self.speeds = rotary.inv_freq.double()

    def forward(self, x, position_ids):
        angles = position_ids.double()[..., None] * self.speeds  # (B, T, d_k / 2)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


def in_float64(theirs):
    """Replace the parts that the library deliberately computes in float32."""
    theirs.model.rotary_emb = DoubleRotary(theirs.model.rotary_emb)
    for parent in list(theirs.model.modules()):
        for name, child in parent.named_children():
            if hasattr(child, "variance_epsilon"):
                setattr(parent, name, DoubleNorm(child))
    return theirs


def read_double(folder, speeds):
    """Load our model in float64, with the library's angles, which must be close to ours."""
    model = llama.from_pretrained(folder)[0].double()
    angles = torch.arange(model.config.max_len, dtype=torch.float64)[:, None] * speeds
    torch.testing.assert_close(model.angles, angles, rtol=1e-6, atol=1e-6)
    model.angles = angles
    return model


def some_ids(length=9):
    """Draw three texts."""
    return torch.randint(VOCAB, (3, length), generator=make_generator())


def heads(num_heads, num_kv_heads, **changes):
    """Return numbers of heads, and other fields of a configuration."""
    return dict(num_attention_heads=num_heads, num_key_value_heads=num_kv_heads, **changes)


def rope(**fields):
    """Return the parameters of a rotary embedding."""
    return dict(rope_parameters=dict(rope_theta=BASE, **fields))


LLAMA3 = dict(factor=8.0, low_freq_factor=0.1, high_freq_factor=1.0)  # keeps 1 of 4 pairs


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("llama", heads(6, 2, **ROPE)),
        ("llama", heads(6, 2, head_dim=10, **ROPE)),
        ("llama", heads(6, 2, **rope(rope_type="linear", factor=3.0))),
        (
            "llama",
            heads(3, 3, **rope(rope_type="llama3", original_max_position_embeddings=8, **LLAMA3)),
        ),
        ("mistral", heads(6, 2, sliding_window=MAX_LEN, **ROPE)),
        ("mistral", heads(6, 3, sliding_window=None, head_dim=2, **ROPE)),
        ("qwen2", heads(3, 1, **ROPE)),
        ("qwen3", heads(6, 2, head_dim=10, **ROPE)),
    ],
    ids=str,
)
def test_the_logits_are_the_library_s_with_and_without_an_engine(tmp_path, kind, sizes):
    theirs = in_float64(published(kind, tmp_path, **sizes, tie_word_embeddings=kind == "llama"))
    ours, ids = read_double(tmp_path, theirs.model.rotary_emb.speeds), some_ids()
    expected = theirs(ids).logits
    assert_equal(ours(ids)[0], expected)
    for logits in (ours(ids)[0], expected):
        logits.square().mean().backward()
    assert_equal(ours.embedding.weight.grad, theirs.model.embed_tokens.weight.grad)
    engine = ModernEngine(ours, MAX_LEN)
    parts = [engine.step(new, all_positions=True) for new in ids.split((4, 1, 2, 2), dim=1)]
    assert_equal(torch.cat(parts, dim=1), expected.detach())
    assert engine.caches[0].keys.shape[1] == sizes["num_key_value_heads"]
    written = llama.to_state_dict(ours)
    assert_equal(written, {name: theirs.state_dict()[name] for name in written})


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("llama", heads(4, 4)),
        ("mistral", heads(16, 8)),
        ("qwen2", heads(32, 32)),
        ("qwen3", heads(32, 32, head_dim=128)),
    ],
)
def test_a_missing_field_means_the_same_as_in_the_library(tmp_path, kind, sizes):
    published(kind, tmp_path, hidden_size=64, **sizes, rms_norm_eps=1e-6)
    expected = llama.from_pretrained(tmp_path)[0].config
    fields = (
        "head_dim",
        "num_key_value_heads",
        "rms_norm_eps",
        "sliding_window",
        "rope_parameters",
    )
    edit_config(tmp_path, **dict.fromkeys((*fields, "tie_word_embeddings"), ...))
    assert llama.from_pretrained(tmp_path)[0].config == expected


def test_the_logits_are_close_to_the_unmodified_librarys(tmp_path):
    theirs = published("llama", tmp_path, **ROPE, initializer_range=0.1)
    ids = some_ids()
    ours = llama.from_pretrained(tmp_path)[0]
    torch.testing.assert_close(ours(ids)[0], theirs.float()(ids).logits, rtol=1e-5, atol=1e-5)


def test_a_folder_with_a_tokenizer_continues_a_text(tmp_path, capsys):
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
