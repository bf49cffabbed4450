"""What the command line asks and prints for each training task: options, texts, scores."""

from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from course_lib.data import LANGUAGES, check_number_words, draw_pairs, read_text, side_by_side
from course_lib.data.multi30k_files import CAPTIONS, DIRECTIONS, SPLITS
from course_lib.evaluation import corpus_scores, exact_match
from course_lib.gpt import parse_rate
from course_lib.tasks import language_model
from course_lib.tasks.language_model import PROMPTS, LanguageModel, TextGenerator
from course_lib.tasks.multi30k import Multi30k, RealTranslator, read_pairs, val_loss
from course_lib.tasks.numbers import Numbers, Translator
from course_lib.trainer.options import LAST_SEED, check_range, whole_from_one
from course_lib.trainer.task import Task

Options = dict[str, dict[str, Any]]  # each with the arguments of ``add_argument``
SAMPLE = 300  # characters generated for a record
COPIES = 20  # texts whose lines are parsed
MOST_ALPHA = 10.0  # of the length penalty; beyond it, nothing but the length counts


@dataclass(frozen=True, kw_only=True)
class TaskCommands:
    """The commands of one task."""

    task: type[Task]
    duration: str  #: of the usual training run
    settings: Options  #: hyperparameters that have an option of their own
    threads: int | None = None  #: that compute unless asked for; all if ``None``
    verb: str  #: the command that uses what was trained
    use: Callable[[Any, Namespace], str]  #: returns the text of that command
    use_options: Options
    evaluate: Callable[[Any, Namespace], dict[str, Any]]  #: prints; returns what a record keeps
    evaluate_options: Options


def typed_text(options: Namespace) -> str:
    """Return the words of a command, with one space between two."""
    return " ".join(" ".join(options.text).split())


def translate_number(translator: Translator, options: Namespace) -> str:
    """Translate a number, in upper or lower case."""
    text = typed_text(options).lower()
    check_number_words(text)
    return translator.translate([text])[0]


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


def translate_sentence(translator: RealTranslator, options: Namespace) -> str:
    """Translate a sentence."""
    return translator.translate([typed_text(options)], **search_options(options))[0]


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


def continue_text(generator: TextGenerator, options: Namespace) -> str:
    """Continue a text."""
    prompt = options.prompt or PROMPTS[generator.config.text]
    sampling = dict(temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)
    seed = options.draw % (LAST_SEED + 1)
    return generator.generate(prompt, options.tokens, seed=seed, **sampling)[0]


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


SEARCH: Options = {
    "--beam": dict(type=whole_from_one, default=4, help="1 is greedy"),
    "--alpha": dict(type=float, default=0.6, help="of the length penalty"),
    "--average": dict(type=whole_from_one, default=1, help="number of last epochs to average"),
}
TASKS = {
    "numbers": TaskCommands(
        task=Numbers,
        duration="half a minute of one CPU core",
        settings={"to": dict(choices=LANGUAGES), "steps": dict(type=whole_from_one)},
        threads=1,
        verb="translate",
        use=translate_number,
        use_options={"text": dict(nargs="+", help='such as "three hundred forty-five"')},
        evaluate=evaluate_numbers,
        evaluate_options={"--count": dict(type=whole_from_one, default=1000, help="of numbers")},
    ),
    "multi30k": TaskCommands(
        task=Multi30k,
        duration="an hour of two cores",
        settings={"direction": dict(choices=DIRECTIONS)},
        verb="translate",
        use=translate_sentence,
        use_options={"text": dict(nargs="+", help='such as "Ein Mann fährt Fahrrad."'), **SEARCH},
        evaluate=evaluate_sentences,
        evaluate_options={"--split": dict(choices=SPLITS[1:], default="val"), **SEARCH},
    ),
    "gpt": TaskCommands(
        task=LanguageModel,
        duration="2 minutes of one CPU core",
        settings={"text": dict(choices=PROMPTS), "steps": dict(type=whole_from_one)},
        verb="sample",
        use=continue_text,
        use_options={
            "--prompt": dict(metavar="TEXT", help="how the text begins"),
            "--tokens": dict(type=whole_from_one, default=300, help="characters to generate"),
            "--temperature": dict(type=float, default=0.8, metavar="T"),
            "--top-k": dict(type=whole_from_one, metavar="K", help="the K most likely only"),
            "--top-p": dict(type=float, metavar="P", help="the most likely up to this probability"),
            "--draw": dict(type=int, default=0, help="another number gives another text"),
        },
        evaluate=evaluate_text,
        evaluate_options={},
    ),
}
