"""Load the weights and the tokenizer of a published Marian model (opus-mt) for ``Transformer``.

Differs: the activation is SiLU, each positional encoding puts all sines before all cosines,
the output layer has a bias, and every target begins with the padding token.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from sentencepiece import SentencePieceProcessor
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.interop.config_fields import MOST_LAYERS, ConfigFields
from course_lib.interop.pretrained import Layout, read_config, read_json, read_weights
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
    "src_embedding": "model.encoder.embed_tokens",
    "output": "lm_head",
    "output.bias": "final_logits_bias",
    **{f"encoder.layers.*.{ours}": f"model.encoder.layers.*.{n}" for ours, n in ENCODER.items()},
    **{f"decoder.layers.*.{ours}": f"model.decoder.layers.*.{n}" for ours, n in DECODER.items()},
}
TIED = {f"{NAMES[ours]}.weight" for ours in ("tgt_embedding", "src_embedding", "output")}
POSITIONS = {f"model.{side}.embed_positions.weight" for side in ("encoder", "decoder")}
SHARED, COPY = "model.shared.weight", "model.decoder.embed_tokens.weight"  # the same table
ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "swish": "silu", "silu": "silu"}
LONGEST = 2**16  # positions; their table is computed, so no file in the folder limits its size
FIXED = {  # for each field, the only supported value, which is also the default
    "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
    "normalize_before": False,
    "static_position_embeddings": True,
}


class MarianTokenizer:
    """The tokenizer of a Marian model, which turns text into ids and back.

    The SentencePiece model ``source.spm`` in the folder splits the source, and ``vocab.json`` maps
    the tokens of both languages to ids. (Only training needs ``target.spm``.)
    Every target begins with ``bos_id``, the first id after the vocabulary.
    Raises ValueError if a file is damaged, or the vocabulary lacks a special token.
    """

    def __init__(self, folder: Path | str) -> None:
        source = Path(folder) / "source.spm"
        try:
            self.source = SentencePieceProcessor(model_file=str(source))
        except (OSError, RuntimeError):
            raise ValueError(f"{source} is not a SentencePiece model; download it again") from None
        self.ids: dict[str, int] = read_json(Path(folder) / "vocab.json")
        if not self.ids.keys() >= {"<pad>", "</s>", "<unk>"}:
            raise ValueError(f"{folder}: vocab.json lacks <pad>, </s> or <unk>; download it again")
        if sorted(map(repr, self.ids.values())) != sorted(map(repr, range(len(self.ids)))):
            raise ValueError(
                f"{folder}: the ids in vocab.json must be 0 to {len(self.ids) - 1}, each once; "
                "download it again"
            )
        self.tokens = {number: token for token, number in self.ids.items()}
        self.pad_id = self.ids["<pad>"]
        self.eos_id = self.ids["</s>"]
        self.bos_id = len(self.ids)

    def encode(self, text: str) -> list[int]:
        """Turn a source sentence into ids for the encoder, with ``eos_id`` at the end.

        A language code at the start, such as ``>>deu<<``, is one token.
        """
        code, end, rest = text.partition("<<") if text.startswith(">>") else ("", "", text)
        tokens = [*([code + end] if end else []), *self.source.encode(rest, out_type=str)]
        return [self.ids.get(token, self.ids["<unk>"]) for token in tokens] + [self.eos_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Turn target ids back into text, up to ``eos_id``; raise ValueError for an unknown id."""
        ids = list(map(int, ids))
        ids = ids[: ids.index(self.eos_id)] if self.eos_id in ids else ids
        ids = [i for i in ids if i not in (self.pad_id, self.bos_id)]
        if unknown := [i for i in ids if i not in self.tokens]:
            raise ValueError(f"ids {unknown[:3]} are not in the vocabulary")
        tokens = [self.tokens[i] for i in ids]
        return "".join(tokens).replace("▁", " ").strip()


def from_pretrained(
    folder: Path | str, model_class: Callable[[TransformerConfig], Transformer] = Transformer
) -> tuple[Transformer, MarianTokenizer | None]:
    """Load a Marian translation model, such as opus-mt, from a folder in the published format.

    ``model_class`` is our ``Transformer``, or a class that you wrote. Returns the model in eval
    mode, without dropout, and its tokenizer (None if the folder has none). Every target begins with
    id V, which follows the published ids and has the logit -inf. (The padding id would be masked.)
    Raises ValueError if a configuration field is not supported, or a weight does not fit.
    """
    config = _to_config(read_config(folder, ["marian"], FIXED))
    build_own = partial(build, model_class=model_class)
    weights = read_weights(folder)
    copy = weights.pop(COPY, None)
    if copy is not None and not weights.setdefault(SHARED, copy).equal(copy):
        raise ValueError(f"{COPY} differs from the weight that it is tied to")
    model = LAYOUT.build(weights, config, build, build_own)
    ours = model.positions.encoding
    for name in weights.keys() & POSITIONS:  # tables in 16 bits are rounded
        table = weights[name].to(ours.dtype)
        if table.shape != ours.shape or not torch.allclose(table, ours, rtol=0, atol=5e-3):
            raise ValueError(f"{name} must contain sines and cosines of shape {tuple(ours.shape)}")
    if not (Path(folder) / "source.spm").is_file():
        return model, None
    tokenizer = MarianTokenizer(folder)
    expected = (config.pad_id, config.tgt_vocab_size - 1)
    found = (tokenizer.pad_id, tokenizer.bos_id)
    if found != expected:
        raise ValueError(
            f"the padding id and the vocabulary size are {expected} in config.json, but {found} "
            "in vocab.json; download both files again"
        )
    return model, tokenizer


def build(
    config: TransformerConfig, model_class: Callable[[TransformerConfig], Transformer] = Transformer
) -> Transformer:
    """Build a model with an output bias and with all sines before all cosines, like Marian's."""
    model = model_class(config)
    model.output.bias = nn.Parameter(torch.zeros(config.tgt_vocab_size))
    waves = sinusoidal_encoding(config.max_len, config.d_model)  # (max_len, d_model)
    model.positions.encoding = torch.cat([waves[:, 0::2], waves[:, 1::2]], dim=1)
    return model


def _to_config(fields: ConfigFields) -> TransformerConfig:
    """Translate a configuration; reject an unusual start token or a decoder unlike the encoder."""
    V = fields.size("vocab_size")
    d_model = fields.size("d_model")
    num_heads = fields.size("encoder_attention_heads")
    d_ff = fields.size("encoder_ffn_dim")
    pad_id = fields.choice("pad_token_id", range(V))
    fields.choice("scale_embedding", [True])
    fields.choice("decoder_start_token_id", [pad_id])
    fields.choice("decoder_attention_heads", [num_heads])
    fields.choice("decoder_ffn_dim", [d_ff])
    fields.choice("decoder_vocab_size", [V], default=V)
    return TransformerConfig(
        src_vocab_size=V + 1,
        tgt_vocab_size=V + 1,
        d_model=d_model,
        num_heads=num_heads,
        num_encoder_layers=fields.size("encoder_layers", most=MOST_LAYERS),
        num_decoder_layers=fields.size("decoder_layers", most=MOST_LAYERS),
        d_ff=d_ff,
        dropout=0.0,
        max_len=fields.size("max_position_embeddings", most=LONGEST),
        activation=ACTIVATIONS[fields.choice("activation_function", ACTIVATIONS, "gelu")],
        pad_id=pad_id,
    )


def to_state_dict(model: Transformer) -> dict[str, Tensor]:
    """Return copies of a model's weights under Marian's names, without the start token's row."""
    return LAYOUT.state(model, model.config)


def _with_start(name: str, value: Tensor, config: TransformerConfig) -> Tensor:
    """Add the start token, with a copy of the padding token's row and a bias of -inf."""
    if name in TIED:
        return torch.cat([value, value[config.pad_id : config.pad_id + 1]])
    return F.pad(value[0], (0, 1), value=-torch.inf) if name == "final_logits_bias" else value


def _without_start(name: str, value: Tensor, config: TransformerConfig) -> Tensor:
    """Leave out the start token, and turn the bias into a matrix with one row."""
    if name in TIED:
        return value[:-1]
    return value[None, :-1] if name == "final_logits_bias" else value


LAYOUT = Layout(NAMES, _with_start, _without_start, unread="|".join(POSITIONS))
