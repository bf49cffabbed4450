"""SmolLM2, a published model, gives the library's results in the course's classes."""

import argparse
import inspect
import random
from pathlib import Path

import library_reference
import pytest
import torch
import transformers
from library_reference import PROMPTS, compare
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

from course_lib.gpt import sample
from course_lib.interop.chat_template import read_chat_template

LETTERS = "abcXYZ éüß日本語한국русский العر 019²½٣.,;:!?'\"-_\n\t  😀👍🏽"
PIECES = [*LETTERS, "<|im_end|>", "\n\n", "'s"]


@pytest.fixture
def smollm2(published):
    """Return the path of the file, or skip the test if the file is missing."""
    return published("smollm2-135m-instruct")


def thousand_texts():
    """Return 700 passages from Python's library, and 300 random texts in many scripts."""
    modules = (argparse, inspect)
    lines = "\n".join(Path(module.__file__).read_text() for module in modules).split("\n")
    draw = random.Random(0)
    passages = ["\n".join(lines[i : i + draw.randint(1, 4)]) for i in range(0, 2100, 3)]
    return passages + ["".join(draw.choices(PIECES, k=draw.randint(1, 60))) for _ in range(300)]


def test_a_thousand_texts_get_the_librarys_ids(smollm2):
    ours = library_reference.ours()[1]
    reader = transformers.AutoTokenizer.from_pretrained(smollm2.parent, gguf_file=smollm2.name)
    theirs = reader.backend_tokenizer
    # the file asks for single digits, which the library leaves out when it reads a GGUF file
    digits = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    theirs.pre_tokenizer = Sequence(digits)
    texts = thousand_texts()
    assert len(texts) == 1000
    for text in texts:
        ids = ours.encode(text).ids
        assert ids == theirs.encode(text).ids
        assert ours.decode(ids, skip_special_tokens=False) == text
    assert read_chat_template(smollm2).source == reader.chat_template


@pytest.mark.parametrize("prompt", [PROMPTS[0], PROMPTS[5]])
def test_two_prompts_get_the_librarys_logits_and_tokens(smollm2, prompt):
    found = compare(prompt, 16)
    assert found["same_tokens"] and found["difference"] < 1e-4
    assert found["engine_difference"] < 2e-4  # rounding differs between a row and a matrix
    model, tokenizer = library_reference.ours()
    ids = torch.tensor([tokenizer.encode(prompt).ids])
    for use_cache in (True, False):
        written = sample(model, ids, 3, top_k=1, use_cache=use_cache)
        assert written[0, ids.size(1) :].tolist() == found["tokens"][:3]
