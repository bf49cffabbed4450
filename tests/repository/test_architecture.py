"""Imports point down, modules stay small, and the package equals the chapters' exports."""

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import nbformat
import pytest
from code_metrics import code_lines, core_lines, definitions
from torch import nn

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
    """List the modules that a file imports."""
    return imported(TREES[path])


def imported(tree: ast.Module) -> set[str]:
    """List the modules that a source imports, with relative imports spelled out."""
    found: set[str] = set()
    for node in ast.walk(tree):
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


def test_module_names_are_unique():
    own = [path for path in FILES if path.parent.name != "bank"]
    names = Counter(p.parent.name if p.name == "__init__.py" else p.stem for p in own)
    assert max(names.values()) == 1, names.most_common(1)


def test_a_model_is_usable_without_a_notebook():
    for path in FILES:
        if room(path) not in ("viz", "exercises"):  # exercises uses IPython if it is running
            assert not {name.split(".")[0] for name in imports(path)} & NOTEBOOK_ONLY, path


def test_nothing_imports_a_script_that_is_run_by_hand():
    scripts = {
        path.stem for name in ("benchmarks", "experiments") for path in (ROOT / name).glob("*.py")
    }
    readers = [
        path for name in ("figures", "tests", "tools") for path in (ROOT / name).rglob("*.py")
    ]
    assert len(scripts) > 20 and len(readers) > 100
    for tree in [*TREES.values(), *(ast.parse(path.read_text("utf-8")) for path in readers)]:
        assert not imported(tree) & scripts, ast.get_docstring(tree)


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


def test_later_chapters_train_with_the_trainer():
    """After chapter 11, only toy examples have their own optimizer steps."""
    cells = [
        (chapter.stem, re.findall(r"^def (\w+)", cell.source, re.MULTILINE))
        for chapter in notebooks.chapters()
        if chapter.stem > "12"
        for cell in nbformat.read(chapter, as_version=4).cells
        if cell.cell_type == "code" and "optimizer.step(" in cell.source
    ]
    assert cells == [
        ("20_interpretability", ["train"]),
        ("22_published_weights", []),  # eight answers, with adapters
        ("26_efficiency", ["step"]),
        ("27_distributed_training", ["learn"]),
        ("27_distributed_training", ["after_adam"]),
    ]


PARTS = MODULES[: MODULES.index("transformer") + 1]  # the model: attention to transformer
LAYER = "d_model, num_heads, d_ff, dropout, norm_first, activation, *, d_k, d_v"
LAYER += ", attention_dropout, activation_dropout"
SIGNATURES = {  # the names that other parts rely on, in this order
    "attention.scaled_dot_product_attention": "query, key, value, mask",
    "multi_head.split_heads": "x, num_heads",
    "multi_head.join_heads": "x",
    "multi_head.MultiHeadAttention": "d_model, num_heads, *, d_k, d_v, dropout, bias",
    "multi_head.MultiHeadAttention.forward": "query, key, value, mask, *, need_weights",
    "positions.PositionalEncoding": "d_model, max_len, dropout",
    "positions.PositionalEncoding.forward": "x, start",
    "positions.LearnedPositionalEmbedding": "d_model, max_len, dropout",
    "positions.LearnedPositionalEmbedding.forward": "x, start",
    "add_norm.LayerNorm": "d_model, eps",
    "add_norm.LayerNorm.forward": "x",
    "add_norm.AddNorm": "d_model, dropout, norm_first, *, bias",
    "add_norm.AddNorm.forward": "x, sublayer",
    "feed_forward.FeedForward": "d_model, d_ff, dropout, activation, *, bias",
    "feed_forward.FeedForward.forward": "x",
    "masks.causal_mask": "length, device",
    "masks.padding_mask": "ids, pad_id",
    "encoder.EncoderLayer": LAYER,
    "encoder.EncoderLayer.forward": "x, mask",
    "encoder.Encoder": f"num_layers, {LAYER}",
    "encoder.Encoder.forward": "x, mask",
    "decoder.DecoderLayer": LAYER,
    "decoder.DecoderLayer.forward": "x, memory, self_mask, cross_mask",
    "decoder.Decoder": f"num_layers, {LAYER}",
    "decoder.Decoder.forward": "x, memory, self_mask, cross_mask",
    "transformer.Transformer": "config",
    "transformer.Transformer.encode": "src",
    "transformer.Transformer.hidden": "tgt, memory, src",
    "transformer.Transformer.decode": "tgt, memory, src",
    "transformer.Transformer.forward": "src, tgt",
    "transformer.Transformer.attention_maps": "src, tgt",
    "gpt.GPT": "config",
    "gpt.GPT.forward": "ids, targets",
}
FUNCTIONS = {  # functions whose signatures the design fixes
    "tokenization.train_bpe": "text, num_merges, *, pre_tokenize",
    "tokenization.BPETokenizer": "merges, special_tokens, pre_tokenize",
    "tokenization.BPETokenizer.encode": "text",
    "tokenization.BPETokenizer.decode": "ids",
    "kv_cache.AttentionCache": "max_len",
    "kv_cache.AttentionCache.append": "keys, values",
    "kv_cache.AttentionCache.reorder": "rows",
    "kv_cache.AttentionCache.truncate": "length",
    "kv_cache.DecodingEngine": "model, src, max_len",
    "kv_cache.DecodingEngine.step": "ids, *, all_positions",
    "kv_cache.DecodingEngine.reorder": "rows, sources",
    "kv_cache.DecodingEngine.truncate": "length",
    "gpt.GPTEngine": "model, max_len",
    "gpt.GPTEngine.step": "ids, *, all_positions",
    "modern_decoder.ModernEngine": "model, max_len",
    "modern_decoder.ModernEngine.step": "ids, *, all_positions",
    "gpt.sample": "model, ids, max_new_tokens, temperature, top_k, top_p, generator, *, use_cache",
}


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of an object by its dotted name, without ``self``."""
    module, *path = name.split(".")
    found = import_module(f"course_lib.{module}")
    for part in path:
        found = getattr(found, part)
    named = inspect.signature(found).parameters
    return {key: value for key, value in named.items() if key != "self"}


def written_out(named: dict[str, inspect.Parameter]) -> str:
    """Write the names of parameters in order, with a star before keyword-only parameters."""
    names, by_name = [], False
    for name, parameter in named.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not by_name:
            names, by_name = [*names, "*"], True
        names.append(name)
    return ", ".join(names)


@pytest.mark.parametrize("name, names", (SIGNATURES | FUNCTIONS).items())
def test_the_signatures_are_the_ones_that_other_code_relies_on(name, names):
    assert written_out(parameters(name)) == names


def test_every_method_of_a_model_class_has_a_known_and_typed_signature():
    for module in PARTS:
        loaded = import_module(f"course_lib.{module}")
        for name, model in inspect.getmembers(loaded, inspect.isclass):
            if model.__module__ == loaded.__name__ and issubclass(model, nn.Module):
                methods = [x for x, f in vars(model).items() if inspect.isfunction(f)]
                public = [f"{module}.{name}.{x}" for x in methods if not x.startswith("_")]
                for dotted in (f"{module}.{name}", *public):
                    assert dotted in SIGNATURES
                    assert not any("Any" in str(p.annotation) for p in parameters(dotted).values())


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


def test_attention_loads_nothing_of_the_terminal():
    ours = "[name for name in sys.modules if name.split('.')[0] == 'course_lib']"
    code = f"import sys, course_lib.attention; print({ours})"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    loaded = {name.removeprefix("course_lib.") for name in ast.literal_eval(result.stdout)}
    assert loaded >= {"attention", "support.input_checks"}
    assert {name.split(".")[0] for name in loaded} == {"course_lib", "attention", "support"}


def test_the_command_line_does_not_load_a_notebook_library():
    names = ", ".join(
        f"course_lib.{name}" for name in (*MODULES, "interop", "tasks.numbers", "exercises", "cli")
    )
    forbidden = sorted(NOTEBOOK_ONLY)
    code = f"import {names}, sys; print([m for m in {forbidden} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr


def test_chapters_00_to_09_run_without_the_library_tokenizers():
    early = [path.read_text(encoding="utf-8") for path in notebooks.chapters() if path.name < "10"]
    used = set(re.findall(r'^ *"from (course_lib[\w.]*) import', "\n".join(early), re.MULTILINE))
    assert used >= {f"course_lib.{name}" for name in PARTS if name != "transformer"}
    names = ", ".join(sorted({*used, "course_lib.data", "course_lib.transformer"}))
    code = f"import sys; sys.modules['tokenizers'] = None; import {names}"
    subprocess.run([sys.executable, "-c", code], check=True)
