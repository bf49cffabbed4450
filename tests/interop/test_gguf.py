"""A GGUF file contains the same model, tokenizer and chat template as a published folder."""

import shutil
from dataclasses import replace

import gguf
import pytest
import torch
from hf_fixtures import LLAMA, published
from parity import assert_same, says
from random_inputs import randomize

from course_lib.interop import gguf_file, llama
from course_lib.interop.chat_template import read_chat_template
from course_lib.modern_decoder import ModernConfig, ModernDecoder

TYPES = gguf.GGMLQuantizationType
TEMPLATE = "{{ bos_token }}{% for message in messages %}{{ message['content'] }}{% endfor %}"
FIELDS = {  # of the smallest tokenizer: the first two tokens are special
    "general.architecture": "llama",
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "smollm",
    "tokenizer.ggml.tokens": ["<s>", "</s>", *"abc12Ġ.", "ab", "12"],
    "tokenizer.ggml.token_type": [3, 3, *[1] * 9],
    "tokenizer.ggml.merges": ["a b", "1 2"],
    "tokenizer.ggml.bos_token_id": 0,
    "tokenizer.ggml.eos_token_id": 1,
    "tokenizer.chat_template": TEMPLATE,
}
# q4_1 and q8_0 need rows of 32 numbers
SIZES = dict(hidden_size=96, intermediate_size=64, vocab_size=11, rms_norm_eps=2**-7)

WRITTEN = (
    "hidden_size", "num_attention_heads", "num_key_value_heads", "max_position_embeddings",
    "num_hidden_layers", "intermediate_size", "rope_theta", "rms_norm_eps",
)  # fmt: skip


def convert(model, path, kind=TYPES.F32, tensors=None, **changes):
    """Write a model like llama.cpp, with matrices of a given type; None removes a field."""
    writer = gguf.GGUFWriter(path, "llama")
    sizes = LLAMA | SIZES | dict(rope_theta=500.0)
    fields = {gguf_file.LLAMA_FIELDS[name]: sizes[name] for name in WRITTEN} | FIELDS | changes
    for name, value in fields.items():
        add = {str: writer.add_string, int: writer.add_uint32, float: writer.add_float32}
        if value is not None and name != "general.architecture":
            add.get(type(value), writer.add_array)(name, value)
    for name, value in (llama.GGUF.state(model, model.config) | (tensors or {})).items():
        own = kind if value.dim() == 2 else TYPES.F32
        writer.add_tensor(name, gguf.quants.quantize(value.numpy(), own), raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Load a small model from a folder."""
    folder = tmp_path_factory.mktemp("folder")
    rope = dict(rope_parameters=dict(rope_type="default", rope_theta=500.0))
    published("llama", folder, **SIZES, **rope, tie_word_embeddings=True)
    return llama.from_pretrained(folder)[0]


@pytest.mark.parametrize(
    ("kind", "steps"),
    [(TYPES.F32, 0.0), (TYPES.F16, 2**-11), (TYPES.Q8_0, 1 / 254), (TYPES.Q4_1, 1 / 15)],
)
def test_matrices_are_restored_up_to_half_a_step_of_their_type(original, tmp_path, kind, steps):
    model, _ = llama.from_pretrained(convert(original, tmp_path / "small.gguf", kind))
    assert model.config == original.config and not model.training
    for name, expected in original.state_dict().items():
        error = (model.state_dict()[name] - expected).abs().max()
        assert error <= (0 if expected.dim() == 1 else 1.1 * steps * expected.abs().max()), name


def test_the_tokenizer_and_the_chat_template_come_from_the_file(original, tmp_path):
    path = convert(original, tmp_path / "small.gguf")
    _, tokenizer = llama.from_pretrained(path)
    assert tokenizer.encode("ab a12</s>").tokens == ["ab", "Ġ", "a", "1", "2", "</s>"]
    ids = tokenizer.encode("<s>abc 1.</s>").ids
    assert tokenizer.decode(ids) == "abc 1."
    assert tokenizer.decode(ids, skip_special_tokens=False) == "<s>abc 1.</s>"
    template = read_chat_template(path)
    assert (template.source, template.bos_token, template.eos_token) == (TEMPLATE, "<s>", "</s>")
    other = convert(original, tmp_path / "llama3.gguf", **{"tokenizer.ggml.pre": "llama-bpe"})
    assert llama.from_pretrained(other)[1].encode("a").tokens == ["<s>", "a"]


def test_scaled_rope_and_biases_of_later_models_are_read(tmp_path):
    sizes = dict(num_layers=2, num_heads=6, num_kv_heads=2, d_model=96, d_ff=64, d_k=20)
    config = ModernConfig(vocab_size=11, max_len=12, **sizes, qkv_bias=True, tie_embeddings=False)
    config = replace(config, rope_base=500.0, norm_eps=2**-7)
    model = randomize(ModernDecoder(config)).float()
    wide = {"llama.attention.key_length": 20}
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    found, _ = llama.from_pretrained(convert(model, tmp_path / "a.gguf", **wide, **linear))
    assert found.config == replace(config, rope_factors=(4.0,) * 10)
    assert_same(found.state_dict(), model.state_dict())
    factors = torch.linspace(1, 8, 10)
    path = convert(model, tmp_path / "b.gguf", tensors={"rope_freqs.weight": factors}, **wide)
    found, _ = llama.from_pretrained(path)
    assert found.config == replace(config, rope_factors=tuple(factors.tolist()))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokenizer.ggml.model": "llama"}, "tokenizer.ggml.model='llama'"),
        ({"tokenizer.ggml.pre": "tekken"}, "tokenizer.ggml.pre='tekken'"),
        (
            {"llama.rope.scaling.type": "yarn"},
            "small.gguf (fields named as in config.json) says type=",
        ),
        ({"llama.embedding_length": None}, "has no field llama.embedding_length"),
        ({"llama.rope.dimension_count": 8}, "llama.rope.dimension_count=8"),
        ({"tokenizer.ggml.merges": ["ab"]}, "tokenizer.ggml.merges=['ab']"),
        ({"tokenizer.ggml.token_type": [3, 1]}, "tokenizer.ggml.token_type=[3, 1]"),
    ],
)
def test_an_unsupported_field_is_rejected_by_name(original, tmp_path, changes, words):
    path = convert(original, tmp_path / "small.gguf", **changes)
    with pytest.raises(ValueError, match=says(words)):
        llama.from_pretrained(path)


def test_another_architecture_and_a_damaged_file_are_rejected_by_name(original, tmp_path):
    path = convert(original, tmp_path / "small.gguf", **{"tokenizer.chat_template": None})
    with pytest.raises(ValueError, match=says("no chat template")):
        read_chat_template(path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"llama", b"qwen2"))
    with pytest.raises(ValueError, match=says("general.architecture='qwen2'")):
        llama.from_pretrained(path)
    for damaged in (b"", b"GGUF", content[:300], content[: len(content) // 2]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=says("not a GGUF file")):
            llama.from_pretrained(path)


@pytest.mark.parametrize(
    ("fields", "factors"),
    [
        ({"llama.rope.scaling.factor": 4.0}, (4.0,) * 8),
        ({"llama.rope.scale_linear": 2.0}, (2.0,) * 8),
        ({"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 4.0}, ()),
    ],
)
def test_a_scaling_without_a_type_is_linear(original, tmp_path, fields, factors):
    path = convert(original, tmp_path / "SMALL.GGUF", **fields)
    assert llama.from_pretrained(path)[0].config.rope_factors == factors


def test_a_moved_tensor_is_noticed(original, tmp_path):
    path = convert(original, tmp_path / "small.gguf")
    name = b"blk.1.ffn_norm.weight"
    content = bytearray(path.read_bytes())
    place = content.index(name) + len(name) + 4 + 8 + 4  # dimensions, one size, type
    offset = int.from_bytes(content[place : place + 8], "little")
    content[place : place + 8] = (offset - 32).to_bytes(8, "little")
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not where it belongs"):
        llama.from_pretrained(path)


def test_a_file_that_keeps_its_time_is_read_again_after_a_change(original, tmp_path):
    path = convert(original, tmp_path / "small.gguf")
    assert read_chat_template(path).source == TEMPLATE
    other = tmp_path / "other"
    other.write_bytes(path.read_bytes().replace(b"{{ bos_token }}{%", b"{{ eos_token }}{%"))
    shutil.copystat(path, other)
    other.replace(path)
    assert read_chat_template(path).source.startswith("{{ eos_token }}")


def test_another_end_token_counts_and_one_outside_the_vocabulary_is_named(original, tmp_path):
    ends = {f"tokenizer.ggml.{name}_token_id": n for n, name in enumerate(("eos", "eot", "eom"))}
    path = convert(original, tmp_path / "a.gguf", **ends)
    assert read_chat_template(path).end_ids == {0, 1, 2}
    path = convert(original, tmp_path / "b.gguf", **{"tokenizer.ggml.bos_token_id": 11})
    with pytest.raises(ValueError, match="tokenizer.ggml.bos_token_id=11"):
        read_chat_template(path)
