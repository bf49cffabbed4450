"""The glossary: every term that a chapter sets in bold, with the sentence that explains it."""

import json
import re
from pathlib import Path

LABELS = r"(You|Papers?$|Guess|Differs|The |One |A |An |Is |Are |Does |Do |What |Why |How |\d|\W)"
EMPHASIS = {  # bold for emphasis, and not a term
    "after", "after grpo", "at the input", "at the output", "average", "before", "bold",
    "bounded", "change", "comparable", "fast pairs only", "folds", "gpt-2's own weights",
    "guess", "in total", "its own position", "larger layers", "larger positions",
    "last position", "layer by layer", "linear", "llama3", "nearest", "none",
    "one pattern of weights", "order", "ours", "plain rope", "published", "random",
    "random digits", "read", "run", "shift + enter", "three hours before", "total", "unique",
    "units",
}  # fmt: skip
BOLD = re.compile(r"\*\*([^*`|\n]{2,45}?)\*\*")
SENTENCE = re.compile(r"(?<=[.?!])\s+(?=[A-Z*`$“\[])")


def terms(chapters: list[Path]) -> dict[str, tuple[str, str]]:
    """Return every term in the order of the alphabet, with the first chapter and sentence of it."""
    explained: dict[str, tuple[str, str, str]] = {}
    for chapter in chapters:
        cells = json.loads(chapter.read_text(encoding="utf-8"))["cells"]
        texts = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
        prose = re.sub(r"```.*?```", "", "\n\n".join(texts), flags=re.S)
        prose = re.sub(r"\]\((?=\d\d_\w+\.ipynb)", "](notebooks/", prose)
        for paragraph in re.split(r"\n\s*\n|\n(?=[-#|\d])", prose):
            line = " ".join(paragraph.lstrip("-# ").split())
            if line.startswith("|"):  # a row of a table
                line = ": ".join(cell.strip() for cell in line.strip("|").split("|"))
            for sentence in SENTENCE.split(line):
                for term in filter(is_term, BOLD.findall(sentence)):
                    explained.setdefault(term.lower(), (term, chapter.name, sentence))
    return {term: (chapter, sentence) for _, (term, chapter, sentence) in sorted(explained.items())}


def is_term(bold: str) -> bool:
    """Tell a term from a label such as **Guess:** and from a word that is only stressed."""
    if bold.lower() in EMPHASIS or re.match(LABELS, bold):
        return False
    return bold[-1] not in ".:?!,(" and len(bold.split()) <= 4


def page(chapters: list[Path]) -> str:
    """Write the glossary as a page of the site, with a link from each term to its chapter."""
    lines = ["# Glossary", "", "Each entry quotes the sentence that explains the term.", ""]
    for term, (chapter, sentence) in terms(chapters).items():
        link = f"[chapter {chapter[:2]}](notebooks/{chapter})"
        lines += [f"**{term}**", f": {sentence} ({link})", ""]
    return "\n".join(lines)
