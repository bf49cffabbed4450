"""Carry weights between ``Transformer`` and Marian's layout, in which opus-mt is published.

Differs: the feed-forward bends by SiLU; the positions' sines stand in the first half of a row and
their cosines in the second; the output has a bias; the token that a target begins with is padding.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.interop.marian_tokenizer import MarianTokenizer
from course_lib.interop.pretrained import (
    drop_copies,
    load_by_name,
    read_config,
    read_weights,
    state_by_name,
)
from course_lib.transformer import Transformer, TransformerConfig

ATTENTION = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj"}
ENCODER = {f"self_attn.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()} | {
    "add_norm1.norm": "self_attn_layer_norm",
    "feed_forward.linear1": "fc1",
    "feed_forward.linear2": "fc2",
    "add_norm2.norm": "final_layer_norm",
}
DECODER = (
    ENCODER
    | {f"cross_attn.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()}
    | {"add_norm2.norm": "encoder_attn_layer_norm", "add_norm3.norm": "final_layer_norm"}
)
NAMES = {  # ours: theirs
    "tgt_embedding": "model.shared",
    "output.bias": "final_logits_bias",
    **{f"encoder.layers.*.{o}": f"model.encoder.layers.*.{t}" for o, t in ENCODER.items()},
    **{f"decoder.layers.*.{o}": f"model.decoder.layers.*.{t}" for o, t in DECODER.items()},
}
ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "swish": "silu", "silu": "silu"}
SUPPORTED = {  # field: (what it means if absent, what is covered)
    "activation_function": ("gelu", ACTIVATIONS),
    "scale_embedding": (False, [True]),
    "share_encoder_decoder_embeddings": (True, [True]),
    "tie_word_embeddings": (True, [True]),
    "normalize_before": (False, [False]),
    "normalize_embedding": (False, [False]),
    "add_final_layer_norm": (False, [False]),
    "static_position_embeddings": (True, [True]),
}


@dataclass(frozen=True, kw_only=True)
class MarianConfig(TransformerConfig):
    """Hold the hyperparameters of a Marian model.

    Args:
        bos_id: What every target begins with: V, one past the published vocabulary. Its embedding
            is that of padding; as an id of its own it is not hidden as padding is.
        eos_id: What ends a source and a target.
    """

    bos_id: int
    eos_id: int


def from_pretrained(
    folder: Path | str, model_class: Callable[[TransformerConfig], nn.Module] = Transformer
) -> tuple[nn.Module, MarianTokenizer | None]:
    """Load a Marian translator, such as opus-mt.

    Args:
        folder: It holds ``config.json``, ``model.safetensors`` or ``pytorch_model.bin``, and
            perhaps the tokenizer's files.
        model_class: What is built: our ``Transformer``, or one that you wrote.

    Returns:
        The model in eval mode, without dropout; its ``config`` is a ``MarianConfig``, and
        ``forward(src, tgt)`` gives logits of V + 1 tokens, that of ``bos_id`` -inf. And the
        tokenizer, or ``None``.

    Raises:
        ValueError: If a field of the configuration is not covered, or a weight does not fit.
    """
    model = build(_to_config(read_config(folder, ["marian"], SUPPORTED)), model_class)
    load_state_dict(model, read_weights(folder))
    has_tokenizer = (Path(folder) / "source.spm").is_file()
    return model.eval(), MarianTokenizer(folder) if has_tokenizer else None


def build(
    config: MarianConfig, model_class: Callable[[TransformerConfig], nn.Module] = Transformer
) -> nn.Module:
    """Build a model, and give it what Marian has beside: a bias, and positions in halves."""
    model = model_class(config)
    model.output.bias = nn.Parameter(torch.zeros(config.tgt_vocab_size))
    waves = model.positions.encoding
    model.positions.encoding = torch.cat([waves[:, 0::2], waves[:, 1::2]], dim=1)
    return model


def _to_config(config: Mapping[str, Any]) -> MarianConfig:
    """Translate the configuration; refuse two sides that differ, and another start."""
    pad_id = config["pad_token_id"]
    V = config["vocab_size"]
    same = {
        "decoder_start_token_id": pad_id,
        "decoder_vocab_size": V,
        "decoder_attention_heads": config["encoder_attention_heads"],
        "decoder_ffn_dim": config["encoder_ffn_dim"],
    }
    for field, value in same.items():
        found = config.get(field, value)
        if found != value:
            raise ValueError(f"config.json says {field}={found!r}; this loader covers {value!r}")
    return MarianConfig(
        src_vocab_size=V + 1,
        tgt_vocab_size=V + 1,
        d_model=config["d_model"],
        num_heads=config["encoder_attention_heads"],
        num_encoder_layers=config["encoder_layers"],
        num_decoder_layers=config["decoder_layers"],
        d_ff=config["encoder_ffn_dim"],
        dropout=0.0,
        max_len=config["max_position_embeddings"],
        activation=ACTIVATIONS[config.get("activation_function", "gelu")],
        pad_id=pad_id,
        bos_id=V,
        eos_id=config["eos_token_id"],
    )


def load_state_dict(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a model, as ``build`` builds it, the weights of Marian.

    Args:
        model: Changed in place.
        weights: By published name. The table of positions is left out, and what must equal
            ``model.shared.weight``.

    Raises:
        ValueError: If a weight is missing, unknown or of another shape, or a copy differs.
    """
    tied = ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
    copies = {f"{name}.weight": "model.shared.weight" for name in tied}
    given = drop_copies(weights, copies, r".*\.embed_positions\.weight")
    pad_id = model.config.pad_id

    def with_start(name: str, value: Tensor) -> Tensor:
        """Add the row of the start token, which is padding's, and never let it be chosen."""
        if name == "model.shared.weight":
            return torch.cat([value, value[pad_id : pad_id + 1]])
        never = torch.full((1,), -torch.inf, dtype=value.dtype)
        return torch.cat([value[0], never]) if name == "final_logits_bias" else value

    load_by_name(model, given, NAMES, with_start)


def to_state_dict(model: nn.Module) -> dict[str, Tensor]:
    """Return copies of a model's weights under Marian's names, without the start token's row."""

    def without_start(name: str, value: Tensor) -> Tensor:
        """Leave out the last row; the bias is a matrix of one row."""
        if name == "model.shared.weight":
            return value[:-1]
        return value[None, :-1] if name == "final_logits_bias" else value

    return state_by_name(model, NAMES, without_start)
