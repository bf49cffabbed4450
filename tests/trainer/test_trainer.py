"""Settings, stopping and records work in the same way for all tasks."""

import math
import signal
from dataclasses import fields, replace
from operator import itemgetter

import pytest
import torch
from parity import says

from course_lib.records.results import add_entry, read_entries
from course_lib.tasks.language_model import LanguageModel, TextGeneratorConfig
from course_lib.tasks.multi30k import Multi30k, RealConfig
from course_lib.tasks.numbers import Numbers, TranslatorConfig
from course_lib.trainer import hardware
from course_lib.trainer.hardware import check_memory
from course_lib.trainer.loop import graceful_shutdown

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("config", [TranslatorConfig(), RealConfig(), TextGeneratorConfig()])
def test_every_value_of_a_configuration_is_checked_and_named(config):
    wrong = {float: (-1.0, math.nan), int: (-1, 1.5), bool: (), str: ("another",)}
    for field in fields(config):
        for value in wrong.get(field.type, ()):
            with pytest.raises(ValueError, match=says(field.name, value)):
                replace(config, **{field.name: value})


@pytest.mark.parametrize("task", [Numbers, Multi30k, LanguageModel])
def test_the_memory_estimate_of_a_model_is_a_lower_bound(task, monkeypatch):
    config = task.pipeline_class.config_class()
    with torch.device("meta"):
        model = task.pipeline_class.model_class(config.of_model(96))
    needed = 16 * sum(parameter.numel() for parameter in model.parameters())
    monkeypatch.setattr(hardware, "total_memory", lambda: needed)
    check_memory(config, 96)
    monkeypatch.setattr(hardware, "total_memory", lambda: 0.7 * needed)
    with pytest.raises(ValueError, match="GB of memory"):
        check_memory(config, 96)


@pytest.mark.parametrize("number", SIGNALS)
def test_one_signal_requests_a_stop_a_second_one_stops_and_handlers_are_restored(number):
    before = [signal.getsignal(n) for n in SIGNALS]
    with pytest.raises(KeyboardInterrupt), graceful_shutdown() as stop:
        assert not stop()
        signal.raise_signal(number)
        assert stop()
        signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(n) for n in SIGNALS] == before


def test_a_record_is_readable_and_contains_no_nan(tmp_path):
    path = tmp_path / "some" / "where.json"
    for loss in (2.5, 1.5):
        add_entry(path, {"loss": loss, "text": "zwölf\n"}, itemgetter("loss"))
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [lines[0], lines[-1], len(lines)] == ["[", "]", 4]  # one line per entry for short diffs
    assert "zwölf" in lines[1] and '"loss": 1.5' in lines[1]
    with pytest.raises(ValueError, match="JSON"):
        add_entry(path, {"loss": math.nan}, itemgetter("loss"))
    assert len(read_entries(path)) == 2
