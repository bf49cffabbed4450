"""A small play, a small library and a tiny writer: what the tests of the GPT's training share."""

from pathlib import Path

from course_lib.tasks.language_model import TextGeneratorConfig

TINY = TextGeneratorConfig(
    text="shakespeare", max_len=8, num_layers=1, num_heads=2, d_model=12, dropout=0.3,
    batch_size=3, steps=11, warmup_steps=3, peak_rate=1e-2, last_rate=1e-3, val_every=4,
    val_windows=7,
)  # fmt: skip
USUAL = TextGeneratorConfig(text="shakespeare")
CHANGES = {name: value for name, value in vars(TINY).items() if value != getattr(USUAL, name)}
SETTINGS = [word for name, value in CHANGES.items() for word in ("--set", f"{name}={value}")]


def write_play(folder: Path) -> Path:
    """Write 3,000 characters where Shakespeare is looked for; return the folder of data."""
    lines = [f"{n} and {n * n % 97} went to sea,{' oh' * (n % 4)}\n" for n in range(120)]
    (folder / "tinyshakespeare").mkdir(parents=True)
    (folder / "tinyshakespeare" / "input.txt").write_text("".join(lines), encoding="utf-8")
    return folder


def write_library(folder: Path) -> Path:
    """Write fifty short modules, of which about one in ten belongs to val."""
    folder.mkdir()
    for n in range(50):
        source = f'"""Module {n}."""\n\n\ndef add_{n}(a, b):\n    return a + b * {n}\n'
        (folder / f"module_{n}.py").write_text(source, encoding="utf-8")
    return folder
