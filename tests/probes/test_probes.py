"""Probes raise no alarm on correct models, and each probe catches a mistake of its kind."""

import re
from functools import partial
from pathlib import Path

import pytest
import torch
import transformers
from mutants import BOS, PAD, VOCAB, ReversalConfig, build, loss_of_step, planted, write
from styled_models import STYLES, Decoder
from styled_models import VOCAB as STYLED_VOCAB
from torch import nn

from course_lib import probes
from course_lib.cli import main as cli
from course_lib.decoder_only import DecoderOnly
from course_lib.exercises import known_mistakes
from course_lib.gpt import GPT, GPTConfig
from course_lib.modern_decoder import ModernConfig, ModernDecoder
from course_lib.probes import training_probes

SIZES = dict(d_model=32, num_heads=4, max_len=16, num_layers=2, vocab_size=VOCAB)


def translator(**other) -> nn.Module:
    """Build a small Transformer whose padding id is not 0."""
    return build(None, ReversalConfig(), **other)


def published(name: str, **options) -> nn.Module:
    """Build a small model of the ``transformers`` library, with random weights."""
    torch.manual_seed(0)
    config_class = transformers.CONFIG_MAPPING[name]
    default = config_class()
    sizes = {key: value for key, value in LIBRARY_SIZES.items() if hasattr(default, key)}
    config = config_class(**sizes | options)
    kind = "Seq2SeqLM" if config.is_encoder_decoder else "CausalLM"
    return getattr(transformers, f"AutoModelFor{kind}").from_config(config)


HEADS = ("n_head", "num_heads", "num_attention_heads", "num_key_value_heads")
SIDES = ("encoder", "decoder")
LIBRARY_SIZES = (
    dict.fromkeys(("n_embd", "d_model", "hidden_size"), 32)
    | dict.fromkeys(("n_layer", "num_layers", "num_hidden_layers"), 2)
    | dict.fromkeys((*HEADS, *(f"{side}_attention_heads" for side in SIDES)), 4)
    | dict.fromkeys(("d_kv", "head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"), 8)
    | dict.fromkeys(("d_ff", "ffn_dim", "intermediate_size", "moe_intermediate_size"), 48)
    | dict.fromkeys((f"{side}_ffn_dim" for side in SIDES), 48)
    | dict.fromkeys((f"{side}_layers" for side in SIDES), 2)
    | dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16)
    | dict(vocab_size=VOCAB, max_position_embeddings=32, n_positions=32)
    | dict(rotary_dim=4, num_experts_per_tok=2, n_group=1, topk_group=1, word_embed_proj_dim=32)
    | dict(n_routed_experts=4, first_k_dense_replace=1)
    | dict(pad_token_id=PAD, bos_token_id=0, eos_token_id=1, decoder_start_token_id=PAD)
)
DECODERS = "gpt2 gptj llama gemma2 opt deepseek_v3 mamba"
TRANSLATORS = "marian t5"


def with_mask(model, src, tgt):
    return model(input_ids=src, attention_mask=src != PAD, decoder_input_ids=tgt)


MASKED = dict(pad_id=PAD, forward=with_mask)
RIGHT = {
    "post-norm": (translator, dict(pad_id=PAD)),
    "pre-norm": (lambda: translator(norm_first=True, tie_embeddings="none"), dict(pad_id=PAD)),
    "GPT": (lambda: GPT(GPTConfig(**SIZES)), {}),
    "DecoderOnly": (lambda: DecoderOnly(translator().config, True), {}),
    "ModernDecoder": (lambda: ModernDecoder(ModernConfig(num_kv_heads=2, d_ff=64, **SIZES)), {}),
    **{name: (partial(published, name), {}) for name in DECODERS.split()},
    **{name: (partial(published, name), MASKED) for name in TRANSLATORS.split()},
    **{name: (make, dict(vocab_size=STYLED_VOCAB) | how) for name, (make, how) in STYLES.items()},
}


@pytest.mark.parametrize("name", RIGHT)
def test_no_alarm_on_a_correct_model(name):
    make, options = RIGHT[name]
    torch.manual_seed(0)
    results = probes.probe(make(), **dict(vocab_size=VOCAB) | options)
    assert len(results) >= 15
    assert [str(result) for result in results if not result.passed] == []


def seen_by(name: str, model, **options) -> bool:
    """Return whether the probe with this name fails."""
    probed = probes.prepare_model(model, **dict(vocab_size=VOCAB, pad_id=PAD) | options)
    return not getattr(probes, name)(probed).passed


def no_gradient(model):
    """Set both matrices in a product to zero, so that neither of them ever learns."""
    for layer in model.layers:
        for parameter in layer.parts.parameters():
            nn.init.zeros_(parameter)


def one_attention(model):
    model.layers[1].attention = model.layers[0].attention


def louder(model):
    nn.init.normal_(model.layers[0].attention.qkv.weight)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("attention_scores", dict(scale=1.0, initialize=louder)),
        ("attention_scores", dict(scale=32**-0.5)),
        ("context", dict(window=1)),
        ("gradient_reach", dict(initialize=no_gradient)),
        ("parts_used_once", dict(initialize=one_attention)),
    ],
)
def test_a_mistake_that_resembles_a_correct_style_is_caught(name, options):
    assert seen_by(name, Decoder(**options), vocab_size=STYLED_VOCAB, pad_id=None)
    assert not seen_by(name, Decoder(), vocab_size=STYLED_VOCAB, pad_id=None)


@pytest.mark.parametrize("fault", ["", "kept", "shifted"])
def test_a_faulty_cache_is_caught_in_a_new_model(fault):
    kept = transformers.DynamicCache()

    def generate(model, ids):
        cache, seen = kept if fault == "kept" else transformers.DynamicCache(), 0
        for _ in range(6):
            places = torch.arange(seen, ids.size(1))[None] + (fault == "shifted" and seen > 0)
            output = model(ids[:, seen:], past_key_values=cache, position_ids=places)
            seen = ids.size(1)
            ids = torch.cat([ids, output.logits[:, -1:].argmax(-1)], dim=1)
        return ids

    assert seen_by("free_running", published("gpt2"), pad_id=None, generate=generate) == bool(fault)


KNOWN = [  # a probe, and a known mistake that it catches
    ("causality", "causal_mask", "causal_sees_next"),
    ("context", "causal_mask", "causal_transposed"),
    ("padding_invariance", "padding_mask", "padding_by_length"),
    ("order_sensitivity", "Transformer", "positions_missing_source"),
    ("gradient_reach", "Encoder", "first_layer_only"),
    ("parameters_registered", "Encoder", "plain_list"),
    ("parts_used_once", "EncoderLayer", "one_norm"),
    ("attention_scores", "scaled_dot_product_attention", "scale_d_k"),
    ("residual_paths", "EncoderLayer", "residual_missing"),
    ("dropout_rate", "EncoderLayer", "dropout_ignored"),
    ("final_norm", "Encoder", "last_norm_missing"),
    ("initial_loss", "Transformer", "initialize_missing"),
    ("loss_per_token", "label_smoothed_cross_entropy", "padding_counted"),
    ("loss_targets", "label_smoothed_cross_entropy", "smoothing_on_padding"),
    ("free_running", "greedy_decode", "starts_with_padding"),
]


@pytest.mark.parametrize(("name", "exercise", "mistake"), KNOWN)
def test_a_probe_catches_a_known_mistake_of_its_kind(name, exercise, mistake):
    (wrong,) = (each for each in known_mistakes(exercise) if each.name == mistake)
    more = dict(loss=loss_of_step, generate=write, bos_id=BOS, dropout=0.1)
    order = dict(norm_first=name == "final_norm")
    with planted(wrong):
        assert seen_by(name, translator(**order), **more)
    assert not seen_by(name, translator(**order), **more)


class Wrapped(nn.Module):
    """A wrapper that changes the output of a correct model by a function."""

    def __init__(self, change) -> None:
        super().__init__()
        self.model = translator(dropout=0.0)
        self.change = change
        self.kept = torch.zeros(())

    def forward(self, src, tgt):
        self.ids = src, tgt  # a change may read or overwrite them
        return self.change(self, self.model(src, tgt))


def changed_in_place(wrapped, logits):
    """A model that remembers its earlier inputs."""
    wrapped.kept = wrapped.kept + 1
    return logits * wrapped.kept


CHANGES = {
    "determinism": changed_in_place,
    "training_and_eval_mode": lambda wrapped, logits: logits * (1 + wrapped.training),
    "finite_numbers": lambda wrapped, logits: logits + logits * 7e4 - logits * 7e4,
    "causality": lambda wrapped, logits: logits + wrapped.training * logits.mean(1, keepdim=True),
    "batch_invariance": lambda wrapped, logits: logits.log_softmax(dim=0),
    "overfit_one_batch": lambda wrapped, logits: logits.softmax(dim=-1),
    "returns_logits": lambda wrapped, logits: logits.log_softmax(dim=-1),
    "parameters_registered": lambda wrapped, logits: logits * (1 + wrapped.kept),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_probe_catches_a_planted_change(name, monkeypatch):
    monkeypatch.setattr(training_probes, "STEPS", 60)  # the correct model needs 47
    assert seen_by(name, Wrapped(CHANGES[name]))


def test_every_probe_has_a_planted_fault_that_it_catches():
    """A probe without a row in ``KNOWN`` or ``CHANGES`` has never been seen to fail."""
    seen = {name for name, *_ in KNOWN} | set(CHANGES)
    assert seen == {run.__name__ for run in probes.PROBES}


@pytest.mark.parametrize("make", [translator, Decoder])
def test_probes_leave_the_model_and_the_random_state_unchanged(make):
    model = make().train()
    next(model.children()).eval()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    state = torch.get_rng_state()
    probes.probe(model, vocab_size=VOCAB)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all((parameter.grad == 1).all() for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())
    assert torch.backends.mha.get_fastpath_enabled()


def holding_a_generator():
    """Build a model that cannot be copied."""
    model = Decoder()
    model.attribute = (number for number in ())
    return model


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (lambda: nn.Linear(2, 2), {}, "forward="),
        (translator, dict(vocab_size=5), "6 words"),
        (lambda: Decoder(last_only=True), {}, r"\(3, 1, 40\) for ids of shape \(3, 7\).*forward="),
        (Decoder, {}, "calls the original"),
        (holding_a_generator, {}, "need a copy"),
    ],
)
def test_a_model_that_cannot_be_probed_is_explained(make, options, message):
    model = make()
    if message == "calls the original":
        options = dict(forward=lambda _, ids: model(ids))
    with pytest.raises(ValueError, match=message):
        probes.prepare_model(model, **dict(vocab_size=VOCAB) | options)


def test_a_model_that_cannot_run_in_16_bit_raises_no_alarm():
    def float32_only(wrapped, logits):
        return logits @ torch.eye(VOCAB)

    probed = probes.prepare_model(Wrapped(float32_only), vocab_size=VOCAB)
    result = probes.finite_numbers(probed)
    assert result.passed and "cannot run in bfloat16" in result.hint


def test_the_page_shows_the_printed_output(capsys):
    page = (Path(__file__).parents[2] / "docs" / "probes.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", page, re.S)[1]
    shown = re.search(r"```text\n(.*?)```", page, re.S)[1].splitlines()
    exec(example, {})
    printed = capsys.readouterr().out.splitlines()
    assert set(shown) <= set(printed)
    listed = set(re.findall(r"^\| `(\w+)`", page, re.M))
    assert listed >= {run.__name__ for run in probes.PROBES}


def test_command(tmp_path, monkeypatch, capsys):
    text = "from test_probes import Wrapped, translator as right\n"
    text += "def wrong():\n    change = lambda wrapped, logits: logits.log_softmax(dim=-1)\n"
    text += "    return {'model': Wrapped(change), 'pad_id': 2}\ndef none():\n    return 1\n"
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert cli.main(["probe", "mine:right", "--vocab-size", "13", "--pad-id", "2"]) == 0
    assert cli.main(["probe", "mine:wrong", "--vocab-size", "13"]) == 1
    assert "✗ returns logits" in capsys.readouterr().out
    for bad in (["mine:none"], ["mine:right"], ["mine:fly"], ["fly:right"], ["mine"]):
        assert cli.main(["probe", *bad]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
