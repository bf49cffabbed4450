"""The glossary: every term that a chapter sets in bold, and the sentence that explains it."""

import json
import re
from pathlib import Path

from course_lib.exercises.workbook.notebook_builder import SIDE_TRIPS

LABELS = r"(You|Papers?$|Guess|Differs|The |One |A |An |Is |Are |Does |Do |What |Why |How |\d|\W)"
EMPHASIS = {  # bold for emphasis, and not a term
    "after", "after grpo", "at the input", "at the output", "average", "before", "bold", "bounded",
    "change", "comparable", "fast pairs only", "folds", "gpt-2's own weights", "guess", "in total",
    "its own position", "larger layers", "larger positions", "last position", "layer by layer",
    "linear", "llama3", "nearest", "none", "one pattern of weights", "order", "ours", "plain rope",
    "published", "random", "random digits", "read", "run", "shift + enter", "three hours before",
    "total", "unique", "units",
}  # fmt: skip
BOLD = re.compile(r"\*\*([^*`|\n]{2,45}?)\*\*")
SENTENCE = re.compile(r"(?:(?<=.[.?!]|[.?!][)*])|(?<=[.?!]\*\*))\s+(?=[A-Z*`$“\[(])")
POINTS_BACK = re.compile(r"(This|These|They|It|Its|So|Such|But|For this|The whole|A \*\*ring)\b")


def terms(chapters: list[Path]) -> dict[str, tuple[str, str]]:
    """Return all terms alphabetically, each with the first chapter and sentence that use it."""
    explained: dict[str, tuple[str, str, str]] = {}
    for chapter in chapters:
        cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        prose = re.sub(r"```.*?```", "", "\n\n".join(texts), flags=re.S)
        place = f"{SIDE_TRIPS}/" * (chapter.parent.name == SIDE_TRIPS)
        prose = re.sub(r"\]\((?=[\w./]*\d\d_\w+\.ipynb)", f"](notebooks/{place}", prose)
        prose = prose.replace(f"{SIDE_TRIPS}/../", "")
        for paragraph in re.split(r"\n\s*\n|\n(?=[-#|\d])", prose):
            line = re.sub(":$", ".", " ".join(paragraph.lstrip("-# ").split()))
            if line.startswith("|"):  # a row of a table
                line = line.strip("| ").replace(" | ", ": ", 1).replace(" | ", " → ")
            sentences = SENTENCE.split(line)
            for before, sentence in zip(["", *sentences], sentences, strict=False):
                quoted = f"{before} {sentence}" if POINTS_BACK.match(sentence) else sentence
                for term in filter(is_term, BOLD.findall(sentence)):
                    explained.setdefault(term.lower(), (term, place + chapter.name, quoted.strip()))
    return {term: (chapter, sentence) for _, (term, chapter, sentence) in sorted(explained.items())}


def is_term(bold: str) -> bool:
    """Return whether bold text is a term, not a label such as **Guess:** or an emphasized word."""
    is_label = bold.lower() in EMPHASIS or re.match(LABELS, bold) or bold[-1] in ".:?!,("
    return not is_label and len(bold.split()) <= 4


def page(chapters: list[Path]) -> str:
    """Write the glossary as a page of the site, with a link from each term to its chapter."""
    lines = ["# Glossary", "", "Each entry quotes the chapter that explains the term.", ""]
    for term, (chapter, sentence) in terms(chapters).items():
        number, name = chapter.rpartition("/")[2][:2], "side trip" if "/" in chapter else "chapter"
        lines += [f"**{term}**", f": {sentence} ([{name} {number}](notebooks/{chapter}))", ""]
    return "\n".join(lines)
