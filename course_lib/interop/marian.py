"""Convert weights between ``Transformer`` and the published layout of Marian (opus-mt).

Differs: the activation is SiLU; the first half of a position's row are the sines, and the second
half the cosines; the output has a bias; every target begins with the token of padding.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from course_lib.interop.config_fields import ConfigFields, Supported, read_config
from course_lib.interop.marian_tokenizer import MarianTokenizer
from course_lib.interop.pretrained import Layout, build_and_load, read_weights
from course_lib.positions import sinusoidal_encoding
from course_lib.transformer import Transformer, TransformerConfig

ATTENTION = {"w_q": "q_proj", "w_k": "k_proj", "w_v": "v_proj", "w_o": "out_proj"}
ENCODER = {f"self_attn.{ours}": f"self_attn.{name}" for ours, name in ATTENTION.items()} | {
    "add_norm1.norm": "self_attn_layer_norm",
    "feed_forward.linear1": "fc1",
    "feed_forward.linear2": "fc2",
    "add_norm2.norm": "final_layer_norm",
}
DECODER = (
    ENCODER
    | {f"cross_attn.{ours}": f"encoder_attn.{name}" for ours, name in ATTENTION.items()}
    | {"add_norm2.norm": "encoder_attn_layer_norm", "add_norm3.norm": "final_layer_norm"}
)
NAMES = {  # ours: published
    "tgt_embedding": "model.shared",
    "output.bias": "final_logits_bias",
    **{f"encoder.layers.*.{ours}": f"model.encoder.layers.*.{n}" for ours, n in ENCODER.items()},
    **{f"decoder.layers.*.{ours}": f"model.decoder.layers.*.{n}" for ours, n in DECODER.items()},
}
TIED = ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")
POSITIONS = {f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "swish": "silu", "silu": "silu"}
SUPPORTED: Supported = {  # field: (what it means if absent, what is covered)
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
        bos_id: The id that starts every target: V, one past the published vocabulary. Its embedding
            is that of padding; as an id of its own it is not hidden as padding is.
        eos_id: What ends a source and a target.
    """

    bos_id: int
    eos_id: int


def from_pretrained(
    folder: Path | str, model_class: Callable[[TransformerConfig], Transformer] = Transformer
) -> tuple[Transformer, MarianTokenizer | None]:
    """Load a Marian translator, such as opus-mt, from a folder as it is published.

    ``model_class`` is our ``Transformer``, or one that you wrote. Returns the model in eval mode,
    without dropout, and the tokenizer, or None without one. The model's ``config`` is a
    ``MarianConfig``, and its logits are those of V + 1 tokens, -inf for ``bos_id``.
    Raises ValueError if a field of the configuration is not covered, or a weight does not fit.
    """
    config = _to_config(read_config(folder, ["marian"], SUPPORTED))
    build_mine = partial(build, config, model_class)
    model = build_and_load(
        read_weights(folder), partial(build, config), load_state_dict, build_mine
    )
    if not (Path(folder) / "source.spm").is_file():
        return model, None
    tokenizer = MarianTokenizer(folder)
    by_config = (config.pad_id, config.eos_id, config.bos_id)
    by_vocabulary = (tokenizer.pad_id, tokenizer.eos_id, tokenizer.bos_id)
    if by_config != by_vocabulary:
        raise ValueError(
            f"config.json and vocab.json disagree about the padding id, the end id and the "
            f"vocabulary size: {by_config} and {by_vocabulary}; download both files again"
        )
    return model, tokenizer


def build(
    config: MarianConfig, model_class: Callable[[TransformerConfig], Transformer] = Transformer
) -> Transformer:
    """Build a model, and add what only Marian has: a bias, and positions in halves."""
    model = model_class(config)
    model.output.bias = nn.Parameter(torch.zeros(config.tgt_vocab_size))
    model.positions.encoding = _encoding_in_halves(config.max_len, config.d_model)
    return model


def _encoding_in_halves(max_len: int, d_model: int) -> Tensor:
    """Return the paper's positions with all sines first, then all cosines."""
    waves = sinusoidal_encoding(max_len, d_model)  # (max_len, d_model)
    return torch.cat([waves[:, 0::2], waves[:, 1::2]], dim=1)


def _to_config(fields: ConfigFields) -> MarianConfig:
    """Translate the configuration; reject sides that differ, or another start token."""
    V = fields.integer("vocab_size")
    d_model = fields.integer("d_model")
    num_heads = fields.integer("encoder_attention_heads", divides=d_model)
    d_ff = fields.integer("encoder_ffn_dim")
    pad_id = fields.integer("pad_token_id", least=0, most=V - 1)
    fields.integer("decoder_start_token_id", least=pad_id, most=pad_id)
    fields.integer("decoder_attention_heads", least=num_heads, most=num_heads)
    fields.integer("decoder_ffn_dim", least=d_ff, most=d_ff)
    fields.integer("decoder_vocab_size", default=V, least=V, most=V)
    return MarianConfig(
        src_vocab_size=V + 1,
        tgt_vocab_size=V + 1,
        d_model=d_model,
        num_heads=num_heads,
        num_encoder_layers=fields.integer("encoder_layers", most=fields.MOST_LAYERS),
        num_decoder_layers=fields.integer("decoder_layers", most=fields.MOST_LAYERS),
        d_ff=d_ff,
        dropout=0.0,
        max_len=fields.integer("max_position_embeddings", most=fields.LARGEST_TABLE // d_model),
        activation=ACTIVATIONS[fields.choice("activation_function", "gelu", ACTIVATIONS)],
        pad_id=pad_id,
        bos_id=V,
        eos_id=fields.integer("eos_token_id", least=0, most=V - 1),
    )


def load_state_dict(model: Transformer, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model that ``build`` built, as ``Layout.load`` does.

    Tables of positions are left out, because they must be the paper's.
    """
    sizes = (model.config.max_len, model.config.d_model)
    for name in weights.keys() & POSITIONS:
        if not _is_sinusoidal(weights[name], sizes):
            raise ValueError(
                f"{name} is not the table of sines and cosines with {sizes[0]} positions and the "
                f"width {sizes[1]}; this loader covers no other positions"
            )
    _layout(model).load(model, weights)


def _is_sinusoidal(table: Tensor, sizes: tuple[int, int]) -> bool:
    """Compare a stored table of positions with ours, up to the rounding of 16 bits."""
    if table.shape != sizes:
        return False
    expected = _encoding_in_halves(*sizes)
    return torch.allclose(table.to(expected.dtype), expected, rtol=0, atol=5e-3)


def to_state_dict(model: Transformer) -> dict[str, Tensor]:
    """Return copies of a model's weights under Marian's names, without the start token's row."""
    return _layout(model).state(model)


def _layout(model: Transformer) -> Layout:
    """Return the layout for a model's padding, whose embedding the start token shares."""
    pad_id = model.config.pad_id

    def with_start(name: str, value: Tensor) -> Tensor:
        """Add the row of the start token, which is padding's, and never let it be chosen."""
        if name == "model.shared.weight":
            return torch.cat([value, value[pad_id : pad_id + 1]])
        never = torch.full((1,), -torch.inf, dtype=value.dtype)
        return torch.cat([value[0], never]) if name == "final_logits_bias" else value

    def without_start(name: str, value: Tensor) -> Tensor:
        """Leave out the last row; the bias is a matrix of one row."""
        if name == "model.shared.weight":
            return value[:-1]
        return value[None, :-1] if name == "final_logits_bias" else value

    return Layout(
        NAMES,
        with_start,
        without_start,
        copies=dict.fromkeys((f"{name}.weight" for name in TIED), "model.shared.weight"),
        unread="|".join(POSITIONS),
    )
