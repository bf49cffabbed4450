"""What the command line does and prints for each training task: texts and scores."""

import sys
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_lib.data import check_number_words, draw_pairs, read_text, side_by_side, spell_digits
from course_lib.data.multi30k_files import CAPTIONS
from course_lib.evaluation import corpus_scores, exact_match
from course_lib.gpt import parse_rate
from course_lib.tasks import language_model
from course_lib.tasks.language_model import PROMPTS, LanguageModel, TextGenerator
from course_lib.tasks.multi30k import Multi30k, RealTranslator, read_pairs, val_loss
from course_lib.tasks.numbers import Numbers, Translator
from course_lib.trainer.options import LAST_SEED, check_range
from course_lib.trainer.task import Task

SAMPLE = 300  # characters generated for a record
COPIES = 20  # texts whose lines are parsed
MOST_ALPHA = 10.0  # of the length penalty; beyond it, nothing but the length counts


@dataclass(frozen=True)
class TaskCommands:
    """The commands of one task, whose options are in ``command_options``."""

    task: type[Task]
    use: Callable[[Any, str, Namespace], str]  #: translates or continues a text
    evaluate: Callable[[Any, Namespace], dict[str, Any]]  #: prints; returns what a record keeps


def translate_number(translator: Translator, text: str, options: Namespace) -> str:
    """Translate a number in digits or in words, in upper or lower case."""
    words = spell_digits(text.lower())
    if words != text.lower():
        print(f"{text} is read as {words}", file=sys.stderr, flush=True)
    check_number_words(words)
    return translator.translate([words])[0]


def evaluate_numbers(translator: Translator, options: Namespace) -> dict[str, Any]:
    """Count exact matches on numbers of the test split."""
    config = translator.config
    sources, references = zip(*draw_pairs("test", options.count, to=config.to), strict=True)
    exact = exact_match(translator.translate(sources), references)
    print(
        f"{config.to}, seed {config.seed}: exact match {exact:.3f} on {options.count} numbers of "
        "the test split"
    )
    return {"exact_match": exact}


def search_options(options: Namespace) -> dict[str, Any]:
    """Return the options of a beam search."""
    check_range("alpha", options.alpha, 0.0, MOST_ALPHA)
    return dict(beam_size=options.beam, alpha=options.alpha)


def translate_sentence(translator: RealTranslator, text: str, options: Namespace) -> str:
    """Translate a sentence."""
    return translator.translate([text], **search_options(options))[0]


def evaluate_sentences(translator: RealTranslator, options: Namespace) -> dict[str, Any]:
    """Translate a split freely; print BLEU and chrF."""
    search = search_options(options)
    pairs = read_pairs(translator.config, options.split, options.data)
    sources, references = map(list, zip(*pairs, strict=True))
    results: dict[str, Any] = corpus_scores(translator.translate(sources, **search), references)
    for name in ("bleu", "bleu_lower", "chrf"):
        print(f"{name} {results[name]:.2f}  {results[f'{name}_signature']}")
    print(f"{len(pairs)} sentences of {options.split}")
    captions = [pair[translator.config.direction == "en-de"] for pair in CAPTIONS]
    translations = translator.translate(captions, **search)
    results["captions"] = [list(pair) for pair in zip(captions, translations, strict=True)]
    results["loss"] = val_loss(translator, pairs)
    if options.split != "val" or options.average > 1:
        results["history"] = []  # a record contains it once
    return results


def continue_text(generator: TextGenerator, text: str, options: Namespace) -> str:
    """Continue a text."""
    prompt = text or PROMPTS[generator.config.text]
    return generator.generate(prompt, options.tokens, **sampling_options(options))[0]


def sampling_options(options: Namespace) -> dict[str, Any]:
    """Return the options of sampling, and the seed."""
    names = ("temperature", "top_k", "top_p")
    sampling = {name: getattr(options, name) for name in names}
    return {"seed": options.draw % (LAST_SEED + 1), **sampling}


def evaluate_text(generator: TextGenerator, options: Namespace) -> dict[str, Any]:
    """Measure the loss on all of val, and of Python, how many generated lines can be parsed.

    Raises ValueError if the text has other characters than the model knows.
    """
    config = generator.config
    text = read_text(config.text, options.data)
    if text.characters.characters != generator.tokenizer.characters:
        raise ValueError("this model was trained on another text: it has other characters")
    windows = side_by_side(text.val, config.max_len)
    loss = language_model.loss_on(generator.model, windows)
    every = f"all {len(windows):,} windows of {config.max_len}, side by side"
    print(f"val loss {loss:.4f} nats per character, on {every}")
    characters = {"train": len(text.train), "val": len(text.val)}
    results: dict[str, Any] = {"val_loss": loss, "characters": characters}
    copies = COPIES if config.text == "library" else 1
    samples = generator.generate(PROMPTS[config.text], SAMPLE, copies=copies, seed=config.seed)
    lines = [line for sample in samples for line in language_model.program_lines(sample)]
    if config.text == "library" and lines:
        results["parse_rate"] = parse_rate(lines)
        print(f"parse rate {results['parse_rate']:.2f} of {len(lines)} generated lines")
    return results | {"sample": samples[0]}


TASKS = {
    "numbers": TaskCommands(Numbers, translate_number, evaluate_numbers),
    "multi30k": TaskCommands(Multi30k, translate_sentence, evaluate_sentences),
    "gpt": TaskCommands(LanguageModel, continue_text, evaluate_text),
}
