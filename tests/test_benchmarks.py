"""Each benchmark runs with tiny sizes, and compares only models that agree."""

import json
import runpy
import sys
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import bench
import bench_attention
import bench_decoding
import bench_generate
import bench_gpt
import bench_int8
import bench_mixed
import bench_training
import pytest
import timing
import torch
from torch import nn
from torch.testing import assert_close

from course_lib.data import draw_pairs
from course_lib.evaluation import exact_match
from course_lib.gpt import GPT
from course_lib.tasks.numbers import Numbers, TranslatorConfig

SIZES = {"base": (16, 2, 24, 1, 3)}
GPT_SIZE = (1, 2, 12, 16)
TINY = {
    timing: dict(TURN=0),
    bench_attention: dict(
        LENGTHS=(5, 9), ROUNDS=2, BACKEND="eager", can_compile=lambda: True
    ),
    bench_decoding: dict(SIZE="base", VOCAB=40, SENTENCES=2, SOURCE=5, ROUNDS={3: 2, 9: 1}),
    bench_generate: dict(
        D_MODEL=16, NUM_HEADS=2, LAYERS=1, VOCAB=40, SENTENCES=2, SOURCE=5, PROMPT=3, ROUNDS={4: 2}
    ),
    bench_gpt: dict(SIZES={GPT_SIZE: 2}),
    bench_mixed: dict(VOCAB=40, ROUNDS=3, BATCHES=1, PAIRS=100, bfloat16_pays=lambda: True),
    bench_training: dict(
        SIZES=SIZES, VOCAB=40, LENGTH=6, ROUNDS=2, BACKEND="eager", NOT_COMPILED=(),
        bfloat16_pays=lambda: True, can_compile=lambda: True,
    ),
}  # fmt: skip
RUNS = {
    "attention": bench_attention.bench_attention,
    "training": bench_training.bench_training,
    "mixed": partial(bench_mixed.bench_mixed, "base"),
    "decoding": bench_decoding.bench_decoding,
    "generate": bench_generate.bench_generate,
    "gpt": bench_gpt.bench_gpt,
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    """Make every benchmark small, and compile without a compiler."""
    for module, values in TINY.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


@pytest.mark.parametrize("part", RUNS)
def test_a_part_prints_and_records_rows_of_finite_numbers(part, monkeypatch, tmp_path, capsys):
    record = tmp_path / "bench.json"
    record.write_text('[{"part": "tests", "rows": [1]}]')
    monkeypatch.setitem(bench.PARTS, part, RUNS[part])
    threads = torch.get_num_threads()
    bench.measure([part], record)
    assert torch.get_num_threads() == threads
    measured, tests = json.loads(record.read_text())  # other parts stay, in the order of PARTS
    assert (measured["part"], tests) == (part, {"part": "tests", "rows": [1]})
    assert "torch" in measured["machine"] and measured["rows"]
    printed = capsys.readouterr().out
    for row in measured["rows"]:
        assert json.dumps(row, allow_nan=False)
        assert f"{row['table']}, {row['name']}: seconds" in printed
        assert row["ratio"]["min"] <= row["ratio"]["median"] <= row["ratio"]["max"]


def doubled(function, *arguments, **options):
    """Double the result of a function, or its loss."""
    answer = function(*arguments, **options)
    return (answer[0], 2 * answer[1]) if isinstance(answer, tuple) else 2 * answer


@pytest.mark.parametrize(
    ("part", "owner", "name"),
    [
        ("attention", bench_attention, "by_hand"),
        ("training", bench_training.TorchModel, "output"),
        ("decoding", bench_decoding, "decode_without_cache"),
        ("generate", bench_generate, "greedy_decode"),
        ("gpt", GPT, "forward"),
    ],
)
def test_models_that_do_not_agree_are_not_compared(part, owner, name, monkeypatch):
    function = getattr(owner, name)
    wrong = lambda *arguments, **options: doubled(function, *arguments, **options)  # noqa: E731
    monkeypatch.setattr(owner, name, wrong)
    with pytest.raises((RuntimeError, AssertionError), match="not the same"):
        list(RUNS[part]())


def test_torchs_models_agree_with_ours_including_gradients_and_padding():
    src, tgt = bench_training.full_batch("base")
    src[0, 4:], tgt[1, 3:] = bench_training.PAD, bench_training.PAD
    ours = bench_training.our_model("base", dropout=0.0)
    torch_model = bench_training.TorchModel(ours)
    losses = [bench_training.loss_of(model, src, tgt) for model in (ours, torch_model)]
    gpt = bench_gpt.our_model((2, 3, 12, 8))
    torch_gpt = bench_gpt.TorchGPT(gpt)
    ids, targets = torch.randint(bench_gpt.VOCAB, (2, 4, 7))
    losses += [model(ids, targets)[1] for model in (gpt, torch_gpt)]
    for loss in losses:
        loss.backward()
    assert_close(losses[::2], losses[1::2])
    assert_close(ours.tgt_embedding.weight.grad, torch_model.embedding.weight.grad)
    assert_close(gpt.embedding.weight.grad, torch_gpt.embedding.weight.grad)


def test_translators_are_compared_with_float32_in_score_and_size():
    plain = Numbers(TranslatorConfig(**Numbers.sizes["smoke"])).pipeline
    untied = replace(plain, model=deepcopy(plain.model))
    untied.model.output.weight = nn.Parameter(untied.model.output.weight.flip(0))
    translators = {"float32": plain, "untied": untied}
    pairs = draw_pairs("test", 4)
    rows = bench_int8.measure_quality(translators, pairs, exact_match)
    assert (rows["float32"]["same"], rows["untied"]["same"]) == (1, 0)
    added = rows["untied"]["megabytes"] - rows["float32"]["megabytes"]
    embedding = plain.model.tgt_embedding.weight.numel()
    assert added == pytest.approx(4 * embedding / 1e6, abs=0.02)


# --- how the time is taken, and the record


def test_actions_take_turns_and_none_is_always_first():
    order = []
    actions = [lambda name=name: order.append(name) for name in "abc"]
    seconds = timing.in_turns(actions, rounds=3)
    assert "".join(order) == "aabbcc" + "ccbbaa" + "aabbcc"  # each after a warm-up run
    assert [len(measured) for measured in seconds] == [3, 3, 3]


def test_a_row_contains_medians_and_the_range_of_the_ratio():
    row = timing.compared("table", "name", (1.0, 2.0, 4.0), (3.0, 2.0, 10.0), amount=2)
    assert row == {
        **dict(table="table", name="name", rounds=3),
        "seconds": dict(median=2.0, min=1.0, max=4.0),
        "ratio": dict(median=5.0, min=2.0, max=6.0),
    }
    assert timing.line(row) == "table, name: seconds 2 (1 to 4), ratio 5 (2 to 6), rounds 3"
    rounded = dict(median=66.667, min=0.33333, max=666670)
    assert timing.median_and_range([1 / 3, 200 / 3, 2e6 / 3]) == rounded


def test_mixed_lengths_count_the_real_tokens_of_both_sides(monkeypatch):
    monkeypatch.setattr(bench_mixed, "in_turns", lambda actions, rounds: [[6.0], [2.0]])
    monkeypatch.setattr(bench_mixed, "real_tokens", len)
    monkeypatch.setattr(bench_mixed, "our_batches", lambda pairs: range(10))
    (row,) = bench_mixed.bench_mixed("base")  # 10 in 2 seconds, and 1 in 6
    assert row["ratio"]["median"] == 30
    batches = [(torch.tensor([[5, 0]]), torch.tensor([[1, 7, 2, 0]]))]
    monkeypatch.undo()
    assert bench_mixed.real_tokens(batches) == 1 + 2


def test_saved_memory_counts_each_storage_once_and_no_parameters():
    model = nn.Linear(512, 256, bias=False)
    x = torch.ones(1024, 512, requires_grad=True)  # 2 MiB
    assert timing.saved_mib(model, lambda: model(x).relu().sum()) == 3  # x, and the ReLU's 1 MiB
    assert timing.saved_mib(model, lambda: (model(x) + model(x)).sum()) == 2


def test_the_seconds_of_the_tests_are_recorded_by_part_unless_a_test_failed(monkeypatch):
    times = {"style": 1.234, "chapters": 500.0, "all": 450.04}
    monkeypatch.setattr(bench, "run_all", lambda: (times, (7, 0, 1), []))
    style, chapters, whole = bench.bench_tests()
    assert style == {"table": "make test", "name": "style", "seconds": 1.2}
    assert (chapters["seconds"], whole["seconds"], whole["passed"]) == (500, 450.0, 7)
    monkeypatch.setattr(bench, "run_all", lambda: ({"style": 1.0}, (1, 2, 0), ["style"]))
    with pytest.raises(RuntimeError, match="style"):
        bench.bench_tests()


def test_the_command_in_the_makefile_finds_all_its_imports(monkeypatch, capsys):
    folder = Path(bench.__file__).parent
    tools = str(folder.parent / "tools")  # pytest adds it, but the command has to add it itself
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != tools])
    monkeypatch.delitem(sys.modules, "run_tests")
    monkeypatch.setattr(sys, "argv", ["bench.py", "nothing"])
    with pytest.raises(SystemExit, match="2"):
        runpy.run_path(str(folder / "bench.py"), run_name="__main__")
    assert "there is no part nothing" in capsys.readouterr().err
