"""Folders of published models are read by name and checked, and their code never runs."""

import json
import reprlib
import shutil
from copy import deepcopy
from itertools import product

import pytest
import tokenizers
import torch
from hf_fixtures import EOS, MAX_LEN, VOCAB, edit_config, edit_weights, published
from parity import assert_same, says
from safetensors.torch import load_file, save_file

from course_lib.interop import gpt2, llama, marian
from course_lib.interop.pretrained import read_tokenizer, read_weights
from course_lib.positions import sinusoidal_encoding

LOADERS = {"gpt2": gpt2, "llama": llama, "marian": marian}
WAVES = sinusoidal_encoding(MAX_LEN, 18)
SINES_THEN_COSINES = torch.cat([WAVES[:, 0::2], WAVES[:, 1::2]], dim=1)


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """Save one model of each kind; Llama's output layer is tied to its embedding."""
    root = tmp_path_factory.mktemp("originals")
    for kind in LOADERS:
        published(kind, root / kind, tie_word_embeddings=True)
    return root


@pytest.fixture
def copied(originals, tmp_path):
    """Return a function that copies a model into a folder in which a test can change it."""
    return lambda kind: shutil.copytree(originals / kind, tmp_path / kind)


# --- files and names


@pytest.mark.parametrize(
    ("kind", "changes"),
    [*((kind, {}) for kind in LOADERS), ("llama", dict(tie_word_embeddings=True))],
)
def test_weights_are_loaded_as_copies_under_their_names(tmp_path, kind, changes):
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
    """Return weights in the form of older files: other names, copies, masks and tables."""
    if kind == "gpt2":
        weights = {name.removeprefix("transformer."): value for name, value in weights.items()}
        weights["h.0.attn.bias"] = torch.ones(1, 1, MAX_LEN, MAX_LEN).tril()
        weights["h.1.attn.masked_bias"] = torch.tensor(-1e4)
    elif kind == "llama":
        weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(2)
    else:
        for side in ("encoder", "decoder"):
            weights[f"model.{side}.embed_tokens.weight"] = weights["model.shared.weight"]
        weights["model.encoder.embed_positions.weight"] = SINES_THEN_COSINES.half()
    table = dict(gpt2="wte", llama="model.embed_tokens", marian="model.shared")[kind]
    return weights | {"lm_head.weight": weights[f"{table}.weight"]}


@pytest.mark.parametrize("kind", LOADERS)
def test_older_files_can_also_be_read(copied, kind):
    folder = copied(kind)
    expected, _ = LOADERS[kind].from_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(older(kind, weights), folder / "pytorch_model.bin")
    if kind == "llama":
        edit_config(folder, rope_parameters=..., rope_theta=500.0, head_dim=...)
    loaded, _ = LOADERS[kind].from_pretrained(folder)
    assert_same(loaded.state_dict(), expected.state_dict())
    assert kind != "llama" or loaded.config.rope_base == 500.0


# --- errors

SIZES = {
    "gpt2": ("vocab_size", "n_positions", "n_layer", "n_head", "n_embd"),
    "llama": (
        "vocab_size", "max_position_embeddings", "num_hidden_layers", "num_attention_heads",
        "hidden_size", "intermediate_size",
    ),
    "marian": (
        "vocab_size", "max_position_embeddings", "encoder_layers", "decoder_layers",
        "encoder_attention_heads", "d_model", "encoder_ffn_dim",
    ),
}  # fmt: skip
NOT_SIZES = ("18", ...)  # ... stands for an absent field
NAN = float("nan")
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
        "model_type": "olmo2",
        "hidden_act": "gelu",
        "attention_bias": True,
        "mlp_bias": True,
        "tie_word_embeddings": "yes",
        "head_dim": 0,
        "num_key_value_heads": "2",
        "rms_norm_eps": NAN,
        "rope_theta": -1,
        "partial_rotary_factor": 0.5,
    },
    "marian": {
        "model_type": "bart",
        "scale_embedding": ...,  # a missing field means False
        "share_encoder_decoder_embeddings": False,
        "tie_word_embeddings": False,
        "normalize_before": True,
        "static_position_embeddings": False,
        "activation_function": "tanh",
        "decoder_start_token_id": EOS,
        "decoder_vocab_size": VOCAB + 1,
        "decoder_attention_heads": 2,
        "decoder_ffn_dim": 8,
        "pad_token_id": VOCAB,
        "max_position_embeddings": 10**5,
    },
}
WITH_OTHER_WORDS = [
    (
        "rope_parameters",
        {"rope_type": "llama3", "factor": 8.0},
        "no field original_max_position_embeddings",
    ),
    ("rope_parameters", {"type": "linear"}, "no field factor"),
    ("rope_parameters", {"rope_type": "yarn"}, "rope_type='yarn'"),
    ("rope_scaling", {"factor": 2.0}, "factor=2.0"),
]


@pytest.mark.parametrize(
    ("kind", "field", "value", "message"),
    [
        *((kind, *each, "") for kind in LOADERS for each in UNCOVERED[kind].items()),
        *((kind, *each, "") for kind in LOADERS for each in product(SIZES[kind], NOT_SIZES)),
        *(("llama", *each) for each in WITH_OTHER_WORDS),
    ],
)
def test_an_unsupported_value_is_named_with_its_field(copied, kind, field, value, message):
    folder = copied(kind)
    edit_config(folder, **{field: value})
    (folder / "model.safetensors").unlink()  # found without reading any weight
    shown = f"has no field {field}" if value is ... else f"{field}={reprlib.repr(value)}"
    with pytest.raises(ValueError, match=says("config.json", message or shown)):
        LOADERS[kind].from_pretrained(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (dict(sliding_window=11), ("says sliding_window=11;", 12)),
        (dict(max_position_embeddings=4097), ("no field sliding_window;", 4097, "default: 4096")),
        (
            dict(
                model_type="qwen3", use_sliding_window=True, sliding_window=2, max_window_layers=1
            ),
            ("says sliding_window=2;", 12, "in every layer"),
        ),
    ],
)
def test_a_window_that_is_too_short_is_named_with_the_shortest_supported_one(
    copied, changes, words
):
    folder = copied("llama")
    edit_config(folder, **(dict(model_type="mistral") | changes))
    found, length, *others = words
    least = f"a window of at least max_position_embeddings={length}"
    with pytest.raises(ValueError, match=says("config.json", found, least, *others)):
        llama.from_pretrained(folder)


@pytest.mark.parametrize(
    ("saved", "tied"), [("AutoModel", True), ("AutoModel", False), ("without lm_head", False)]
)
def test_the_error_for_a_missing_output_layer_says_what_to_save(tmp_path, saved, tied):
    theirs = published("llama", tmp_path, tie_word_embeddings=tied)
    if saved == "AutoModel":  # AutoModel loads and saves only this part
        theirs.model.save_pretrained(tmp_path)
    else:
        edit_weights(tmp_path, lambda weights: weights.pop("lm_head.weight"))
    with pytest.raises(ValueError, match=says("no output layer", "AutoModelForCausalLM")):
        llama.from_pretrained(tmp_path)


COPY = "model.decoder.embed_tokens.weight"
BIAS = "transformer.ln_f.bias"
POSITIONS = "model.decoder.embed_positions.weight"


@pytest.mark.parametrize(
    ("kind", "name", "value", "words"),
    [
        ("gpt2", BIAS, None, ("missing", "ln_f.bias")),
        ("gpt2", "other.weight", torch.ones(1), ("unknown", "other.weight")),
        ("gpt2", BIAS, torch.ones(18, dtype=torch.int8), ("ln_f.bias", "int8")),
        ("gpt2", BIAS, torch.full((18,), NAN), ("ln_f.bias contains nan",)),
        ("gpt2", BIAS, torch.full((18,), 1e300, dtype=torch.float64), ("too large",)),
        ("gpt2", BIAS, torch.ones(18).to(torch.float8_e5m2), ("ln_f.bias", "numbers of 8 bits")),
        ("gpt2", "transformer.h.0.mlp.c_fc.weight", torch.ones(72, 18), ("transposed", (18, 72))),
        ("gpt2", "lm_head.weight", torch.ones(VOCAB, 18), ("lm_head.weight differs", "tied")),
        ("marian", POSITIONS, torch.ones(MAX_LEN, 18), (POSITIONS, "sines and cosines")),
        ("marian", COPY, torch.ones(VOCAB, 18), (f"{COPY} differs", "tied")),
    ],
)
def test_weights_that_do_not_fit_are_named(copied, kind, name, value, words):
    folder = copied(kind)
    edit_weights(folder, lambda w: w.pop(name) if value is None else w.update({name: value}))
    with pytest.raises(ValueError, match=says(*words)):
        LOADERS[kind].from_pretrained(folder)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", None, "config.json"),
        ("config.json", "{half", "config.json cannot be read as JSON"),
        ("config.json", "[]", "config.json must contain a JSON object"),
        ("model.safetensors", None, "model.safetensors"),
        ("tokenizer.json", "{}", "tokenizer.json is not a tokenizer"),
    ],
)
def test_a_file_that_is_missing_or_damaged_is_named(copied, file, content, message):
    folder = copied("gpt2")
    (folder / file).unlink(missing_ok=True)
    if content is not None:
        (folder / file).write_text(content)
    with pytest.raises(ValueError, match=says(message)):
        gpt2.from_pretrained(folder)


def test_numbers_too_large_for_a_16_bit_model_are_named(copied):
    model, _ = gpt2.from_pretrained(copied("gpt2"))
    weights = gpt2.to_state_dict(model)
    weights["transformer.wpe.weight"] += 1e5  # float16 ends at 65,504
    with pytest.raises(ValueError, match=says("wpe.weight", "too large for torch.float16")):
        gpt2.load_state_dict(model.half(), weights)


# --- which files are read


ONE, TWO = "model-1-of-2.safetensors", "model-2-of-2.safetensors"


def write_shards(folder, index):
    """Save the weights a = 1 and b = 2 in two files, next to an index."""
    save_file({"a": torch.full((2,), 1.0)}, folder / ONE)
    save_file({"b": torch.full((2,), 2.0)}, folder / TWO)
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_an_index_determines_the_file_from_which_a_weight_is_read(tmp_path):
    write_shards(tmp_path, {"weight_map": {"a": ONE, "b": TWO}})
    save_file({"a": torch.full((2,), 7.0), "b": torch.full((2,), 2.0)}, tmp_path / TWO)
    torch.save({"a": torch.zeros(2)}, tmp_path / "pytorch_model.bin")  # an older copy
    weights = read_weights(tmp_path)
    assert {name: value.tolist() for name, value in weights.items()} == {"a": [1, 1], "b": [2, 2]}


def test_an_index_without_a_map_is_named(tmp_path):
    write_shards(tmp_path, {})
    with pytest.raises(ValueError, match="does not say which file has which weight"):
        read_weights(tmp_path)


def test_several_files_are_never_merged_by_guessing(tmp_path):
    for name in ("model.safetensors", "model-ema.safetensors"):
        (tmp_path / name).touch()
    with pytest.raises(ValueError, match=says("model-ema", "all of them except model.safetens")):
        read_weights(tmp_path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1"),
        ("pytorch_model.bin", b"\x80\x04."),
    ],
)
def test_a_file_without_tensors_is_named_with_a_solution(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} cannot be read as tensors.*download the file"):
        read_weights(tmp_path)


def test_a_sparse_tensor_in_a_file_is_refused(tmp_path):
    torch.save({"a": torch.eye(2).to_sparse()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot be read as tensors"):
        read_weights(tmp_path)


def test_a_pickle_that_runs_code_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("trapped").touch, ())

    torch.save({"wte.weight": Trap()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot be read as tensors"):
        read_weights(tmp_path)
    assert not (tmp_path / "trapped").exists()


def test_a_tokenizer_neither_truncates_nor_pads_a_prompt(tmp_path):
    model = tokenizers.models.BPE({"a": 0, "b": 1}, [])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.enable_truncation(2)
    tokenizer.enable_padding(length=9, pad_id=1, pad_token="b")
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    assert read_tokenizer(tmp_path).encode("aaaaa").ids == [0] * 5
