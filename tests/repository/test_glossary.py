"""The glossary contains the terms that chapters explain, including the field's terms."""

from pathlib import Path

import glossary
import pytest

CHAPTERS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
FIELD = [
    *("embedding", "self-attention", "contextual representation", "residual stream"),
    *("forward pass", "backward pass", "epoch", "hyperparameters", "overfitting"),
    *("validation loss", "perplexity", "bits per character", "gradient clipping"),
    *("gradient accumulation", "weight tying", "exposure bias", "temperature", "nucleus"),
    *("kv cache", "prefill", "decode", "multi-query attention", "flashattention"),
    *("memory-bound", "arithmetic intensity", "mixed precision", "all-reduce", "all-gather"),
    *("reduce-scatter", "zero", "activation checkpointing", "fine-tuning"),
    *("encoder-only model", "masked language modeling", "mean pooling", "cosine similarity"),
]


@pytest.mark.parametrize("term", FIELD)
def test_a_chapter_explains_each_term_of_the_field(term):
    found = {name.lower(): sentence for name, (_, sentence) in glossary.terms(CHAPTERS).items()}
    assert len(found[term].split()) > 4 and term in found[term].lower()


def test_a_term_has_the_first_sentence_and_chapter_that_contain_it():
    chapter, sentence = glossary.terms(CHAPTERS)["causal mask"]
    assert chapter == "06_masks.ipynb" and "earlier positions" in sentence
    assert f": {sentence} ([chapter 06](notebooks/{chapter}))" in glossary.page(CHAPTERS)
