"""The glossary contains the terms that chapters explain, including the field's terms."""

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
