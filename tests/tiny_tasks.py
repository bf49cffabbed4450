"""A tiny training run of each task, and a small play, for training tests."""

from pathlib import Path
from types import SimpleNamespace

from course_lib.tasks.language_model import LanguageModel, TextGeneratorConfig
from course_lib.tasks.multi30k import SIZES, Multi30k, RealConfig
from course_lib.tasks.numbers import Numbers, TranslatorConfig

NUMBERS = TranslatorConfig(
    num_pairs=120, vocab_size=70, d_model=12, num_heads=3, num_layers=1, d_ff=20, batch_size=5,
    steps=8, warmup_steps=3, cooldown_steps=1, max_len=100, val_every=4, dropout=0.2,
)  # fmt: skip
REAL = RealConfig(**SIZES["smoke"] | dict(
    num_pairs=40, tokens=300, epochs=2, d_model=16, d_ff=24, num_layers=1, dropout=0.3,
    vocab_size=90, norm_first=False, cooldown=0.2,
))  # fmt: skip
WRITER = TextGeneratorConfig(
    text="shakespeare", max_len=8, num_layers=1, num_heads=2, d_model=12, dropout=0.3,
    batch_size=3, steps=11, warmup_steps=3, peak_rate=1e-2, last_rate=1e-3, val_every=4,
    val_windows=7,
)  # fmt: skip
TASKS = {  # words, when it is measured, an unreasonable rate
    "numbers": SimpleNamespace(
        task_class=Numbers, config=NUMBERS, words=[], measured=[4, 8], wild=dict(rate_scale=1e30),
        name="numbers-course-de-seed0",
    ),
    "multi30k": SimpleNamespace(
        task_class=Multi30k, config=REAL, words=["--size", "smoke"], measured=[4, 8],
        wild=dict(peak_rate=1e30), name="multi30k-smoke-de-en-seed0",
    ),
    "gpt": SimpleNamespace(
        task_class=LanguageModel, config=WRITER, words=["--text", "shakespeare", "--device", "cpu"],
        measured=[4, 8, 11], wild=dict(peak_rate=1e18, last_rate=1e18, weight_decay=0.0,
                                       clip_norm=1e18),
        name="gpt-cpu-shakespeare-seed0",
    ),
}  # fmt: skip


def settings(config) -> list[str]:
    """Turn a configuration into command-line arguments."""
    return [word for name, value in vars(config).items() for word in ("--set", f"{name}={value}")]


def without_clock(history: list[dict]) -> list[dict]:
    """Remove the values that differ between any two runs from each line."""
    return [{k: v for k, v in line.items() if not k.endswith("minutes")} for line in history]


def write_play(folder: Path) -> Path:
    """Write 3,000 characters in place of Shakespeare's works, and return the data folder."""
    lines = [f"{n} and {n * n % 97} went to sea,{' oh' * (n % 4)}\n" for n in range(120)]
    (folder / "tinyshakespeare").mkdir(parents=True)
    (folder / "tinyshakespeare" / "input.txt").write_text("".join(lines), encoding="utf-8")
    return folder
