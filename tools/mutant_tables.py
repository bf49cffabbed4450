"""Tables of the known mistakes: which probe sees them, and what their training shows."""

from collections import Counter
from collections.abc import Callable
from statistics import fmean

from mutants import RECORD

from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.exercise_bank import exercise
from course_lib.trainer.results import Entry, read_entries

ASSEMBLED = ("masks", "encoder", "decoder", "transformer", "training")  # 06 to 10; 11 writes


def effective(entry: Entry) -> bool:
    """Say whether a mistake changes what an assembled model gives."""
    return bool({entry["paper"], entry.get("other", "nothing")} - {"nothing", "rate"})


def recorded() -> list[Entry]:
    """Return the entries of the mistakes; the right model's is left out."""
    return [entry for entry in read_entries(RECORD) if entry["mistake"]]


def assembled() -> list[Entry]:
    """Return the mistakes of 06 to 10 that change an assembled model."""
    late = (e for e in recorded() if exercise(e["exercise"]).module in ASSEMBLED)
    return [entry for entry in late if effective(entry)]


def seen_by_probes(paragraph: Callable[[str], str]) -> str:
    """Count what the probes see of the mistakes of 06 to 10."""
    found = assembled()
    seen = [entry for entry in found if entry["probes"]]
    share = len(seen) / len(found) if found else 0.0
    writing = [e for e in recorded() if exercise(e["exercise"]).module == "decoding"]
    written = sum(bool(entry["probes"]) for entry in writing)
    refused = sum(entry["probes"] == ["call"] for entry in seen)
    counted = Counter(name for entry in seen for name in entry["probes"] if name != "call")
    often = ", ".join(f"{name} {count}" for name, count in counted.most_common())
    return paragraph(
        f"Of {len(found)} known mistakes of the chapters 06 to 11 that change the outputs or "
        f"gradients of an assembled model, the probes see {len(seen)}, {share:.0%}. In {refused} "
        f"of these the model cannot even be called. Seen by: {often}. The mistakes of chapter 12 "
        f"change what is written, not the model: with `generate`, {written} of {len(writing)} are "
        "seen, those that write another token than the arg max, but not what follows an end."
    )


def not_seen(table: Callable) -> str:
    """List the mistakes of 06 to 10 that no probe sees."""
    unseen = {(e["exercise"], e["mistake"]) for e in assembled() if not e["probes"]}
    rows = [
        [f"`{name}`", mistake.sentence]
        for name in exercises()
        for mistake in known_mistakes(name)
        if (name, mistake.name) in unseen
    ]
    return table(["in", "what no probe sees"], rows)


def mutants(table: Callable) -> str:
    """List what the trainings came to, the lowest loss first; the right model is among them."""
    sentences = {(name, m.name) for name in exercises() for m in known_mistakes(name)}
    rows = []
    for entry in read_entries(RECORD):
        where, name = which = (entry["exercise"], entry["mistake"])
        if not entry["runs"] or (name and which not in sentences):
            continue
        said = [f"`{where}`: {name.replace('_', ' ')}" if where else "**the right model**"]
        ended = [run for run in entry["runs"] if run["outcome"] == "trains"]
        means = [
            fmean(run[key] for run in ended) if ended else None
            for key in ("val_loss", "accuracy", "exact_match")
        ]
        said += ["–" if mean is None else f"{mean:.3f}" for mean in means]
        said += [str(len(entry["runs"])), ", ".join(entry["probes"]) or "–"]
        rows.append((means[0] is None, means[0] or 0.0, said))
    head = ["mistake", "loss", "teacher-forced accuracy", "exact match", "seeds", "probes"]
    return table(head, [said for *_, said in sorted(rows)])
