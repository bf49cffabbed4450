"""Train the small GPT from chapter 19 from eight initializations, and record how its loss falls.

Each initialization uses GPT-2's standard deviation of 0.02, and then enlarges some matrices.
"""

from dataclasses import replace

from training_runs import fit_language_model

from course_lib.gpt import GPT
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.language_model import LanguageModel, TextGeneratorConfig

USUAL = TextGeneratorConfig(
    num_layers=2, batch_size=8, steps=400, warmup_steps=20, peak_rate=3e-3, last_rate=3e-4,
    init_std=0.02, val_every=50, bias=True,
)  # fmt: skip
FACTOR = 2.5  # 0.02 becomes 0.05
LARGER: dict[str, tuple[str, ...]] = {  # prefixes of parameter names; the output layer is tied
    "GPT-2's": (),
    "embeddings": ("embedding",),
    "positions": ("positions",),
    "layers": ("layers",),
    "embeddings, positions": ("embedding", "positions"),
    "embeddings, layers": ("embedding", "layers"),
    "positions, layers": ("positions", "layers"),
    "all three": ("embedding", "positions", "layers"),
}
RUNS: list[Entry] = [{"name": name, "seed": seed} for name in LARGER for seed in SEEDS]


def new_model(vocab_size: int, larger: str) -> GPT:
    """Build a GPT, and scale up the matrices that this initialization makes larger."""
    model = GPT(USUAL.of_model(vocab_size))
    for name, parameter in model.named_parameters():
        if parameter.dim() == 2 and name.startswith(LARGER[larger]):
            parameter.data *= FACTOR
    return model


def train_one(run: Entry) -> Entry:
    """Train with one initialization and one seed; return the losses."""
    task = LanguageModel(replace(USUAL, seed=run["seed"]), None)
    state, description = fit_language_model(
        task, lambda vocab_size: new_model(vocab_size, run["name"])
    )
    steps = [line["step"] for line in state.history]
    return {"steps": steps, "val_loss": [line["val_loss"] for line in state.history]} | description


if __name__ == "__main__":
    main(__doc__, record_of("gpt_starts"), RUNS, train_one)
