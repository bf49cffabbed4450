"""Convert weights between ``ModernDecoder`` and the published layouts of Llama.

Differs: in a folder, RoPE pairs column i of a head with column i + d_k / 2 (halves). Our RoPE pairs
neighbors (interleaved), so we reorder the rows of W^Q and W^K. A GGUF file has our order.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from course_lib.interop.config_fields import MOST_LAYERS, ConfigFields, read_config
from course_lib.interop.gguf_file import build_tokenizer, is_gguf, read_metadata, read_tensors
from course_lib.interop.pretrained import Layout, read_tokenizer, read_weights
from course_lib.modern_decoder import ModernConfig, ModernDecoder
from course_lib.support.input_checks import head_width

NAMES = {  # ours: the name in a folder, and the name in a GGUF file or None
    "embedding": ("model.embed_tokens", "token_embd"),
    "layers.*.norm1": ("model.layers.*.input_layernorm", "blk.*.attn_norm"),
    "layers.*.self_attn.w_q": ("model.layers.*.self_attn.q_proj", "blk.*.attn_q"),
    "layers.*.self_attn.w_k": ("model.layers.*.self_attn.k_proj", "blk.*.attn_k"),
    "layers.*.self_attn.w_v": ("model.layers.*.self_attn.v_proj", "blk.*.attn_v"),
    "layers.*.self_attn.w_o": ("model.layers.*.self_attn.o_proj", "blk.*.attn_output"),
    "layers.*.self_attn.q_norm": ("model.layers.*.self_attn.q_norm", None),
    "layers.*.self_attn.k_norm": ("model.layers.*.self_attn.k_norm", None),
    "layers.*.norm2": ("model.layers.*.post_attention_layernorm", "blk.*.ffn_norm"),
    "layers.*.feed_forward.gate": ("model.layers.*.mlp.gate_proj", "blk.*.ffn_gate"),
    "layers.*.feed_forward.linear1": ("model.layers.*.mlp.up_proj", "blk.*.ffn_up"),
    "layers.*.feed_forward.linear2": ("model.layers.*.mlp.down_proj", "blk.*.ffn_down"),
    "norm": ("model.norm", "output_norm"),
    "output": ("lm_head", "output"),
}
FOLDER_NAMES = {ours: name for ours, (name, _) in NAMES.items()}
GGUF_NAMES = {ours: name for ours, (_, name) in NAMES.items() if name}
GGUF = Layout(GGUF_NAMES, unread=r"rope_freqs\.weight")
GGUF_FIELDS = {  # field in config.json: field in a GGUF file
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
FIXED = {  # for each field, the only supported value, which is also the default
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "partial_rotary_factor": 1.0,
}
LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
ROPE_FIELDS = {"default": (), "linear": ("factor",), "llama3": LLAMA3}  # by RoPE type


def from_pretrained(
    path: Path | str, model_class: Callable[[ModernConfig], ModernDecoder] = ModernDecoder
) -> tuple[ModernDecoder, Tokenizer | None]:
    """Load a model in Llama's layout from a folder in the published format, or from a GGUF file.

    ``model_class`` is our ``ModernDecoder``, or a class that you wrote.
    Returns the model in eval mode and its tokenizer (None if the folder has none).
    Raises ValueError if a configuration field is not supported, or a weight does not fit.
    """
    if is_gguf(Path(path)):
        return _from_gguf(Path(path), model_class)
    config = _to_config(read_config(path, ("llama", "mistral", "qwen2", "qwen3"), FIXED))
    weights = read_weights(path)
    is_tied = config.tie_embeddings and "model.embed_tokens.weight" in weights
    if not is_tied and "lm_head.weight" not in weights:
        raise ValueError(f"{path} has no output layer; save the model with AutoModelForCausalLM")
    model = _layout(config).build(weights, config, ModernDecoder, model_class)
    return model, read_tokenizer(path)


def _from_gguf(
    path: Path, model_class: Callable[[ModernConfig], ModernDecoder]
) -> tuple[ModernDecoder, Tokenizer]:
    """Load a model and its tokenizer from a GGUF file."""
    metadata = read_metadata(path)
    fields = ConfigFields(metadata, path.name)
    fields.choice("general.architecture", ["llama"])
    tokenizer = build_tokenizer(fields)
    weights = read_tensors(path)
    content = {ours: metadata[name] for ours, name in GGUF_FIELDS.items() if name in metadata}
    content |= {
        "vocab_size": tokenizer.get_vocab_size(),
        "tie_word_embeddings": "output.weight" not in weights,
        "rope_scaling": _gguf_scaling(metadata),
    }
    config = _to_config(ConfigFields(content, f"{path.name} (fields named as in config.json)"))
    d_k = head_width(config.d_model, config.num_heads, config.d_k)
    for name in ("rope.dimension_count", "attention.value_length"):
        fields.choice(f"llama.{name}", [d_k], default=d_k)
    config = replace(config, qkv_bias="blk.0.attn_q.bias" in weights)
    if "rope_freqs.weight" in weights:  # for example, in Llama 3.1
        config = replace(config, rope_factors=tuple(weights["rope_freqs.weight"].tolist()))
    return GGUF.build(weights, config, ModernDecoder, model_class), tokenizer


def _gguf_scaling(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the scaling of RoPE; without a type, a factor is linear, as in llama.cpp."""
    older = metadata.get("llama.rope.scale_linear")
    factor = metadata.get("llama.rope.scaling.factor", older) or None
    kind = metadata.get("llama.rope.scaling.type", "linear" if factor else "none")
    return {} if kind == "none" else {"type": kind, "factor": factor}


def _to_config(fields: ConfigFields) -> ModernConfig:
    """Translate a published configuration into ours."""
    kind = fields.content["model_type"]
    d_model = fields.size("hidden_size")
    num_heads = fields.size("num_attention_heads")
    d_k = fields.size("head_dim", default=128 if kind == "qwen3" else d_model // num_heads)
    kv_heads = num_heads  # if the field is null
    if "num_key_value_heads" not in fields.content:
        kv_heads = {"llama": num_heads, "mistral": 8}.get(kind, 32)
    max_len = fields.size("max_position_embeddings")
    if fields.choice("use_sliding_window", [True, False], default=kind == "mistral"):
        window = fields.content.get("sliding_window", 4096)
        if window is not None and not (isinstance(window, int) and window >= max_len):
            needed = f"a window of at least max_position_embeddings={max_len} in every layer"
            raise fields.uncovered("sliding_window", f"{needed} (default: 4096)")
    return ModernConfig(
        vocab_size=fields.size("vocab_size"),
        max_len=max_len,
        num_layers=fields.size("num_hidden_layers", most=MOST_LAYERS),
        num_heads=num_heads,
        num_kv_heads=fields.size("num_key_value_heads", default=kv_heads),
        d_model=d_model,
        d_ff=fields.size("intermediate_size"),
        norm_eps=fields.number("rms_norm_eps", 1e-6, least=0.0),
        tie_embeddings=fields.choice("tie_word_embeddings", [True, False], default=False),
        d_k=None if d_k == d_model // num_heads else d_k,
        qkv_bias=kind == "qwen2",
        qk_norm=kind == "qwen3",
        **_rope(fields, d_k),
    )


def _rope(fields: ConfigFields, d_k: int) -> dict[str, Any]:
    """Return the fields ``rope_base`` and ``rope_factors``.

    Newer files keep both in ``rope_parameters``. Older files keep the factors in ``rope_scaling``,
    and call the RoPE type ``type`` instead of ``rope_type``.
    """
    section: dict[str, Any] = {}
    for name in ("rope_scaling", "rope_parameters"):
        part = fields.content.get(name) or {}
        if not isinstance(part, dict):
            raise fields.uncovered(name, "objects")
        section |= part
    rope = ConfigFields(section, fields.source)
    base = rope.number("rope_theta", fields.number("rope_theta", 10_000.0, least=1.0), least=1.0)
    older = rope.choice("type", ROPE_FIELDS, default="default")
    kind = rope.choice("rope_type", ROPE_FIELDS, default=older)
    known = ("rope_type", "type", "rope_theta", *ROPE_FIELDS[kind])
    for unknown in section.keys() - set(known):
        raise rope.uncovered(unknown, f"RoPE of type {kind!r} with {', '.join(known)}")
    factors: tuple[float, ...] = ()
    if kind == "linear":
        factors = (rope.number("factor", least=1.0),) * (d_k // 2)
    if kind == "llama3":
        factors = _llama3_factors(rope, base, d_k)
    return dict(rope_base=base, rope_factors=factors)


def _llama3_factors(rope: ConfigFields, base: float, d_k: int) -> tuple[float, ...]:
    """Return each divisor: ``factor`` for slow angles, 1 for fast ones, or a value in between."""
    factor = rope.number("factor", least=1.0)
    length = rope.size("original_max_position_embeddings")
    low = rope.number("low_freq_factor", least=0.0)
    high = rope.number("high_freq_factor", least=low)
    even = torch.arange(0, d_k, 2, dtype=torch.float64)
    turns = length / base ** (even / d_k) / (2 * torch.pi)  # rotations in the training length
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return tuple((1 / (kept + (1 - kept) / factor)).tolist())


def to_state_dict(model: ModernDecoder) -> dict[str, Tensor]:
    """Return copies of a model's weights under Llama's names, without a tied output layer."""
    return _layout(model.config).state(model)


def _layout(config: ModernConfig) -> Layout:
    """Return a folder's layout, in which RoPE pairs the two halves of each head."""
    pairs = head_width(config.d_model, config.num_heads, config.d_k) // 2
    return Layout(
        FOLDER_NAMES,
        to_ours=partial(_reordered, table=(2, pairs)),
        to_published=partial(_reordered, table=(pairs, 2)),
        unread=r".*\.rotary_emb\.inv_freq",
    )


def _reordered(name: str, value: Tensor, table: tuple[int, int]) -> Tensor:
    """Reorder each head's rows, from paired halves to neighbors or back, by transposing a table."""
    if not re.fullmatch(r".*[qk]_(proj|norm)\.(weight|bias)", name):
        return value
    return value.unflatten(0, (-1, *table)).transpose(1, 2).flatten(0, 2)
