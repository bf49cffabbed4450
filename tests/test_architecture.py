"""Imports point down, modules stay small, and the package is what the chapters export."""

import ast
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

import nbformat
from code_metrics import code_lines, definitions

import notebooks
from course_lib.exercises.check import MODULES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "course_lib"
ORDER = (  # who stands in one line imports nothing of the others there
    ("__init__", "learn"),
    ("input_checks",),
    ("attention_capture",),
    ("atomic_write",),
    ("data",),
    *((module,) for module in MODULES),
    ("interop", "trainer"),
    ("tasks",),
    ("probes",),
    ("exercises", "viz"),
    ("cli",),
)
MIRRORS = {"trials", "mistakes", "solutions"}  # of exercises: named as the modules they serve
NOTEBOOK_ONLY = {"matplotlib", "ipywidgets", "IPython", "jupyterlab"}
FILES = sorted(PACKAGE.rglob("*.py"))
SOURCES = {path: path.read_text(encoding="utf-8") for path in FILES}
TREES = {path: ast.parse(source) for path, source in SOURCES.items()}


def room(path: Path) -> str:
    """Name the module or the folder of the package that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def dotted(path: Path) -> str:
    """Return the name under which a file is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULE_NAMES = {dotted(path) for path in FILES}


def imports(path: Path) -> set[str]:
    """List the modules that a file imports, with relative imports spelled out."""
    found = set()
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = f"course_lib.{node.module}" if node.level else node.module
            inside = {f"{source}.{alias.name}" for alias in node.names}
            found |= inside & MODULE_NAMES or {source}
    return found


def test_imports_point_down():
    for path in FILES:
        (place,) = (n for n, names in enumerate(ORDER) if room(path) in names)
        below = {name for names in ORDER[:place] for name in names}
        ours = {name.split(".")[1] for name in imports(path) if name.startswith("course_lib.")}
        assert ours - {room(path)} <= below, path


def test_no_module_is_imported_by_what_it_imports():
    graph = {dotted(path): imports(path) & MODULE_NAMES for path in FILES}
    assert set(TopologicalSorter(graph).static_order()) == MODULE_NAMES  # or it names the circle


def test_a_module_has_a_name_of_its_own():
    own = [path for path in FILES if path.parent.name not in MIRRORS]
    names = Counter(p.parent.name if p.name == "__init__.py" else p.stem for p in own)
    assert max(names.values()) == 1, names.most_common(1)


def test_a_model_is_usable_without_a_notebook():
    for path in FILES:
        if room(path) not in ("viz", "exercises"):  # exercises asks IPython where there is one
            assert not {name.split(".")[0] for name in imports(path)} & NOTEBOOK_ONLY, path


def test_nothing_is_imported_by_star_or_from_the_workbench():
    for path in FILES:
        assert "import *" not in SOURCES[path], path
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & {"notebooks", "tests", "tools"}, path


def test_one_loop_trains_all_tasks():
    """Chapter 11 shows a loop, which ends a step as the trainer does; other fits are small ones."""
    loops = {
        path.relative_to(PACKAGE).as_posix(): re.findall(r"optimizer[._]step\(", source)
        for path, source in SOURCES.items()
        if room(path) != "exercises"
    }
    assert {path: set(steps) for path, steps in loops.items() if steps} == {
        "training.py": {"optimizer.step(", "optimizer_step("},
        "trainer/loop.py": {"optimizer_step("},
        "probes/training_probes.py": {"optimizer.step("},
        "viz/position_explorer.py": {"optimizer.step("},
    }


def test_later_chapters_train_with_the_trainer():
    """What else makes steps behind chapter 11 is no training of a model on a corpus."""
    cells = [
        (chapter.stem, re.findall(r"^def (\w+)", cell.source, re.MULTILINE))
        for chapter in notebooks.chapters()
        if chapter.stem > "12"
        for cell in nbformat.read(chapter, as_version=4).cells
        if cell.cell_type == "code" and "optimizer.step(" in cell.source
    ]
    assert cells == [
        ("18_decoder_only", ["learn_to_repeat"]),
        ("21_modern_models", ["usage"]),
        ("24_efficiency", ["step"]),
        ("25_distributed_training", ["after_adam"]),
    ]


def test_modules_are_small():
    for path, source in SOURCES.items():
        a_table = (
            path.parent.name in ("mistakes", "trials") or path.stem == "predictions"
        )  # of data
        assert code_lines(source) <= (550 if a_table else 300), path
        for node in definitions(TREES[path]):
            length = code_lines(source, node.lineno, node.end_lineno)
            limit = 80 if isinstance(node, ast.ClassDef) else 30
            assert length <= limit, f"{path}: {node.name} has {length} lines"


def test_everything_public_says_what_it_does():
    for path, tree in TREES.items():
        assert ast.get_docstring(tree), path
        for node in definitions(tree):
            assert ast.get_docstring(node) or node.name.startswith("__"), (path, node.name)


def test_package_equals_what_the_chapters_export():
    assert notebooks.out_of_step() == []


def test_the_command_line_loads_no_notebook_library():
    names = ", ".join(
        f"course_lib.{name}" for name in (*MODULES, "interop", "tasks.numbers", "exercises", "cli")
    )
    forbidden = sorted(NOTEBOOK_ONLY)
    code = f"import {names}, sys; print([m for m in {forbidden} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr
