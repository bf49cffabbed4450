"""Compare the speed of chapter 10's byte-pair encoding with that of ``tokenizers``, on Multi30k.

The script reads train from the folder that COURSE_DATA names, and records ratios of processor
times: the library's median of three rounds, and one round of the slow plain version.
"""

import os
import time
from collections.abc import Callable
from statistics import median

import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from course_lib.data.multi30k_files import load_multi30k
from course_lib.records.missing_runs import main
from course_lib.records.results import Entry, record_of
from course_lib.tokenization import BPETokenizer, byte_words, train_bpe, train_bpe_indexed

MERGES = 8_000
FEW_MERGES = 1_000  # for the plain version
ROUNDS = 3


def library(text: str, num_merges: int) -> tokenizers.Tokenizer:
    """Train the byte-level BPE of the ``tokenizers`` library."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=256 + num_merges,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text], trainer)
    return tokenizer


def seconds(train: Callable[[str, int], object], text: str, num_merges: int) -> float:
    """Measure the processor time of training one tokenizer, summed over all threads."""
    start = time.process_time()
    train(text, num_merges)
    return time.process_time() - start


def measure(run: Entry) -> Entry:
    """Return the ratios, and whether both tokenizers give every line the same ids."""
    lines = [line for pair in load_multi30k("train") for line in pair]
    text = "\n".join(lines)
    ratios = [
        seconds(train_bpe_indexed, text, MERGES) / seconds(library, text, MERGES)
        for _ in range(ROUNDS)
    ]
    plain = seconds(train_bpe, text, FEW_MERGES) / seconds(train_bpe_indexed, text, FEW_MERGES)
    theirs, tokenizer = library(text, MERGES), BPETokenizer(train_bpe_indexed(text, MERGES))
    return run | {
        "words": len(set(byte_words(text))),
        "merges": MERGES,
        "few_merges": FEW_MERGES,
        "indexed": median(ratios),
        "plain": plain,
        "equal": tokenizer.encode(text) == theirs.encode(text).ids,
    }


if __name__ == "__main__":
    os.environ["RAYON_NUM_THREADS"] = "1"  # the library's threads
    main(__doc__, record_of("tokenizer_speed"), [{}], measure)
