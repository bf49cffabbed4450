"""Carry weights between ``ModernDecoder`` and the layout that Llama is published in.

Differs: RoPE rotates column i of a head with column i + d_k / 2 (halves), ours neighbors
(interleaved); the rows of W^Q and W^K are reordered on the way.
"""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor

from course_lib.interop.config_fields import ConfigFields, Supported, read_config
from course_lib.interop.pretrained import Layout, build_and_load, read_tokenizer
from course_lib.modern_decoder import ModernConfig, ModernDecoder

NAMES = {  # ours: published
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
SUPPORTED: Supported = {  # field: (what it means if absent, what is covered)
    "hidden_act": ("silu", ["silu"]),
    "attention_bias": (False, [False]),
    "mlp_bias": (False, [False]),
    "partial_rotary_factor": (1.0, [1.0]),
}
ROPE_FIELDS = ("rope_type", "type", "rope_theta")  # "type" in older files
ROTATED = ("q_proj.weight", "k_proj.weight")


def from_pretrained(folder: Path | str) -> tuple[ModernDecoder, Tokenizer | None]:
    """Load a model in Llama's layout from a folder as it is published.

    Returns a model in eval mode, and the tokenizer, or None without one.
    Raises ValueError if a field of the configuration is not covered, or a weight does not fit.
    """
    config = _to_config(read_config(folder, ["llama"], SUPPORTED))
    model = build_and_load(folder, lambda: ModernDecoder(config), load_state_dict)
    return model, read_tokenizer(folder)


def _to_config(fields: ConfigFields) -> ModernConfig:
    """Translate the configuration."""
    d_model = fields.integer("hidden_size")
    num_heads = fields.integer("num_attention_heads", divides=d_model)
    d_k = d_model // num_heads
    if d_k % 2:
        raise fields.uncovered("num_attention_heads", "heads of an even width")
    fields.integer("head_dim", default=d_k, least=d_k, most=d_k)
    return ModernConfig(
        vocab_size=fields.integer("vocab_size"),
        max_len=fields.integer("max_position_embeddings", most=2 * fields.LARGEST_TABLE // d_k),
        num_layers=fields.integer("num_hidden_layers", most=fields.MOST_LAYERS),
        num_heads=num_heads,
        num_kv_heads=fields.integer("num_key_value_heads", default=num_heads, divides=num_heads),
        d_model=d_model,
        d_ff=fields.integer("intermediate_size"),
        rope_base=_rope_base(fields),
        norm_eps=fields.number("rms_norm_eps", 1e-6, least=0.0),
        tie_embeddings=fields.choice("tie_word_embeddings", False, [False, True]),
    )


def _rope_base(fields: ConfigFields) -> float:
    """Find the base of the angles; newer files keep it one level below."""
    base = fields.number("rope_theta", 10_000.0, least=1.0)
    for section in ("rope_scaling", "rope_parameters"):
        rope = fields.section(section, ROPE_FIELDS)
        for name in ("rope_type", "type"):
            rope.choice(name, "default", ["default"])
        base = rope.number("rope_theta", base, least=1.0)
    return base


def load_state_dict(model: ModernDecoder, weights: Mapping[str, Tensor]) -> None:
    """Copy weights by published name into a model, as ``Layout.load`` does."""
    _layout(model).load(model, weights)


def to_state_dict(model: ModernDecoder) -> dict[str, Tensor]:
    """Return copies of a model's weights under Llama's names; of a tied one without the output."""
    return _layout(model).state(model)


def _layout(model: ModernDecoder) -> Layout:
    """Return the layout of a model with heads of this width, tied or not."""
    pairs = model.config.d_model // model.config.num_heads // 2
    tied = {"lm_head.weight": "model.embed_tokens.weight"} if model.config.tie_embeddings else {}
    return Layout(
        NAMES,
        lambda name, value: _reordered(name, value, (2, pairs)),
        lambda name, value: _reordered(name, value, (pairs, 2)),
        copies=tied,
        unread=r".*\.rotary_emb\.inv_freq",
    )


def _reordered(name: str, value: Tensor, table: tuple[int, int]) -> Tensor:
    """Transpose the rows of each head as a table: halves to neighbors, or back."""
    if not name.endswith(ROTATED):
        return value
    return value.unflatten(0, (-1, *table)).transpose(1, 2).flatten(0, 2)
