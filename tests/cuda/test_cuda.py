"""On a GPU, models agree with torch, also if compiled, and tasks train as on the CPU.

Skipped without a GPU; to try the tests, ``COURSE_TEST_DEVICE=cpu`` runs what a CPU can.
"""

import os
from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from random_inputs import make_generator, random_ids
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib.cli.training_commands import TASKS
from course_lib.trainer.loop import make_step, start
from course_lib.transformer import Transformer, TransformerConfig

DEVICE = os.environ.get("COURSE_TEST_DEVICE", "cuda")
ON_GPU = DEVICE == "cuda"
pytestmark = pytest.mark.skipif(
    ON_GPU and not torch.cuda.is_available(), reason="no CUDA device was found"
)
PRECISIONS = {torch.float32: 1e-4, torch.bfloat16: 0.1}  # how far apart logits may be
LAYERS = dict(num_encoder_layers=2, num_decoder_layers=2)


def model_and_batch():
    """Return a model of ordinary size on the device, and ids with padding on both sides."""
    sizes = dict(d_model=128, num_heads=4, d_ff=256, dropout=0.0, max_len=64, **LAYERS)
    torch.manual_seed(0)
    config = TransformerConfig(src_vocab_size=96, tgt_vocab_size=96, **sizes)
    src, tgt = (random_ids(make_generator(seed), 96, 4, 24).clamp_min(1) for seed in (1, 2))
    src[1, 18:] = tgt[2, 9:] = 0
    return Transformer(config).to(DEVICE), src.to(DEVICE), tgt.to(DEVICE)


def loss_and_gradients(model, src, tgt, dtype=torch.float32):
    """Return the logits at real targets, and the gradients of the loss there."""
    with torch.autocast(DEVICE, torch.bfloat16, enabled=dtype == torch.bfloat16):
        logits = model(src, tgt[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=0)
    loss.backward()
    real = tgt[:, :-1] != 0
    return logits[real].float(), {name: p.grad.clone() for name, p in model.named_parameters()}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", PRECISIONS)
def test_logits_and_gradients_agree_with_the_cpu(dtype, compiled):
    model, src, tgt = model_and_batch()
    there = loss_and_gradients(deepcopy(model).cpu(), src.cpu(), tgt.cpu())
    model = torch.compile(model, fullgraph=True) if compiled else model
    here = loss_and_gradients(model, src, tgt, dtype)
    assert_close(here[0].cpu(), there[0], rtol=0, atol=PRECISIONS[dtype])
    for name, gradient in here[1].items():
        if name.endswith("w_k.bias"):  # its gradient is mathematically 0
            continue
        expected = there[1][name.removeprefix("_orig_mod.")]
        far = (gradient.cpu() - expected).norm() / (expected.norm() + 1e-4)
        assert far < 10 * PRECISIONS[dtype], name


def begin(name, device, **changes):
    """Begin a short training run of a task."""
    task = TASKS[name]
    sizes = {"gpt": dict(val_windows=5), "multi30k": dict(num_pairs=40), "numbers": {}}[name]
    config = task.pipeline_class.config_class(**task.sizes["smoke"] | sizes | dict(dropout=0.0))
    return start(task, replace(config, **changes), device=device)


@pytest.mark.parametrize("bfloat16", [False, True])
@pytest.mark.parametrize("name", TASKS)
def test_a_step_of_each_task_agrees_with_the_cpu_and_does_not_wait(name, bfloat16):
    expected = begin(name, "cpu")
    run = begin(name, DEVICE, bfloat16=bfloat16)
    for state in (expected, run):
        make_step(state)  # the first one prepares kernels
    if ON_GPU:
        torch.cuda.set_sync_debug_mode("error")  # the host never waits for a number
    try:
        make_step(run)
    finally:
        if ON_GPU:
            torch.cuda.set_sync_debug_mode("default")
    make_step(expected)
    far = 0.05 if bfloat16 else 1e-3
    assert_close(run.losses.cpu(), expected.losses, rtol=far, atol=0)
