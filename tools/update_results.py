"""Rewrite the numbers in README.md and docs/ from the records.

A region of a page begins with ``<!-- results: NAME -->`` and ends with ``<!-- end -->``.
"""

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from statistics import fmean

import chapter_times
import mutant_tables
import paper_audit

from course_lib.exercises import exercises, known_mistakes
from course_lib.exercises.checking import exercise
from course_lib.exercises.checking.mistake import Mistake
from course_lib.exercises.checking.public_issues import with_links
from course_lib.records.results import Entry, read_entries, read_record, record_of
from notebooks import ROOT, chapters, rewrite

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
DIFFERENCES = ROOT / "tests" / "mutants" / "difference_effects.json"
BENCH = ROOT / "benchmarks" / "bench.json"
NUMBERS = record_of("numbers_record")
REGION = re.compile(r"(<!-- results: (\w+) -->\n)(.*?)(?=<!-- end -->)", re.S)

SIZES = {"training step, small": "small", "training step, base": "base"}
TRAINING = {  # in each table: the name of a row in the record, and its label on the page
    "like for like": "the same dropout as `torch.nn`",
    "dropout as the paper": "dropout as in the paper, and fused Adam",
    "loss in chunks": "plus the loss in chunks",
    "bfloat16": "plus mixed precision with bfloat16, if a quick test shows that it is faster",
    "dropout as the paper, compiled": "the second row, with `torch.compile`",
}
ATTENTION = {
    "the fused kernel": "the fused kernel",
    "all heads at once": "all heads at once, without the fused kernel",
    "all heads at once, compiled": "all heads at once, with `torch.compile`",
    "past only, by mask, fused": "the fused kernel, causal with a mask",
    "past only, is_causal, fused": "the fused kernel, causal with `is_causal`",
    "the fused kernel, dropout": "the fused kernel, with dropout on the weights",
}
DECODING = {
    "all": "torch computes the logits of every position (as most code does)",
    "last": "torch computes the logits of the last position only",
}
GENERATE = {
    "greedy": "Marian layout, greedy",
    "beam 4": "Marian layout, beam 4",
    "GPT, greedy": "GPT-2 layout, greedy",
    "sampling": "GPT-2 layout, sampling",
    "sampling, top-k 50": "GPT-2 layout, sampling with top-k 50",
}
ROUNDED = {
    "float32": "float32, without rounding",
    "weights": "`torchao`, weights",
    "products": "`torchao`, weights and inputs",
    "output": "`torchao`, weights and inputs, output layer only",
    "dynamic": "`torch.ao.quantization.quantize_dynamic`, deprecated",
}
GPTS = {
    "(4, 4, 128, 64)": "4 layers, 4 heads, width 128, windows of 64",
    "(6, 6, 384, 256)": "6 layers, 6 heads, width 384, windows of 256",
}
GPT_RATIOS = {
    "GPT, training step": "a training step, compared with `torch.nn`",
    "GPT, a token written": "generating a token with the KV cache, compared with no cache",
}
LIMIT = {
    "limit": "the limit: the weights are read once",
    "ours": "the course",
    "transformers": "`transformers`",
    "CTranslate2, float32": "CTranslate2",
    "ours, bfloat16": "the course, in bfloat16",
    "CTranslate2, int8": "CTranslate2, in int8",
}
LIMIT_SIZES = {
    "SmolLM2-135M, 1": "SmolLM2-135M, one text",
    "SmolLM2-135M, 16": "16 texts",
    "Marian, 1": "Marian, one sentence",
    "Marian, 16": "16 sentences",
}
LANGUAGES = {"de": "German", "fr": "French", "zh": "Chinese"}
TEXTS = {  # the text, and the standard deviation of the initial weights
    ("shakespeare", 0.05): "Shakespeare",
    ("library", 0.05): "Python's standard library",
    ("shakespeare", 0.02): "Shakespeare, initial weights as in GPT-2",
}
ABLATIONS = {  # names that need a longer label
    "encoder and decoder": "encoder and decoder: the Transformer",
    "norm first": "pre-norm",
    "one projection": "chapter 19's GPT: also without √d_model, with other initial weights",
    "larger positions": "control: learned positions with the same variance as the embeddings",
    "chapter 19's weights": "control: GELU, with chapter 19's initial weights",
    "no factor": "GELU, without √d_model",
}
TRANSLATORS = {  # epochs, dropout, and the number of averaged checkpoints
    (28, 0.3, 10): "28 epochs, dropout 0.3, average of the last 10 checkpoints",
    (10, 0.1, 1): "10 epochs, dropout 0.1",
}
TEST = "test_2016_flickr"
MUTANT_COLUMNS = ("mistake", "loss", "teacher-forced accuracy", "exact match", "seeds", "probes")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Format rows as a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def paragraph(text: str) -> str:
    """Wrap text into lines of readable length."""
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False) + "\n"


def with_range(ratio: Mapping[str, float], digits: int = 2) -> str:
    """Format a median and its range."""
    median, low, high = (f"{ratio[name]:.{digits}f}" for name in ("median", "min", "max"))
    return f"{median} ({low} to {high})"


def mean_and_range(values: Sequence[float]) -> str:
    """Format the mean of values, with their range if there are several."""
    mean = f"{fmean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ({min(values):.1f} to {max(values):.1f})"


# --- docs/benchmarks.md


def bench(part: str) -> Entry:
    """Return the benchmark record of a part."""
    record = record_of("limit") if part == "limit" else BENCH
    return next(entry for entry in read_entries(record) if entry["part"] == part)


def rows_by(part: str, key: str) -> dict[tuple, Entry]:
    """Return the rows in a part of the benchmark record, by name and one more key."""
    return {(row["name"], row[key]): row for row in bench(part)["rows"] if key in row}


def bench_table(
    part: str,
    names: Mapping[str, str],
    key: str,
    columns: Mapping,
    cell: Callable[[Entry], str] = lambda row: with_range(row["ratio"]),
) -> str:
    """Format a part of the benchmark record as a table; a dash marks a missing measurement.

    ``names`` and ``columns`` map the record's rows and columns to their labels on the page. The
    columns are values of ``key``, and ``cell`` formats a row of the record for one cell.
    """
    found = {at: cell(row) for at, row in rows_by(part, key).items() if at[0] in names}
    rows = (
        [label, *(found.get((name, at), "–") for at in columns)] for name, label in names.items()
    )
    return table(["", *columns.values()], rows)


def int8() -> str:
    """Make a table of the quality, size and speed of translators with int8 weights."""
    by_task = {entry["task"]: entry["rows"] for entry in read_entries(BENCH.with_name("int8.json"))}
    searches = {"alone": "one at a time", "greedy": "64 at once", "beam 4": "64, beam 4"}
    rows = []
    for name, label in ROUNDED.items():
        numbers, captions = by_task["numbers"][name], by_task["multi30k"][name]
        quality = [f"{numbers['score']:.3f}", f"{captions['score']:.1f}", f"{captions['same']:.2f}"]
        speed = [with_range(captions[search]) for search in searches]
        rows.append([label, *quality, f"{captions['megabytes']:.1f}", *speed])
    head = ["", "number words, exact match", "BLEU", "the same", "MB"]
    return table([*head, *searches.values()], rows)


def speed_and_memory(row: Entry) -> str:
    """Format the speed of attention and the memory that it keeps for the backward pass."""
    mib = row["kept_mib"]
    return f"{row['ratio']['median']:.2f}, {mib:.{int(mib < 10)}f} MiB"


def scale() -> str:
    """Make a table of what models of published sizes need, in memory and in operations."""
    configs = {
        "the paper's base model": paper_audit.BASE,
        "the paper's big model": paper_audit.BIG,
        "Llama 2 7B": paper_audit.LLAMA_2_7B,
    }
    rows = []
    for name, config in configs.items():
        count = paper_audit.parameter_count(config)
        layers = getattr(config, "num_decoder_layers", None) or config.num_layers
        cache = 2 * layers * config.d_model * 2  # keys and values of one token, two bytes each
        rows.append(
            [name, f"{count:,}", f"{2 * count / 1e9:.2f} GB", f"{16 * count / 1e9:.1f} GB",
             f"{paper_audit.token_flops(config) / 1e9:.2f} billion", f"{cache / 1024:.0f} KiB",
             f"{4096 * cache / 1e9:.2f} GB"]
        )  # fmt: skip
    head = ["parameters", "weights", "training", "FLOPs per token", "cache per token"]
    return table(["", *head, "for 4,096 tokens"], rows)


def beside_the_limit(row: Entry) -> str:
    """Format the milliseconds of a step, and how many times as long as the limit it takes."""
    times = f", {with_range(row['ratio'], 1)}" if "ratio" in row else ""
    return f"{row['milliseconds']['median']:.1f} ms{times}"


def training_notes() -> str:
    """Report how much autograd stores, and the training speed on sentences of mixed length."""
    kept = {at: row.get("kept_mib") for at, row in rows_by("training", "table").items()}
    saved = [
        " and ".join(f"{1 - kept[name, at] / kept['torch.nn.Transformer', at]:.0%}" for at in SIZES)
        for name in ("like for like", "dropout as the paper")
    ]
    (mixed,) = bench("mixed")["rows"]
    return paragraph(
        f"With the same dropout, our small and base models keep {saved[0]} fewer activations "
        f"than torch's; with the paper's dropout, {saved[1]} fewer. With sentences of mixed "
        f"length, the small model trains on {with_range(mixed['ratio'], 1)} times as many real "
        "tokens per second as `torch.nn.Transformer` does with the usual random, padded batches."
    )


# --- docs/results.md


def by_seed(entries: Iterable[Entry], name: Callable[[Entry], str], score: str) -> str:
    """Format scores as a table with a column for each seed, and a mean if a row has all seeds.

    ``name`` takes an entry and returns the page's label for its model.
    """
    scores: dict[str, dict[int, float]] = {}
    for entry in entries:
        scores.setdefault(name(entry), {})[entry["seed"]] = entry[score]
    seeds = (0, 1, 2)
    rows = []
    for model, values in scores.items():
        cells = [f"{values[seed]:.3f}" if seed in values else "–" for seed in seeds]
        mean = f"{fmean(values.values()):.4f}" if len(values) == len(seeds) else "–"
        rows.append([model, *cells, mean])
    return table(["", *(f"seed {seed}" for seed in seeds), "mean"], rows)


def language_models() -> str:
    """Format the validation losses of the GPT as a table."""
    key, texts = itemgetter("text", "init_std"), list(TEXTS)
    entries = sorted(read_record("language_model_record"), key=lambda e: texts.index(key(e)))
    return by_seed(entries, lambda entry: TEXTS[key(entry)], "val_loss")


def translators(split: str, epochs: int, dropout: float, average: int) -> list[Entry]:
    """Find the records of the Multi30k translators with these settings, one for each seed."""
    wanted = dict(split=split, epochs=epochs, dropout=dropout, average=average)
    return [entry for entry in read_record("multi30k_record") if wanted.items() <= entry.items()]


def multi30k() -> str:
    """Format the scores on Multi30k as a table."""
    head = ["German to English", "seeds", "BLEU, cased", "BLEU, lowercased", "chrF"]
    head += ["BLEU on *val*, lowercased", "minutes of CPU time"]
    rows = []
    for wanted, name in TRANSLATORS.items():
        test, val = translators(TEST, *wanted), translators("val", *wanted)
        scores = [[entry[key] for entry in test] for key in ("bleu", "bleu_lower", "chrf")]
        scores.append([entry["bleu_lower"] for entry in val])
        minutes = fmean(entry["minutes"]["cpu"] for entry in test)
        seeds = ", ".join(str(entry["seed"]) for entry in test)
        rows.append([name, seeds, *map(mean_and_range, scores), f"{minutes:.0f}"])
    return table(head, rows)


# --- docs/paper_audit.md


def table_2() -> str:
    """Format estimates of the cost of the paper's two training runs as a table."""
    costs = {name: paper_audit.training_cost(name) for name in paper_audit.TRAININGS}
    rows = [["the paper, as printed", *(f"{t[-1]:.1e}" for t in paper_audit.TRAININGS.values())]]
    rows += [[way, *(f"{cost[way]:.2e}" for cost in costs.values())] for way in costs["base"]]
    parts = (100 * cost["counted"] / cost["GPU-seconds"] for cost in costs.values())
    rows.append(["counted, as a percentage of GPU-seconds", *(f"{part:.0f}%" for part in parts)])
    return table(["operations", *costs], rows)


# --- README.md


def summary() -> str:
    """Summarize speed and quality in three numbers."""
    speed = rows_by("training", "table")["like for like", next(iter(SIZES))]["ratio"]["median"]
    accuracy = 100 * fmean(entry["exact_match"] for entry in read_entries(NUMBERS))
    runs = translators(TEST, 28, 0.3, 10)
    return paragraph(
        f"On a single CPU thread, our small model runs a training step {speed:.2f} times as fast "
        "as `torch.nn.Transformer` does with the same weights. On numbers outside the training "
        f"data, the number-word translators are exactly right {accuracy:.1f}% of the time (mean "
        "over three languages and three seeds). A model that translates German to English "
        f"reaches {fmean(run['bleu'] for run in runs):.1f} BLEU on Multi30k after "
        f"{fmean(run['minutes']['cpu'] for run in runs):.0f} minutes of CPU time (mean of "
        f"{len(runs)} runs)."
    )


def every_mistake() -> list[Mistake]:
    """Return all mistakes that the exercise checks recognize."""
    return [mistake for name in exercises() for mistake in known_mistakes(name)]


def citations(mistake: Mistake) -> int:
    """Count the public issues and pull requests that are cited for a mistake."""
    return len(re.findall(r"#\d+", mistake.seen))


def mistake_counts() -> str:
    """Report how many functions and mistakes the exercise checks cover."""
    mistakes = every_mistake()
    cited = sum(citations(mistake) > 0 for mistake in mistakes)
    return paragraph(
        f"The checks cover {len(exercises())} functions and classes, and recognize "
        f"{len(mistakes):,} known mistakes. We found {cited} of these mistakes in public "
        "code, and we cite an issue or a pull request for each."
    )


def lessons() -> str:
    """List each chapter's minutes and prerequisites, from the box at its beginning."""
    times, rows = chapter_times.page_times(), []
    for path in chapters():
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        text = "\n".join("".join(cell["source"]) for cell in cells)
        needs = re.search(r"\*\*?You need\*\*? (.*?)\s*\*\*?Paper", text, re.S)[1]
        number = path.name[:2]
        needs = " ".join(needs.split()).replace("](", "](../../notebooks/")
        rows.append([number, *map(str, times[number][:2]), needs])
    return table(["chapter", "minutes to read", "with exercises", "needs"], rows)


def common_mistakes(module: str) -> str:
    """If a module has exercises, list its five mistakes that cite the most public issues."""
    mistakes = [mistake for mistake in every_mistake() if mistake.module == module]
    mistakes.sort(key=citations, reverse=True)
    lines = [
        f"- `{mistake.exercise}`: {mistake.sentence}"
        + (f" ({with_links(mistake.seen)})" if mistake.seen else "")
        for mistake in mistakes[:5]
    ]
    return "\n".join(["**Mistakes to expect.**\n", *lines, ""]) if lines else ""


REGIONS: dict[str, Callable[[], str]] = {
    "lessons": lessons,
    **{f"mistakes_{name}": partial(common_mistakes, name) for name in exercise.chapters()},
    "summary": summary,
    "mistakes": mistake_counts,
    "numbers": lambda: by_seed(
        read_entries(NUMBERS), lambda entry: LANGUAGES[entry["to"]], "exact_match"
    ),
    "language_models": language_models,
    "ablation": lambda: by_seed(
        read_record("ablation"), lambda e: ABLATIONS.get(e["name"], e["name"]), "val_loss"
    ),
    "multi30k": multi30k,
    "training": lambda: bench_table("training", TRAINING, "table", SIZES),
    "training_notes": training_notes,
    "attention": lambda: bench_table(
        "attention", ATTENTION, "length", {n: f"length {n:,}" for n in (128, 512, 2048)},
        speed_and_memory,
    ),
    "decoding": lambda: bench_table(
        "decoding", DECODING, "new_tokens", {n: f"{n} new tokens" for n in (32, 64, 128, 256)},
        lambda row: with_range(row["ratio"], 1),
    ),
    "generate": lambda: bench_table(
        "generate", GENERATE, "new_tokens", {n: f"{n} new tokens" for n in (64, 128, 256)},
    ),
    "int8": int8,
    "scale": scale,
    "limit": lambda: bench_table("limit", LIMIT, "table", LIMIT_SIZES, beside_the_limit),
    "gpt": lambda: bench_table("gpt", GPTS, "table", GPT_RATIOS),
    "table_2": table_2,
    "difference_effects": lambda: by_seed(
        read_entries(DIFFERENCES), itemgetter("name"), "val_loss"
    ),
    "probes": lambda: paragraph(mutant_tables.seen_by_probes()),
    "not_seen": lambda: table(["where", "what no probe sees"], mutant_tables.not_seen()),
    "mutants": lambda: table(MUTANT_COLUMNS, mutant_tables.training_scores()),
}  # fmt: skip


def rewritten(page: str) -> str:
    """Return a page with every region rewritten."""
    return REGION.sub(lambda region: region[1] + REGIONS[region[2]](), page)


def write(pages: Sequence[Path] = PAGES, check: bool = False) -> list[str]:
    """Rewrite the pages, or only check them; return the names of the stale ones."""
    return rewrite(pages, lambda _, page: rewritten(page), check)


if __name__ == "__main__":
    print(*write(), sep="\n")
