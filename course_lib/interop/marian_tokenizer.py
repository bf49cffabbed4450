"""The tokenizer of Marian models: SentencePiece and a vocabulary of both languages."""

from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from course_lib.interop.config_fields import read_json


class MarianTokenizer:
    """Turn text into the subword tokens of a Marian model, and back.

    A SentencePiece model cuts the source; one vocabulary numbers the tokens of both languages. (A
    folder's other one, ``target.spm``, cuts targets, which only training needs.)

    Args:
        folder: It holds ``source.spm`` and ``vocab.json``.

    Raises:
        ValueError: If ``source.spm`` is not a SentencePiece model, or ``vocab.json`` is not a
            vocabulary.

    Attributes:
        pad_id: The id of ``<pad>``.
        eos_id: The id of ``</s>``.
        bos_id: What every target begins with: one past the vocabulary.
    """

    def __init__(self, folder: Path | str) -> None:
        source = Path(folder) / "source.spm"
        try:
            self.source = SentencePieceProcessor(model_file=str(source))
        except (OSError, RuntimeError):
            raise ValueError(f"{source} is not a SentencePiece model; get the file again") from None
        self.ids = _read_vocabulary(Path(folder) / "vocab.json")
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
        """Turn the ids of a target back into text, up to ``eos_id`` and without padding.

        Raises:
            ValueError: If an id is not in the vocabulary.
        """
        ids = list(map(int, ids))
        ids = ids[: ids.index(self.eos_id)] if self.eos_id in ids else ids
        ids = [i for i in ids if i not in (self.pad_id, self.bos_id)]
        unknown = [i for i in ids if i not in self.tokens]
        if unknown:
            raise ValueError(f"ids {unknown[:3]} are not in the vocabulary, 0 to {self.bos_id - 1}")
        tokens = [self.tokens[i] for i in ids]
        return "".join(tokens).replace("▁", " ").strip()


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Read the ids of all tokens, which must be 0, 1, 2 and so on, in any order."""
    content = read_json(path)
    ids = {token: number for token, number in content.items() if type(number) is int}
    complete = sorted(ids.values()) == list(range(len(content)))
    if not complete or not ids.keys() >= {"<pad>", "</s>", "<unk>"}:
        raise ValueError(
            f"{path} must number its tokens 0, 1, 2 …, with <pad>, </s> and <unk> among them; "
            "get the file again"
        )
    return ids
