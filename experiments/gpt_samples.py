"""Train the GPT from chapter 19, and record a sample of its text after 100, 600 and 2,000 steps."""

from dataclasses import replace

from training_runs import fit_language_model

from course_lib.gpt import GPT
from course_lib.records.missing_runs import main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.language_model import LanguageModel, TextGenerator, TextGeneratorConfig

USUAL = TextGeneratorConfig(val_every=100)  # what `course train --task gpt` runs
LOOKS = (100, 600, 2_000)  # the steps after which the model writes a text
PROMPT, LENGTH = "def ", 240
RUNS: list[Entry] = [{"seed": 0}]


class SampledLanguageModel(LanguageModel):
    """A language-model task that also records samples of text at certain steps."""

    def measure(self, pipeline: TextGenerator, step: int) -> dict:
        """Measure the loss on windows of val, and record a sample after each step in ``LOOKS``."""
        line: dict = super().measure(pipeline, step)
        if step in LOOKS:
            line["text"] = pipeline.generate(PROMPT, LENGTH)[0]
        return line


def train_one(run: Entry) -> Entry:
    """Train with one seed; return the samples, and the loss on val at the same steps."""
    task = SampledLanguageModel(replace(USUAL, seed=run["seed"]), None)
    state, description = fit_language_model(task, lambda V: GPT(USUAL.of_model(V)))
    looks = [line for line in state.history if "text" in line]
    samples = [{name: line[name] for name in ("step", "val_loss", "text")} for line in looks]
    return {"samples": samples} | description


if __name__ == "__main__":
    main(__doc__, record_of("gpt_samples"), RUNS, train_one)
