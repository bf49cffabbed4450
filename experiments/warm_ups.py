"""Train a small translator of number words with several warm-ups, and record how its loss falls.

Every run uses the learning rate of equation (3), without the factor and the cool-down that the
course's translator uses.
"""

from dataclasses import replace

from training_runs import described

from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.numbers import Numbers, TranslatorConfig
from course_lib.trainer.loop import fit

WARM_UPS = (1, 10, 50, 200, 800, 4000)
USUAL = TranslatorConfig(
    num_layers=1, d_ff=256, batch_size=32, rate_scale=1.0, cooldown_steps=1, val_every=15
)
RUNS: list[Entry] = [
    {"warmup_steps": warmup_steps, "seed": seed} for seed in SEEDS for warmup_steps in WARM_UPS
]


def train_one(run: Entry) -> Entry:
    """Train with one warm-up and one seed; return the losses."""
    task = Numbers(replace(USUAL, **run))
    state = fit(task, task.pipeline.model)
    return {
        "d_model": USUAL.d_model,
        "steps": [line["step"] for line in state.history],
        "val_loss": [round(line["val_loss"], 3) for line in state.history],
        **described(state),
    }


if __name__ == "__main__":
    main(__doc__, record_of("warm_ups"), RUNS, train_one)
