"""Carry weights between ``ModernDecoder`` and the layouts that Llama is published in.

Differs: in a folder, RoPE rotates column i of a head with column i + d_k / 2 (halves), ours
neighbors (interleaved), so the rows of W^Q and W^K are reordered. A GGUF file has our order.
"""

from collections.abc import Mapping
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor

from course_lib.interop.config_fields import ConfigFields, Supported, read_config
from course_lib.interop.gguf_file import build_tokenizer, read_metadata, read_tensors
from course_lib.interop.pretrained import Layout, build_and_load, read_tokenizer, read_weights
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
GGUF_NAMES = {  # ours: as llama.cpp calls it
    "embedding": "token_embd",
    "layers.*.norm1": "blk.*.attn_norm",
    "layers.*.self_attn.w_q": "blk.*.attn_q",
    "layers.*.self_attn.w_k": "blk.*.attn_k",
    "layers.*.self_attn.w_v": "blk.*.attn_v",
    "layers.*.self_attn.w_o": "blk.*.attn_output",
    "layers.*.norm2": "blk.*.ffn_norm",
    "layers.*.feed_forward.gate": "blk.*.ffn_gate",
    "layers.*.feed_forward.linear1": "blk.*.ffn_up",
    "layers.*.feed_forward.linear2": "blk.*.ffn_down",
    "norm": "output_norm",
    "output": "output",
}
GGUF_FIELDS = {  # of config.json: of a GGUF file
    "model_type": "general.architecture",
    "hidden_size": "llama.embedding_length",
    "num_attention_heads": "llama.attention.head_count",
    "num_key_value_heads": "llama.attention.head_count_kv",
    "head_dim": "llama.attention.key_length",
    "max_position_embeddings": "llama.context_length",
    "num_hidden_layers": "llama.block_count",
    "intermediate_size": "llama.feed_forward_length",
    "rope_theta": "llama.rope.freq_base",
    "rms_norm_eps": "llama.attention.layer_norm_rms_epsilon",
}
SUPPORTED: Supported = {  # field: (what it means if absent, what is covered)
    "hidden_act": ("silu", ["silu"]),
    "attention_bias": (False, [False]),
    "mlp_bias": (False, [False]),
    "partial_rotary_factor": (1.0, [1.0]),
}
ROPE_FIELDS = ("rope_type", "type", "rope_theta")  # "type" in older files
ROTATED = ("q_proj.weight", "k_proj.weight")


def from_pretrained(path: Path | str) -> tuple[ModernDecoder, Tokenizer | None]:
    """Load a model in Llama's layout from a folder as it is published, or from one GGUF file.

    Returns a model in eval mode, and the tokenizer, or None without one.
    Raises ValueError if a field of the configuration is not covered, or a weight does not fit.
    """
    if Path(path).suffix == ".gguf" and Path(path).is_file():
        return _from_gguf(Path(path))
    config = _to_config(read_config(path, ["llama"], SUPPORTED))
    model = build_and_load(read_weights(path), lambda: ModernDecoder(config), load_state_dict)
    return model, read_tokenizer(path)


def _from_gguf(path: Path) -> tuple[ModernDecoder, Tokenizer]:
    """Load a model and its tokenizer from a GGUF file."""
    metadata = read_metadata(path)
    fields = ConfigFields(metadata, source=path.name)
    fields.choice("general.architecture", None, ["llama"])
    tokenizer = build_tokenizer(fields)
    weights = read_tensors(path)
    content = {ours: metadata[name] for ours, name in GGUF_FIELDS.items() if name in metadata}
    content |= {
        "vocab_size": tokenizer.get_vocab_size(),
        "tie_word_embeddings": "output.weight" not in weights,
    }
    config = _to_config(ConfigFields(content, source=path.name, names=GGUF_FIELDS))
    model = build_and_load(weights, lambda: ModernDecoder(config), GGUF.load)
    return model, tokenizer


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


def _as_it_is(name: str, value: Tensor) -> Tensor:
    """Return a weight without a change."""
    return value


GGUF = Layout(GGUF_NAMES, _as_it_is, _as_it_is, copies={}, unread=r"rope_freqs\.weight")
