"""Loss in chunks, mixed precision and averaged weights agree with the plain computation."""

from types import SimpleNamespace

import pytest
import torch
from dimensions import PAD, SRC_VOCAB
from random_inputs import make_generator, padded_ids, seeded, tiny_config
from torch import nn
from torch.nn import functional as F

from course_lib.trainer import chunked_loss
from course_lib.trainer.chunked_loss import ChunkedLoss
from course_lib.trainer.distributed import World
from course_lib.trainer.hardware import mixed_precision
from course_lib.trainer.run_folder import load_average, save_epoch, saved_epochs
from course_lib.training import label_smoothed_cross_entropy, translation_loss
from course_lib.transformer import Transformer

V = SRC_VOCAB  # on both sides


def make_model(tie="all"):
    with seeded():
        return Transformer(tiny_config(tgt_vocab_size=V, tie_embeddings=tie))


def make_batch():
    return padded_ids(make_generator())


def plain_loss(model, src, tgt, smoothing):
    """Compute the loss in the plain way, with all logits, and leave out padding afterward."""
    logits, right = model(src, tgt[:, :-1]), tgt[:, 1:]
    real = right != PAD
    return label_smoothed_cross_entropy(logits[real], right[real], smoothing=smoothing)


@pytest.mark.parametrize(("tie", "rows", "smoothing"), [("all", 4, 0.1), ("none", 1000, 0.0)])
def test_chunks_change_neither_loss_nor_gradient(tie, rows, smoothing, monkeypatch):
    monkeypatch.setattr(chunked_loss, "ROWS", rows)
    model, (src, tgt) = make_model(tie).double(), make_batch()
    expected = plain_loss(model, src, tgt, smoothing)
    wanted = torch.autograd.grad(expected, list(model.parameters()))
    loss = ChunkedLoss(model, smoothing)(src, tgt)
    torch.testing.assert_close(loss, expected, atol=1e-12, rtol=0)
    slopes = torch.autograd.grad(2.5 * loss, list(model.parameters()))
    for slope, other in zip(slopes, wanted, strict=True):
        torch.testing.assert_close(slope, 2.5 * other, atol=1e-12, rtol=0)


@pytest.mark.parametrize("tie", ["all", "none"])
@pytest.mark.parametrize("chunked", [True, False])
def test_a_batch_of_only_padding_has_loss_0_and_zero_gradients(tie, chunked):
    model, (src, tgt) = make_model(tie), (torch.full_like(ids, PAD) for ids in make_batch())
    loss = (
        ChunkedLoss(model)(src, tgt) if chunked else translation_loss(model, src, tgt, pad_id=PAD)
    )
    loss.backward()
    assert loss == 0
    assert all(p.grad is not None and (p.grad == 0).all() for p in model.parameters())


def test_bfloat16_is_close_with_gradients_in_float32():
    model, (src, tgt) = make_model(), make_batch()
    exact = ChunkedLoss(model)(src, tgt)
    expected = torch.autograd.grad(exact, list(model.parameters()))
    behind = []
    model.decoder.layers[0].self_attn.w_o.register_full_backward_hook(
        lambda *_: behind.append(torch.is_autocast_enabled("cpu"))
    )
    model.output.weight.register_hook(lambda _: behind.append(torch.is_autocast_enabled("cpu")))
    with mixed_precision():
        loss = ChunkedLoss(model, bfloat16=True)(src, tgt)
    loss.backward()
    assert len(behind) >= 2 and not any(behind)  # the backward pass is not under autocast
    assert loss.dtype == torch.float32
    assert 0 < abs(loss - exact) < 0.02 * exact  # 8 bits, so close but not equal
    for p in model.parameters():
        assert p.dtype == p.grad.dtype == torch.float32
    gradient = torch.cat([p.grad.flatten() for p in model.parameters()])
    assert F.cosine_similarity(gradient, torch.cat([g.flatten() for g in expected]), dim=0) > 0.999


def test_only_the_last_epochs_are_kept_and_averaged(tmp_path):
    model = nn.Linear(1, 1, bias=False)
    task = SimpleNamespace(keep_last=3)
    state = SimpleNamespace(task=task, pipeline=SimpleNamespace(model=model), world=World())
    for epoch in (12, 8, 9, 10, 11):  # 12 belongs to another training run
        nn.init.constant_(model.weight, epoch)
        state.step, state.history = epoch, epoch * [{"step": epoch}]
        save_epoch(state, tmp_path)
    state.step += 1  # between two measurements
    save_epoch(state, tmp_path)
    (tmp_path / "epoch-0012").mkdir()  # incomplete
    names = [path.name for path in saved_epochs(tmp_path)]
    assert names == ["epoch-0009", "epoch-0010", "epoch-0011"]
    load_average(tmp_path, 2, model)
    assert model.weight.item() == 10.5
    for count in (0, 4):
        with pytest.raises(ValueError, match=f"contains 3 epochs, so {count} cannot"):
            load_average(tmp_path, count, model)
