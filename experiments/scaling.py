"""Train chapter 19's GPT at four widths, with three seeds, and record how the loss falls.

After its warm-up, the learning rate is constant, so each intermediate measurement is the result of
a shorter run. One seed's runs are repeated at a higher rate, because the best rate depends on
the width.
"""

from training_runs import fit_language_model

from course_lib.gpt import GPT
from course_lib.records.missing_runs import main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.language_model import LanguageModel, TextGeneratorConfig

WIDTHS = (16, 32, 64, 128)  # d_model; each model has 4 layers with 4 heads
RATES_AND_SEEDS = ((1e-3, 0), (1e-3, 1), (1e-3, 2), (3e-3, 0))
RUNS: list[Entry] = [
    {"d_model": width, "peak_rate": rate, "seed": seed, "steps": 2_000}
    for width in WIDTHS
    for rate, seed in RATES_AND_SEEDS
]


def settings(run: Entry) -> TextGeneratorConfig:
    """Return the settings of a run; the initial weights are smaller in wider models."""
    return TextGeneratorConfig(
        **run,
        init_std=0.05 * (128 / run["d_model"]) ** 0.5,  # 0.05 is for 128
        last_rate=run["peak_rate"],
        val_every=max(1, run["steps"] // 16),
    )


def train_one(run: Entry) -> Entry:
    """Train a model of one width at one rate with one seed; return the losses."""
    config = settings(run)
    task = LanguageModel(config, None)
    state, description = fit_language_model(
        task, lambda vocab_size: GPT(config.of_model(vocab_size))
    )
    return {
        "tokens_per_step": config.batch_size * config.max_len,
        "history": [[line["step"], line["val_loss"]] for line in state.history],
        **description,
    }


if __name__ == "__main__":
    main(__doc__, record_of("scaling"), RUNS, train_one)
