"""Train the number-word translator with one thing broken, and record what becomes of it.

All runs of a seed start from the same weights and read the same batches, at the learning rate of
the course's translator. Other optimizers than Adam use a multiple of that, and so do two of the
runs with Adam.
"""

import math
from dataclasses import replace

import torch
from torch import Tensor, nn
from training_runs import computer

from course_lib.data import draw_pairs
from course_lib.masks import padding_mask
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.numbers import Numbers, Translator, TranslatorConfig
from course_lib.training import label_smoothed_cross_entropy, training_step, translation_loss
from course_lib.transformer import Transformer

STEPS, EVERY, NUMBERS = 100, 2, 100  # steps; of the recorded losses; translated at the end
FACTORS = {  # on the learning rate, by optimizer; × 1 for Adam is the run as it should be
    "SGD": (40, 80, 160, 320, 500),
    "average only": (80, 160, 320),  # SGD with momentum
    "division only": (0.25, 0.5, 1),  # RMSprop with a bias correction
    "Adam": (0.5, 2),
}
WAYS = ("as it should be", "no shift", "no causal mask", "SGD × 160", "no warm-up")
RUNS: list[Entry] = [{"way": way, "seed": seed} for way in WAYS for seed in SEEDS]
RUNS += [
    {"way": f"{name} × {factor}", "seed": 0}
    for name, factors in FACTORS.items()
    for factor in factors
    if f"{name} × {factor}" not in WAYS
]


class Unmasked(Transformer):
    """A translator whose decoder may look at later tokens."""

    def hidden(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Compute the decoder's output (B, T, d_model) without a causal mask."""
        vectors = self.positions(self.tgt_embedding(tgt) * math.sqrt(self.config.d_model))
        tgt_mask, src_mask = (padding_mask(ids, self.config.pad_id) for ids in (tgt, src))
        return self.decoder(vectors, memory, tgt_mask, src_mask)


def unshifted(model: nn.Module, src: Tensor, tgt: Tensor, *, pad_id: int) -> Tensor:
    """Compute the loss of a decoder that reads what it has to predict."""
    return label_smoothed_cross_entropy(model(src, tgt[:, 1:]), tgt[:, 1:], pad_id=pad_id)


def count_right(translator: Translator) -> int:
    """Count the numbers that the model translates without an error."""
    english, german = zip(*draw_pairs("valid", NUMBERS), strict=True)
    return sum(map(str.__eq__, translator.translate(english, max_new_tokens=10), german))


def new_optimizer(name: str, task: Numbers) -> torch.optim.Optimizer:
    """Return an optimizer whose learning rate the schedule sets."""
    parameters = task.pipeline.model.parameters()
    if name == "SGD":
        return torch.optim.SGD(parameters)
    if name == "average only":
        return torch.optim.SGD(parameters, momentum=0.9, dampening=0.9)
    adam = task.optimizer()
    if name == "division only":
        for group in adam.param_groups:
            group["betas"] = (0.0, group["betas"][1])
    return adam


def train_one(run: Entry) -> Entry:
    """Train in one way; return every second loss, and the number of right translations."""
    way, config = run["way"], TranslatorConfig(seed=run["seed"])
    task = Numbers(config)
    if way == "no causal mask":
        unmasked = Unmasked(task.pipeline.model.config)
        unmasked.load_state_dict(task.pipeline.model.state_dict())
        task.pipeline = replace(task.pipeline, model=unmasked)
    model = task.pipeline.model
    name, _, factor = way.partition(" × ")
    times = float(factor or 1)
    optimizer = new_optimizer(name, task)
    rate = replace(config, warmup_steps=1).rate if way == "no warm-up" else config.rate
    loss_of = unshifted if way == "no shift" else translation_loss
    losses = []
    for step in range(1, STEPS + 1):
        loss = loss_of(model, *task.batches(step), pad_id=task.pipeline.tokenizer.pad_id)
        losses.append(training_step(model, optimizer, [loss], times * rate(step)).item())
    every_second = [round(loss, 2) for loss in losses[EVERY - 1 :: EVERY]]
    return {"losses": every_second, "right": count_right(task.pipeline)} | computer()


if __name__ == "__main__":
    main(__doc__, record_of("broken_runs"), RUNS, train_one)
