"""Load weights in the layout of BERT into ``EncoderOnly``.

The heads of a published model are left out, because each task has its own.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from tokenizers import Tokenizer
from torch import Tensor, nn

from course_lib.encoder_only import EncoderOnly, EncoderOnlyConfig
from course_lib.interop.config_fields import ConfigFields, Supported, read_config
from course_lib.interop.pretrained import (
    Layout,
    as_it_is,
    build_and_load,
    read_tokenizer,
    read_weights,
)

NAMES = {  # ours: published
    "embedding": "embeddings.word_embeddings",
    "positions": "embeddings.position_embeddings",
    "segments": "embeddings.token_type_embeddings",
    "norm": "embeddings.LayerNorm",
    "encoder.layers.*.self_attn.w_q": "encoder.layer.*.attention.self.query",
    "encoder.layers.*.self_attn.w_k": "encoder.layer.*.attention.self.key",
    "encoder.layers.*.self_attn.w_v": "encoder.layer.*.attention.self.value",
    "encoder.layers.*.self_attn.w_o": "encoder.layer.*.attention.output.dense",
    "encoder.layers.*.add_norm1.norm": "encoder.layer.*.attention.output.LayerNorm",
    "encoder.layers.*.feed_forward.linear1": "encoder.layer.*.intermediate.dense",
    "encoder.layers.*.feed_forward.linear2": "encoder.layer.*.output.dense",
    "encoder.layers.*.add_norm2.norm": "encoder.layer.*.output.LayerNorm",
}
SUPPORTED: Supported = {  # field: (what it means if absent, what is covered)
    "hidden_act": ("gelu", ["gelu"]),
    "position_embedding_type": ("absolute", ["absolute"]),
    "is_decoder": (False, [False]),
    "add_cross_attention": (False, [False]),
}


def from_pretrained(folder: Path | str) -> tuple[EncoderOnly, Tokenizer | None]:
    """Load BERT, or a model in its layout, from a folder in the published format.

    Returns a model without dropout, in eval mode, and the tokenizer, or None if there is none.
    Raises ValueError if the loader does not support a field of the configuration, or if a weight
    does not fit.
    """
    fields = read_config(folder, ["bert"], SUPPORTED)
    eps = fields.number("layer_norm_eps", 1e-12, least=0.0)
    build = partial(_build, _to_config(fields), eps)
    return build_and_load(read_weights(folder), build, load_state_dict), read_tokenizer(folder)


def _to_config(fields: ConfigFields) -> EncoderOnlyConfig:
    """Translate the configuration."""
    d_model = fields.integer("hidden_size")
    return EncoderOnlyConfig(
        vocab_size=fields.integer("vocab_size"),
        max_len=fields.integer("max_position_embeddings"),
        num_layers=fields.integer("num_hidden_layers", most=fields.MOST_LAYERS),
        num_heads=fields.integer("num_attention_heads", divides=d_model),
        d_model=d_model,
        d_ff=fields.integer("intermediate_size"),
        dropout=0.0,
        num_segments=fields.integer("type_vocab_size"),
    )


def _build(config: EncoderOnlyConfig, eps: float) -> EncoderOnly:
    """Build a model whose norms add another number to the variance: BERT's is 1e-12."""
    model = EncoderOnly(config)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = eps
    return model


def load_state_dict(model: EncoderOnly, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model, as ``Layout.load`` does; names may begin with ``bert.``."""
    shorter = {name.removeprefix("bert."): value for name, value in weights.items()}
    if len(shorter) < len(weights):
        raise ValueError("a weight occurs twice: with and without `bert.` in front")
    LAYOUT.load(model, shorter)


LAYOUT = Layout(
    NAMES,
    as_it_is,
    as_it_is,
    copies={},
    unread=r"embeddings\.position_ids|(pooler|cls|classifier)\..*",
)
