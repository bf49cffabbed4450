"""Measure how much of the machine a training step uses, and where the rest of its time goes."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import torch
from bench_training import LENGTH, SIZES, VOCAB, full_batch, our_model, stepper
from timing import Row, in_turns, median_and_range
from torch import nn
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from course_lib.add_norm import AddNorm
from course_lib.feed_forward import FeedForward
from course_lib.flops import forward_flops
from course_lib.multi_head import MultiHeadAttention
from course_lib.trainer.hardware import one_thread

ROUNDS = 7
WORK = 1e10  # in a turn, a product is repeated until it has done so many operations
SQUARES = (128, 256, 512, 1024, 2048)
COPIES = {"far larger than the caches": 2**28, "within the caches": 2**18}  # bytes
COPIED = 2**31  # bytes in a turn
WAYS = {"plain": {}, "in chunks": {"chunks": True}}  # of the loss
SAMPLES = 3  # steps that are profiled
PART = "part: "  # begins the name of a range that we mark
REST = "rest"
OPTIMIZER = "optimizer"
LOSS = "loss and output layer"
NAMES = ("projections", "attention", "feed-forward", "add and norm", "dropout", LOSS, OPTIMIZER)
INSIDE = {
    MultiHeadAttention: "attention",
    FeedForward: "feed-forward",
    AddNorm: "add and norm",
    nn.Dropout: "dropout",
}


def shapes() -> dict[str, tuple[int, int, int, int]]:
    """Name the products to time: how many at once, and of (m, k) by (k, n)."""
    width, heads, d_ff, _, sentences = SIZES["base"]
    rows = sentences * LENGTH
    d_k = width // heads
    return {
        **{f"square, {n}": (1, n, n, n) for n in SQUARES},
        "base: a projection": (1, rows, width, width),
        "base: feed-forward, up": (1, rows, width, d_ff),
        "base: feed-forward, down": (1, rows, d_ff, width),
        "base: output layer": (1, rows, width, VOCAB),
        "base: scores of all heads": (sentences * heads, LENGTH, d_k, LENGTH),
    }


def repeated(act: Callable[[], object], times: int) -> Callable[[], None]:
    """Make an act that is the same one many times."""

    def many() -> None:
        """Act again and again."""
        for _ in range(times):
            act()

    return many


def rates(
    table: str, acts: dict[str, Callable[[], object]], amounts: dict[str, float], work: float
) -> list[Row]:
    """Time each act by turns, and return how many billions of its amount it does in a second."""
    times = {name: max(1, round(work / amounts[name])) for name in acts}
    many = [repeated(act, times[name]) for name, act in acts.items()]
    in_turns(many, 1)  # warm up
    found = zip(*in_turns(many, ROUNDS), strict=True)
    return [
        {
            "table": table,
            "name": name,
            "rate": median_and_range(
                [times[name] * amounts[name] / spent / 1e9 for spent in seconds]
            ),
            "rounds": ROUNDS,
        }
        for name, seconds in zip(acts, found, strict=True)
    ]


def bench_products() -> list[Row]:
    """Print the rate of matrix products by shape, in GFLOP/s; return the rows."""
    acts = {}
    flops = {}
    intensities = {}
    for name, (many, m, k, n) in shapes().items():
        out = torch.empty(many, m, n)
        acts[name] = partial(torch.bmm, torch.randn(many, m, k), torch.randn(many, k, n), out=out)
        flops[name] = 2 * many * m * k * n
        intensities[name] = 2 * m * k * n / (4 * (m * k + k * n + m * n))
    rows = rates("matrix products, GFLOP/s", acts, flops, WORK)
    rows = [row | {"flops_per_byte": round(intensities[row["name"]], 1)} for row in rows]
    show(rows, "FLOP per byte", "flops_per_byte")
    return rows


def bench_copies() -> list[Row]:
    """Print how fast memory is read and written, in GB/s; return the rows."""
    acts = {}
    sizes = {}
    for name, size in COPIES.items():
        source = torch.ones(size // 4)
        acts[name] = partial(torch.empty_like(source).copy_, source)
        sizes[name] = 2 * size  # each byte is read, and written
    rows = rates("copies, read and written, GB/s", acts, sizes, 2 * COPIED)
    rows = [row | {"mib": COPIES[row["name"]] / 2**20} for row in rows]
    show(rows, "MiB", "mib")
    return rows


def show(rows: list[Row], head: str, more: str) -> None:
    """Print a table of rates, with one more number in each row."""
    print(f"\n{rows[0]['table']:32} {'median':>8} {'min':>8} {'max':>8} {head:>14} {'rounds':>7}")
    for row in rows:
        rate = " ".join(f"{row['rate'][word]:8.1f}" for word in ("median", "min", "max"))
        print(f"{row['name']:32} {rate} {row[more]:14.1f} {row['rounds']:7}")


def marked(model: nn.Module) -> nn.Module:
    """Mark what a model computes by its parts, for a profile; return it.

    The innermost mark counts: what a feed-forward drops is dropout, and the rest is its own.
    """
    labels = {}
    for module in model.modules():
        kind = next((name for kind, name in INSIDE.items() if isinstance(module, kind)), None)
        if isinstance(module, MultiHeadAttention):
            labels |= dict.fromkeys((module.w_q, module.w_k, module.w_v, module.w_o), NAMES[0])
        if kind:
            labels[module] = kind
    labels |= {model: REST, model.output: LOSS}
    for module, label in labels.items():
        module.forward = record_function(PART + label)(module.forward)
    return model


def label_of(event: FunctionEvent | None) -> str | None:
    """Name the part of the innermost range around an event; none, if nothing marks it."""
    while event is not None:
        if event.name.startswith(PART):
            return event.name.removeprefix(PART)
        if event.name.startswith("Optimizer."):
            return OPTIMIZER
        event = event.cpu_parent
    return None


def on_the_way_back(event: FunctionEvent | None) -> FunctionEvent | None:
    """Return the step of the backward pass that an event belongs to, if it does."""
    while event is not None and not event.name.startswith("autograd::engine::evaluate_function"):
        event = event.cpu_parent
    return event


def time_by_part(step: Callable[[], object]) -> dict[str, float]:
    """Return the microseconds of a step by part: forwards by its marks, backwards by its numbers.

    Autograd numbers what it will go back through; a step back bears the number of the operation
    that it undoes, and belongs to the same part.
    """
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        with record_function(PART + LOSS):  # what is in no module: the loss
            step()
    events = sorted(watched.events(), key=lambda event: event.time_range.start)
    numbered = {}
    for event in events:  # of several with one number, the last is the one that is undone
        if event.sequence_nr >= 0 and on_the_way_back(event) is None:
            numbered[event.sequence_nr] = label_of(event)
    found = defaultdict(float)
    for event in events:
        back = on_the_way_back(event)
        label = label_of(event) if back is None else numbered.get(back.sequence_nr, REST)
        found[label or REST] += event.self_cpu_time_total
    return found


def shares(step: Callable[[], object]) -> dict[str, float]:
    """Return the share of a step's time that each part takes, over a few steps."""
    found = [time_by_part(step) for _ in range(SAMPLES)]
    total = sum(sum(times.values()) for times in found)
    return {
        name: round(sum(times.get(name, 0.0) for times in found) / total, 4)
        for name in (*NAMES, REST)
    }


def bench_model(size: str, best: float) -> list[Row]:
    """Print the rate of a training step, and return the rows; they hold its time by part.

    Args:
        size: One of ``SIZES``.
        best: What the machine does at best, in GFLOP/s.
    """
    src, tgt = full_batch(size)
    models = [our_model(size) for _ in WAYS]
    flops = 3 * len(src) * forward_flops(models[0].config, LENGTH, LENGTH)
    steps = [stepper(m, fused=True, **how) for m, how in zip(models, WAYS.values(), strict=True)]
    acts = {
        f"{size}, {way}": partial(step, src, tgt) for way, step in zip(WAYS, steps, strict=True)
    }
    rows = rates("training step, GFLOP/s", acts, dict.fromkeys(acts, flops), flops)
    rows = [row | {"percent": round(100 * row["rate"]["median"] / best, 1)} for row in rows]
    for row, how in zip(rows, WAYS.values(), strict=True):
        step = stepper(marked(our_model(size)), fused=True, **how)
        step(src, tgt)  # warm up
        row["shares"] = shares(partial(step, src, tgt))
    show(rows, "% of the best", "percent")
    return rows


def show_shares(rows: list[Row]) -> None:
    """Print the time of several steps by part, a column for each step."""
    print(f"\n{'time of a step by part, %':26}" + "".join(f"{row['name']:>18}" for row in rows))
    for part in (*NAMES, REST):
        print(f"{part:26}" + "".join(f"{100 * row['shares'][part]:18.1f}" for row in rows))


def bench_roofline() -> list[Row]:
    """Print all tables, measured on one thread; return their rows."""
    with one_thread():
        products = bench_products()
        copies = bench_copies()
        best = max(row["rate"]["median"] for row in products)
        ridge = best / copies[0]["rate"]["median"]
        print(f"\nat best {best:.0f} GFLOP/s: {ridge:.1f} FLOP for each byte that memory moves")
        steps = [row for size in SIZES for row in bench_model(size, best)]
        show_shares(steps)
    return products + copies + steps


if __name__ == "__main__":
    bench_roofline()
