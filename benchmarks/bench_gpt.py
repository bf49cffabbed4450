"""Measure GPT: a training step against ``torch.nn.TransformerEncoderLayer``; sampling by cache."""

from collections.abc import Callable, Sequence

import torch
from timing import Row, in_turns, median_and_range
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

from course_lib.gpt import GPT, GPTConfig, param_groups, sample
from course_lib.trainer.hardware import one_thread

VOCAB = 96
WINDOWS = 12  # as Python's library has characters, and nanoGPT's batch
SIZES = {  # (layers, heads, width, max_len): pairs of measurements, steps in each, and the goal
    (4, 4, 128, 64): (31, 5, 1.10),
    (6, 6, 384, 256): (9, 1, 1.05),
}
WARM = 2  # steps of both before anything is timed
TEXTS = 1
PROMPT = 4
SAMPLINGS = 3  # of sampling: texts written at once, their first tokens, pairs
PARTS = {  # where the time of a step goes: the names of torch's operations begin like this
    "products": ("aten::mm", "aten::addmm", "aten::bmm"),
    "attention": ("aten::_scaled_dot_product_flash",),
    "copies": ("aten::copy_", "aten::cat", "aten::fill_"),
}
RATE = 1e-3
BETAS = (0.9, 0.99)
DECAY = 0.1


class TorchGPT(nn.Module):
    """Stack torch's own layers to the same model, with the same weights.

    Args:
        ours: Whose sizes and weights it takes; nothing is shared.
    """

    def __init__(self, ours: GPT) -> None:
        super().__init__()
        c = ours.config
        layer = nn.TransformerEncoderLayer(
            c.d_model, c.num_heads, 4 * c.d_model, c.dropout, "gelu", batch_first=True,
            norm_first=True,
        )  # fmt: skip
        norm = nn.LayerNorm(c.d_model)
        self.stack = nn.TransformerEncoder(layer, c.num_layers, norm, enable_nested_tensor=False)
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.positions = nn.Parameter(ours.positions.weight.detach().clone())
        self.output = nn.Linear(c.d_model, c.vocab_size, bias=False)
        self.output.weight = self.embedding.weight
        blocked = nn.Transformer.generate_square_subsequent_mask(c.max_len)
        self.register_buffer("blocked", blocked)
        self.to(ours.norm.weight.dtype)
        self.embedding.load_state_dict(ours.embedding.state_dict())
        self.stack.norm.load_state_dict(ours.norm.state_dict())
        for mine, theirs in zip(ours.layers, self.stack.layers, strict=True):
            theirs.load_state_dict(torch_names(mine))

    def forward(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Score what follows each token ``(B, T)``, and measure the loss."""
        length = ids.size(1)
        x = self.embedding(ids) + self.positions[:length]  # (B, T, d_model)
        x = self.stack(x, mask=self.blocked[:length, :length], is_causal=True)
        logits = self.output(x)  # (B, T, V)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def torch_names(layer: nn.Module) -> dict[str, Tensor]:
    """Return the weights of a ``GPTLayer`` under the names of ``nn.TransformerEncoderLayer``."""
    names = {
        "self_attn.w_qkv.": "self_attn.in_proj_",
        "self_attn.w_o.": "self_attn.out_proj.",
        "feed_forward.": "",
        "add_norm1.norm.": "norm1.",
        "add_norm2.norm.": "norm2.",
    }
    state = {}
    for name, value in layer.state_dict().items():
        (front,) = (front for front in names if name.startswith(front))
        state[names[front] + name.removeprefix(front)] = value
    return state


def our_model(size: Sequence[int]) -> GPT:
    """Build ours, with biases, as torch's layers have them, and without dropout."""
    num_layers, num_heads, d_model, max_len = size
    torch.manual_seed(0)
    return GPT(
        GPTConfig(
            vocab_size=VOCAB, num_layers=num_layers, num_heads=num_heads, d_model=d_model,
            max_len=max_len, dropout=0.0, bias=True,
        )
    )  # fmt: skip


def stepper(model: nn.Module, ids: Tensor, targets: Tensor) -> Callable[[], float]:
    """Make what takes a whole training step and returns the loss before it."""
    optimizer = torch.optim.AdamW(param_groups(model, DECAY), lr=RATE, betas=BETAS, fused=True)

    def step() -> float:
        """Go forward, back and down."""
        loss = model(ids, targets)[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def row_of(table: str, size: Sequence[int], found: list[tuple[float, float]], unit: float) -> Row:
    """Make a row out of the seconds of ours and of theirs, in every pair; of each so many."""
    ours, theirs = (
        median_and_range([unit * spent for spent in side]) for side in zip(*found, strict=True)
    )
    ratio = median_and_range([theirs / ours for ours, theirs in found])
    times = {"milliseconds": ours, "others_milliseconds": theirs, "ratio": ratio}
    return {"table": table, "name": str(tuple(size)), **times, "rounds": len(found)}


def row(size: Sequence[int], found: list[tuple[float, float]], unit: float, goal: str) -> str:
    """Write a row of a table: medians of both, then median and range of the ratio."""
    said = row_of("", size, found, unit)
    one, other = (said[side]["median"] for side in ("milliseconds", "others_milliseconds"))
    low, middle, high = (said["ratio"][name] for name in ("min", "median", "max"))
    cells = f"{one:9.1f} {other:9.1f} {middle:8.3f} {low:7.3f} {high:7.3f}"
    return f"{said['name']:20} {cells} {goal:>6} {said['rounds']:6}"


def parts(step: Callable[[], object]) -> dict[str, float]:
    """Return the share of a step's time that each part takes."""
    with profile(activities=[ProfilerActivity.CPU]) as watched:
        step()
    times = {event.key: event.self_cpu_time_total for event in watched.key_averages()}
    whole = sum(times.values())
    shares = {
        part: sum(time for key, time in times.items() if key.startswith(names)) / whole
        for part, names in PARTS.items()
    }
    return {part: round(share, 4) for part, share in shares.items()}


def bench_steps(sizes: dict = SIZES) -> list[Row]:
    """Print how long a training step takes with our layers and with torch's; return the rows."""
    rows = []
    head = f"{'ours':>9} {'torch':>9} {'ratio':>8} {'min':>7} {'max':>7} {'goal':>6} {'pairs':>6}"
    print(f"\n{'training step, ms':20} {head}")
    for size, (pairs, times, goal) in sizes.items():
        ours = our_model(size)
        draw = torch.Generator().manual_seed(0)
        ids, targets = torch.randint(VOCAB, (2, WINDOWS, ours.config.max_len), generator=draw)
        steps = [stepper(model, ids, targets) for model in (ours, TorchGPT(ours))]
        for _ in range(WARM):
            losses = [step() for step in steps]
            if abs(losses[0] - losses[1]) > 1e-3:
                raise RuntimeError(f"losses {losses}: not the same model")
        found = in_turns(steps, pairs, times)
        print(row(size, found, 1e3, f"{goal:.2f}"))
        rows.append(row_of("GPT, training step", size, found, 1e3) | {"goal": goal, "shares": {}})
        for name, step in zip(("ours", "torch"), steps, strict=True):
            shares = rows[-1]["shares"][name] = parts(step)
            said = ", ".join(f"{part} {share:.0%}" for part, share in shares.items())
            print(f"    of {name:6}{said}")
    return rows


def bench_sampling(sizes: dict = SIZES) -> list[Row]:
    """Print how long a token takes with and without the cache, up to a full window."""
    rows = []
    head = f"{'cached':>9} {'uncached':>9} {'ratio':>8} {'min':>7} {'max':>7} {'':6} {'pairs':>6}"
    print(f"\n{'a token written, ms':20} {head}")
    for size in sizes:
        model = our_model(size).eval()
        tokens = model.config.max_len - PROMPT
        ids = torch.randint(VOCAB, (TEXTS, PROMPT), generator=torch.Generator().manual_seed(0))

        def write(use_cache: bool, model: GPT = model, ids: Tensor = ids, n=tokens) -> Tensor:
            """Write from the same random numbers."""
            draw = torch.Generator().manual_seed(1)
            return sample(model, ids, n, generator=draw, use_cache=use_cache)

        if (write(True) == write(False)).float().mean() < 0.9:  # rounding may decide a close race
            raise RuntimeError("the cache writes another text")
        found = in_turns([lambda w=write: w(True), lambda w=write: w(False)], SAMPLINGS)
        rows.append(row_of("GPT, a token written", size, found, 1e3 / tokens))
        print(row(size, found, 1e3 / tokens, ""))
    return rows


def bench_gpt() -> list[Row]:
    """Print both tables, measured on one thread; return their rows."""
    with one_thread():
        return bench_steps() + bench_sampling()


if __name__ == "__main__":
    bench_gpt()
