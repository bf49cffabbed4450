"""Probes: no alarm on right models, and each sees a bug of its own kind."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import transformers
from mutants import BOS, PAD, VOCAB, ReversalConfig, build, loss_of_step, planted, write
from torch import nn
from torch.nn import functional as F

from course_lib import cli, probes
from course_lib.decoder_only import DecoderOnly
from course_lib.exercises import known_mistakes
from course_lib.gpt import GPT, GPTConfig
from course_lib.modern_decoder import ModernConfig, ModernDecoder
from course_lib.probes import training_probes

SIZES = dict(d_model=32, num_heads=4, max_len=16, num_layers=2, vocab_size=VOCAB)


def translator(**other) -> nn.Module:
    """Build a small Transformer whose padding is no 0."""
    return build(None, ReversalConfig(), **other)


def published(name: str) -> nn.Module:
    """Build a model of the library ``transformers``, with random weights."""
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    return kind(kind.config_class(vocab_size=VOCAB, **LIBRARY[name]))


LIBRARY = {
    "GPT2LMHeadModel": dict(
        n_positions=16, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    ),
    "GPTJForCausalLM": dict(  # attention and feed-forward in parallel
        n_positions=16, n_embd=32, n_layer=2, n_head=4, rotary_dim=4, bos_token_id=0, eos_token_id=0
    ),
    "MarianMTModel": dict(
        d_model=32, max_position_embeddings=16, encoder_layers=2, decoder_layers=2,
        encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64,
        decoder_ffn_dim=64, pad_token_id=PAD, decoder_start_token_id=PAD, eos_token_id=1,
    ),
    "T5ForConditionalGeneration": dict(
        d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, pad_token_id=PAD,
        decoder_start_token_id=PAD, eos_token_id=1,
    ),
}  # fmt: skip


def with_mask(model, src, tgt):
    """Call a model of the library as it wants to be called."""
    return model(input_ids=src, attention_mask=src != PAD, decoder_input_ids=tgt)


RIGHT = {
    "post-norm": (translator, dict(pad_id=PAD)),
    "pre-norm": (lambda: translator(norm_first=True, tie_embeddings="none"), dict(pad_id=PAD)),
    "GPT": (lambda: GPT(GPTConfig(**SIZES)), {}),
    "DecoderOnly": (lambda: DecoderOnly(translator().config, True), {}),
    "ModernDecoder": (
        lambda: ModernDecoder(ModernConfig(num_kv_heads=2, d_ff=64, **SIZES)),
        {},
    ),
    "GPT-2": (lambda: published("GPT2LMHeadModel"), {}),
    "GPT-J": (lambda: published("GPTJForCausalLM"), {}),
    "Marian": (lambda: published("MarianMTModel"), dict(pad_id=PAD, forward=with_mask)),
    "T5": (lambda: published("T5ForConditionalGeneration"), dict(pad_id=PAD, forward=with_mask)),
}


@pytest.mark.parametrize("name", RIGHT)
def test_no_alarm_on_a_right_model(name):
    make, how = RIGHT[name]
    torch.manual_seed(0)
    results = probes.probe(make(), vocab_size=VOCAB, **how)
    assert len(results) >= 15
    assert [str(result) for result in results if not result.passed] == []


def test_output_projections_may_start_at_zero():
    model = GPT(GPTConfig(**SIZES))
    for name, parameter in model.named_parameters():
        if "w_o" in name or "linear2" in name:
            nn.init.zeros_(parameter)
    assert probes.residual_paths(probes.prepare_model(model, vocab_size=VOCAB)).passed


def seen_by(name: str, model, **how) -> bool:
    """Say whether the probe of a name fails."""
    subject = probes.prepare_model(model, **dict(vocab_size=VOCAB, pad_id=PAD) | how)
    return not getattr(probes, name)(subject).passed


@pytest.mark.parametrize(
    ("name", "exercise", "mistake"),
    [
        ("causality", "causal_mask", "causal_sees_next"),
        ("context", "causal_mask", "causal_transposed"),
        ("padding_invariance", "padding_mask", "padding_by_length"),
        ("order_sensitivity", "Transformer", "positions_missing_source"),
        ("gradient_reach", "Encoder", "first_layer_only"),
        ("parameters_registered", "Encoder", "plain_list"),
        ("parts_used_once", "EncoderLayer", "one_norm"),
        ("attention_scores", "scaled_dot_product_attention", "scale_d_k"),
        ("attention_scores", "scaled_dot_product_attention", "softmax_over_heads"),
        ("attention_scores", "causal_mask", "causal_without_itself"),
        ("residual_paths", "EncoderLayer", "residual_missing"),
        ("residual_paths", "EncoderLayer", "residual_of_input"),
        ("residual_paths", "DecoderLayer", "residual_from_input"),
        ("dropout_rate", "EncoderLayer", "dropout_ignored"),
        ("final_norm", "Encoder", "last_norm_missing"),
        ("initial_loss", "Transformer", "initialize_missing"),
        ("loss_per_token", "label_smoothed_cross_entropy", "padding_counted"),
        ("loss_per_token", "training_step", "eval_mode"),
        ("loss_targets", "label_smoothed_cross_entropy", "smoothing_on_padding"),
        ("loss_targets", "label_smoothed_cross_entropy", "divergence_in_place_of_the_loss"),
        ("free_running", "greedy_decode", "starts_with_padding"),
    ],
)
def test_a_probe_sees_a_known_mistake_of_its_kind(name, exercise, mistake):
    (wrong,) = (each for each in known_mistakes(exercise) if each.name == mistake)
    more = dict(loss=loss_of_step, generate=write, bos_id=BOS, dropout=0.1)
    order = dict(norm_first=name == "final_norm")
    with planted(wrong):
        assert seen_by(name, translator(**order), **more)
    assert not seen_by(name, translator(**order), **more)


class Wrapped(nn.Module):
    """Hand on what a right model says, changed by a function."""

    def __init__(self, change) -> None:
        super().__init__()
        self.model = translator(dropout=0.0)
        self.change = change
        self.kept = torch.zeros(())

    def forward(self, src, tgt):
        """Score, and change the scores."""
        return self.change(self, self.model(src, tgt))


def changed_in_place(wrapped, logits):
    """Remember what was read before."""
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
def test_a_probe_sees_a_planted_change(name, monkeypatch):
    monkeypatch.setattr(training_probes, "STEPS", 60)  # the right one needs 47
    assert seen_by(name, Wrapped(CHANGES[name]))


def test_labels_that_are_not_shifted_are_named():
    def unshifted(model, src, tgt):
        return F.cross_entropy(model(src, tgt[:, :-1]).transpose(1, 2), tgt[:, :-1])

    subject = probes.prepare_model(translator(), vocab_size=VOCAB, pad_id=PAD, loss=unshifted)
    result = probes.overfit_one_batch(subject)
    assert not result.passed and "not shifted" in result.hint


def test_everything_stays_as_it_was():
    model = translator().train()
    model.encoder.eval()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    modes = [module.training for module in model.modules()]
    state = torch.get_rng_state()
    probes.probe(model, vocab_size=VOCAB, pad_id=PAD)
    assert torch.equal(torch.get_rng_state(), state)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all((parameter.grad == 1).all() for parameter in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


@pytest.mark.parametrize(
    "answer", [lambda x: x, lambda x: (x, None), lambda x: SimpleNamespace(logits=x)]
)
def test_logits_are_found(answer):
    subject = probes.prepare_model(
        Wrapped(lambda wrapped, logits: answer(logits)), vocab_size=VOCAB
    )
    assert subject.reads_source and probes.causality(subject).passed


def test_what_cannot_be_called_is_said():
    with pytest.raises(ValueError, match="forward="):
        probes.prepare_model(nn.Linear(2, 2), vocab_size=VOCAB)
    with pytest.raises(ValueError, match="6 words"):
        probes.prepare_model(translator(), vocab_size=5)


def test_a_result_shows_itself():
    result = probes.ProbeResult("a < b", False, "look")
    assert str(result) == "✗ a < b: look" and "a &lt; b" in result._repr_html_()


def test_the_page_shows_what_is_printed(capsys):
    page = (Path(__file__).parents[1] / "docs" / "probes.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(.*?)```", page, re.S)[1]
    shown = re.search(r"```text\n(.*?)```", page, re.S)[1].splitlines()
    exec(example, {})
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 17 and set(shown) <= set(printed)
    told = set(re.findall(r"^\| `(\w+)`", page, re.M))
    assert told >= {run.__name__ for run in probes.PROBES}


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
