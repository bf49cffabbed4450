"""An explorer for the learning-rate schedule, with recorded training runs (paper, §5.3)."""

from traitlets import Int, List

from course_lib.records.results import Entry, read_record
from course_lib.viz.explorer_base import Explorer


def recorded_runs() -> list[Entry]:
    """Read the loss curves for each warm-up length, one per seed."""
    runs: dict[int, Entry] = {}
    for entry in read_record("warm_ups"):
        same = {"d_model": entry["d_model"], "every": entry["steps"][0], "losses": []}
        run = runs.setdefault(entry["warmup_steps"], same)
        run["losses"].append(entry["val_loss"])
    return [{"warmup_steps": warmup_steps, **runs[warmup_steps]} for warmup_steps in sorted(runs)]


class ScheduleExplorer(Explorer):
    """An explorer in which readers drag the peak of the learning rate and see recorded runs."""

    module = "schedule"
    title = "The learning rate"
    question = "How long should the warm-up be?"
    alt = (
        "On the left is the learning rate at every step, on logarithmic axes. With a warm-up of "
        "50 steps, it rises to 0.0125 and falls again; the paper’s rate, dashed, is lower and "
        "peaks at step 4,000. On the right are the losses of recorded runs over 450 steps: three "
        "thick curves for a warm-up of 50 steps, and thin curves for other warm-ups, whose "
        "lengths are at the ends of the curves."
    )
    warmup_steps = Int(50, min=1).tag(sync=True, state=True)
    d_model = Int(128, min=1).tag(sync=True, state=True)
    runs = List(default_value=recorded_runs()).tag(sync=True, state=True)
