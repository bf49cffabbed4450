"""Measure what chapter 14 says of Multi30k: new words, pieces by vocabulary size, padding.

python tools/corpus.py --data DIR (or COURSE_DATA). It reads train and val, never the test set.
"""

import argparse
from collections import Counter
from pathlib import Path

import torch

from course_lib.data import Tokenizer
from course_lib.real.batches import TokenBatches
from course_lib.real.corpus import load_multi30k
from course_lib.real_translation import share_of_padding

SIZES = (2_000, 4_000, 8_000, 16_000)
SELDOM = 20
WIDTH = 256


def main() -> None:
    """Print three measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    folder = parser.parse_args().data
    train, val = (load_multi30k(split, folder=folder) for split in ("train", "val"))
    texts = [text for pair in train for text in pair]
    for side, language in enumerate(("German", "English")):
        known = {word for pair in train for word in pair[side].split()}
        words = [word for pair in val for word in pair[side].split()]
        new = sum(word not in known for word in words) / len(words)
        print(f"{language}: {new:.1%} of the words of val stand nowhere in train")
    print("pieces, German and English tokens a sentence, seldom learned, parameters")
    for size in SIZES:
        tokenizer = Tokenizer.learn(texts, size, split_punctuation=True)
        sides = [[tokenizer.encode(pair[side]) for pair in train] for side in (0, 1)]
        seen = Counter(token for side in sides for row in side for token in row)
        means = [sum(map(len, side)) / len(side) for side in sides]
        few = sum(seen[token] < SELDOM for token in range(len(tokenizer))) / len(tokenizer)
        print(f"{size}  {means[0]:.1f} {means[1]:.1f}  {few:.0%} below {SELDOM}  {size * WIDTH:,}")
        if size == 8_000:
            rows = [(s, [1, *t, 2]) for s, t in zip(*sides, strict=True)]
    batches = TokenBatches(rows, 4_096)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    at_random = [batch.tolist() for batch in order.split(64)]
    for name, plan in {
        "random batches of 64": at_random,
        "pools by length": batches.plan(1),
    }.items():
        print(f"{name}: {share_of_padding(batches.lengths, plan):.1%} padding, {len(plan)} batches")


if __name__ == "__main__":
    main()
