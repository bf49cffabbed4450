"""The commands that use, download and probe models."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from course_lib.cli.conversation import Conversation, continue_text, sampler
from course_lib.cli.training_commands import load, prepare, search_options
from course_lib.data import check_number_words, spell_digits
from course_lib.data.multi30k_files import download_multi30k
from course_lib.interop.download import download
from course_lib.interop.text_models import load_writer, special_ids
from course_lib.interop.weights import MODELS, find_weights
from course_lib.probes import probe_made
from course_lib.support.quoted_text import shortened
from course_lib.support.terminal import as_typed, tell
from course_lib.support.user_folders import data_folder
from course_lib.tasks.language_model import PROMPTS, TextGenerator
from course_lib.tasks.multi30k import RealTranslator
from course_lib.tasks.numbers import Translator
from course_lib.trainer.options import LAST_SEED
from course_lib.trainer.task import Pipeline

CHAT_MODEL = "smollm2-135m-instruct"


def use_command(options: argparse.Namespace) -> int:
    """Translate the given text or each line of input, or continue a prompt."""
    if options.weights:
        prepare(options)
        path = find_weights(options.weights)
        if options.command == "sample":
            draw = sampler(**sampling_options(options))
            writer = load_writer(path)
            if not special_ids(writer.tokenizer) | writer.template.end_ids:
                note(
                    f"the tokenizer in {path} has no special tokens, so the text ends only after "
                    f"{options.tokens:,} new tokens (--tokens)"
                )
            prompt = options.prompt or ""
            print_parts(continue_text(writer, prompt, options.tokens, draw))
            return 0
        pipeline: Pipeline = RealTranslator.from_published(path)
    else:
        pipeline, _ = load(options)

    def use(text: str) -> Iterator[str]:
        """Yield a translation, or the continuation of a prompt."""
        yield write(pipeline, text, options)

    if options.command == "sample":
        print_parts(use(options.prompt or ""))
    elif options.text:
        print_parts(use(" ".join(" ".join(options.text).split())))
    else:
        invitation = "Type some text to translate. An empty line ends the program."
        return for_each_line("translate", invitation, use)
    return 0


def write(pipeline: Pipeline, text: str, options: argparse.Namespace) -> str:
    """Translate a sentence or a number (in digits or words), or continue a prompt."""
    if isinstance(pipeline, TextGenerator):
        prompt = text or PROMPTS[pipeline.config.text]
        return pipeline.generate(prompt, options.tokens, **sampling_options(options))[0]
    assert isinstance(pipeline, Translator)
    if isinstance(pipeline, RealTranslator):
        return pipeline.translate([text], **search_options(options))[0]
    words = spell_digits(text.lower())
    if words != text.lower():
        print(f"{text} is read as {words}", file=sys.stderr, flush=True)
    check_number_words(words)
    return pipeline.translate([words])[0]


def sampling_options(options: argparse.Namespace) -> dict[str, Any]:
    """Return the options for sampling, including the seed."""
    names = ("temperature", "top_k", "top_p")
    sampling = {name: getattr(options, name) for name in names}
    if options.temperature == 0:
        sampling |= {"temperature": 1.0, "top_k": 1}
    return {"seed": options.draw % (LAST_SEED + 1), **sampling}


def chat_command(options: argparse.Namespace) -> int:
    """Answer what the user types, or every line of piped input; Ctrl-C ends an answer."""
    sampling = sampling_options(options)
    draw = sampler(**sampling)
    path = find_weights(options.weights or CHAT_MODEL)
    writer = load_writer(path, chats=True)
    conversation = Conversation(writer, draw, options.tokens)
    if conversation.end_id is None:
        other = "at another special token or " if conversation.ends else ""
        note(
            f"{path} has no usable end token (eos_token), so an answer ends only {other}after "
            f"{options.tokens:,} tokens (--tokens)"
        )
    invitation = "Ask a question. Ctrl-C ends an answer, and an empty line ends the chat."
    return for_each_line("chat", invitation, conversation.answer, conversation.notes)


def note(sentence: str) -> None:
    """Print a note to stderr, so that stdout contains only the model's text."""
    print(f"({sentence})", file=sys.stderr, flush=True)


def for_each_line(
    command: str,
    invitation: str,
    use: Callable[[str], Iterable[str]],
    notes: list[str] | None = None,
) -> int:
    """Call ``use`` with each typed or piped line; return 2 if a piped line fails.

    ``use`` returns an output line in parts, and may append messages to ``notes``, which are
    printed afterward. An empty line, or a line that fails, produces an empty line of output.
    """
    is_typed = sys.stdin is not None and sys.stdin.isatty()
    code = 0
    for line in typed_lines(invitation) if is_typed else sys.stdin or ():
        text = " ".join(line.split())
        try:
            print_parts(use(text) if text else ())
            while notes:
                note(notes.pop(0))
        except ValueError as error:
            print(flush=True)
            print(f"course {command}: {shortened(str(error))}", file=sys.stderr)
            code = 2
        except KeyboardInterrupt:
            if not is_typed:
                raise
            print()
    return 0 if is_typed else code


def typed_lines(invitation: str) -> Iterator[str]:
    """Prompt for lines until the user enters an empty one or asks to quit."""
    print(invitation)
    try:
        while (text := input("> ").strip()) not in ("", "quit", "exit"):
            yield text
    except (EOFError, KeyboardInterrupt):
        print()


def print_parts(parts: Iterable[str]) -> None:
    """Print the parts of a text as they arrive, and then a newline."""
    for part in parts:
        print(part, end="", flush=True)
    print(flush=True)


def download_command(options: argparse.Namespace) -> int:
    """Download missing files, and print where they are and what to do next."""
    folder = options.folder or data_folder()
    if options.name == "multi30k":
        command = as_typed("train", "--task", "multi30k", "--data", str(folder))
        print(f"Multi30k is in {download_multi30k(folder)}. Next: {command}")
        return 0
    model = MODELS[options.name]
    tell(f"Downloading {options.name} ({model.megabytes} MB) to {folder}")
    path = download(options.name, folder)
    print(f"{options.name} is in {path}; license: {model.license}")
    if model.first_try:
        command, *words = model.first_try
        tell(f"Next: {as_typed(command, '--weights', str(path), *words)}")
    return 0


def probe_command(options: argparse.Namespace) -> int:
    """Probe the model that the user's function returns; return 1 if a probe fails."""
    sys.path.insert(0, os.getcwd())
    results = probe_made(options.factory, vocab_size=options.vocab_size, pad_id=options.pad_id)
    for result in results:
        print(result)
    return int(not all(result.passed for result in results))
