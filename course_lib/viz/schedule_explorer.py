"""An explorer of the learning-rate schedule, with recorded training runs (paper, §5.3 and §5.4)."""

import math
from typing import Any

import torch
from traitlets import Float, Int, List

from course_lib.trainer.results import Entry, read_record
from course_lib.training import label_smoothed_cross_entropy, warmup_inverse_sqrt
from course_lib.viz.explorer_base import Explorer

PAPER = {"warmup_steps": 4000, "d_model": 512}  # table 3, row (base)
TOKENS = 7  # the first is padding
PAD = 0
RIGHT = 3


def recorded_runs() -> list[Entry]:
    """Read how the loss fell with each warm-up, once for every seed."""
    runs: dict[int, Entry] = {}
    for entry in read_record("warm_ups"):
        same = {"d_model": entry["d_model"], "every": entry["steps"][0], "losses": []}
        run = runs.setdefault(entry["warmup_steps"], same)
        run["losses"].append(entry["val_loss"])
    return [{"warmup_steps": warmup_steps, **runs[warmup_steps]} for warmup_steps in sorted(runs)]


def smoothed_target(smoothing: float) -> list[float]:
    """Return the probabilities that the loss asks for: its gradient is softmax minus target."""
    logits = torch.zeros(1, TOKENS, dtype=torch.float64, requires_grad=True)  # (1, V)
    loss = label_smoothed_cross_entropy(
        logits, torch.tensor([RIGHT]), pad_id=PAD, smoothing=smoothing
    )
    (gradient,) = torch.autograd.grad(loss, logits)
    return (logits.softmax(-1) - gradient)[0].tolist()


class ScheduleExplorer(Explorer):
    """Drag the peak of the learning rate, and compare recorded runs with such a warm-up."""

    module = "schedule"
    alt = (
        "Left, the learning rate over the steps on logarithmic axes: with a warm-up of 50 steps it "
        "rises to 0.0125 and falls again; the paper’s, dashed, is lower and peaks at step 4,000. "
        "Right, the losses of recorded runs over 450 steps: three with a warm-up of 50 steps, and "
        "those with other warm-ups, faint. Below them are seven bars, the smoothed target."
    )
    warmup_steps = Int(50, min=1).tag(sync=True, state=True)
    d_model = Int(128, min=1).tag(sync=True, state=True)
    shown = Int(100_000, min=2).tag(sync=True, state=True)
    smoothing = Float(0.1, min=0, max=1).tag(sync=True, state=True)
    runs = List(default_value=recorded_runs()).tag(sync=True, state=True)

    def numbers(self) -> dict[str, Any]:
        """Compute both curves, what the nearest runs reach, and the smoothed target."""
        here, shown = self.warmup_steps, self.shown
        curves = {}
        for name, one in (
            ("yours", dict(d_model=self.d_model, warmup_steps=here)),
            ("paper", PAPER),
        ):
            steps = (1, min(one["warmup_steps"], shown), shown)
            curves[name] = [math.log10(warmup_inverse_sqrt(step, **one)) for step in steps]
        nearest = min(self.runs, key=lambda run: abs(math.log(run["warmup_steps"] / here)))
        target = smoothed_target(self.smoothing)
        q = torch.tensor([target], dtype=torch.float64)  # (1, V)
        bound = label_smoothed_cross_entropy(
            q.clamp(min=1e-300).log(), torch.tensor([RIGHT]), pad_id=PAD, smoothing=self.smoothing
        )
        return curves | {
            "recorded": nearest["warmup_steps"],
            "reached": [losses[-1] for losses in nearest["losses"]],
            "target": target,
            "bound": bound.item(),
        }
