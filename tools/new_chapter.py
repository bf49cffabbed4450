"""Write the files of a new chapter or side trip from tools/chapter_template.

Run ``python tools/new_chapter.py 28_name``, or ``python tools/new_chapter.py --side-trip 13_name``
for a side trip from chapter 13. Then run ``make sync``.
"""

import argparse
import re
from pathlib import Path

import nbformat
from nbformat import v4

from course_lib.exercises.workbook.notebook_builder import SIDE_TRIPS
from notebooks import ROOT, chapters, tidy

TEMPLATE = Path(__file__).with_name("chapter_template")
FILES = {
    "figures/src/<nn>_<name>.py": "figure.txt",
    "tests/test_<name>.py": "test.txt",
    "course_lib/exercises/bank/<name>.py": "bank.txt",
    "notebooks/<nn>_<name>.ipynb": "chapter.md",
}
LISTS = {  # a file, a pattern for its numbered entries, and the template of a new entry
    "README.md": (r"^\| (\d\d) \| \[.*\n", "readme_row.txt"),
    "docs/teaching/chapters.md": (r"^## (\d\d) .*\n(?:(?!## ).*\n)*?(?=\n## |\Z)", "lesson.md"),
}


def problem(name: str, root: Path = ROOT) -> str:
    """Return what is wrong with the name of a new chapter, or nothing if it is valid."""
    if not re.fullmatch(r"\d\d_[a-z]+(_[a-z]+)?", name):
        return f"{name!r} must be two digits and one or two lowercase words, such as 28_name"
    places = f"notebooks/{name[:2]}_* course_lib/**/{name[3:]}.py tests/**/test_{name[3:]}.py"
    used = [path.name for place in places.split() for path in root.glob(place)]
    return f"choose another name, because {used[0]} already exists" if used else ""


def write_side_trip(name: str, root: Path = ROOT) -> str:
    """Write a side trip, and return the name of its file; raise ValueError if its name is bad."""
    path = root / "notebooks" / SIDE_TRIPS / f"{name}.ipynb"
    homes = [chapter.name for chapter in chapters(root) if chapter.name[:2] == name[:2]]
    if not homes or not re.fullmatch(r"\d\d(_[a-z0-9]+)+", name):
        raise ValueError(f"{name!r} must be a chapter's number and words, such as 13_few_bits")
    if path.exists():
        raise ValueError(f"choose another name, because {path.name} already exists")
    text = (TEMPLATE / "side_trip.md").read_text(encoding="utf-8")
    text = text.replace("<nn>", name[:2]).replace("<chapter>", homes[0])
    path.parent.mkdir(exist_ok=True)
    path.write_text(notebook(text), encoding="utf-8")
    return path.relative_to(root).as_posix()


def notebook(text: str) -> str:
    """Make a chapter from a text in which each cell begins with ``===`` or ``=== code``."""
    chapter = v4.new_notebook()
    for code, source in re.findall(r"^===( code)?\n(.*?)(?=^===|\Z)", text, re.M | re.S):
        new_cell = v4.new_code_cell if code else v4.new_markdown_cell
        chapter.cells.append(new_cell(source.strip()))
    tidy(chapter)
    return nbformat.writes(chapter) + "\n"


def write(name: str, root: Path = ROOT) -> list[str]:
    """Write a chapter's files, add the chapter to the lists, and return the names of all files."""
    number, _, module = name.partition("_")
    title = module.replace("_", " ").capitalize()
    values = {"<nn>": number, "<number>": str(int(number)), "<name>": module, "<title>": title}

    def filled(text: str) -> str:
        """Replace the placeholders in angle brackets with the values for this chapter."""
        return re.sub("|".join(values), lambda name: values[name[0]], text)

    def from_template(source: str) -> str:
        """Return a file from the template, with its placeholders filled in."""
        return filled((TEMPLATE / source).read_text(encoding="utf-8"))

    files = {}
    for file, source in FILES.items():
        text = from_template(source)
        files[filled(file)] = notebook(text) if file.endswith(".ipynb") else text
    for page, (entry, source) in LISTS.items():
        text = (root / page).read_text(encoding="utf-8")
        *_, before = (m for m in re.finditer(entry, text, re.MULTILINE) if m[1] < number)
        files[page] = text[: before.end()] + from_template(source) + text[before.end() :]
    for file, text in files.items():
        (root / file).write_text(text, encoding="utf-8")
    return list(files)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("name", help="two digits and one or two words, such as 28_name")
    parser.add_argument("--side-trip", action="store_true", help="from the chapter of that number")
    options = parser.parse_args()
    next_step = "What to do next: CONTRIBUTING.md,"
    if options.side_trip:
        try:
            print("wrote:", write_side_trip(options.name), f"{next_step} 'A side trip'", sep="\n")
        except ValueError as error:
            parser.error(str(error))
    elif wrong := problem(options.name):
        parser.error(wrong)
    else:
        files = write(options.name)
        print("wrote:", *files, f"{next_step} 'A new chapter'", sep="\n")
