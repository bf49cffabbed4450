"""Carry weights between ``ModernDecoder`` and the layout that Llama is published in.

Differs: RoPE rotates column i of a head with column i + d_k / 2 (halves), ours neighbours
(interleaved); the rows of W^Q and W^K are reordered on the way.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor

from course_lib.interop.pretrained import (
    drop_copies,
    load_by_name,
    read_config,
    read_tokenizer,
    read_weights,
    state_by_name,
)
from course_lib.modern_decoder import ModernConfig, ModernDecoder

NAMES = {  # ours: theirs
    "embedding": "model.embed_tokens",
    "layers.*.norm1": "model.layers.*.input_layernorm",
    "layers.*.self_attn.w_q": "model.layers.*.self_attn.q_proj",
    "layers.*.self_attn.w_k": "model.layers.*.self_attn.k_proj",
    "layers.*.self_attn.w_v": "model.layers.*.self_attn.v_proj",
    "layers.*.self_attn.w_o": "model.layers.*.self_attn.o_proj",
    "layers.*.norm2": "model.layers.*.post_attention_layernorm",
    "layers.*.feed_forward.gate": "model.layers.*.mlp.gate_proj",
    "layers.*.feed_forward.linear1": "model.layers.*.mlp.up_proj",
    "layers.*.feed_forward.linear2": "model.layers.*.mlp.down_proj",
    "norm": "model.norm",
    "output": "lm_head",
}
SUPPORTED = {  # field: (what it means if absent, what is covered)
    "hidden_act": ("silu", ["silu"]),
    "attention_bias": (False, [False]),
    "mlp_bias": (False, [False]),
    "rope_scaling": (None, [None]),
    "tie_word_embeddings": (False, [False, True]),
}
ROTATED = ("q_proj.weight", "k_proj.weight")


def from_pretrained(folder: Path | str) -> tuple[ModernDecoder, Tokenizer | None]:
    """Load a model in Llama's layout.

    Args:
        folder: It holds ``config.json``, ``model.safetensors`` or ``pytorch_model.bin``, and
            perhaps ``tokenizer.json``.

    Returns:
        A ``ModernDecoder`` in eval mode, and the tokenizer, or ``None``.

    Raises:
        ValueError: If a field of the configuration is not covered, or a weight does not fit.
    """
    config = read_config(folder, ["llama"], SUPPORTED)
    width = config["hidden_size"] // config["num_attention_heads"]
    found = config.get("head_dim") or width
    if found != width:
        raise ValueError(f"config.json says head_dim={found}; this loader covers {width}")
    model = ModernDecoder(
        ModernConfig(
            vocab_size=config["vocab_size"],
            max_len=config["max_position_embeddings"],
            num_layers=config["num_hidden_layers"],
            num_heads=config["num_attention_heads"],
            num_kv_heads=config.get("num_key_value_heads") or config["num_attention_heads"],
            d_model=config["hidden_size"],
            d_ff=config["intermediate_size"],
            rope_base=_rope_base(config),
            norm_eps=config.get("rms_norm_eps", 1e-6),
            tie_embeddings=config.get("tie_word_embeddings", False),
        )
    )
    load_state_dict(model, read_weights(folder))
    return model.eval(), read_tokenizer(folder)


def _rope_base(config: Mapping[str, Any]) -> float:
    """Find the base of the angles; newer files keep it one level below."""
    rope = config.get("rope_parameters") or {}
    kind = rope.get("rope_type", "default")
    if kind != "default":
        raise ValueError(f"config.json says rope_type={kind!r}; this loader covers 'default'")
    return float(rope.get("rope_theta", config.get("rope_theta", 10_000.0)))


def load_state_dict(model: ModernDecoder, weights: Mapping[str, Tensor]) -> None:
    """Give a model the weights of Llama.

    Args:
        model: Changed in place.
        weights: By published name. Tables of frequencies are left out, and in a tied model
            ``lm_head.weight``, which must equal the embedding.

    Raises:
        ValueError: If a weight is missing, unknown or of another shape, or the two differ.
    """
    tied = {"lm_head.weight": "model.embed_tokens.weight"} if model.config.tie_embeddings else {}
    given = drop_copies(weights, tied, r".*\.rotary_emb\.inv_freq")
    d_k = model.config.d_model // model.config.num_heads
    load_by_name(model, given, NAMES, lambda name, value: _reordered(name, value, (2, d_k // 2)))


def to_state_dict(model: ModernDecoder) -> dict[str, Tensor]:
    """Return copies of a model's weights under Llama's names; of a tied one without the output."""
    d_k = model.config.d_model // model.config.num_heads
    return state_by_name(model, NAMES, lambda name, value: _reordered(name, value, (d_k // 2, 2)))


def _reordered(name: str, value: Tensor, pairs: tuple[int, int]) -> Tensor:
    """Transpose the rows of each head as a table of ``pairs``: halves to neighbours, or back."""
    if not name.endswith(ROTATED):
        return value
    return value.unflatten(0, (-1, *pairs)).transpose(1, 2).flatten(0, 2)
