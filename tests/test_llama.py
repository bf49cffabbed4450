"""A model in Llama's layout says what the library ``transformers`` says, read from real files."""

import pytest
import tokenizers
import torch
import transformers
from hf_fixtures import MAX_LEN, VOCAB, edit_config, edit_weights, published
from parity import assert_equal, says
from random_inputs import make_generator
from safetensors.torch import load_file, save_file
from torch import nn

from course_lib import cli
from course_lib.gpt import sample
from course_lib.interop import llama
from course_lib.kv_cache import KVCache
from course_lib.modern_decoder import rope_angles

BASE = 500.0
ROPE = dict(rope_parameters=dict(rope_type="default", rope_theta=BASE))
SIZES = pytest.mark.parametrize("heads", [(6, 2), (6, 6), (3, 1)])
TIED = pytest.mark.parametrize("tied", [True, False])


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
    model, tokenizer = llama.from_pretrained(folder)
    assert tokenizer is None and not model.training
    model.double()
    c = model.config
    even = torch.arange(0, c.d_model // c.num_heads, 2, dtype=torch.float64)
    positions = torch.arange(c.max_len, dtype=torch.float64)[:, None]
    angles = positions / c.rope_base ** (even / (c.d_model // c.num_heads))
    torch.testing.assert_close(model.angles, angles, rtol=1e-6, atol=1e-6)
    model.angles = angles
    return model


def some_ids(length=9):
    """Draw three texts."""
    return torch.randint(VOCAB, (3, length), generator=make_generator())


# --- the same logits and texts


@SIZES
@TIED
def test_the_logits_are_the_library_s_cached_and_uncached(tmp_path, heads, tied):
    sizes = dict(num_attention_heads=heads[0], num_key_value_heads=heads[1])
    theirs = published("llama", tmp_path, **sizes, **ROPE, tie_word_embeddings=tied)
    ours, ids = read_double(tmp_path), some_ids()
    expected = in_float64(theirs)(ids).logits
    assert_equal(ours(ids)[0], expected)
    cache = KVCache(2, MAX_LEN)
    parts = [ours(ids[:, a:b], cache=cache)[0] for a, b in ((0, 4), (4, 5), (5, 6), (6, 9))]
    assert_equal(torch.cat(parts, dim=1), expected)
    assert cache.layers[0].self_attn.keys.shape == (3, heads[1], MAX_LEN, 24 // heads[0])


def test_as_the_library_is_the_logits_are_close(tmp_path):
    theirs = published("llama", tmp_path, **ROPE, initializer_range=0.1)
    ids = some_ids()
    found = llama.from_pretrained(tmp_path)[0](ids)[0]
    torch.testing.assert_close(found, theirs.float()(ids).logits, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_texts_are_the_library_s(tmp_path, use_cache):
    theirs, ids = in_float64(published("llama", tmp_path, **ROPE)), some_ids(3)
    expected = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=9
    )
    assert len(expected[:, 3:].unique()) > 2
    found = sample(read_double(tmp_path), ids, 9, top_k=1, use_cache=use_cache)
    assert torch.equal(found, expected)


# --- files and names


@TIED
def test_weights_go_to_the_library_and_back(tmp_path, tied):
    published("llama", tmp_path / "theirs", tie_word_embeddings=tied, initializer_range=0.1)
    model, _ = llama.from_pretrained(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    save_file(llama.to_state_dict(model), tmp_path / "ours" / "model.safetensors")
    one, other = (load_file(tmp_path / who / "model.safetensors") for who in ("ours", "theirs"))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    config = (tmp_path / "theirs" / "config.json").read_text()
    (tmp_path / "ours" / "config.json").write_text(config)
    theirs = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "ours").eval()
    ids = some_ids()
    torch.testing.assert_close(theirs(ids).logits, model(ids)[0], rtol=1e-5, atol=1e-5)


def test_older_files_are_read_too(tmp_path):
    theirs = published("llama", tmp_path, **ROPE, tie_word_embeddings=True)
    edit_config(tmp_path, rope_parameters=..., rope_theta=BASE, head_dim=...)
    weights = load_file(tmp_path / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
    (tmp_path / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pytorch_model.bin")
    ids = some_ids()
    assert_equal(read_double(tmp_path)(ids)[0], in_float64(theirs)(ids).logits)


def test_angles_are_those_of_the_configuration(tmp_path):
    published("llama", tmp_path, **ROPE)
    model, _ = llama.from_pretrained(tmp_path)
    assert torch.equal(model.angles, rope_angles(MAX_LEN, 4, BASE))


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


# --- what is refused


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_type", "mistral"),
        ("hidden_act", "gelu"),
        ("attention_bias", True),
        ("mlp_bias", True),
        ("head_dim", 8),
        ("rope_scaling", {"factor": 2.0}),
    ],
)
def test_a_configuration_that_is_not_covered_is_named(tmp_path, field, value):
    published("llama", tmp_path)
    edit_config(tmp_path, **{field: value})
    with pytest.raises(ValueError, match=says(f"{field}={value!r}", "covers")):
        llama.from_pretrained(tmp_path)


def test_scaled_angles_are_refused(tmp_path):
    published("llama", tmp_path)
    edit_config(tmp_path, rope_parameters=dict(rope_type="llama3", rope_theta=BASE))
    with pytest.raises(ValueError, match=says("rope_type='llama3'", "'default'")):
        llama.from_pretrained(tmp_path)


def test_a_tied_model_with_an_output_of_its_own_is_refused(tmp_path):
    published("llama", tmp_path, tie_word_embeddings=True)
    edit_weights(tmp_path, lambda w: w.update({"lm_head.weight": torch.ones(VOCAB, 24)}))
    with pytest.raises(ValueError, match=says("lm_head.weight differs from model.embed_tokens")):
        llama.from_pretrained(tmp_path)
