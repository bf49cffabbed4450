"""The commands that download and use published models, and probe a model of the reader's own."""

import argparse
import os
import sys
from collections.abc import Callable

from course_lib.command_line import as_typed
from course_lib.data.multi30k_files import download_multi30k
from course_lib.interop.download import MODELS, continue_with, download, load_translator
from course_lib.probes import probe_made
from course_lib.terminal import add_command, path_of, tell, whole_from_one
from course_lib.trainer.options import LAST_SEED


def add_model_commands(commands: argparse._SubParsersAction) -> None:
    """Describe the commands for models that the course has not trained."""
    purpose = "download a corpus or a model, and check it"
    downloads = add_command(commands, "download", purpose, download_command)
    downloads.add_argument("name", choices=("multi30k", *MODELS))
    downloads.add_argument("folder", type=path_of, metavar="DIR")
    probes = add_command(commands, "probe", "look for mistakes in a model of yours", probe_command)
    probes.add_argument("factory", metavar="MODULE:FUNCTION", help="returns it, or probe()'s dict")
    probes.add_argument("--vocab-size", type=whole_from_one, metavar="V")
    probes.add_argument("--pad-id", type=int, metavar="ID")


def download_command(options: argparse.Namespace) -> int:
    """Download what is missing, and print where it is and what comes next."""
    if options.name == "multi30k":
        folder = download_multi30k(options.folder)
        words = ["train", "--task", "multi30k", "--data", str(options.folder)]
        print(f"Multi30k is in {folder}; now: {as_typed(*words)}")
        return 0
    model = MODELS[options.name]
    tell(f"Downloading {options.name} ({model.megabytes} MB) to {options.folder}")
    folder = download(options.name, options.folder)
    print(f"{options.name} is in {folder}; license: {model.licence}")
    use = ["sample", "--prompt", "Once upon a time"]
    if options.name.startswith("opus"):
        use = ["translate", "Ein Mann fährt Fahrrad."]
    tell(f"Next: {as_typed(use[0], '--weights', str(folder), *use[1:])}")
    return 0


def use_published(options: argparse.Namespace) -> Callable[[str, argparse.Namespace], str]:
    """Return what translates or continues a text with published weights."""
    if options.command == "translate":
        translate = load_translator(options.weights)
        return lambda text, options: translate([text], 4)[0]
    sampling = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p")}
    seed = options.draw % (LAST_SEED + 1)
    return lambda text, options: continue_with(
        options.weights, text, options.tokens, seed, **sampling
    )


def probe_command(options: argparse.Namespace) -> int:
    """Probe what a function of the user's makes; 1 when a probe fails."""
    sys.path.insert(0, os.getcwd())
    results = probe_made(options.factory, vocab_size=options.vocab_size, pad_id=options.pad_id)
    for result in results:
        print(result)
    return int(not all(result.passed for result in results))
