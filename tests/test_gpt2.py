"""A model in GPT-2's layout says what the library ``transformers`` says, read from real files."""

import pytest
import torch
import transformers
from hf_fixtures import MAX_LEN, VOCAB, edit_config, edit_weights, published
from parity import assert_equal, says
from random_inputs import make_generator
from safetensors.torch import load_file, save_file
from torch.nn import functional as F

from course_lib.gpt import sample
from course_lib.interop import gpt2
from course_lib.interop.pretrained import read_weights


def read_double(folder):
    """Load ours, in float64."""
    model, tokenizer = gpt2.from_pretrained(folder)
    assert tokenizer is None and not model.training
    return model.double()


def some_ids(length):
    """Draw three texts."""
    return torch.randint(VOCAB, (3, length), generator=make_generator())


# --- the same logits, gradients and texts


@pytest.mark.parametrize("activation", ["gelu_new", "gelu", "relu", "silu"])
@pytest.mark.parametrize("length", [1, 5, MAX_LEN])
def test_the_logits_are_the_library_s(tmp_path, activation, length):
    theirs = published("gpt2", tmp_path, activation_function=activation)
    ids = some_ids(length)
    assert_equal(read_double(tmp_path)(ids)[0], theirs(ids).logits)


@pytest.mark.parametrize("num_heads", [1, 2, 9])
def test_the_heads_are_as_many_as_the_configuration_says(tmp_path, num_heads):
    theirs = published("gpt2", tmp_path, n_head=num_heads)
    ids = some_ids(6)
    assert_equal(read_double(tmp_path)(ids)[0], theirs(ids).logits)


def test_the_gradients_are_the_library_s(tmp_path):
    theirs = published("gpt2", tmp_path)
    ours = read_double(tmp_path)
    ids = some_ids(7)
    ours(ids[:, :-1], ids[:, 1:])[1].backward()
    logits = theirs(ids[:, :-1]).logits
    F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()).backward()
    for model in (ours, theirs):
        for parameter in model.parameters():
            parameter.data = parameter.grad
    expected = theirs.state_dict()
    for name, gradient in gpt2.to_state_dict(ours).items():
        assert_equal(gradient, expected[name])


def test_greedy_texts_are_the_library_s(tmp_path):
    theirs = published("gpt2", tmp_path, eos_token_id=None)  # a text does not end
    ids = some_ids(3)
    expected = theirs.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=8
    )
    assert len(expected[:, 3:].unique()) > 1
    assert torch.equal(sample(read_double(tmp_path), ids, 8, top_k=1), expected)


# --- files and names


def test_weights_go_to_the_library_and_back(tmp_path):
    published("gpt2", tmp_path / "theirs")
    model, _ = gpt2.from_pretrained(tmp_path / "theirs")
    (tmp_path / "ours").mkdir()
    save_file(gpt2.to_state_dict(model), tmp_path / "ours" / "model.safetensors")
    one, other = (load_file(tmp_path / who / "model.safetensors") for who in ("ours", "theirs"))
    torch.testing.assert_close(one, other, rtol=0, atol=0)
    config = (tmp_path / "theirs" / "config.json").read_text()
    (tmp_path / "ours" / "config.json").write_text(config)
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "ours").eval()
    ids = some_ids(4)
    torch.testing.assert_close(theirs(ids).logits, model(ids)[0], rtol=0, atol=1e-5)


def test_older_files_are_read_too(tmp_path):
    published("gpt2", tmp_path)
    expected = gpt2.from_pretrained(tmp_path)[0].state_dict()
    weights = load_file(tmp_path / "model.safetensors")
    older = {name.removeprefix("transformer."): value for name, value in weights.items()}
    older["lm_head.weight"] = older["wte.weight"]
    older["h.0.attn.bias"] = torch.ones(1, 1, MAX_LEN, MAX_LEN).tril()
    older["h.1.attn.masked_bias"] = torch.tensor(-1e4)
    (tmp_path / "model.safetensors").unlink()
    torch.save(older, tmp_path / "pytorch_model.bin")
    torch.testing.assert_close(gpt2.from_pretrained(tmp_path)[0].state_dict(), expected)


def test_more_than_ten_layers_keep_their_order(tmp_path):
    theirs = published("gpt2", tmp_path, n_layer=12)
    ids = some_ids(4)
    assert_equal(read_double(tmp_path)(ids)[0], theirs(ids).logits)


def test_what_is_returned_is_a_copy(tmp_path):
    published("gpt2", tmp_path)
    model, _ = gpt2.from_pretrained(tmp_path)
    before = model.embedding.weight.clone()
    for value in gpt2.to_state_dict(model).values():
        assert not value.requires_grad
        value.add_(1.0)
    assert torch.equal(model.embedding.weight, before)


# --- what is refused


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model_type", "bert"),
        ("layer_norm_epsilon", 1e-6),
        ("scale_attn_by_inverse_layer_idx", True),
        ("scale_attn_weights", False),
        ("add_cross_attention", True),
        ("tie_word_embeddings", False),
        ("activation_function", "tanh"),
        ("n_inner", 7),
        ("quantization_config", {"bits": 4}),
    ],
)
def test_a_configuration_that_is_not_covered_is_named(tmp_path, field, value):
    published("gpt2", tmp_path)
    edit_config(tmp_path, **{field: value})
    with pytest.raises(ValueError, match=says(f"{field}={value!r}", "covers")):
        gpt2.from_pretrained(tmp_path)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w.pop("transformer.ln_f.bias"), ("missing", "ln_f.bias")),
        (lambda w: w.update({"other.weight": torch.ones(1)}), ("unknown", "other.weight")),
        (
            lambda w: w.update({"transformer.wpe.weight": torch.ones(MAX_LEN + 1, 18)}),
            ("wpe.weight", (MAX_LEN + 1, 18), (MAX_LEN, 18)),
        ),
        (
            lambda w: w.update({"transformer.ln_f.bias": torch.ones(18, dtype=torch.int8)}),
            ("ln_f.bias", "int8"),
        ),
        (
            lambda w: w.update({"lm_head.weight": torch.ones(VOCAB, 18)}),
            ("lm_head.weight differs from wte.weight", "tied"),
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(tmp_path, change, words):
    published("gpt2", tmp_path)
    edit_weights(tmp_path, change)
    with pytest.raises(ValueError, match=says(*words)):
        gpt2.from_pretrained(tmp_path)


def test_a_folder_without_its_files_is_named(tmp_path):
    for content in (None, "{half"):
        if content:
            (tmp_path / "config.json").write_text(content)
        with pytest.raises(ValueError, match=says(tmp_path, "config.json")):
            gpt2.from_pretrained(tmp_path)
    published("gpt2", tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=says(tmp_path, "model.safetensors")):
        gpt2.from_pretrained(tmp_path)


def test_a_pickle_that_runs_code_is_not_run(tmp_path):
    published("gpt2", tmp_path)
    (tmp_path / "model.safetensors").unlink()

    class Trap:
        def __reduce__(self):
            return (tmp_path.joinpath("trapped").touch, ())

    torch.save({"wte.weight": Trap()}, tmp_path / "pytorch_model.bin")
    with pytest.raises(Exception, match="cannot be read as tensors"):
        gpt2.from_pretrained(tmp_path)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("content", [b"version https://git-lfs.github.com/spec/v1", b"\x80\x04."])
@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
def test_a_file_without_tensors_is_named_with_the_way_out(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} cannot be read as tensors.*get the file again"):
        read_weights(tmp_path)


def test_a_missing_field_and_a_tokenizer_that_is_none_are_named(tmp_path):
    published("gpt2", tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer.json is no tokenizer"):
        gpt2.from_pretrained(tmp_path)
    edit_config(tmp_path, n_head=...)
    with pytest.raises(ValueError, match="config.json has no field n_head"):
        gpt2.from_pretrained(tmp_path)
