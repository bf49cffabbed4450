"""The glossary contains the terms that chapters explain, including the field's terms."""

import glossary
import pytest

from notebooks import pages

PAGES = pages()
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
    found = {name.lower(): sentence for name, (_, sentence) in glossary.terms(PAGES).items()}
    assert len(found[term].split()) > 4 and term in found[term].lower()


def test_a_term_has_the_first_sentence_and_chapter_that_contain_it():
    chapter, sentence = glossary.terms(PAGES)["causal mask"]
    assert chapter == "06_masks.ipynb" and "earlier positions" in sentence
    assert f": {sentence} ([chapter 06](notebooks/{chapter}))" in glossary.page(PAGES)


def test_a_term_of_a_side_trip_links_to_it_and_its_links_lead_from_the_glossary():
    chapter, sentence = glossary.terms(PAGES)["quantization"]
    assert chapter == "side_trips/13_quantized_weights.ipynb"
    assert f": {sentence} ([side trip 13](notebooks/{chapter}))" in glossary.page(PAGES)
    assert "](../" not in glossary.page(PAGES)
