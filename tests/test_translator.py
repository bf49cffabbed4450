"""A translator: texts in, texts out, one by one or together, and what it counts as right."""

import pytest
import torch
from compare import says

from course_lib.data import draw_pairs
from course_lib.tasks.numbers import Numbers
from course_lib.tasks.translator import TranslatorConfig, translated_exactly

TINY = TranslatorConfig(
    num_pairs=120, vocab_size=70, d_model=12, num_heads=3, num_layers=1, d_ff=20, max_len=100
)


@pytest.fixture(scope="module")
def untrained():
    """Return a new translator, which writes nonsense."""
    with torch.random.fork_rng():
        return Numbers(TINY).pipeline


def test_a_language_that_nobody_generates_is_refused():
    with pytest.raises(ValueError, match=says("to='it'", "de", "fr", "zh")):
        TranslatorConfig(to="it")


def test_the_model_is_built_from_the_configuration():
    config = TINY.of_model(vocab_size=33)
    assert (config.src_vocab_size, config.tgt_vocab_size, config.pad_id) == (33, 33, 0)
    assert config.num_encoder_layers == config.num_decoder_layers == TINY.num_layers
    for name in ("d_model", "num_heads", "d_ff", "dropout", "max_len"):
        assert getattr(config, name) == getattr(TINY, name)


# --- translating


def test_empty_texts_no_text_and_too_long_a_text_are_refused(untrained):
    with pytest.raises(ValueError, match="text 2 of 3 is empty"):
        untrained.translate(["one", "  ", "two"])
    with pytest.raises(ValueError, match="row"):
        untrained.translate([])
    with pytest.raises(ValueError, match=says("max_len=100")):
        untrained.translate(["one " * 101])


# --- exact match


class Phrasebook:
    """Translate by looking up, and note what it was asked."""

    def __init__(self, **words):
        self.words = words
        self.asked = []

    def translate(self, texts):
        self.asked.append(list(texts))
        return [self.words[text] for text in texts]


@pytest.mark.parametrize("batch", [2, 250])
def test_exact_match_counts_to_the_last_letter(batch):
    book = Phrasebook(one="eins", two="zwei", three="drei", four="vier", five="fünf")
    pairs = [
        ("one", "eins"),
        ("two", "zwe"),  # a letter missing
        ("three", "dreii"),
        ("four", "Vier"),
        ("five", "fünf"),
    ]
    assert translated_exactly(book, pairs, batch=batch) == 2 / 5
    assert [text for texts in book.asked for text in texts] == [source for source, _ in pairs]
    assert max(map(len, book.asked)) <= batch


def test_exact_match_is_measured_without_seeing_the_answers(untrained):
    sources = [source for source, _ in draw_pairs("test", 6)]
    own = untrained.translate(sources)  # nonsense, and no answer was there to see
    assert translated_exactly(untrained, list(zip(sources, own, strict=True)), batch=4) == 1.0
    right = [target for _, target in draw_pairs("test", 6)]
    assert translated_exactly(untrained, list(zip(sources, right, strict=True))) == 0.0


def test_exact_match_of_nothing_is_refused(untrained):
    with pytest.raises(ValueError, match="no pairs"):
        translated_exactly(untrained, [])
