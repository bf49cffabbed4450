"""The sizes in which each task trains; the command line lists them without importing torch."""

from typing import Any, NamedTuple


class TaskSize(NamedTuple):
    """How long training takes, and how the hyperparameters differ from the defaults."""

    duration: str
    changes: dict[str, Any]


NUMBERS_SIZES = {
    "course": TaskSize("about half a minute on one CPU core", {}),
    "smoke": TaskSize(
        "a few seconds",
        dict(num_pairs=300, vocab_size=80, d_model=16, d_ff=32, num_layers=1, steps=60),
    ),
}
MULTI30K_SIZES = {
    "laptop": TaskSize("about an hour on two cores", {}),
    "smoke": TaskSize(
        "half a minute, with number words in place of the captions",
        dict(
            task="numbers", vocab_size=150, tokens=1_000, epochs=30, warmup_steps=40,
            peak_rate=4e-3, cooldown=0.0, bfloat16=False, d_model=64, num_heads=4, num_layers=2,
            d_ff=256, dropout=0.0,
        ),
    ),
    "short": TaskSize(
        "about half an hour on two cores", dict(epochs=10, warmup_steps=300, dropout=0.1)
    ),
}  # fmt: skip
GPT_SIZES = {
    "cpu": TaskSize("about 2 minutes on one CPU core", {}),
    "smoke": TaskSize(
        "a few seconds",
        dict(
            max_len=32, num_layers=2, num_heads=2, d_model=32, batch_size=8, steps=60,
            warmup_steps=10, peak_rate=5e-3, val_every=20, val_windows=50, init_std=0.1,
        ),
    ),
}  # fmt: skip
