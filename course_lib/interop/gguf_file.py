"""Read the hyperparameters, dequantized weights and tokenizer from a GGUF file.

A GGUF file contains what a published folder spreads over several files. llama.cpp's converter
reorders Llama's queries and keys so that RoPE rotates neighboring columns, as our RoPE does.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, TokenType
from gguf.quants import dequantize
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split
from tokenizers.processors import TemplateProcessing
from torch import Tensor

from course_lib.interop.config_fields import ConfigFields

LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PRE_TOKENIZERS: Mapping[str, list[PreTokenizer]] = {  # by the names that llama.cpp gives them
    "gpt-2": [ByteLevel(add_prefix_space=False)],
    "smollm": [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)],
    "llama-bpe": [
        Split(Regex(LLAMA3_WORDS), "isolated"),
        ByteLevel(add_prefix_space=False, use_regex=False),
    ],
}

LLAMA_FIELDS = {  # field in config.json: field in a GGUF file
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


def read_llama(path: Path) -> tuple[ConfigFields, dict[str, Tensor], Tokenizer]:
    """Read a model in Llama's layout: its fields, named as in ``config.json``, weights, tokenizer.

    Raises ValueError if the file contains another kind of model, or is damaged.
    """
    metadata = read_metadata(path)
    fields = ConfigFields(metadata, path.name)
    fields.choice("general.architecture", ["llama"])
    d_model, num_heads = map(fields.size, ("llama.embedding_length", "llama.attention.head_count"))
    d_k = fields.size("llama.attention.key_length", default=d_model // num_heads)
    for name in ("rope.dimension_count", "attention.value_length"):
        fields.choice(f"llama.{name}", [d_k], default=d_k)
    tokenizer = build_tokenizer(fields)
    weights = read_tensors(path)
    older = metadata.get("llama.rope.scale_linear")
    factor = metadata.get("llama.rope.scaling.factor", older) or None
    kind = metadata.get("llama.rope.scaling.type", "linear" if factor else "none")  # as llama.cpp
    is_plain = kind == "none" or "rope_freqs.weight" in weights  # the loader reads these factors
    scaling = {} if is_plain else {"type": kind, "factor": factor}
    content = {ours: metadata[name] for ours, name in LLAMA_FIELDS.items() if name in metadata}
    content |= {
        "vocab_size": tokenizer.get_vocab_size(),
        "tie_word_embeddings": "output.weight" not in weights,
        "qkv_bias": "blk.0.attn_q.bias" in weights,
        "rope_scaling": scaling,
    }
    named = f"{path.name} (fields named as in config.json)"
    return ConfigFields(content, named), weights, tokenizer


def read_chat_fields(path: Path) -> dict[str, Any]:
    """Return the chat settings in a GGUF file, under the names that published folders use."""
    metadata = read_metadata(path)
    fields = ConfigFields(metadata, path.name)
    ends = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    content = {"chat_template": metadata.get("tokenizer.chat_template"), "eos_token_id": ends}
    for name in ("bos_token", "eos_token"):
        if f"tokenizer.ggml.{name}_id" in metadata:
            tokens = fields.sequence("tokenizer.ggml.tokens", str)
            content[name] = tokens[fields.choice(f"tokenizer.ggml.{name}_id", range(len(tokens)))]
    return content


def read_metadata(path: Path) -> dict[str, Any]:
    """Read the fields of a GGUF file; raise ValueError if the file is damaged."""
    return {name: field.contents() for name, field in _open(path).fields.items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a GGUF file's weights by name, in float32; raise ValueError for unsupported types."""
    weights = {}
    for tensor in _open(path).tensors:
        try:
            numbers = dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError as error:
            raise ValueError(f"{tensor.name} of {path} cannot be read: {error}") from None
        weights[tensor.name] = torch.tensor(numbers, dtype=torch.float32)
    return weights


def is_gguf(path: Path) -> bool:
    """Return whether a path names a GGUF file."""
    return path.suffix.lower() == ".gguf"


class _Reader(GGUFReader):
    """A reader that turns its memmap into a plain array, because slicing a memmap is slow."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute."""
        super().__setattr__(name, np.asarray(value) if isinstance(value, np.memmap) else value)


def _open(path: Path) -> GGUFReader:
    """Open a GGUF file, unless the same file is open already."""
    about = path.stat()
    return _reader(path, (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns))


@lru_cache(maxsize=1)  # because weights, tokenizer and chat template are read separately
def _reader(path: Path, version: tuple[int, ...]) -> GGUFReader:
    """Open a GGUF file; ``version`` is in the cache key, because a copy can keep an old time."""
    try:
        reader = _Reader(path)
    except Exception as error:  # arbitrary bytes make the reader fail in many ways
        raise ValueError(f"{path} is not a GGUF file ({error}); download it again") from None
    end = reader.data_offset
    for tensor in sorted(reader.tensors, key=lambda tensor: tensor.data_offset):
        if tensor.data_offset != end:
            raise ValueError(f"{path}: {tensor.name} is not where it belongs; download it again")
        end += -(-int(tensor.n_bytes) // reader.alignment) * reader.alignment
    return reader


def build_tokenizer(fields: ConfigFields) -> Tokenizer:
    """Build a tokenizer from the vocabulary, the merges and the token types in a GGUF file.

    Raises ValueError if the tokenizer is not byte-level BPE, or has an unsupported pre-tokenizer.
    """
    fields.choice("tokenizer.ggml.model", ["gpt2"])
    pre = fields.choice("tokenizer.ggml.pre", PRE_TOKENIZERS)
    is_llama3 = pre == "llama-bpe"
    adds_bos = fields.choice("tokenizer.ggml.add_bos_token", [True, False], default=is_llama3)
    tokens = fields.sequence("tokenizer.ggml.tokens", str)
    merges = [tuple(merge.split(" ")) for merge in fields.sequence("tokenizer.ggml.merges", str)]
    if any(len(merge) != 2 for merge in merges):
        raise fields.uncovered("tokenizer.ggml.merges", "pairs of tokens with a space between")
    kinds = fields.sequence("tokenizer.ggml.token_type", int)
    if len(kinds) != len(tokens):
        raise fields.uncovered("tokenizer.ggml.token_type", "one type for each token")
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(BPE(ids, merges, ignore_merges=is_llama3))
    for token, kind in zip(tokens, kinds, strict=True):
        if kind in (TokenType.CONTROL, TokenType.USER_DEFINED):
            is_special = kind == TokenType.CONTROL
            tokenizer.add_tokens([AddedToken(token, normalized=False, special=is_special)])
    if adds_bos:
        bos_id = fields.choice("tokenizer.ggml.bos_token_id", range(len(tokens)))
        bos = tokens[bos_id]
        tokenizer.post_processor = TemplateProcessing(f"{bos} $A", None, [(bos, bos_id)])
    tokenizer.pre_tokenizer = Sequence(PRE_TOKENIZERS[pre])
    tokenizer.decoder = ByteLevelDecoder()
    return tokenizer
