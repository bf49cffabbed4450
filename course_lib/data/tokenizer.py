"""Text to ids and back by byte-pair encoding (§5.1), learned by the library ``tokenizers``."""

from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

SPECIAL = ("[pad]", "[bos]", "[eos]", "[unk]")


class Tokenizer:
    """Cut text into the pieces of one vocabulary, shared by source and target.

    Paper: §5.1, a shared source-target vocabulary of byte-pair encoding.

    Args:
        state: What ``to_json`` returned. To learn a new vocabulary, call ``Tokenizer.learn``.

    Raises:
        ValueError: If the state is not one of a tokenizer of this course.
    """

    pad_id, bos_id, eos_id, unk_id = range(len(SPECIAL))

    def __init__(self, state: str) -> None:
        try:
            self._inner = tokenizers.Tokenizer.from_str(state)
        except Exception as error:  # the library raises a bare Exception
            raise ValueError(f"this is no tokenizer's state: {error}") from None
        self._inner.encode_special_tokens = True  # "[eos]" typed by somebody is text
        if tuple(map(self._inner.id_to_token, range(len(SPECIAL)))) != SPECIAL:
            raise ValueError(f"the first tokens of this tokenizer are not {SPECIAL}")

    @classmethod
    def learn(
        cls, texts: Iterable[str], vocab_size: int, *, split_punctuation: bool = False
    ) -> "Tokenizer":
        """Merge the most frequent pair of pieces, again and again, until the vocabulary is full.

        Args:
            texts: Training text only, of both languages.
            vocab_size: Pieces to end with, the four special ones among them. Fewer if the text
                offers no more pairs.
            split_punctuation: Whether a comma is always a piece of its own: then ``Mann`` and
                ``Mann,`` share the piece ``▁Mann``. For real text; in number words the hyphen
                is part of the word.
        """
        inner = tokenizers.Tokenizer(models.BPE(unk_token=SPECIAL[cls.unk_id]))
        inner.pre_tokenizer = pre_tokenizers.Metaspace()
        if split_punctuation:
            inner.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Metaspace(), pre_tokenizers.Punctuation()]
            )
        inner.decoder = decoders.Metaspace()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=list(SPECIAL), show_progress=False
        )
        inner.train_from_iterator(texts, trainer)
        return cls(inner.to_str())

    def to_json(self) -> str:
        """Return the whole tokenizer as text, for a checkpoint."""
        return self._inner.to_str()

    def __len__(self) -> int:
        """Return the number of pieces, V."""
        return self._inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Turn text into ids, without ``bos_id`` and ``eos_id``."""
        return self._inner.encode(text).ids

    def encode_target(self, text: str) -> list[int]:
        """Turn text into ids from ``bos_id`` to ``eos_id``, as the decoder learns it."""
        return [self.bos_id, *self.encode(text), self.eos_id]

    def decode(self, ids: Iterable[int]) -> str:
        """Turn ids back into text; special ones are left out, what follows ``eos_id`` too."""
        kept = []
        for token in map(int, ids):
            if token == self.eos_id:
                break
            kept.append(token)
        return self._inner.decode(kept, skip_special_tokens=True)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Name every id, for the axes of a picture; ``▁`` stands where a word begins."""
        return [str(self._inner.id_to_token(int(token))) for token in ids]
