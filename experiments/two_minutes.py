"""Train a small translator on Multi30k for two minutes, and record what it writes on the way.

The script reads train from the folder that COURSE_DATA names, with chapter 17's settings. It
records translations of the course's own captions, but no sentences from the corpus.
"""

import torch

from course_lib.data.multi30k_files import CAPTIONS
from course_lib.records.missing_runs import main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.multi30k import Multi30k, RealConfig
from course_lib.trainer.hardware import describe_machine
from course_lib.training import training_step

RUN = dict(
    num_pairs=10_000, vocab_size=4_000, d_model=128, num_heads=4, num_layers=2, d_ff=256,
    dropout=0.1, tokens=2_048, epochs=4, warmup_steps=100, peak_rate=4e-3, cooldown=0.3,
    bfloat16=False,
)  # fmt: skip
LOOKS = (10, 50, 100, 150, 200, 300, 400, 500)  # steps; and after the last one


def measure(run: Entry) -> Entry:
    """Return the translations of the captions after each of these steps."""
    torch.manual_seed(0)
    config = RealConfig(**run)
    task = Multi30k(config)
    model, loss_of = task.pipeline.model, task.training_module()
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    german = [source for source, _ in CAPTIONS]
    looks = {}
    for step in range(1, task.steps + 1):
        loss = loss_of.train()(*task.batches(step))
        training_step(model, optimizer, [loss], task.rate(step))
        if step in (*LOOKS, task.steps):
            looks[step] = task.pipeline.translate(german, beam_size=1)
    return run | {"captions": looks, "machine": describe_machine("cpu")}


if __name__ == "__main__":
    main(__doc__, record_of("multi30k_two_minutes"), [RUN], measure)
