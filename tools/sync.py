"""Bring modules, chapters, figures, records and pages up to date after a change.

Only the steps that a change affects are run, so a second run does nothing.
"""

import argparse
import re
import subprocess
import sys
from modulefinder import ModuleFinder
from pathlib import Path

from changed_files import CODE, code_of, keep, on_disk, since_sync
from nbclient.exceptions import CellExecutionError

from notebooks import ROOT, export, out_of_step, pages, run

STEPS = {  # scripts, and the paths whose changes make each of them necessary
    "tools/chapter_times.py": "course_lib notebooks README docs",
    "tools/navigation.py": "notebooks",
    "figures/src/draw_all.py": "figures course_lib notebooks benchmarks",
    "tools/embed_pictures.py": "figures notebooks",
    "tests/mutants/mutants.py": "course_lib/exercises/bank course_lib/probes",
    "tools/update_results.py": "README docs course_lib notebooks benchmarks tests/mutants tools",
}


def needed(chapter: str) -> set[str]:
    """Return the files of the package that a chapter imports, directly or indirectly.

    The imports of the checks, which import every model, are left out; ``shown`` covers the checks.
    """
    code = compile(code_of(on_disk(chapter)), chapter, "exec")
    exercises = "course_lib.exercises"
    modules = {f"course_lib.{path.stem}" for path in (ROOT / "course_lib").iterdir()}
    files = set()
    for excluded in ({exercises}, modules - {exercises}):
        finder = ModuleFinder(path=[str(ROOT)], excludes=list(excluded))
        finder.scan_code(code, finder.add_module("__main__"))
        files |= {module.__file__ for module in finder.modules.values() if module.__file__}
    return {str(Path(file).relative_to(ROOT)) for file in files}


def shown(chapter: str) -> set[str]:
    """Return the records and the exercise-bank modules that a chapter's outputs depend on."""
    # imported after the export, because the list of exercises is read once
    from course_lib.exercises.checking.exercise import exercises, find_exercise
    from course_lib.exercises.questions.question import questions

    homes = {
        name: f"course_lib/exercises/bank/{find_exercise(name).module}.py" for name in exercises()
    }
    code = code_of(on_disk(chapter))
    records = {f"course_lib/records/{n}.json" for n in re.findall(r'read_record\("(\w+)"', code)}
    here = [one for one in questions() if Path(chapter).name.startswith(f"{one.chapter:02}_")]
    names = {getattr(one, "exercise", "") for one in here}
    names |= {mistake.exercise for one in here for mistake in getattr(one, "mistakes", ())}
    names |= set(re.findall(r'^check\("(\w+)"', code, re.MULTILINE))
    return records | {homes[name] for name in names & homes.keys()}


def reason(chapter: str, changed: set[str]) -> str:
    """Return why a chapter has to be executed, or nothing if it does not."""
    if chapter + CODE in changed:
        return "its code changed"
    counts = re.findall(rb'^   "execution_count": (.+),$', on_disk(chapter), re.MULTILINE)
    if counts != [str(n + 1).encode() for n in range(len(counts))]:
        return "its saved outputs are not from one top-to-bottom run"
    used = changed & (needed(chapter) | shown(chapter)) if changed else set()
    return f"{min(used)} changed" if used else ""


def main() -> None:
    """Run every step that a change makes necessary, and print which steps these are."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0], allow_abbrev=False)
    parser.add_argument("--all", action="store_true", help="run every step, even without a change")
    everything = parser.parse_args().all
    for tidy in (["check", "--select", "I", "--fix", "--quiet"], ["format", "--quiet"]):
        subprocess.run([sys.executable, "-m", "ruff", *tidy, "."], cwd=ROOT, check=True)
    if stale := out_of_step():
        export()
        print("exported from the chapters:", ", ".join(stale))
    for script, places in STEPS.items():
        changed = since_sync()
        if everything or any(file.startswith(tuple(places.split())) for file in changed):
            print(f"{script}: running", flush=True)
            subprocess.run([sys.executable, ROOT / script], cwd=ROOT, check=True)
    for path in pages():
        chapter = path.relative_to(ROOT).as_posix()
        if why := "--all" if everything else reason(chapter, changed):
            print(f"{chapter}: executed, because {why}", flush=True)
            run(path)
    keep()


if __name__ == "__main__":
    try:
        main()
    except (CellExecutionError, subprocess.CalledProcessError) as error:
        sys.exit(f"{error}\nFix this, and run make sync again.")
