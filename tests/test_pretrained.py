"""Folders of published models: read and written under their names, and never run or guessed at."""

import shutil
from copy import deepcopy

import pytest
import torch
from hf_fixtures import EOS, MAX_LEN, VOCAB, edit_config, edit_weights, published
from parity import assert_same, says
from safetensors.torch import load_file, save_file

from course_lib.interop import gpt2, llama, marian
from course_lib.interop.pretrained import read_weights

LOADERS = {"gpt2": gpt2, "llama": llama, "marian": marian}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Save one model of each kind; Llama's with an output that is its embedding."""
    root = tmp_path_factory.mktemp("originals")
    for kind in LOADERS:
        published(kind, root / kind, tie_word_embeddings=True)
    return root


@pytest.fixture
def copied(originals, tmp_path):
    """Return what copies a model into a folder in which a test may change it."""
    return lambda kind: shutil.copytree(originals / kind, tmp_path / kind)


# --- files and names


@pytest.mark.parametrize(
    ("kind", "changes"),
    [*((kind, {}) for kind in LOADERS), ("llama", dict(tie_word_embeddings=True))],
)
def test_weights_come_back_as_copies_under_their_names(tmp_path, kind, changes):
    published(kind, tmp_path, **changes)
    model, tokenizer = LOADERS[kind].from_pretrained(tmp_path)
    assert tokenizer is None and not model.training
    kept = deepcopy(model.state_dict())
    written = LOADERS[kind].to_state_dict(model)
    save_file(written, tmp_path / "ours.safetensors")
    one, other = (load_file(tmp_path / f"{who}.safetensors") for who in ("ours", "model"))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    for value in written.values():
        assert not value.requires_grad
        value.add_(1.0)
    assert_same(model.state_dict(), kept)


def older(kind, weights):
    """Return weights as older files have them: shorter names, copies, masks and tables."""
    if kind == "gpt2":
        weights = {name.removeprefix("transformer."): value for name, value in weights.items()}
        weights["h.0.attn.bias"] = torch.ones(1, 1, MAX_LEN, MAX_LEN).tril()
        weights["h.1.attn.masked_bias"] = torch.tensor(-1e4)
    elif kind == "llama":
        weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
    else:
        for side in ("encoder", "decoder"):
            weights[f"model.{side}.embed_tokens.weight"] = weights["model.shared.weight"]
        weights["model.encoder.embed_positions.weight"] = torch.ones(MAX_LEN, 18)
    table = dict(gpt2="wte", llama="model.embed_tokens", marian="model.shared")[kind]
    return weights | {"lm_head.weight": weights[f"{table}.weight"]}


@pytest.mark.parametrize("kind", LOADERS)
def test_older_files_are_read_too(copied, kind):
    folder = copied(kind)
    expected, _ = LOADERS[kind].from_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(older(kind, weights), folder / "pytorch_model.bin")
    if kind == "llama":
        edit_config(folder, rope_parameters=..., rope_theta=500.0, head_dim=...)
    found, _ = LOADERS[kind].from_pretrained(folder)
    assert_same(found.state_dict(), expected.state_dict())
    assert kind != "llama" or found.config.rope_base == 500.0


# --- what is refused

UNCOVERED = {
    "gpt2": {
        "model_type": "bert",
        "layer_norm_epsilon": 1e-6,
        "scale_attn_by_inverse_layer_idx": True,
        "scale_attn_weights": False,
        "add_cross_attention": True,
        "tie_word_embeddings": False,
        "activation_function": "tanh",
        "n_inner": 7,
        "quantization_config": {"bits": 4},
    },
    "llama": {
        "model_type": "mistral",
        "hidden_act": "gelu",
        "attention_bias": True,
        "mlp_bias": True,
        "head_dim": 8,
        "rope_scaling": {"factor": 2.0},
    },
    "marian": {
        "model_type": "bart",
        "scale_embedding": False,
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "normalize_before": True,
        "normalize_embedding": True,
        "add_final_layer_norm": True,
        "static_position_embeddings": False,
        "activation_function": "tanh",
        "decoder_start_token_id": EOS,
        "decoder_vocab_size": VOCAB + 1,
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 8,
    },
}


@pytest.mark.parametrize(
    ("kind", "field", "value", "said"),
    [
        *((kind, *field, "{}={!r}") for kind in LOADERS for field in UNCOVERED[kind].items()),
        ("llama", "rope_parameters", {"rope_type": "llama3"}, "rope_type='llama3'"),
        ("marian", "scale_embedding", ..., "scale_embedding=False"),  # absent it means that
    ],
)
def test_a_configuration_that_is_not_covered_is_named(copied, kind, field, value, said):
    folder = copied(kind)
    edit_config(folder, **{field: value})
    with pytest.raises(ValueError, match=says(said.format(field, value), "covers")):
        LOADERS[kind].from_pretrained(folder)


@pytest.mark.parametrize(
    ("kind", "name", "shape", "words"),
    [
        ("gpt2", "transformer.ln_f.bias", None, ("missing", "ln_f.bias")),
        ("gpt2", "other.weight", (1,), ("unknown", "other.weight")),
        (
            "gpt2",
            "transformer.wpe.weight",
            (MAX_LEN + 1, 18),
            ("wpe.weight", (MAX_LEN + 1, 18), (MAX_LEN, 18)),
        ),
        ("gpt2", "lm_head.weight", (VOCAB, 18), ("lm_head.weight differs from wte.weight", "tied")),
        ("llama", "lm_head.weight", (VOCAB, 24), ("differs from model.embed_tokens.weight",)),
        ("marian", "lm_head.weight", (VOCAB, 18), ("differs from model.shared.weight",)),
    ],
)
def test_weights_that_do_not_fit_are_named(copied, kind, name, shape, words):
    folder = copied(kind)
    edit_weights(folder, lambda w: w.update({name: torch.ones(shape)}) if shape else w.pop(name))
    with pytest.raises(ValueError, match=says(*words)):
        LOADERS[kind].from_pretrained(folder)


def test_weights_of_whole_numbers_are_named(copied):
    folder, bias = copied("gpt2"), torch.ones(18, dtype=torch.int8)
    edit_weights(folder, lambda weights: weights.update({"transformer.ln_f.bias": bias}))
    with pytest.raises(ValueError, match=says("ln_f.bias", "int8")):
        gpt2.from_pretrained(folder)


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("config.json", None, "config.json"),
        ("config.json", "{half", "config.json"),
        ("model.safetensors", None, "model.safetensors"),
        ("tokenizer.json", "{}", "tokenizer.json is no tokenizer"),
    ],
)
def test_a_file_that_is_missing_or_damaged_is_named(copied, file, content, said):
    folder = copied("gpt2")
    (folder / file).unlink(missing_ok=True)
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(ValueError, match=says(said)):
        gpt2.from_pretrained(folder)


def test_a_missing_field_is_named(copied):
    folder = copied("gpt2")
    edit_config(folder, n_head=...)
    with pytest.raises(ValueError, match="config.json has no field n_head"):
        gpt2.from_pretrained(folder)


@pytest.mark.parametrize("content", [b"version https://git-lfs.github.com/spec/v1", b"\x80\x04."])
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_file_without_tensors_is_named_with_the_way_out(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} cannot be read as tensors.*get the file again"):
        read_weights(tmp_path)


def test_a_pickle_that_runs_code_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("trapped").touch, ())

    torch.save({"wte.weight": Trap()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot be read as tensors"):
        read_weights(tmp_path)
    assert not (tmp_path / "trapped").exists()
