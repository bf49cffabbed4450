"""Tables of the known mistakes: which probes catch them, and how a model with each one trains."""

from collections import Counter
from statistics import fmean

from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.checking.mistake import Mistake
from course_lib.records.results import Entry, read_entries
from notebooks import ROOT

RECORD = ROOT / "tests" / "mutants" / "mutants_record.json"

ASSEMBLED = ("masks", "encoder", "decoder", "transformer", "training")  # 06 to 11; 12 decodes
SCORES = ("val_loss", "accuracy", "exact_match")


def recorded() -> list[tuple[Mistake | None, Entry]]:
    """Return the correct model and every mistake with their entries, in the order of the course."""
    entries = {(entry["exercise"], entry["mistake"]): entry for entry in read_entries(RECORD)}
    mistakes = [mistake for name in exercises() for mistake in known_mistakes(name)]
    models = [("", ""), *((mistake.exercise, mistake.name) for mistake in mistakes)]
    pairs = zip([None, *mistakes], models, strict=True)
    return [(mistake, entries[name]) for mistake, name in pairs if name in entries]


def assembled() -> list[tuple[Mistake, Entry]]:
    """Return the mistakes for chapters 06 to 11 that change a complete model."""
    return [
        (mistake, entry)
        for mistake, entry in recorded()
        if mistake is not None
        and mistake.module in ASSEMBLED
        and entry.get("other", entry["paper"]) not in ("nothing", "rate")
    ]


def seen_by_probes() -> str:
    """Report how many mistakes for chapters 06 to 11, and for chapter 12, the probes catch."""
    alarms = [entry["probes"] for _, entry in assembled()]
    seen = [names for names in alarms if names]
    counts = Counter(name for names in seen for name in names if name != "call")
    often = ", ".join(f"{name} {count}" for name, count in counts.most_common())
    writing = [entry["probes"] for each, entry in recorded() if each and each.module == "decoding"]
    return (
        f"Of the known mistakes for chapters 06 to 11, {len(alarms)} change the outputs or "
        f"gradients of a complete model. The probes catch {len(seen)} of them "
        f"({len(seen) / len(alarms):.0%}). In {seen.count(['call'])} of these cases, the model "
        f"fails as soon as it is called. Here is how many each probe catches: {often}. The "
        f"mistakes for chapter 12 are in decoding, not in the model. With `generate`, "
        f"the probes catch {sum(map(bool, writing))} of {len(writing)}, namely those that choose "
        "a token other than the arg max. They do not catch mistakes in how tokens after the end "
        "token are handled."
    )


def not_seen() -> list[list[str]]:
    """List the mistakes for chapters 06 to 11 that no probe catches."""
    return [
        [f"`{mistake.exercise}`", mistake.sentence]
        for mistake, entry in assembled()
        if not entry["probes"]
    ]


def training_scores() -> list[list[str]]:
    """List the scores of the model with each mistake, sorted by increasing loss."""
    rows = []
    for mistake, entry in recorded():
        runs = entry["runs"]
        finished = [run for run in runs if run["outcome"] == "trains"]
        means = [fmean(run[score] for run in finished) for score in SCORES if finished]
        name = f"`{mistake.exercise}`: `{mistake.name}`" if mistake else ""
        cells = [name or "**the correct model**"]
        cells += [f"{mean:.3f}" for mean in means] or ["–"] * len(SCORES)
        cells += [str(len(runs)), ", ".join(entry["probes"]) or "–"]
        if runs:
            rows.append((not finished, means[:1], cells))
    return [cells for _, _, cells in sorted(rows)]
