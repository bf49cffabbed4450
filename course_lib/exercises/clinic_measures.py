"""Measure a model of the clinic: each returns a sentence, and whether it shows the symptom."""

import torch

from course_lib.exercises.clinic_models import (
    LENGTHS,
    PAD,
    ROWS,
    Patient,
    fit,
    fraction_right,
    mixed_rows,
    rows_of,
    sequence_loss,
    write,
)

Seen = tuple[str, bool]


def loss_and_writing(patient: Patient) -> Seen:
    """Train the model, and decode."""
    model, losses = patient.trained()
    right = fraction_right(patient.parts, model)
    said = f"the loss ends at {losses[-1]:.2f}; {right:.0%} of the sequences are written right"
    return said, losses[-1] < 0.1 and right < 0.5


def one_row(patient: Patient) -> Seen:
    """Memorize one row."""
    src, tgt = rows_of(LENGTHS[-1], seed=0, rows=1)
    model = patient.fresh()
    losses = fit(patient.parts, model, batch=lambda step: (src, tgt))
    with torch.no_grad():
        right = (model(src, tgt[:, :-1]).argmax(-1) == tgt[:, 1:]).float().mean().item()
    said = f"one row, {len(losses)} times: {right:.0%} of its tokens are right, "
    return f"{said}and the loss stops at {losses[-1]:.2f}", right == 1 and losses[-1] > 1


def what_the_optimizer_gets(patient: Patient) -> Seen:
    """Compare the number of parameters with the right one."""
    given, due = (
        sum(p.numel() for p in model.parameters()) for model in (patient.fresh(), Patient().fresh())
    )
    return f"the optimizer moves {given:,} of {due:,} parameters", given < due


def alone_and_in_a_batch(patient: Patient) -> Seen:
    """Decode each sequence alone, and all of them in one padded batch."""
    model = patient.with_good_weights()
    src, wanted = mixed_rows()
    rows = [row[row != PAD].unsqueeze(0) for row in src]
    written = [write(patient.parts, model, row)[0] for row in rows]
    alone = [mine == text for mine, text in zip(written, wanted, strict=True)]
    together = fraction_right(patient.parts, model)
    said = f"alone, {sum(alone) / len(alone):.0%} are right; in a batch, {together:.0%}"
    return said, together < 0.9 * sum(alone) / len(alone)


def both_modes(patient: Patient) -> Seen:
    """Compute the loss of the same rows in training mode and in eval mode."""
    model = patient.with_good_weights()
    rows = rows_of(LENGTHS[-1], seed=10**6)
    with torch.no_grad():
        losses = [sequence_loss(model.train(mode), *rows).item() for mode in (True, False)]
    said = "the same rows, no dropout: loss {:.2f} in training mode, {:.2f} in eval mode"
    return said.format(*losses), abs(losses[0] - losses[1]) > 0.1


def half_precision(patient: Patient) -> Seen:
    """Compute the logits of a batch in float32 and in float16."""
    rows = rows_of(LENGTHS[-1], seed=10**6)
    losses = []
    for kind in (torch.float32, torch.float16):
        with torch.no_grad():
            logits = patient.with_good_weights().to(kind)(rows[0], rows[1][:, :-1])
        losses.append(logits.float().logsumexp(-1).mean().item())
    bad = not torch.tensor(losses).isfinite().all()
    return "mean of log Σ exp of the logits: {:.2f} in float32, {:.2f} in float16".format(
        *losses
    ), bad


def forced_and_free(patient: Patient) -> Seen:
    """Count right tokens under teacher forcing, and right sequences in free running."""
    model = patient.with_good_weights()
    src, tgt = rows_of(LENGTHS[-1], seed=10**6)
    with torch.no_grad():
        forced = (model(src, tgt[:, :-1]).argmax(-1) == tgt[:, 1:]).float().mean().item()
    free = fraction_right(patient.parts, model)
    said = f"teacher-forced, {forced:.0%} of the tokens are right; free-running, {free:.0%}"
    return f"{said} of the sequences", free < forced - 0.3


def same_sequence_many_times(patient: Patient) -> Seen:
    """Decode many copies of the same source."""
    model, _ = patient.trained()
    src = rows_of(LENGTHS[-1], seed=10**6)[0][1:2].expand(ROWS, -1)
    answers = len(set(map(tuple, write(patient.parts, model, src))))
    return f"{ROWS} times the same source: {_answers(answers)}", answers > 1


def _answers(count: int) -> str:
    """Say how many different answers there are."""
    return f"{count} different answers" if count > 1 else "one answer"


def one_batch_after_another(patient: Patient) -> Seen:
    """Decode the same batch before and after one with padding."""
    model = patient.with_good_weights()
    src, tgt = rows_of(LENGTHS[-1], seed=10**6)
    padded = src.clone()
    padded[:, 1:] = PAD
    wanted = [row[1:-1] for row in tgt.tolist()]
    right = []
    for batch in (src, padded, src):
        written = write(patient.parts, model, batch)
        right.append(sum(a == b for a, b in zip(written, wanted, strict=True)) / ROWS)
    said = f"a batch: {right[0]:.0%} right; the same one, after another: {right[2]:.0%}"
    return said, right[2] < right[0]


def loss_and_one_answer(patient: Patient) -> Seen:
    """Train the model, and decode one source."""
    model, losses = patient.trained()
    src, tgt = rows_of(LENGTHS[-1], seed=10**6, rows=1)
    written = write(patient.parts, model, src)[0]
    said = f"the loss ends at {losses[-1]:.2f}; to {src[0].tolist()} it writes {written}"
    return said, losses[-1] < 0.1 and written != tgt[0, 1:-1].tolist()


def weights_of_another(patient: Patient) -> Seen:
    """Load the weights of a right model, and compare the logits."""
    src, tgt = rows_of(LENGTHS[-1], seed=10**6)
    with torch.no_grad():
        there, here = (p.with_good_weights()(src, tgt) for p in (Patient(), patient))
    gap = (there - here).abs().max().item()
    return f"the same weights elsewhere: the largest difference of a logit is {gap:.1f}", gap > 0.01


def how_many_answers(patient: Patient) -> Seen:
    """Count the different answers to different sources."""
    model, _ = patient.trained()
    sources = rows_of(LENGTHS[-1], seed=10**6)[0].unique(dim=0)
    answers = len(set(map(tuple, write(patient.parts, model, sources))))
    return f"{len(sources)} different sources: {_answers(answers)}", answers < 10


def what_has_moved(patient: Patient) -> Seen:
    """Train for a few steps, and compare with the initial weights."""
    model = patient.fresh()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    fit(patient.parts, model, steps=10)
    still = sum(p.equal(start[name]) for name, p in model.named_parameters())
    said = f"after 10 steps, {still} of {len(start)} tensors of weights are exactly as they began"
    return said, still > 0
