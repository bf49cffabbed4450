"""Train a decoder on windows of 64 characters, and scale its RoPE angles so it can read 256.

For each seed and each rule for the angles, the record contains the loss on each stretch of 32
characters, before and after brief fine-tuning on windows of 256. One rule is only a control. For
comparison, we also record the losses when the model reads only the most recent 64 characters.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F
from training_runs import Unmeasured, fit_language_model

from course_lib.data import side_by_side
from course_lib.modern_decoder import ModernConfig, ModernDecoder, rope_angles
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.language_model import TextGeneratorConfig
from course_lib.trainer.loop import fit

TRAINED, LONG = 64, 256
FACTOR = LONG / TRAINED
LOW, HIGH = 1.0, 4.0  # rotations within the trained length, as in Llama 3.1
STRETCH = 32  # characters over which a loss is averaged
WINDOWS = 400  # of val
WINDOWS_AT_ONCE = 20  # while measuring
USUAL = TextGeneratorConfig(max_len=TRAINED, num_layers=3, batch_size=16, steps=600)
TUNED = replace(
    USUAL, max_len=LONG, batch_size=4, steps=80, warmup_steps=10, peak_rate=3e-4, last_rate=3e-5
)


def factors_of(rule: str, rotations: Tensor) -> Tensor:
    """Return the divisor of each pair's angles, given its rotations within the trained length."""
    fast = ((rotations - LOW) / (HIGH - LOW)).clamp(0, 1)  # (d_k / 2,), 1 for fast pairs
    kept = {"plain": 1.0, "linear": 0.0, "llama3": fast, "fast pairs only": 1 - fast}[rule]
    return torch.ones_like(fast) / (kept + (1 - kept) / FACTOR)


def build(vocab_size: int, rule: str = "plain") -> ModernDecoder:
    """Build a decoder with room for the long windows."""
    angles = rope_angles(LONG, USUAL.d_model // USUAL.num_heads)
    rotations = TRAINED * angles[1] / (2 * math.pi)  # (d_k / 2,)
    config = ModernConfig(
        vocab_size=vocab_size, max_len=LONG, num_layers=USUAL.num_layers, d_model=USUAL.d_model,
        num_heads=USUAL.num_heads, num_kv_heads=USUAL.num_heads, d_ff=8 * USUAL.d_model // 3,
        rope_base=10_000.0, rope_factors=tuple(factors_of(rule, rotations).tolist()),
    )  # fmt: skip
    return ModernDecoder(config)


@torch.no_grad()
def by_stretch(model: ModernDecoder, windows: Tensor) -> list[float]:
    """Return the mean loss on each stretch of windows (windows, T + 1), in nats per character."""
    model.eval()
    total = torch.zeros(windows.size(1) - 1)
    for part in windows.split(WINDOWS_AT_ONCE):
        logits = model(part[:, :-1])[0].transpose(1, 2)  # (B, V, T)
        total += F.cross_entropy(logits, part[:, 1:], reduction="none").sum(dim=0)
    return (total / len(windows)).view(-1, STRETCH).mean(dim=1).tolist()


def from_recent(model: ModernDecoder, windows: Tensor) -> list[float]:
    """Return the losses by stretch when the model reads only the last ``TRAINED`` characters."""
    cut = windows.unfold(1, TRAINED + 1, STRETCH)  # (windows, stretches - 1, TRAINED + 1)
    pieces = [by_stretch(model, cut[:, i]) for i in range(cut.size(1))]
    return [pieces[0][0], *(last for *_, last in pieces)]


def train_one(run: Entry) -> Entry:
    """Train with one seed, and measure each rule before and after fine-tuning."""
    task = Unmeasured(replace(USUAL, seed=run["seed"], steps=run["steps"]), None)
    state, description = fit_language_model(task, build)
    trained = state.pipeline.model
    windows = side_by_side(task.text.val, LONG)[:WINDOWS]
    found: Entry = {"recent": from_recent(trained, windows), "before": {}, "after": {}}
    for rule in ("plain", "linear", "llama3", "fast pairs only"):
        model = build(len(task.text.characters), rule)
        model.load_state_dict(trained.state_dict())
        found["before"][rule] = by_stretch(model, windows)
        if rule != "fast pairs only":
            torch.manual_seed(run["seed"])
            fit(Unmeasured(replace(TUNED, seed=run["seed"]), None), model)
            found["after"][rule] = by_stretch(model, windows)
    return found | description


RUNS: list[Entry] = [{"seed": seed, "steps": USUAL.steps} for seed in SEEDS]

if __name__ == "__main__":
    main(__doc__, record_of("long_context"), RUNS, train_one)
