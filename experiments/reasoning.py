"""Repeat the experiments of chapter 24 with three seeds, and record the results.

The functions come from the chapter: we execute the definitions in its cells.
"""

import ast
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from training_runs import computer

from course_lib.gpt import sample
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.tasks.hunts import SIZES, accuracy, forgeries_followed, sampled, with_more_samples
from course_lib.tasks.sums import draw_requests

CHAPTER = Path(__file__).parents[1] / "notebooks/24_reasoning.ipynb"
WAYS = {1: ["one"], 2: ["at once", "steps"], 5: ["at once", "steps"], 8: ["at once", "steps"]}
RUNS: list[Entry] = [
    *({"kind": "rewards", "seed": seed} for seed in SEEDS),
    *(
        {"kind": "length", "way": way, "notes": notes, "seed": seed}
        for notes, ways in WAYS.items()
        for way in ways
        for seed in SEEDS
    ),
    *({"kind": kind, "seed": seed} for kind in ("tool", "votes") for seed in SEEDS),
    *(
        {"kind": "way", "way": way, "seed": seed}
        for way in ("dots", "dots, all five")
        for seed in SEEDS
    ),
    {"kind": "patient", "way": "at once", "notes": 2, "steps": 3000, "seed": 0},
]


@cache
def chapter() -> dict[str, Any]:
    """Execute the chapter's imports, functions and constants, and return them by name."""
    names: dict[str, Any] = {}
    for cell in json.loads(CHAPTER.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            tree.body = [node for node in tree.body if defines(node)]
            exec(compile(tree, CHAPTER.name, "exec"), names)
    return names


def defines(node: ast.stmt) -> bool:
    """Return whether a statement imports, or defines a function or a constant."""
    if isinstance(node, ast.Assign | ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        first = next(each for each in ast.walk(target) if isinstance(each, ast.Name))
        return first.id.isupper()
    return isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef)


def hunts(run: Entry) -> Entry:
    """Train on hunts of one length; with five written steps, also forge each of the first four."""
    c = chapter()
    notes = run.get("notes", 5)
    way = "at once" if run["way"] == "one" else run["way"]  # one note: both ways are the same
    model = c["train"](way, run["seed"], run.get("steps", 400), notes_to_read=notes)
    found: Entry = {"right": round(accuracy(model, way, notes), 3)}
    if way == "steps" and notes == 5:
        found["followed"] = [round(forgeries_followed(model, place), 3) for place in range(4)]
    return found


def rewards(seed: int) -> Entry:
    """Train on 80 hunts, and then longer, with rewards, or with shuffled rewards."""
    c = chapter()
    start = c["train"]("steps", seed, 150, 80)
    models = {
        "before": start,
        "longer": c["train"]("steps", seed, 600, 80),
        "shuffled": c["reinforce"](start, seed, shuffled=True),
        "after": c["reinforce"](start, seed),
    }
    scores = {name: [round(x, 3) for x in sampled(model)] for name, model in models.items()}
    return {name: answer for name, (answer, _) in scores.items()} | {
        f"{name}, all steps": steps for name, (_, steps) in scores.items()
    }


def votes(seed: int) -> Entry:
    """Measure votes and best of n with a model half-trained on new hunts, or trained on 80."""
    c = chapter()
    found: Entry = {"samples": SIZES}
    for name, steps, known in (("new hunts", 115, None), ("80 hunts", 150, 80)):
        model = c["train"]("steps", seed, steps, known)
        voted, best = with_more_samples(model, c["majority_vote"])
        found |= {f"{name}: vote": voted, f"{name}: best of n": best}
        found[f"{name}: greedy"] = accuracy(model, "steps")
    return found


def tool(seed: int) -> Entry:
    """Measure the model that calls a calculator, and one that writes the results itself."""
    c = chapter()
    model, _ = c["train_caller"](seed)
    asked = {
        "with tool": c["outcomes"](model, 200, False),
        "planted": c["outcomes"](model, 200, True),
        "checked": c["outcomes"](model, 200, False, checked=True),
        "planted, checked": c["outcomes"](model, 200, True, checked=True),
    }
    alone, _ = c["train_caller"](seed, itself=True)
    prompts, calls, *_ = draw_requests(1000, torch.Generator().manual_seed(3), False)
    written = sample(alone, prompts, 6, top_k=1)[:, -1]  # the call, and then the result
    right = (written == calls[:, 1] + calls[:, 3]).double().mean().item()
    return {name: dict(found) for name, found in asked.items()} | {"itself": round(right, 3)}


def train_one(run: Entry) -> Entry:
    """Carry out one run, and return its measurements."""
    by_seed = {"rewards": rewards, "votes": votes, "tool": tool}
    kind = by_seed.get(run["kind"])
    return (kind(run["seed"]) if kind else hunts(run)) | computer()


if __name__ == "__main__":
    main(__doc__, record_of("reasoning"), RUNS, train_one)
