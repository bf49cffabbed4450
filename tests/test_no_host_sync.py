"""A training step never waits for the device."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from dimensions import PAD
from random_inputs import make_generator, padded_ids, tiny_config
from tiny_tasks import REAL, WRITER, write_play
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from course_lib.tasks.language_model import LanguageModel
from course_lib.tasks.multi30k import Multi30k
from course_lib.trainer import loop
from course_lib.trainer.loop import make_step, start
from course_lib.training import ADAM, training_step, translation_loss
from course_lib.transformer import Transformer

UNREADABLE = "meta"  # tensors on this device have no numbers, so reading one raises an error
WORDS = (Tensor.__repr__, Tensor.__str__, Tensor.__format__)


class NoWords(TorchFunctionMode):
    """Raise an error if a tensor is printed, because even the meta device has a text for it."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        assert func not in WORDS, "a tensor was printed"
        return func(*args, **(kwargs or {}))


def plain_step(device, bfloat16, folder):
    """Prepare chapter 11's step, and return the model, the optimizer's owner, and the step."""
    model, owner = Transformer(tiny_config(dropout=0.1)).to(device), nn.Module()
    src, tgt = (ids.to(device) for ids in padded_ids(make_generator()))

    def step():
        loss = translation_loss(model, src, tgt, pad_id=PAD)
        training_step(model, owner.optimizer, [loss], 0.1)

    return model, owner, step


def real_step(device, bfloat16, folder):
    """Prepare chapter 17's step."""
    run = start(Multi30k, replace(REAL, bfloat16=bfloat16))
    run.losses = run.losses.to(device)
    return run.pipeline.model.to(device), run, lambda: make_step(run)


def language_step(device, bfloat16, folder):
    """Prepare chapter 19's step."""
    config = replace(WRITER, bfloat16=bfloat16)
    data = write_play(folder / "data")
    run = start(LanguageModel, config, data=data)
    run.losses = run.losses.to(device)
    return run.pipeline.model.to(device), run, lambda: make_step(run)


STEPS = {"plain": plain_step, "real": real_step, "language": language_step}
every_step = pytest.mark.parametrize("name", STEPS)


def prepare(name, device, folder, bfloat16=False):
    """Return a model in training mode and its step, with Adam on the device."""
    model, owner, step = STEPS[name](device, bfloat16, folder)
    owner.optimizer = torch.optim.Adam(model.parameters(), **ADAM)
    return model.train(), step


@every_step
@pytest.mark.parametrize("bfloat16", [False, True])
def test_a_step_never_waits_for_the_device(name, bfloat16, monkeypatch, tmp_path):
    monkeypatch.setattr(loop, "mixed_precision", lambda *_: nullcontext())
    model, step = prepare(name, UNREADABLE, tmp_path, bfloat16)
    with NoWords():
        step()
    assert {p.device.type for p in model.parameters()} == {UNREADABLE}
