"""Text to ids and back as Marian does it: SentencePiece, and a vocabulary of both languages."""

import json
from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor


class MarianTokenizer:
    """Turn text into the subword tokens of a Marian model, and back.

    A SentencePiece model cuts the source; one vocabulary numbers the tokens of both languages. (A
    folder's other one, ``target.spm``, cuts targets, which only training needs.)

    Args:
        folder: It holds ``source.spm`` and ``vocab.json``.

    Raises:
        ValueError: If ``source.spm`` is no SentencePiece model, or ``vocab.json`` no vocabulary.

    Attributes:
        pad_id: The id of ``<pad>``.
        eos_id: The id of ``</s>``.
        bos_id: What every target begins with: one past the vocabulary.
    """

    def __init__(self, folder: Path | str) -> None:
        source = Path(folder) / "source.spm"
        try:
            self.source = SentencePieceProcessor(model_file=str(source))
        except RuntimeError:
            raise ValueError(f"{source} is no SentencePiece model; get the file again") from None
        names = Path(folder) / "vocab.json"
        try:
            self.ids = json.loads(names.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise ValueError(f"{names} holds no vocabulary; get the file again") from None
        self.tokens = {number: token for token, number in self.ids.items()}
        self.pad_id = self.ids["<pad>"]
        self.eos_id = self.ids["</s>"]
        self.bos_id = len(self.ids)

    def encode(self, text: str) -> list[int]:
        """Turn a source sentence into ids, ``eos_id`` last, as the encoder reads it.

        A language code in front, such as ``>>deu<<``, is one token.
        """
        code, end, rest = text.partition("<<") if text.startswith(">>") else ("", "", text)
        tokens = [*([code + end] if end else []), *self.source.encode(rest, out_type=str)]
        return [self.ids.get(token, self.ids["<unk>"]) for token in tokens] + [self.eos_id]

    def decode(self, ids: Sequence[int]) -> str:
        """Turn the ids of a target back into text, up to ``eos_id`` and without padding."""
        ids = list(map(int, ids))
        ids = ids[: ids.index(self.eos_id)] if self.eos_id in ids else ids
        tokens = [self.tokens[i] for i in ids if i not in (self.pad_id, self.bos_id)]
        return "".join(tokens).replace("▁", " ").strip()
