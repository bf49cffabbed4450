"""Train a GPT on a text, and lose nothing when it stops."""

import math
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tqdm.auto import tqdm

from course_lib.data import Characters, Text
from course_lib.decoder_only import random_windows
from course_lib.gpt import GPT, param_groups
from course_lib.tasks.language_model import (
    TextGenerator,
    TextGeneratorConfig,
    new_generator,
    read_text,
)
from course_lib.tasks.language_model_scores import loss_on, side_by_side
from course_lib.trainer.checkpoint import explaining, load_checkpoint, save_checkpoint
from course_lib.trainer.machine import Stopwatch, describe_machine
from course_lib.trainer.options import refuse_another
from course_lib.trainer.precision import mixed_precision
from course_lib.trainer.results import note_minutes, write_log

LAST = "last.pt"  # the checkpoint that training goes on from
WHAT = "a GPT that goes on with a text"  # it is of
SAVE_EVERY = 250  # steps


@dataclass
class TrainState:
    """Hold all that changes while a GPT is trained.

    Args:
        writer: Its model learns.
        optimizer: AdamW, with its moments.
        step: The last step made.
        seconds: Time spent so far, over all starts: ``"wall"`` and ``"cpu"`` (of all threads).
        history: One dict for each time that the loss on val was measured.
        losses: Sum and number of the losses since then. Shape ``(2,)``.
    """

    writer: TextGenerator
    optimizer: torch.optim.Optimizer
    step: int = 0
    seconds: dict[str, float] = field(default_factory=lambda: {"wall": 0.0, "cpu": 0.0})
    history: list[dict[str, float]] = field(default_factory=list)
    losses: Tensor = field(default_factory=lambda: torch.zeros(2))


def start(
    config: TextGeneratorConfig,
    out: Path,
    *,
    data: Path | str | None = None,
    device: str = "cpu",
    anew: bool = False,
) -> tuple[TrainState, Text]:
    """Begin a training, or go on with the one kept in a folder; return it and its text.

    Args:
        config: Of which writer.
        out: The folder of its checkpoints.
        data: The folder of the text, if it is Shakespeare; what COURSE_DATA names unless given.
        device: ``"cpu"`` or ``"cuda"``.
        anew: Whether what is kept there plays no part.

    Raises:
        ValueError: If the folder keeps a training of another configuration or text, or of
            something else, or the text is missing or too short.
    """
    writer, kept = kept_generator(out) if (out / LAST).exists() and not anew else (None, {})
    if kept:
        refuse_another(out, writer.config, config)
    text = read_text(config.text, data)
    for ids in (text.train, text.val):
        side_by_side(ids, config.max_len)  # refuses a text that is too short
    writer = writer or new_generator(config, text.characters)
    writer.model.to(device)
    run = TrainState(writer, make_optimizer(writer.model, config))
    run.losses = run.losses.to(device)
    if kept:
        _restore(run, kept, text, out)
    return run, text


def _restore(run: TrainState, kept: dict[str, Any], text: Text, out: Path) -> None:
    """Put all but the weights back in place; they are there."""
    with explaining(out / LAST, WHAT):
        same = kept["text"] == sum_of(text)
        run.optimizer.load_state_dict(kept["optimizer"])
        run.step = kept["step"]
        run.seconds = kept["seconds"]
        run.history = kept["history"]
        run.losses = kept["losses"].to(run.losses.device)
    if not same:
        raise ValueError(f"{out} was begun with another text: train anew, or in another folder")


def make_optimizer(model: nn.Module, config: TextGeneratorConfig) -> torch.optim.Optimizer:
    """Make AdamW, under which matrices decay; the schedule supplies the rate."""
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(
        param_groups(model, config.weight_decay), lr=config.peak_rate, betas=betas, fused=True
    )


def kept_generator(out: Path) -> tuple[TextGenerator, dict[str, Any]]:
    """Read the writer that a folder keeps, and the whole checkpoint.

    Raises:
        ValueError: If there is none, or the checkpoint is of something else.
    """
    content = load_checkpoint(out / LAST)
    with explaining(out / LAST, WHAT):
        config = TextGeneratorConfig(**content["config"])
        characters = Characters(content["characters"])
        model = GPT(config.of_model(len(characters)))
        model.load_state_dict(content["model"])
    return TextGenerator(model, characters, config), content


def sum_of(text: Text) -> int:
    """Return a check sum of what is learned from: another Python has another library."""
    return zlib.crc32(text.train.numpy())


def snapshot(run: TrainState, text: Text) -> dict[str, Any]:
    """Gather all that the next step depends on; what is random in it needs its number only."""
    return {
        "model": run.writer.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "config": asdict(run.writer.config),
        "characters": run.writer.characters.characters,
        "text": sum_of(text),
        "step": run.step,
        "seconds": dict(run.seconds),
        "machine": describe_machine(run.writer.device.type),
        "history": list(run.history),
        "losses": run.losses,
    }


def draw_batch(config: TextGeneratorConfig, ids: Tensor, step: int) -> tuple[Tensor, Tensor]:
    """Draw the windows of a step, and settle what dropout will drop after them.

    Both follow from the seed and the step alone, so a training that goes on after a stop makes
    the very steps that it would have made.
    """
    torch.manual_seed(1_000_003 * config.seed + step)
    return random_windows(ids, config.batch_size, config.max_len)


def optimizer_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    config: TextGeneratorConfig,
    step: int,
) -> None:
    """Take a step down from a loss: at the step's rate, and with clipped gradients."""
    for group in optimizer.param_groups:
        group["lr"] = config.rate(step)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
    optimizer.step()


def make_step(run: TrainState, ids: Tensor) -> None:
    """Make the next training step on a text ``(L,)``."""
    config = run.writer.config
    model = run.writer.model
    device = run.writer.device
    step = run.step + 1
    read, predicted = (part.to(device) for part in draw_batch(config, ids, step))
    model.train()
    with mixed_precision(True, device.type) if config.bfloat16 else nullcontext():
        loss = model(read, predicted)[1]
    optimizer_step(model, run.optimizer, loss, config, step)
    run.step = step
    run.losses += torch.stack([loss.detach(), torch.ones_like(loss)])  # none leaves the device


def measure(run: TrainState, windows: Tensor) -> float:
    """Add a line to the history, and return the loss on val.

    Raises:
        ValueError: If the loss is no number any more.
    """
    config = run.writer.config
    loss = loss_on(run.writer.model, windows)
    if not math.isfinite(loss):
        raise ValueError(
            f"the loss on val is {loss} at step {run.step}: peak_rate={config.peak_rate} is too "
            "high; begin anew with a lower one"
        )
    line = {
        "step": run.step,
        "rate": config.rate(run.step),
        "train_loss": (run.losses[0] / run.losses[1]).item(),
        "val_loss": loss,
    }
    run.losses.zero_()
    run.history.append(line)
    return loss


def save_run(run: TrainState, text: Text, out: Path) -> None:
    """Write the checkpoint, and the whole log anew."""
    note_minutes(run.history, run.seconds)  # what was measured is saved at once
    save_checkpoint(out / LAST, snapshot(run, text))
    write_log(out / "log.txt", run.writer.config, run.history)


def train_run(
    run: TrainState, text: Text, out: Path, *, stop: Callable[[], bool] = lambda: False
) -> bool:
    """Train to the last step, or until somebody asks to stop; keep it on disk.

    Args:
        run: What ``start`` returned.
        text: The same.
        out: The folder of checkpoint and log.
        stop: Asked after every step.

    Returns:
        Whether the last step is done.
    """
    config = run.writer.config
    windows = side_by_side(text.val, config.max_len)[: config.val_windows]
    watch = Stopwatch(run.seconds)
    with tqdm(total=config.steps, initial=run.step, unit="step", disable=None) as bar:
        while run.step < config.steps:
            make_step(run, text.train)
            bar.update()
            measured = run.step % config.val_every == 0 or run.step == config.steps
            if measured:
                bar.set_postfix(val=f"{measure(run, windows):.3f}")
            watch.look()
            enough = stop()
            if measured or enough or run.step % SAVE_EVERY == 0:
                save_run(run, text, out)
            if enough:
                break
    return run.step >= config.steps
