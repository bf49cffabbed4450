"""Imports point down, modules stay small, and the package equals the chapters' exports."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

from code_metrics import code_lines, core_lines, definitions

import notebooks
from course_lib.exercises.checking.contents import chapters

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "course_lib"
# kv_cache is imported by decoding, although its chapter comes later
MODULES = sorted(chapters(), key=lambda name: 11.5 if name == "kv_cache" else chapters()[name])
ORDER = (  # modules on the same line do not import each other
    ("support",),
    ("__init__",),
    ("records", "data"),
    *((module,) for module in MODULES),
    ("interop", "trainer"),
    ("tasks",),
    ("probes",),
    ("exercises", "viz"),
    ("cli",),
)
NOTEBOOK_ONLY = {"matplotlib", "ipywidgets", "IPython", "jupyterlab"}
FILES = sorted(PACKAGE.rglob("*.py"))
SOURCES = {path: path.read_text(encoding="utf-8") for path in FILES}
TREES = {path: ast.parse(source) for path, source in SOURCES.items()}


def room(path: Path) -> str:
    """Return the module or the subpackage that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def dotted(path: Path) -> str:
    """Return the name under which a file is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULE_NAMES = {dotted(path) for path in FILES}


def imports(path: Path) -> set[str]:
    """List the modules that a file imports, with relative imports spelled out."""
    found: set[str] = set()
    for node in ast.walk(TREES[path]):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            source = f"course_lib.{node.module}" if node.level else node.module
            inside = {f"{source}.{alias.name}" for alias in node.names}
            found |= inside & MODULE_NAMES or {source}
    return found


def test_only_chapter_modules_stand_at_the_root():
    assert {path.stem for path in PACKAGE.glob("*.py")} == {"__init__", *chapters()}


def test_the_exercises_have_few_rooms_and_imports_between_them_point_down():
    rooms = ["checking", "bank", "questions", "library", "workbook", "grading"]
    inside = [path for path in FILES if room(path) == "exercises" and path.parent.name in rooms]
    assert {path.parent.name for path in inside} == set(rooms)
    assert [p.name for p in FILES if p.parent == PACKAGE / "exercises"] == ["__init__.py"]
    for path in inside:
        used = {name.split(".")[2] for name in imports(path) if name.startswith("course_lib.exer")}
        below = rooms[: rooms.index(path.parent.name) + 1]
        assert used <= set(below), path


def test_imports_point_down():
    for path in FILES:
        (place,) = (n for n, names in enumerate(ORDER) if room(path) in names)
        below = {name for names in ORDER[:place] for name in names}
        ours = {name.split(".")[1] for name in imports(path) if name.startswith("course_lib.")}
        assert ours - {room(path)} <= below, path


def test_imports_are_not_circular():
    graph = {dotted(path): imports(path) & MODULE_NAMES for path in FILES}
    assert set(TopologicalSorter(graph).static_order()) == MODULE_NAMES  # an error names the cycle


def test_a_model_is_usable_without_a_notebook():
    for path in FILES:
        if room(path) not in ("viz", "exercises"):  # exercises uses IPython if it is running
            assert not {name.split(".")[0] for name in imports(path)} & NOTEBOOK_ONLY, path


def test_nothing_imports_a_script_that_is_run_by_hand():
    scripts = {
        path.stem for name in ("benchmarks", "experiments") for path in (ROOT / name).glob("*.py")
    }
    rooms = "course_lib", "figures", "tests", "tools"
    readers = [path for name in rooms for path in (ROOT / name).rglob("*.py")]
    assert len(scripts) > 20 and len(readers) > 300
    for path in readers:
        named = re.findall(r"^ *(?:from|import) (\w+)", path.read_text("utf-8"), re.M)
        assert not {*named} & {*scripts, "benchmarks", "experiments"}, path


def test_no_file_uses_star_imports_or_imports_tests_and_notebooks():
    for path in FILES:
        assert "import *" not in SOURCES[path], path
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & {"notebooks", "tests", "tools"}, path


def test_one_loop_trains_all_tasks():
    """The trainer uses the step that chapter 11 exports; other training loops are small."""
    loops = {
        path.relative_to(PACKAGE).as_posix(): re.findall(
            r"optimizer\.step\(|training_step\(", source
        )
        for path, source in SOURCES.items()
        if room(path) != "exercises"
    }
    assert {path: set(steps) for path, steps in loops.items() if steps} == {
        "training.py": {"optimizer.step(", "training_step("},
        "trainer/loop.py": {"training_step("},
        "probes/training_probes.py": {"optimizer.step("},
    }


PARTS = MODULES[: MODULES.index("transformer") + 1]  # the model: attention to transformer


def test_a_model_class_stores_nothing_between_calls():
    """State that a call leaves behind would be set in ``forward``."""
    for module in (*PARTS, "decoder_only"):
        for node in definitions(TREES[PACKAGE / f"{module}.py"]):
            if isinstance(node, ast.FunctionDef) and node.name != "__init__":
                stored = [n for n in ast.walk(node) if isinstance(n, ast.Attribute | ast.Global)]
                assert not any(isinstance(getattr(n, "ctx", None), ast.Store) for n in stored)


def test_the_model_is_at_most_330_lines_of_code():
    assert sum(core_lines(SOURCES[PACKAGE / f"{module}.py"]) for module in PARTS) <= 330


def test_modules_are_small():
    for path, source in SOURCES.items():
        is_data = path.parent.name == "bank" or path.stem == "predictions"
        limit = 600 if is_data else 300
        assert code_lines(source) <= limit, f"split {path}: a module has at most {limit} lines"
        for node in definitions(TREES[path]):
            length = code_lines(source, node.lineno, node.end_lineno)
            limit = 80 if isinstance(node, ast.ClassDef) else 30
            assert length <= limit, f"{path}: {node.name} has {length} lines"


def is_trial(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Return whether a function is a trial, whose label and sentence replace a docstring."""
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    return node.name == "measure" or any(text.startswith("as_trial(") for text in decorators)


def test_everything_public_has_a_docstring():
    for path, tree in TREES.items():
        assert ast.get_docstring(tree), path
        for node in definitions(tree):
            described = ast.get_docstring(node) or node.name.startswith("__") or is_trial(node)
            assert described, (path, node.name)


def test_the_package_equals_the_chapters_exports():
    assert notebooks.out_of_step() == []
