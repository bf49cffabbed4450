"""Convert weights between ``ModernDecoder`` and the published layouts of Llama.

Differs: in a folder, RoPE rotates column i of a head with column i + d_k / 2 (halves), ours
neighbors (interleaved), so the rows of W^Q and W^K are reordered. A GGUF file has our order.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor

from course_lib.input_checks import head_width
from course_lib.interop.config_fields import ConfigFields, Supported, read_config
from course_lib.interop.gguf_file import build_tokenizer, read_metadata, read_tensors
from course_lib.interop.pretrained import (
    Layout,
    as_it_is,
    build_and_load,
    read_tokenizer,
    read_weights,
)
from course_lib.modern_decoder import ModernConfig, ModernDecoder

NAMES = {  # ours: published
    "embedding": "model.embed_tokens",
    "layers.*.norm1": "model.layers.*.input_layernorm",
    "layers.*.self_attn.w_q": "model.layers.*.self_attn.q_proj",
    "layers.*.self_attn.w_k": "model.layers.*.self_attn.k_proj",
    "layers.*.self_attn.w_v": "model.layers.*.self_attn.v_proj",
    "layers.*.self_attn.w_o": "model.layers.*.self_attn.o_proj",
    "layers.*.self_attn.q_norm": "model.layers.*.self_attn.q_norm",
    "layers.*.self_attn.k_norm": "model.layers.*.self_attn.k_norm",
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
MODEL_TYPES = ("llama", "mistral", "qwen2", "qwen3")
KV_HEADS = {"mistral": 8, "qwen2": 32, "qwen3": 32}  # if the field is absent
SUPPORTED: Supported = {  # field: (what it means if absent, what is covered)
    "hidden_act": ("silu", ["silu"]),
    "attention_bias": (False, [False]),
    "mlp_bias": (False, [False]),
    "partial_rotary_factor": (1.0, [1.0]),
}
LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
ROPE_FIELDS = {"default": (), "linear": ("factor",), "llama3": LLAMA3}  # by the type of RoPE
ROTATED = r".*[qk]_(proj|norm)\.(weight|bias)"


def from_pretrained(
    path: Path | str, model_class: Callable[[ModernConfig], ModernDecoder] = ModernDecoder
) -> tuple[ModernDecoder, Tokenizer | None]:
    """Load a model in Llama's layout from a folder as it is published, or from one GGUF file.

    ``model_class`` is our ``ModernDecoder``, or one that you wrote.
    Returns the model in eval mode, and the tokenizer, or None without one.
    Raises ValueError if a field of the configuration is not covered, or a weight does not fit.
    """
    if Path(path).suffix == ".gguf" and Path(path).is_file():
        return _from_gguf(Path(path), model_class)
    config = _to_config(read_config(path, MODEL_TYPES, SUPPORTED))
    build, build_mine = partial(ModernDecoder, config), partial(model_class, config)
    model = build_and_load(read_weights(path), build, load_state_dict, build_mine)
    return model, read_tokenizer(path)


def _from_gguf(
    path: Path, model_class: Callable[[ModernConfig], ModernDecoder]
) -> tuple[ModernDecoder, Tokenizer]:
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
        "rope_scaling": _gguf_scaling(metadata),
    }
    names = GGUF_FIELDS | {"rope_scaling": "llama.rope.scaling"}
    config = replace(
        _to_config(ConfigFields(content, source=path.name, names=names)),
        qkv_bias="blk.0.attn_q.bias" in weights,
    )
    if "rope_freqs.weight" in weights:  # as Llama 3.1 has them
        config = replace(config, rope_factors=tuple(weights["rope_freqs.weight"].tolist()))
    build, build_mine = partial(ModernDecoder, config), partial(model_class, config)
    return build_and_load(weights, build, GGUF.load, build_mine), tokenizer


def _gguf_scaling(metadata: Mapping[str, object]) -> dict[str, object]:
    """Return the section ``rope_scaling`` of a GGUF file; it may say that there is none."""
    start = "llama.rope.scaling."
    section = {name: metadata.get(start + name) for name in ("type", "factor")}
    return {} if section["type"] in (None, "none") else section


def _to_config(fields: ConfigFields) -> ModernConfig:
    """Translate the configuration."""
    kind = fields.choice("model_type", "llama", MODEL_TYPES)
    d_model = fields.integer("hidden_size")
    num_heads = fields.integer("num_attention_heads", divides=d_model)
    d_k = fields.integer("head_dim", default=128 if kind == "qwen3" else d_model // num_heads)
    if d_k % 2:
        given = "head_dim" if "head_dim" in fields.content else "num_attention_heads"
        raise fields.uncovered(given, "heads of an even width")
    kv_heads = KV_HEADS.get(kind, num_heads)
    if "num_key_value_heads" in fields.content:
        kv_heads = fields.integer("num_key_value_heads", default=num_heads, divides=num_heads)
    max_len = fields.integer("max_position_embeddings", most=2 * fields.LARGEST_TABLE // d_k)
    _check_window(fields, kind, max_len)
    rope_base, rope_factors = _rope(fields, d_k)
    return ModernConfig(
        vocab_size=fields.integer("vocab_size"),
        max_len=max_len,
        num_layers=fields.integer("num_hidden_layers", most=fields.MOST_LAYERS),
        num_heads=num_heads,
        num_kv_heads=kv_heads,
        d_model=d_model,
        d_ff=fields.integer("intermediate_size"),
        rope_base=rope_base,
        norm_eps=fields.number("rms_norm_eps", 1e-6, least=0.0),
        tie_embeddings=fields.choice("tie_word_embeddings", False, [False, True]),
        d_k=None if d_k * num_heads == d_model else d_k,
        qkv_bias=kind == "qwen2",
        qk_norm=kind == "qwen3",
        rope_factors=rope_factors,
    )


def _check_window(fields: ConfigFields, kind: str, max_len: int) -> None:
    """Reject a sliding window if a text of ``max_len`` tokens is longer."""
    uses = fields.choice("use_sliding_window", kind == "mistral", [True, False])
    if uses and fields.content.get("sliding_window", 4096) is not None:
        fields.integer("sliding_window", default=4096, least=max_len)


def _rope(fields: ConfigFields, d_k: int) -> tuple[float, tuple[float, ...]]:
    """Return the base of the angles, and what those of each pair are divided by.

    Newer files keep the base in ``rope_parameters``, and older ones call the type ``type``.
    """
    base = fields.number("rope_theta", 10_000.0, least=1.0)
    factors: tuple[float, ...] = ()
    for name in ("rope_parameters", "rope_scaling"):
        section = fields.section(name, ("rope_type", "type", "rope_theta", *LLAMA3))
        kind = section.choice(
            "rope_type", section.choice("type", "default", ROPE_FIELDS), ROPE_FIELDS
        )
        fields.section(name, ("rope_type", "type", "rope_theta", *ROPE_FIELDS[kind]))
        base = section.number("rope_theta", base, least=1.0)
        if kind != "default" and factors:
            raise fields.uncovered(name, "a factor in rope_scaling or in rope_parameters")
        factors = factors or _factors(section, kind, base, d_k)
    return base, factors


def _factors(rope: ConfigFields, kind: str, base: float, d_k: int) -> tuple[float, ...]:
    """Return what the angles of each pair are divided by, or () if nothing is scaled."""
    if kind == "default":
        return ()
    factor = rope.number("factor", None, least=1.0)
    if kind == "linear":
        return (factor,) * (d_k // 2)
    length = rope.integer("original_max_position_embeddings")
    low = rope.number("low_freq_factor", None, least=0.0)
    high = rope.number("high_freq_factor", None, least=low)
    if high == low:
        raise rope.uncovered("high_freq_factor", f"numbers above {low=}")
    even = torch.arange(0, d_k, 2, dtype=torch.float64)
    turns = length / base ** (even / d_k) / (2 * torch.pi)  # rotations in the training length
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return tuple((1 / (kept + (1 - kept) / factor)).tolist())


def load_state_dict(model: ModernDecoder, weights: Mapping[str, Tensor]) -> None:
    """Copy weights by published name into a model, as ``Layout.load`` does."""
    _layout(model).load(model, weights)


def to_state_dict(model: ModernDecoder) -> dict[str, Tensor]:
    """Return copies of a model's weights under Llama's names; of a tied one without the output."""
    return _layout(model).state(model)


def _layout(model: ModernDecoder) -> Layout:
    """Return the layout of a model with heads of this width, tied or not."""
    c = model.config
    pairs = head_width(c.d_model, c.num_heads, c.d_k) // 2
    tied = {"lm_head.weight": "model.embed_tokens.weight"} if c.tie_embeddings else {}
    return Layout(
        NAMES,
        lambda name, value: _reordered(name, value, (2, pairs)),
        lambda name, value: _reordered(name, value, (pairs, 2)),
        copies=tied,
        unread=r".*\.rotary_emb\.inv_freq",
    )


def _reordered(name: str, value: Tensor, table: tuple[int, int]) -> Tensor:
    """Transpose the rows of each head as a table: halves to neighbors, or back."""
    if not re.fullmatch(ROTATED, name):
        return value
    return value.unflatten(0, (-1, *table)).transpose(1, 2).flatten(0, 2)


GGUF = Layout(GGUF_NAMES, as_it_is, as_it_is, copies={}, unread=r"rope_freqs\.weight")
