"""Train a small translator with Adam in three ways, and record the final loss.

The learning rate is constant; or it warms up linearly; or it is 0 for some steps, so that Adam's
averages become reliable, and constant after that.
"""

from dataclasses import replace

import torch
from training_runs import computer

from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.numbers import Numbers, TranslatorConfig
from course_lib.training import ADAM, training_step

USUAL = TranslatorConfig(d_model=64, d_ff=128, num_layers=1, batch_size=32)
FIRST, STEPS, LAST = 20, 45, 10  # steps of the warm-up or of waiting; that move weights; measured
RATES = (0.02, 0.005)
WAYS = {  # the factor on the learning rate at each step
    "full rate": [1.0] * STEPS,
    "warm-up": [min(1.0, step / FIRST) for step in range(1, STEPS + 1)],
    "waiting": [0.0] * FIRST + [1.0] * STEPS,
}
RUNS: list[Entry] = [
    {"rate": rate, "way": way, "seed": seed} for rate in RATES for way in WAYS for seed in SEEDS
]


def train_one(run: Entry) -> Entry:
    """Train with one of the methods, and return the mean smoothed loss over the last steps."""
    task = Numbers(replace(USUAL, seed=run["seed"]))
    model = task.pipeline.model
    adam = torch.optim.Adam(model.parameters(), fused=True, **ADAM)
    losses = []
    for step, factor in enumerate(WAYS[run["way"]], start=1):
        loss = task.loss(model, task.batches(step))
        losses.append(training_step(model, adam, [loss], factor * run["rate"]).item())
    return {"loss": round(sum(losses[-LAST:]) / LAST, 3)} | computer()


if __name__ == "__main__":
    main(__doc__, record_of("waiting"), RUNS, train_one)
