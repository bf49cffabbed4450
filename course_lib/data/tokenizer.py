"""A byte-pair-encoding tokenizer (paper, §5.1), trained by the ``tokenizers`` library."""

from collections.abc import Iterable
from itertools import takewhile

SPECIAL = ("[pad]", "[bos]", "[eos]", "[unk]")


class Tokenizer:
    """A tokenizer with one vocabulary, which source and target share.

    Paper: §5.1, byte-pair encoding with a shared source-target vocabulary.

    Args:
        state: The result of ``to_json``. To learn a new vocabulary, call ``Tokenizer.learn``.

    Raises:
        ValueError: If the state does not come from ``to_json``.
    """

    pad_id, bos_id, eos_id, unk_id = range(len(SPECIAL))

    def __init__(self, state: str) -> None:
        import tokenizers  # here, because only training or loading a vocabulary needs it

        try:
            self._inner = tokenizers.Tokenizer.from_str(state)
        except Exception as error:  # the library raises a bare Exception
            raise ValueError(f"this text is not the state of a tokenizer: {error}") from None
        self._inner.encode_special_tokens = True  # if a user types "[eos]", it is text
        if tuple(map(self._inner.id_to_token, range(len(SPECIAL)))) != SPECIAL:
            raise ValueError(f"the first tokens of this tokenizer are not {SPECIAL}")

    @classmethod
    def learn(
        cls, texts: Iterable[str], vocab_size: int, *, split_punctuation: bool = False
    ) -> "Tokenizer":
        """Merge the most frequent pair of tokens repeatedly, until the vocabulary is full.

        Args:
            texts: Texts in both languages, from the training split only.
            vocab_size: Maximum number of tokens, including the four special tokens. The vocabulary
                is smaller if no more pairs are left to merge.
            split_punctuation: Whether every punctuation mark is a separate token, so that ``Mann``
                and ``Mann,`` share the token ``▁Mann``. It is False for number words, because their
                hyphens belong to the words.
        """
        if isinstance(texts, str):
            raise ValueError("pass a list of texts, not one string")
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers, trainers

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
        """Return the tokenizer as text, for a checkpoint."""
        return self._inner.to_str()

    def __len__(self) -> int:
        """Return the number of tokens in the vocabulary, V."""
        return self._inner.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """Turn text into ids, without ``bos_id`` and ``eos_id``."""
        return self._inner.encode(text).ids

    def encode_target(self, text: str) -> list[int]:
        """Turn text into ids for the decoder, from ``bos_id`` to ``eos_id``."""
        return [self.bos_id, *self.encode(text), self.eos_id]

    def decode(self, ids: Iterable[int]) -> str:
        """Turn the ids before the first ``eos_id`` into text, without special tokens."""
        before_eos = list(takewhile(lambda token: token != self.eos_id, map(int, ids)))
        return self._inner.decode(before_eos, skip_special_tokens=True)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Return the token of every id as text; ``▁`` marks the start of a word."""
        return [str(self._inner.id_to_token(int(token))) for token in ids]
