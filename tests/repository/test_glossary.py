"""The glossary contains the terms that chapters explain, including the field's terms."""

import json

import glossary

from notebooks import pages

PAGES = pages()
TERMS = glossary.terms(PAGES)
FIELD = [
    *("embedding", "self-attention", "contextual representation", "residual stream"),
    *("forward pass", "backward pass", "epoch", "hyperparameters", "overfitting"),
    *("validation loss", "perplexity", "bits per character", "gradient clipping"),
    *("gradient accumulation", "weight tying", "exposure bias", "temperature", "nucleus"),
    *("kv cache", "prefill", "decode", "multi-query attention", "flashattention"),
    *("memory-bound", "arithmetic intensity", "mixed precision", "all-reduce", "all-gather"),
    *("reduce-scatter", "zero", "activation checkpointing", "fine-tuning"),
    *("induction head", "ablation", "activation patching", "logit lens"),
    *("chain of thought", "scratchpad", "self-consistency", "verifier", "best of n"),
    *("constrained decoding", "tool call", "prompt injection"),
    *("encoder-only model", "masked language modeling", "mean pooling", "cosine similarity"),
]


def test_a_chapter_explains_each_term_of_the_field():
    found = {name.lower(): sentence.lower() for name, (_, sentence) in TERMS.items()}
    for term in FIELD:
        assert len(found[term].split()) > 4 and term in found[term], term


def test_a_term_has_the_first_sentence_and_chapter_that_contain_it():
    chapter, sentence = TERMS["causal mask"]
    assert chapter == "06_masks.ipynb" and "earlier positions" in sentence
    assert f": {sentence} ([chapter 06](notebooks/{chapter}))" in glossary.page(PAGES)


def test_a_term_of_a_side_trip_links_to_it_and_its_links_lead_from_the_glossary(tmp_path):
    path = tmp_path / "side_trips" / "13_small_bits.ipynb"
    path.parent.mkdir()
    text = "A **small bit** is one that [the cache]({}13_kv_cache.ipynb) keeps."
    cells = [{"cell_type": "markdown", "source": [text.format("../")]}]
    path.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    sentence = text.format("notebooks/")
    assert glossary.terms([path]) == {"small bit": ("side_trips/13_small_bits.ipynb", sentence)}
    link = "([side trip 13](notebooks/side_trips/13_small_bits.ipynb))"
    assert f": {sentence} {link}" in glossary.page([path])
    assert TERMS["quantization"][0].startswith("side_trips/13_")
