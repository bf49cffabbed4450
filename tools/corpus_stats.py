"""Measure what chapter 17 says of Multi30k: new and rare words, pieces, padding.

python tools/corpus_stats.py --data DIR (or COURSE_DATA). It reads train and val, never test,
prints what it finds, and writes it to the file that the chapter reads: numbers, no sentence of it.
"""

import argparse
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import torch

from course_lib.batching import TokenBatches, padding_fraction
from course_lib.data import Tokenizer
from course_lib.data.multi30k_files import CAPTIONS, load_multi30k
from course_lib.trainer.results import add_entry, record_of

SIZES = (2_000, 4_000, 8_000, 16_000)
OURS = 8_000  # pieces
SELDOM = 20
WIDTH = 256
LANGUAGES = ("German", "English")
WORD = re.compile(r"\w+")  # without the comma behind it

Pairs = list[tuple[str, str]]
Row = tuple[list[int], list[int]]  # source and target ids


def new_words(train: Pairs, val: Pairs) -> dict[str, float]:
    """Say which share of the words of val stands nowhere in train, for each language."""
    shares = {}
    for side, language in enumerate(LANGUAGES):
        known = {word for pair in train for word in WORD.findall(pair[side])}
        words = [word for pair in val for word in WORD.findall(pair[side])]
        shares[language] = sum(word not in known for word in words) / len(words)
    return shares


def seen_words(train: Pairs) -> dict[str, int]:
    """Count in train the German words of the last of our own captions, which is none."""
    counts = Counter(word for german, _ in train for word in WORD.findall(german))
    return {word: counts[word] for word in WORD.findall(CAPTIONS[-1][0])}


def vocabulary(pairs: Pairs, size: int) -> tuple[dict[str, float], list[Row]]:
    """Learn so many pieces; describe them, and return the pairs in ids."""
    texts = [text for pair in pairs for text in pair]
    tokenizer = Tokenizer.learn(texts, size, split_punctuation=True)
    rows = [(tokenizer.encode(source), tokenizer.encode_target(target)) for source, target in pairs]
    sides = [[source for source, _ in rows], [target[1:-1] for _, target in rows]]  # no bos, no eos
    seen = Counter(token for side in sides for row in side for token in row)
    facts = {"pieces": size}
    for language, side in zip(LANGUAGES, sides, strict=True):
        facts[language] = sum(map(len, side)) / len(side)
    facts["seldom"] = sum(seen[token] < SELDOM for token in range(len(tokenizer))) / len(tokenizer)
    facts["parameters"] = size * WIDTH
    return facts, rows


def padding(rows: list[Row]) -> dict[str, float]:
    """Say how much of random batches, and of ours, is padding."""
    batches = TokenBatches(rows, 4_096)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    plans = {"at_random": [b.tolist() for b in order.split(64)], "by_length": batches.plan(1)}
    return {name: padding_fraction(batches.lengths, plan) for name, plan in plans.items()}


def measure(folder: Path | None) -> dict[str, Any]:
    """Return everything measured."""
    train, val = (load_multi30k(split, folder=folder) for split in ("train", "val"))
    facts = {"pairs": {"train": len(train), "val": len(val)}, "new_words": new_words(train, val)}
    facts |= {"seen_words": seen_words(train), "vocabularies": []}
    for size in SIZES:
        described, rows = vocabulary(train, size)
        facts["vocabularies"].append(described)
        if size == OURS:
            facts["padding"] = padding(rows)
    return facts


def main() -> None:
    """Measure, print, and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--record", type=Path, default=record_of("multi30k_corpus"), metavar="FILE")
    options = parser.parse_args()
    facts = measure(options.data)
    print(json.dumps(facts, indent=1, ensure_ascii=False))
    add_entry(options.record, facts, key=lambda facts: [])  # the only one


if __name__ == "__main__":
    main()
