"""Load weights in BERT's layout into ``EncoderOnly``.

The output heads of a published model are not loaded, because each task has a different head.
"""

import re
from pathlib import Path

from tokenizers import Tokenizer
from torch import nn

from course_lib.encoder_only import EncoderOnly, EncoderOnlyConfig
from course_lib.interop.config_fields import MOST_LAYERS
from course_lib.interop.pretrained import Layout, read_config, read_tokenizer, read_weights

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
FIXED = {  # for each field, the only supported value, which is also the default
    "hidden_act": "gelu",
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
}
HEADS = r"(pooler|cls|classifier|qa_outputs)\..*"
LAYOUT = Layout(NAMES, prefix="bert.", unread=rf"embeddings\.(position|token_type)_ids|{HEADS}")


def from_pretrained(folder: Path | str) -> tuple[EncoderOnly, Tokenizer | None]:
    """Load BERT, or a model in its layout, from a folder in the published format.

    Returns a model in eval mode, without dropout, and its tokenizer (None if the folder has none).
    Raises ValueError if a configuration field is not supported, or a weight does not fit.
    """
    fields = read_config(folder, ["bert"], FIXED)
    config = EncoderOnlyConfig(
        vocab_size=fields.size("vocab_size"),
        max_len=fields.size("max_position_embeddings"),
        num_layers=fields.size("num_hidden_layers", most=MOST_LAYERS),
        num_heads=fields.size("num_attention_heads"),
        d_model=fields.size("hidden_size"),
        d_ff=fields.size("intermediate_size"),
        dropout=0.0,
        num_segments=fields.size("type_vocab_size"),
    )
    eps = fields.number("layer_norm_eps", 1e-12, least=0.0)
    weights = read_weights(folder)
    named = {re.sub(r"LayerNorm\.(gamma|beta)$", _newer, name): weights[name] for name in weights}
    if len(named) < len(weights):
        raise ValueError(f"a LayerNorm in {folder} has both older and newer names")
    model = LAYOUT.build(named, config, EncoderOnly)
    for module in model.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = eps
    return model, read_tokenizer(folder)


def _newer(older: re.Match[str]) -> str:
    """Return today's name of a norm's parameter; files of 2018 say gamma and beta."""
    return "LayerNorm.weight" if older[1] == "gamma" else "LayerNorm.bias"
