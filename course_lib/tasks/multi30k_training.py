"""Train a translator of real sentences, and lose nothing when it stops (§5)."""

from collections.abc import Callable
from pathlib import Path

import torch
from tqdm.auto import tqdm

from course_lib.tasks.multi30k import (
    Pairs,
    RealConfig,
    RealTranslator,
    new_translator,
    read_pairs,
    score,
    token_batches,
)
from course_lib.tasks.multi30k_checkpoint import (
    TrainState,
    is_kept,
    kept_translator,
    load_translator,
    restore,
    save_run,
)
from course_lib.trainer.averaging import keep_weights
from course_lib.trainer.batch_sampler import TokenBatches
from course_lib.trainer.chunked_loss import backward_in_chunks, loss_in_chunks
from course_lib.trainer.distributed import World, parallelize
from course_lib.trainer.machine import Stopwatch
from course_lib.trainer.options import refuse_another
from course_lib.trainer.precision import mixed_precision
from course_lib.trainer.sharded_checkpoint import whole_weights
from course_lib.training import ADAM

SAVE_EVERY = 200  # steps
ASK_EVERY = 10  # steps: so often several processes agree on whether to stop
KEPT_EPOCHS = 10
SEEDS = 1_000_003  # between two seeds: more than a training has steps


def start(
    config: RealConfig,
    out: Path,
    *,
    data: Path | str | None = None,
    device: str = "cpu",
    anew: bool = False,
    world: World | None = None,
    sharded: bool = False,
) -> tuple[TrainState, Pairs]:
    """Begin a training, or go on with the one kept in a folder; return it and the val pairs.

    Args:
        config: Of which translator.
        out: The folder of its checkpoints.
        data: The folder of the corpus; what COURSE_DATA names unless given.
        device: ``"cpu"`` or ``"cuda"``.
        anew: Whether what is kept there plays no part.
        world: The processes that train it, all of which must call; this one alone unless given.
        sharded: Whether weights, gradients and moments are shared out among them, too.

    Raises:
        ValueError: If the folder keeps a training of another configuration or of something else,
            or data are missing.
    """
    translator, kept = kept_translator(out) if is_kept(out) and not anew else (None, {})
    if kept:
        refuse_another(out, translator.config, config)
    pairs = read_pairs(config, "train", data)
    world = world or World()
    translator = translator or new_translator(config, pairs)
    model = translator.model.to(device)
    sharded = sharded and world.size > 1
    engine = parallelize(model, world, sharded=sharded)
    optimizer = torch.optim.Adam(model.parameters(), fused=True, **ADAM)
    batches = token_batches(translator, pairs)
    run = TrainState(translator, engine, optimizer, batches, world=world, sharded=sharded)
    run.losses = run.losses.to(device)
    if kept:
        restore(run, out, kept)
    return run, read_pairs(config, "val", data)


def make_step(run: TrainState, steps: int) -> None:
    """Make the next training step of so many."""
    config = run.translator.config
    world = run.world
    step = run.step + 1
    torch.manual_seed(SEEDS * (config.seed + SEEDS * world.rank) + step)  # what dropout drops
    for group in run.optimizer.param_groups:
        group["lr"] = config.rate(step, steps)
    src, tgt, weight = run.batches.share(step, world.rank, world.size)
    run.engine.train()
    with mixed_precision(config.bfloat16, run.losses.device.type):
        loss = backward_in_chunks(
            *(run.translator.model, src, tgt),
            smoothing=config.smoothing,
            weight=weight,
            engine=run.engine,
        )
    run.optimizer.step()
    run.optimizer.zero_grad()
    run.step = step
    part = torch.stack([weight * loss, torch.ones_like(loss)]) / world.size
    run.losses += part  # no number leaves the device


def val_loss(translator: RealTranslator, pairs: Pairs) -> float:
    """Measure the loss on pairs in nats per token, without smoothing, reading right beginnings."""
    batches = TokenBatches(translator.rows(pairs), 4_096, pad_id=translator.tokenizer.pad_id)
    was_training = translator.model.training
    translator.model.eval()
    total = 0.0
    count = 0
    for places in batches.plan(1):
        loss, real = loss_in_chunks(translator.model, *batches.batch(places))
        total = total + loss.item()
        count = count + real
    translator.model.train(was_training)
    return total / count


def whole_translator(run: TrainState) -> RealTranslator | None:
    """Return the translator with all its weights, if this process leads; all must ask."""
    if not run.sharded:
        return run.translator if run.world.is_main else None
    content = {
        "config": vars(run.translator.config),
        "tokenizer": run.translator.tokenizer.to_json(),
        "model": whole_weights(run.translator.model),
    }
    if not run.world.is_main:
        return None
    translator = load_translator(content)
    translator.model.to(run.translator.device)
    return translator


def end_epoch(run: TrainState, val: Pairs, out: Path, steps: int) -> None:
    """Measure on val, add a line to the log, keep the weights for the average."""
    translator = whole_translator(run)
    losses = run.world.total(run.losses)
    run.losses.zero_()
    if translator:
        epoch, _ = run.batches.find(run.step)
        sources, references = zip(*val, strict=True)
        written = translator.translate(sources, beam_size=1)
        line = {
            "epoch": epoch,
            "step": run.step,
            "rate": translator.config.rate(run.step, steps),
            "train_loss": (losses[0] / losses[1]).item(),
            "val_loss": val_loss(translator, val),
            **{k: v for k, v in score(written, references).items() if isinstance(v, float)},
        }
        run.history.append(line)
        keep_weights(out, epoch, translator.model.state_dict(), KEPT_EPOCHS)
    run.world.wait()


def train_run(
    run: TrainState,
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
        stop: Asked after every step; of several processes, after every tenth.

    Returns:
        Whether the last epoch is done.
    """
    steps = run.batches.last_step(run.translator.config.epochs)
    watch = Stopwatch(run.seconds)
    enough = False
    silent = None if run.world.is_main else True  # None: a bar on a screen, none in a file
    with tqdm(total=steps, initial=run.step, unit="step", disable=silent) as bar:
        while run.step < steps and not enough:
            ended = advance(run, val, out, steps)
            bar.update()
            watch.look()
            late = minutes is not None and watch.spent(clock) >= 60 * minutes
            enough = any_rank(run, stop() or late)
            if ended or enough or run.step % SAVE_EVERY == 0:
                save_run(run, out)
    return run.step >= steps


def advance(run: TrainState, val: Pairs, out: Path, steps: int) -> bool:
    """Make a step, and measure if an epoch ends with it; return whether one does."""
    make_step(run, steps)
    ended = run.step == run.batches.last_step(run.batches.find(run.step)[0])
    if ended:
        end_epoch(run, val, out, steps)
    return ended


def any_rank(run: TrainState, wish: bool) -> bool:
    """Tell whether any process wants to stop; several ask each other every few steps only."""
    asked = run.world.size == 1 or run.step % ASK_EVERY == 0
    return asked and run.world.any_rank(wish, run.losses.device.type)
