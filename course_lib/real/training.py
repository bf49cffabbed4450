"""Train a translator of real sentences, and lose nothing when it stops (§5)."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm.auto import tqdm

from course_lib.checkpoint import explaining, load_checkpoint, save_checkpoint
from course_lib.data import Tokenizer
from course_lib.real.batches import TokenBatches
from course_lib.real.kept import keep_weights
from course_lib.real.loss import backward_in_chunks, loss_in_chunks
from course_lib.real.translator import (
    Pairs,
    RealConfig,
    RealTranslator,
    new_translator,
    read_pairs,
    score,
    token_batches,
)
from course_lib.running.machine import Watch, describe_machine
from course_lib.running.precision import mixed_precision
from course_lib.running.records import note_minutes, write_log
from course_lib.running.settings import refuse_another
from course_lib.training import ADAM
from course_lib.transformer import Transformer

LAST = "last.pt"  # the checkpoint that training goes on from
WHAT = "a translator of sentences"  # it is of
SAVE_EVERY = 200  # steps
KEPT_EPOCHS = 10


@dataclass
class Run:
    """Hold all that changes while a translator is trained.

    Args:
        translator: Its model learns.
        optimizer: Adam, with its moments.
        batches: What it learns from.
        step: The last step made.
        seconds: Time spent so far, over all starts: ``"wall"`` and ``"cpu"`` (of all threads).
        history: One dict for each epoch.
        losses: Sum and number of the losses of this epoch so far. Shape ``(2,)``.
    """

    translator: RealTranslator
    optimizer: torch.optim.Optimizer
    batches: TokenBatches
    step: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"wall": 0.0, "cpu": 0.0})
    history: list[dict[str, float]] = field(default_factory=list)
    losses: Tensor = field(default_factory=lambda: torch.zeros(2))


def start(
    config: RealConfig,
    out: Path,
    *,
    data: Path | str | None = None,
    device: str = "cpu",
    anew: bool = False,
) -> tuple[Run, Pairs]:
    """Begin a training, or go on with the one kept in a folder; return it and the val pairs.

    Args:
        config: Of which translator.
        out: The folder of its checkpoints.
        data: The folder of the corpus; what COURSE_DATA names unless given.
        device: ``"cpu"`` or ``"cuda"``.
        anew: Whether what is kept there plays no part.

    Raises:
        ValueError: If the folder keeps a training of another configuration or of something else,
            or data are missing.
    """
    translator, kept = kept_translator(out) if (out / LAST).exists() and not anew else (None, {})
    if kept:
        refuse_another(out, translator.config, config)
    pairs = read_pairs(config, "train", data)
    translator = translator or new_translator(config, pairs)
    translator.model.to(device)
    optimizer = torch.optim.Adam(translator.model.parameters(), fused=True, **ADAM)
    run = Run(translator, optimizer, token_batches(translator, pairs))
    run.losses = run.losses.to(device)
    with explaining(out / LAST, WHAT):
        if kept:
            optimizer.load_state_dict(kept["optimizer"])
            run.step, run.seconds, run.history = kept["step"], kept["seconds"], kept["history"]
            run.losses = kept["losses"].to(device)
    return run, read_pairs(config, "val", data)


def kept_translator(out: Path) -> tuple[RealTranslator, dict[str, Any]]:
    """Read the translator that a folder keeps, and the whole checkpoint.

    Raises:
        ValueError: If there is none, or the checkpoint is of something else.
    """
    content = load_checkpoint(out / LAST)
    with explaining(out / LAST, WHAT):
        return load_translator(content), content


def load_translator(content: dict[str, Any]) -> RealTranslator:
    """Build the translator that a checkpoint of ``train_run`` holds."""
    config = RealConfig(**content["config"])
    tokenizer = Tokenizer(content["tokenizer"])
    model = Transformer(config.of_model(len(tokenizer)))
    model.load_state_dict(content["model"])
    return RealTranslator(model, tokenizer, config)


def snapshot(run: Run) -> dict[str, Any]:
    """Gather all that the next step depends on; dropout needs nothing but the step's number."""
    return {
        "model": run.translator.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "config": asdict(run.translator.config),
        "tokenizer": run.translator.tokenizer.to_json(),
        "step": run.step,
        "seconds": dict(run.seconds),
        "machine": describe_machine(run.translator.device.type),
        "history": list(run.history),
        "losses": run.losses,
    }


def make_step(run: Run, steps: int) -> None:
    """Make the next training step of so many."""
    config, model = run.translator.config, run.translator.model
    device, step = run.translator.device, run.step + 1
    torch.manual_seed(1_000_003 * config.seed + step)  # what dropout drops at this step
    for group in run.optimizer.param_groups:
        group["lr"] = config.rate(step, steps)
    src, tgt = (ids.to(device) for ids in run.batches(step))
    model.train()
    with mixed_precision(config.bfloat16, device.type):
        loss = backward_in_chunks(model, src, tgt, smoothing=config.smoothing)
    run.optimizer.step()
    run.optimizer.zero_grad()
    run.step = step
    run.losses += torch.stack([loss, torch.ones_like(loss)])  # no number leaves the device


def val_loss(translator: RealTranslator, pairs: Pairs) -> float:
    """Measure the loss on pairs in nats per token, without smoothing, reading right beginnings."""
    batches = TokenBatches(translator.rows(pairs), 4_096, pad_id=translator.tokenizer.pad_id)
    was_training = translator.model.training
    translator.model.eval()
    total, count = 0.0, 0
    for places in batches.plan(1):
        src, tgt = (ids.to(translator.device) for ids in batches.batch(places))
        loss, real = loss_in_chunks(translator.model, src, tgt)
        total, count = total + loss.item(), count + real
    translator.model.train(was_training)
    return total / count


def end_epoch(run: Run, val: Pairs, out: Path, steps: int) -> None:
    """Measure on val, add a line to the log, keep the weights for the average."""
    translator, (epoch, _) = run.translator, run.batches.find(run.step)
    sources, references = zip(*val, strict=True)
    written = translator.translate(sources, beam_size=1)
    line = {
        "epoch": epoch,
        "step": run.step,
        "rate": translator.config.rate(run.step, steps),
        "train_loss": (run.losses[0] / run.losses[1]).item(),
        "val_loss": val_loss(translator, val),
        **{k: v for k, v in score(written, references).items() if isinstance(v, float)},
    }
    run.losses.zero_()
    run.history.append(line)
    keep_weights(out, epoch, translator.model.state_dict(), KEPT_EPOCHS)


def save_run(run: Run, out: Path) -> None:
    """Write the checkpoint, and the whole log anew: nothing stands in it twice."""
    note_minutes(run.history, run.seconds)  # an epoch is saved as soon as it has ended
    save_checkpoint(out / LAST, snapshot(run))
    write_log(out / "log.txt", run.translator.config, run.history)


def train_run(
    run: Run,
    val: Pairs,
    out: Path,
    *,
    minutes: float | None = None,
    clock: str = "wall",
    stop: Callable[[], bool] = lambda: False,
) -> bool:
    """Train to the last epoch, or until time is up or somebody asks to stop; keep it on disk.

    Args:
        run: What ``start`` returned.
        val: Pairs to measure on after every epoch.
        out: The folder of checkpoints and log.
        minutes: Time to spend over all starts; no limit unless given.
        clock: ``"wall"``, or ``"cpu"``: processor time, divided by the number of threads.
        stop: Asked after every step.

    Returns:
        Whether the last epoch is done.
    """
    steps = run.batches.last_step(run.translator.config.epochs)
    watch = Watch(run.seconds)
    with tqdm(total=steps, initial=run.step, unit="step", disable=None) as bar:  # none in a file
        while run.step < steps:
            make_step(run, steps)
            bar.update()
            ended = run.step == run.batches.last_step(run.batches.find(run.step)[0])
            if ended:
                end_epoch(run, val, out, steps)
            watch.look()
            enough = stop() or (minutes is not None and watch.spent(clock) >= 60 * minutes)
            if ended or enough or run.step % SAVE_EVERY == 0:
                save_run(run, out)
            if enough:
                break
    return run.step >= steps
