"""Compute chapter 17's statistics on Multi30k: new and rare words, subword tokens, padding.

The script reads train and val, but never test, from the folder that COURSE_DATA names. It records
numbers, but no sentences from the corpus.
"""

import re
from collections import Counter

import torch

from course_lib.batching import TokenBatches, padding_fraction
from course_lib.data import Tokenizer
from course_lib.data.multi30k_files import CAPTIONS, load_multi30k
from course_lib.records.missing_runs import main
from course_lib.records.results import Entry, record_of

SIZES = (2_000, 4_000, 8_000, 16_000)
OURS = 8_000  # subword tokens in the chapter's vocabulary
RARE = 20  # occurrences in train
WIDTH = 256
LANGUAGES = ("German", "English")
WORD = re.compile(r"\w+")  # without the comma after it

Pairs = list[tuple[str, str]]
Row = tuple[list[int], list[int]]  # source and target ids


def new_words(train: Pairs, val: Pairs) -> dict[str, float]:
    """Return, for each language, the fraction of the words in val that do not occur in train."""
    fractions = {}
    for side, language in enumerate(LANGUAGES):
        vocabulary_of_train = {word for pair in train for word in WORD.findall(pair[side])}
        words_of_val = [word for pair in val for word in WORD.findall(pair[side])]
        new = [word for word in words_of_val if word not in vocabulary_of_train]
        fractions[language] = len(new) / len(words_of_val)
    return fractions


def seen_words(train: Pairs) -> dict[str, int]:
    """Count how often the German words in the last of our own captions occur in train."""
    counts = Counter(word for german, _ in train for word in WORD.findall(german))
    return {word: counts[word] for word in WORD.findall(CAPTIONS[-1][0])}


def vocabulary(pairs: Pairs, size: int) -> tuple[Entry, list[Row]]:
    """Build a vocabulary of this size; return its statistics, and the pairs as ids."""
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.learn(texts, size, split_punctuation=True)
    rows = [(tokenizer.encode(source), tokenizer.encode_target(target)) for source, target in pairs]
    sides = [[source for source, _ in rows], [target[1:-1] for _, target in rows]]  # no bos, no eos
    lengths = [sum(map(len, side)) / len(side) for side in sides]
    counts = Counter(token for side in sides for row in side for token in row)
    rare = sum(counts[token] < RARE for token in range(len(tokenizer)))
    entry: Entry = {"pieces": size, **dict(zip(LANGUAGES, lengths, strict=True))}
    return entry | {"seldom": rare / len(tokenizer), "parameters": size * WIDTH}, rows


def padding(rows: list[Row]) -> dict[str, float]:
    """Return the fraction of padding in random batches and in the course's batches."""
    batches = TokenBatches(rows, 4_096)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    plans = {"at_random": [b.tolist() for b in order.split(64)], "by_length": batches.plan(1)}
    return {name: padding_fraction(batches.lengths, plan) for name, plan in plans.items()}


def measure(run: Entry) -> Entry:
    """Return all statistics."""
    train, val = load_multi30k("train"), load_multi30k("val")
    vocabularies = {size: vocabulary(train, size) for size in SIZES}
    return run | {
        "pairs": {"train": len(train), "val": len(val)},
        "new_words": new_words(train, val),
        "seen_words": seen_words(train),
        "vocabularies": [entry for entry, _ in vocabularies.values()],
        "padding": padding(vocabularies[OURS][1]),
    }


if __name__ == "__main__":
    main(__doc__, record_of("multi30k_corpus"), [{}], measure)
