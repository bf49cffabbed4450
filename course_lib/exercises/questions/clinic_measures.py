"""Measure the clinic's symptoms; return a sentence and whether the model has the symptom."""

import torch
from torch import Tensor, nn

from course_lib.data import pad_rows
from course_lib.exercises.questions.clinic_models import (
    BOS,
    EOS,
    LENGTHS,
    PAD,
    ROWS,
    Patient,
    mixed_rows,
    rows_of,
)

Measurement = tuple[str, bool]
ROUNDING = 1e-3  # of a logit
SRC, TGT = rows_of(LENGTHS[-1], seed=10**6)  # rows that no model has seen in training


@torch.no_grad()
def computes_the_same(patient: Patient) -> bool:
    """Load the healthy model's weights into a model; return whether both models then agree.

    Raises:
        RuntimeError: If the model cannot load the weights because its parameters have other names.
    """
    src, wanted = mixed_rows()
    tgt = pad_rows([[BOS, *row, EOS] for row in wanted], PAD)
    real = tgt[:, 1:] != PAD
    numbers, outputs = [], []
    for each in (Patient(), patient):
        model = each.with_good_weights()
        logits = [model.train(mode)(src, tgt[:, :-1])[real].flatten() for mode in (True, False)]
        loss = each.parts.sequence_loss(model, src, tgt)
        numbers.append(torch.cat([*logits, loss.view(1)]))
        outputs.append(each.write(model, src))
    return outputs[0] == outputs[1] and numbers[0].allclose(numbers[1], atol=ROUNDING)


def loss_and_writing(patient: Patient) -> Measurement:
    """Train the model; measure its final loss and the fraction of correct outputs."""
    model, losses = patient.trained()
    right = patient.fraction_right(model, *mixed_rows())
    sentence = f"the final loss is {losses[-1]:.2f}, and {right:.0%} of the outputs are right"
    return sentence, losses[-1] < 0.1 and right < 0.5


@torch.no_grad()
def _teacher_forced(model: nn.Module, src: Tensor, tgt: Tensor) -> float:
    """Return the fraction of tokens that are correct under teacher forcing."""
    return (model(src, tgt[:, :-1]).argmax(-1) == tgt[:, 1:]).float().mean().item()


def one_row(patient: Patient) -> Measurement:
    """Train the model to memorize one row."""
    row = rows_of(LENGTHS[-1], seed=0, rows=1)
    model = patient.fresh()
    losses = patient.fit(model, batch=lambda step: row)
    right = _teacher_forced(model, *row)
    sentence = f"after {len(losses)} steps on one row, {right:.0%} of its tokens are right, "
    return f"{sentence}and the loss is {losses[-1]:.2f}", right == 1 and losses[-1] > 1


def what_the_optimizer_gets(patient: Patient) -> Measurement:
    """Compare the model's parameter count with the correct one."""
    moved, due = (
        sum(p.numel() for p in model.parameters()) for model in (patient.fresh(), Patient().fresh())
    )
    return f"the optimizer gets {moved:,} of {due:,} parameters", moved < due


def alone_and_in_a_batch(patient: Patient) -> Measurement:
    """Decode each sequence alone, and all of them in one padded batch."""
    model = patient.with_good_weights()
    src, wanted = mixed_rows()
    rows = zip(src, wanted, strict=True)
    right = [patient.fraction_right(model, row[row != PAD][None], [text]) for row, text in rows]
    alone = sum(right) / len(right)
    together = patient.fraction_right(model, src, wanted)
    return (
        f"{alone:.0%} of the outputs are right if decoded alone, and {together:.0%} in a batch",
        together < 0.9 * alone,
    )


@torch.no_grad()
def both_modes(patient: Patient) -> Measurement:
    """Compute the loss on the same rows in training mode and in eval mode."""
    model, loss = patient.with_good_weights(), patient.parts.sequence_loss
    losses = [loss(model.train(mode), SRC, TGT).item() for mode in (True, False)]
    sentence = "without dropout, the loss is {:.2f} in training mode and {:.2f} in eval mode"
    return sentence.format(*losses), abs(losses[0] - losses[1]) > 0.1


@torch.no_grad()
def half_precision(patient: Patient) -> Measurement:
    """Compute the logits for a batch in float32 and in float16."""
    means = []
    for kind in (torch.float32, torch.float16):
        logits = patient.with_good_weights().to(kind)(SRC, TGT[:, :-1])
        means.append(logits.float().logsumexp(-1).mean())
    sentence = "the mean log-sum-exp of the logits is {:.2f} in float32 and {:.2f} in float16"
    return sentence.format(*means), not torch.stack(means).isfinite().all()


def forced_and_free(patient: Patient) -> Measurement:
    """Count correct tokens under teacher forcing, and correct sequences when free-running."""
    model = patient.with_good_weights()
    forced = _teacher_forced(model, SRC, TGT)
    free = patient.fraction_right(model, *mixed_rows())
    sentence = f"with teacher forcing, {forced:.0%} of the tokens are right; without it, {free:.0%}"
    return f"{sentence} of the outputs", free < forced - 0.3


def same_sequence_many_times(patient: Patient) -> Measurement:
    """Decode many copies of the same source."""
    answers = patient.write(patient.with_good_weights(), SRC[:1].expand(ROWS, -1))
    same = answers == answers[:1] * ROWS
    given = "the same answer" if same else "different answers"
    return f"{ROWS} copies of the same source give {given}", not same


def how_many_answers(patient: Patient) -> Measurement:
    """Train the model, and count how many different answers it gives to different sources."""
    model, _ = patient.trained()
    sources = SRC.unique(dim=0)
    count = len(set(map(tuple, patient.write(model, sources))))
    answers = f"{count} different answers" if count > 1 else "one answer"
    return f"{len(sources)} different sources give {answers}", count < 10


def one_batch_after_another(patient: Patient) -> Measurement:
    """Decode the same batch before and after a batch with padding."""
    model = patient.with_good_weights()
    padded = SRC.clone()
    padded[:, 1:] = PAD
    wanted = TGT[:, 1:-1].tolist()
    right = [patient.fraction_right(model, batch, wanted) for batch in (SRC, padded, SRC)]
    sentence = f"{right[0]:.0%} of the outputs are right before a padded batch, and {right[2]:.0%} "
    return f"{sentence}after it", right[2] < right[0]


def loss_and_one_answer(patient: Patient) -> Measurement:
    """Train the model, and decode one source."""
    model, losses = patient.trained()
    src, tgt = rows_of(LENGTHS[-1], seed=10**6, rows=1)
    output = patient.write(model, src)[0]
    sentence = (
        f"the final loss is {losses[-1]:.2f}; for {src[0].tolist()}, the model writes {output}"
    )
    return sentence, losses[-1] < 0.1 and output != tgt[0, 1:-1].tolist()


@torch.no_grad()
def weights_of_another(patient: Patient) -> Measurement:
    """Load the weights of a correct model, and compare the logits of the two models."""
    there, here = (p.with_good_weights()(SRC, TGT) for p in (Patient(), patient))
    gap = (there - here).abs().max().item()
    sentence = f"with the same weights, the logits differ from the correct ones by {gap:.1f}"
    return sentence, gap > 0.01


def what_has_moved(patient: Patient) -> Measurement:
    """Train for a few steps, and count the weight tensors that have changed."""
    model = patient.fresh()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    patient.fit(model, steps=10)
    moved = sum(not p.equal(start[name]) for name, p in model.named_parameters())
    sentence = f"after 10 steps, {moved} of {len(start)} weight tensors have changed"
    return sentence, moved < len(start)
