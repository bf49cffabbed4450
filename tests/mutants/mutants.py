"""Plant each known mistake for chapters 01 to 12 in a small model, and record how it trains.

The model learns to reverse digits. For each mistake, the record says which probes catch it, and
what loss, accuracy and exact match the model reaches. Each mistake takes about ten seconds.
"""

import ast
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock
from zlib import crc32

import torch
from digit_reversal import (
    BOS,
    PAD,
    VOCAB,
    ReversalConfig,
    loss_of_step,
    new_model,
    reversals,
    train,
    write,
)
from torch import Tensor, nn

from course_lib import probes
from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.checking.mistake import Mistake
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, read_entries, write_entries
from course_lib.transformer import TransformerConfig

RECORD = Path(__file__).with_name("mutants_record.json")
CHAPTERS = (
    "attention", "multi_head", "positions", "add_norm", "feed_forward", "masks", "encoder",
    "decoder", "transformer", "training", "decoding",
)  # fmt: skip
UNUSED = ("sample_tokens", "adam_update")  # this model does not call them
NOT_THE_PAPERS = dict(norm_first=True, activation="gelu", tie_embeddings="none", dropout=0.2)


@contextmanager
def planted(mistake: Mistake | None) -> Iterator[None]:
    """Substitute a mistake, if any, wherever the course's modules use the correct definition."""
    with ExitStack() as stack:
        for module, names in replacements(mistake).items():
            stack.enter_context(mock.patch.multiple(module, **names))
        yield


def replacements(mistake: Mistake | None) -> dict[str, dict[str, Any]]:
    """Return, for each module, the replacements that plant a mistake."""
    if mistake is None:
        return {}
    name, wrong = mistake.exercise, mistake.implementation
    right = getattr(import_module(f"course_lib.{mistake.module}"), name)
    paths = [f"course_lib.{chapter}" for chapter in (*CHAPTERS, "kv_cache")]
    users = [path for path in paths if getattr(import_module(path), name, None) is right]
    replaced: dict[str, dict[str, Any]] = {path: {name: wrong} for path in users}
    if name == "scaled_dot_product_attention":  # torch's version does not return weights

        def output_alone(*inputs: Any) -> Tensor:
            """Return the output of the wrong function, without the weights and without dropout."""
            output, _ = wrong(*inputs[:4])
            return output

        replaced["course_lib.multi_head"]["attention_output"] = output_alone
    return replaced


def build(mistake: Mistake | None, config: ReversalConfig, **changes: Any) -> nn.Module:
    """Build the model with one wrong definition; call this within ``planted``."""
    model = new_model(config, **changes)
    if mistake is not None and mistake.exercise == "LayerNorm":  # the model uses torch's
        for module in list(model.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.LayerNorm):
                    setattr(module, name, mistake.implementation(config.d_model))
    return model


@cache
@torch.random.fork_rng()
def fingerprint(mistake: Mistake | None, **changes: Any) -> list[Tensor]:
    """Return what a model computes: logits in both modes, loss, gradients, and decoded ids."""
    with planted(mistake):
        model = build(mistake, ReversalConfig(), **changes)
        src, tgt = reversals(8, torch.Generator().manual_seed(0))
        src = src.roll(1, dims=1)  # some padding comes first
        outputs = [model.eval()(src, tgt[:, :-1]), write(model, src)]
        torch.manual_seed(0)
        outputs.append(model.train()(src, tgt[:, :-1]))
        torch.manual_seed(0)
        loss = loss_of_step(model, src, tgt)
        loss.backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        return [tensor.detach() for tensor in (*outputs, loss, *gradients)]


def effect(mistake: Mistake, **changes: Any) -> str:
    """Return what a mistake affects in the model with these changes to the paper's choices.

    Returns ``"nothing"``, ``"numbers"``, ``"rate"`` (only the learning rate), or an error's name.
    """
    if mistake.exercise == "warmup_inverse_sqrt":
        return "rate"
    try:
        right, wrong = fingerprint(None, **changes), fingerprint(mistake, **changes)
    except Exception as error:  # any error of a wrong model is its effect
        return type(error).__name__
    if [tensor.shape for tensor in right] != [tensor.shape for tensor in wrong]:
        return "numbers"
    close = (torch.allclose(a, b, atol=1e-5, rtol=1e-4) for a, b in zip(right, wrong, strict=True))
    return "nothing" if all(close) else "numbers"


def alarms(mistake: Mistake | None, **changes: Any) -> list[str]:
    """Return the probes that catch a mistake without a correct model to compare with."""
    with planted(mistake):
        model = build(mistake, ReversalConfig(), **changes)
        functions = dict(loss=loss_of_step, generate=write)
        ids = dict(vocab_size=VOCAB, pad_id=PAD, bos_id=BOS)
        dropout = changes.get("dropout", TransformerConfig.dropout)
        try:
            results = probes.probe(model, dropout=dropout, **functions, **ids)
        except ValueError:
            return ["call"]
    return [result.name for result in results if not result.passed]


def mutants() -> list[Mistake]:
    """Return the known mistakes for chapters 01 to 12 in definitions that this model uses."""
    mistakes = [each for name in exercises() for each in known_mistakes(name)]
    return [m for m in mistakes if m.module in CHAPTERS and m.exercise not in UNUSED]


@cache
def probes_checksum() -> int:
    """Return a checksum of the code of all probes, without comments."""
    files = sorted(Path(probes.__file__).parent.glob("*.py"))
    trees = [ast.dump(ast.parse(path.read_text(encoding="utf-8"))) for path in files]
    return crc32("".join(trees).encode())


def identity(mistake: Mistake | None) -> Entry:
    """Return names that identify a mistake or the correct model, and a checksum of its edits."""
    name = ("", "") if mistake is None else (mistake.exercise, mistake.name)
    checksum = crc32(repr(mistake and mistake.edits).encode())
    return {"exercise": name[0], "mistake": name[1], "edits": checksum}


def named(run: Entry) -> Mistake | None:
    """Return the mistake with this identity, or None for the correct model."""
    return next((m for m in mutants() if identity(m).items() <= run.items()), None)


def seen(mistake: Mistake | None) -> Entry:
    """Return a mistake's effect on the paper's model, or else on another, and the alarms."""
    entry: Entry = {"paper": effect(mistake) if mistake else "nothing", "probes": []}
    changes: dict[str, Any] = {}
    if mistake and entry["paper"] == "nothing":
        changes = NOT_THE_PAPERS
        entry["other"] = effect(mistake, **changes)
    if entry.get("other", entry["paper"]) != "nothing":
        entry["probes"] = alarms(mistake, **changes)
    return entry | {"probes_source": probes_checksum()}


def train_one(run: Entry) -> Entry:
    """Record what is seen of a mistake, and how the model trains.

    We do not train with a mistake that changes nothing in the paper's model or raises an error.
    """
    mistake = named(run)
    entry = seen(mistake) | {"runs": []}
    if mistake is None or entry["paper"] in ("numbers", "rate"):
        entry["runs"] = [scores_of(mistake, seed) for seed in SEEDS]
    return entry


def probe_again() -> None:
    """Run changed probes for every recorded mistake; the training runs stay."""
    entries = read_entries(RECORD)
    for number, entry in enumerate(entries):
        if entry["probes_source"] != probes_checksum():
            entries[number] = entry | seen(named(entry))
            write_entries(RECORD, entries)
            print(f"probed {number + 1} of {len(entries)}: {entry['mistake']}", flush=True)


def scores_of(mistake: Mistake | None, seed: int) -> Entry:
    """Train a model with one seed; return its scores, or the error that stops it."""
    config = ReversalConfig(seed=seed)
    run: Entry = {"seed": seed, "steps": config.steps}
    with planted(mistake), torch.random.fork_rng():
        try:
            scores = train(build(mistake, config), config, config.rate)
        except Exception as error:  # any error of a wrong model is its outcome
            return run | {"outcome": type(error).__name__}
    rounded = {name: round(score, 4) for name, score in scores.items()}
    return run | {"outcome": "trains"} | rounded


def runs() -> list[Entry]:
    """List the correct model and all mistakes in the order of the record."""
    mistakes = sorted(mutants(), key=lambda mistake: (mistake.exercise, mistake.name))
    return [identity(mistake) for mistake in [None, *mistakes]]


if __name__ == "__main__":
    main(__doc__, RECORD, runs(), train_one)
    probe_again()
