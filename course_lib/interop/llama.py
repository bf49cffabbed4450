"""Convert weights between ``ModernDecoder`` and the published layouts of Llama.

Differs: in a folder, RoPE pairs column i of a head with column i + d_k / 2 (halves). Our RoPE pairs
neighbors (interleaved), so we reorder the rows of W^Q and W^K. A GGUF file has our order.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from course_lib.interop.config_fields import MOST_LAYERS, ConfigFields
from course_lib.interop.gguf_file import is_gguf, read_llama
from course_lib.interop.pretrained import Layout, read_config, read_tokenizer, read_weights
from course_lib.modern_decoder import ModernConfig, ModernDecoder

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
FIXED = {  # for each field, the only supported value, which is also the default
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "partial_rotary_factor": 1.0,
}
DEFAULTS: Mapping[str, Mapping[str, object]] = {  # by model type, of fields that a file leaves out
    "llama": {},
    "mistral": {"num_key_value_heads": 8, "use_sliding_window": True},
    "qwen2": {"num_key_value_heads": 32, "qkv_bias": True},
    "qwen3": {"num_key_value_heads": 32, "head_dim": 128},
}
LLAMA3 = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
ROPE_FIELDS: Mapping[str, tuple[str, ...]] = {  # by RoPE type
    "default": (),
    "linear": ("factor",),
    "llama3": LLAMA3,
}


def from_pretrained(
    path: Path | str, model_class: Callable[[ModernConfig], ModernDecoder] = ModernDecoder
) -> tuple[ModernDecoder, Tokenizer | None]:
    """Load a model in Llama's layout from a folder in the published format, or from a GGUF file.

    ``model_class`` is our ``ModernDecoder``, or a class that you wrote.
    Returns the model in eval mode and its tokenizer (None if the folder has none).
    Raises ValueError if a configuration field is not supported, or a weight does not fit.
    """
    path = Path(path)
    tokenizer: Tokenizer | None
    if is_gguf(path):
        fields, weights, tokenizer = read_llama(path)
    else:
        fields = read_config(path, DEFAULTS, FIXED)
    config = _to_config(fields)  # a folder's weights are read only if its fields are supported
    if is_gguf(path) and "rope_freqs.weight" in weights:  # for example, in Llama 3.1
        config = replace(config, rope_factors=tuple(weights["rope_freqs.weight"].tolist()))
    if not is_gguf(path):
        weights, tokenizer = read_weights(path), read_tokenizer(path)
        is_tied = config.tie_embeddings and "model.embed_tokens.weight" in weights
        if not is_tied and "lm_head.weight" not in weights:
            message = "has no output layer; save the model with AutoModelForCausalLM"
            raise ValueError(f"{path} {message}")
    layout = GGUF if is_gguf(path) else FOLDER
    return layout.build(weights, config, ModernDecoder, model_class), tokenizer


def _to_config(fields: ConfigFields) -> ModernConfig:
    """Translate a published configuration into ours."""
    kind = fields.content["model_type"]
    fields = replace(fields, content={**DEFAULTS[kind], **fields.content})
    rope = _rope(fields)
    num_heads = fields.size("num_attention_heads")
    max_len = fields.size("max_position_embeddings")
    if fields.choice("use_sliding_window", [True, False], default=False):
        window = fields.content.get("sliding_window", 4096)
        if window is not None and not (isinstance(window, int) and window >= max_len):
            needed = f"a window of at least max_position_embeddings={max_len} in every layer"
            raise fields.uncovered("sliding_window", f"{needed} (default: 4096)")
    return ModernConfig(
        vocab_size=fields.size("vocab_size"),
        max_len=max_len,
        num_layers=fields.size("num_hidden_layers", most=MOST_LAYERS),
        num_heads=num_heads,
        num_kv_heads=fields.size("num_key_value_heads", default=num_heads),
        d_model=fields.size("hidden_size"),
        d_ff=fields.size("intermediate_size"),
        norm_eps=fields.number("rms_norm_eps", 1e-6, least=0.0),
        tie_embeddings=fields.choice("tie_word_embeddings", [True, False], default=False),
        qkv_bias=fields.choice("qkv_bias", [True, False], default=False),
        qk_norm=kind == "qwen3",
        **rope,
    )


def _rope(fields: ConfigFields) -> dict[str, Any]:
    """Return the fields ``d_k``, ``rope_base`` and ``rope_factors``.

    Newer files keep the last two in ``rope_parameters``. Older files keep the factors in
    ``rope_scaling``, and call the RoPE type ``type`` instead of ``rope_type``.
    """
    usual = fields.size("hidden_size") // fields.size("num_attention_heads")
    d_k = fields.size("head_dim", default=usual)
    section: dict[str, Any] = {"rope_theta": fields.number("rope_theta", 10_000.0, least=1.0)}
    for name in ("rope_scaling", "rope_parameters"):
        part = fields.content.get(name) or {}
        if not isinstance(part, dict):
            raise fields.uncovered(name, "objects")
        section |= part
    rope = ConfigFields(section, fields.source)
    base = rope.number("rope_theta", least=1.0)
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
    return dict(d_k=None if d_k == usual else d_k, rope_base=base, rope_factors=factors)


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
    return FOLDER.state(model, model.config)


def _reordered(name: str, value: Tensor, config: ModernConfig, to_halves: bool) -> Tensor:
    """Reorder each head's rows, from paired halves to neighbors or back, by transposing a table."""
    if not re.fullmatch(r".*[qk]_(proj|norm)\.(weight|bias)", name):
        return value
    pairs = (config.d_k or config.d_model // config.num_heads) // 2
    table = (pairs, 2) if to_halves else (2, pairs)
    return value.unflatten(0, (-1, *table)).transpose(1, 2).flatten(0, 2)


FOLDER = Layout(
    {ours: name for ours, (name, _) in NAMES.items()},
    to_ours=partial(_reordered, to_halves=False),
    to_published=partial(_reordered, to_halves=True),
    unread=r".*\.rotary_emb\.inv_freq",
)
GGUF = Layout(
    {ours: name for ours, (_, name) in NAMES.items() if name}, unread=r"rope_freqs\.weight"
)
