"""SmolLM2, a published model, gives the library's results in the course's classes."""

import argparse
import inspect
import random
from pathlib import Path

import pytest
import torch
import transformers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence

from course_lib.interop import llama
from course_lib.interop.chat_template import read_chat_template
from course_lib.modern_decoder import ModernEngine
from course_lib.records.results import read_record

LETTERS = "abcXYZ éüß日本語한국русский العر 019²½٣.,;:!?'\"-_\n\t  😀👍🏽"
PIECES = [*LETTERS, "<|im_end|>", "\n\n", "'s"]


@pytest.fixture(scope="module")
def smollm2(published):
    """Return the path of the file, or skip the test if the file is missing."""
    return published("smollm2-135m-instruct")


@pytest.fixture(scope="module")
def ours(smollm2):
    """Load the course's model and tokenizer."""
    return llama.from_pretrained(smollm2)


def texts():
    """Return 140 passages from Python's library, and 60 random texts in many scripts."""
    modules = (argparse, inspect)
    lines = "\n".join(Path(module.__file__).read_text() for module in modules).split("\n")
    draw = random.Random(0)
    passages = ["\n".join(lines[i : i + draw.randint(1, 4)]) for i in range(0, 2100, 15)]
    return passages + ["".join(draw.choices(PIECES, k=draw.randint(1, 60))) for _ in range(60)]


def test_texts_get_the_librarys_ids(smollm2, ours):
    _, tokenizer = ours
    reader = transformers.AutoTokenizer.from_pretrained(smollm2.parent, gguf_file=smollm2.name)
    theirs = reader.backend_tokenizer
    # the file asks for single digits, which the library leaves out when it reads a GGUF file
    digits = [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
    theirs.pre_tokenizer = Sequence(digits)
    for text in texts():
        ids = tokenizer.encode(text).ids
        assert ids == theirs.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
    assert read_chat_template(smollm2).source == reader.chat_template


@torch.no_grad()
def test_a_prompt_gets_the_tokens_of_the_librarys_model_with_and_without_a_cache(ours):
    entry, (model, tokenizer) = read_record("library_reference")[0], ours
    prompt = tokenizer.encode(entry["prompt"]).ids
    ids = torch.tensor([prompt + entry["tokens"][:16]])
    logits = model(ids)[0]
    assert logits[0, len(prompt) - 1 : -1].argmax(-1).tolist() == entry["tokens"][:16]
    engine = ModernEngine(model, ids.size(1))
    steps = [
        engine.step(part, all_positions=True) for part in ids.split([len(prompt), *[1] * 16], 1)
    ]
    torch.testing.assert_close(torch.cat(steps, 1), logits, atol=2e-4, rtol=0)
