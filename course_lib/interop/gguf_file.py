"""Read hyperparameters, dequantized weights and the tokenizer of a GGUF file.

One file contains what a published folder spreads over several. The converter of llama.cpp has
reordered the queries and keys of Llama's layout, so that RoPE rotates neighboring columns, as ours.
"""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Regex, Tokenizer
from tokenizers.decoders import ByteLevel as ByteLevelDecoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split
from tokenizers.processors import TemplateProcessing
from torch import Tensor

from course_lib.interop.config_fields import ConfigFields

TOKENIZER = "tokenizer.ggml."  # what the names of the tokenizer's fields begin with
CONTROL, USER_DEFINED = 3, 4  # token types: special tokens, and words that were added whole
LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
PRE_TOKENIZERS: Mapping[str, list[PreTokenizer]] = {  # under the names that llama.cpp gives them
    "gpt-2": [ByteLevel(add_prefix_space=False)],
    "smollm": [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)],
    "llama-bpe": [
        Split(Regex(LLAMA3_WORDS), "isolated"),
        ByteLevel(add_prefix_space=False, use_regex=False),
    ],
}


def read_metadata(path: Path) -> dict[str, object]:
    """Read the fields of a GGUF file; raises ValueError if it is damaged."""
    reader = _reader(path, path.stat().st_mtime_ns)
    return {name: field.contents() for name, field in reader.fields.items()}


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read the weights of a GGUF file by name, in float32.

    Raises ValueError if the library ``gguf`` does not know the type of one.
    """
    weights = {}
    for tensor in _reader(path, path.stat().st_mtime_ns).tensors:
        try:
            numbers = dequantize(np.asarray(tensor.data), tensor.tensor_type)  # a memmap is slow
        except NotImplementedError as error:
            raise ValueError(f"{tensor.name} of {path} cannot be read: {error}") from None
        weights[tensor.name] = torch.tensor(numbers, dtype=torch.float32)
    return weights


@lru_cache(maxsize=1)  # the weights, the tokenizer and the chat template are read one by one
def _reader(path: Path, changed: int) -> GGUFReader:
    """Open a file that was last changed at this time."""
    try:
        return GGUFReader(path)
    except Exception as error:  # foreign bytes make the reader fail in a dozen ways
        raise ValueError(f"{path} is not a GGUF file ({error}); get the file again") from None


def build_tokenizer(fields: ConfigFields) -> Tokenizer:
    """Build a tokenizer from the vocabulary, the merges and the token types of a GGUF file.

    Raises ValueError if it is not byte-level BPE, or its pre-tokenizer is not covered.
    """
    fields.choice(TOKENIZER + "model", "", ["gpt2"])
    pre = fields.choice(TOKENIZER + "pre", "", PRE_TOKENIZERS)
    begins = fields.choice(TOKENIZER + "add_bos_token", pre == "llama-bpe", [True, False])
    names = ("tokens", "token_type", "merges", "bos_token_id")
    found: list[Any] = [fields.content.get(TOKENIZER + name) for name in names]
    tokens, types, merges, bos_id = found
    try:
        ids = {token: number for number, token in enumerate(tokens)}
        pairs = [tuple(merge.split(" ")) for merge in merges]
        tokenizer = Tokenizer(BPE(ids, pairs, ignore_merges=pre == "llama-bpe"))
        for token, kind in zip(tokens, types, strict=True):
            if kind in (CONTROL, USER_DEFINED):
                added = AddedToken(token, normalized=False, special=kind == CONTROL)
                tokenizer.add_tokens([added])
        if begins:
            bos = tokens[bos_id]
            tokenizer.post_processor = TemplateProcessing(f"{bos} $A", None, [(bos, bos_id)])
    except Exception as error:  # the library raises nothing more special
        raise ValueError(
            f"the vocabulary of {fields.source} is not a tokenizer ({error}); get the file again"
        ) from None
    tokenizer.pre_tokenizer = Sequence(PRE_TOKENIZERS[pre])
    tokenizer.decoder = ByteLevelDecoder()
    return tokenizer
