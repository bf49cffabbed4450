"""The cases of the bug clinic: what is seen, what is wrong, and which probe tells."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from course_lib.exercises.check import known_mistakes
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
from course_lib.exercises.mistake_catalogue import Mistake, known

Seen = tuple[str, bool]  # what is seen, and whether a symptom is in it


@dataclass(frozen=True)
class Case:
    """Describe a model that is ill.

    Args:
        name: What one sees, in short.
        measure: Looks at a model; says what is seen, and whether the symptom is there.
        probe: The probe that tells most about the cause.
        mistakes: What is wrong; the first one names the cause.
        fresh: Whether the model to be probed is untrained.
    """

    name: str
    measure: Callable[[Patient], Seen]
    probe: str
    mistakes: tuple[Mistake, ...]
    fresh: bool = True
    chapter: int = 15
    kind: str = "diagnose"
    minutes: int = 5

    @property
    def cause(self) -> str:
        """Return the name of what is wrong."""
        return self.mistakes[0].name.replace("_", " ")


def catalogued(exercise: str, name: str) -> Mistake:
    """Return a mistake that the checks of an exercise know."""
    return next(mistake for mistake in known_mistakes(exercise) if mistake.name == name)


def loss_and_writing(patient: Patient) -> Seen:
    """Train, then let it write."""
    model, losses = patient.trained()
    right = fraction_right(patient.parts, model)
    said = f"the loss ends at {losses[-1]:.2f}; {right:.0%} of the sequences are written right"
    return said, losses[-1] < 0.1 and right < 0.5


def one_row(patient: Patient) -> Seen:
    """Learn one row by heart."""
    src, tgt = rows_of(LENGTHS[-1], seed=0, rows=1)
    model = patient.fresh()
    losses = fit(patient.parts, model, batch=lambda step: (src, tgt))
    with torch.no_grad():
        right = (model(src, tgt[:, :-1]).argmax(-1) == tgt[:, 1:]).float().mean().item()
    said = f"one row, {len(losses)} times: {right:.0%} of its tokens are right, "
    return f"{said}and the loss stops at {losses[-1]:.2f}", right == 1 and losses[-1] > 1


def what_the_optimizer_gets(patient: Patient) -> Seen:
    """Count the parameters, and those that there should be."""
    given, due = (
        sum(p.numel() for p in model.parameters()) for model in (patient.fresh(), Patient().fresh())
    )
    return f"the optimizer moves {given:,} of {due:,} parameters", given < due


def alone_and_in_a_batch(patient: Patient) -> Seen:
    """Write each sequence alone, and all of them in one padded batch."""
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
    """Score a batch in float32 and in float16."""
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
    """Count right tokens under teacher forcing, and right sequences when it writes."""
    model = patient.with_good_weights()
    src, tgt = rows_of(LENGTHS[-1], seed=10**6)
    with torch.no_grad():
        forced = (model(src, tgt[:, :-1]).argmax(-1) == tgt[:, 1:]).float().mean().item()
    free = fraction_right(patient.parts, model)
    said = f"teacher-forced, {forced:.0%} of the tokens are right; free-running, {free:.0%}"
    return f"{said} of the sequences", free < forced - 0.3


def same_sequence_many_times(patient: Patient) -> Seen:
    """Let it write to equal rows."""
    model, _ = patient.trained()
    src = rows_of(LENGTHS[-1], seed=10**6)[0][1:2].expand(ROWS, -1)
    answers = len(set(map(tuple, write(patient.parts, model, src))))
    return f"{ROWS} times the same source: {_answers(answers)}", answers > 1


def _answers(count: int) -> str:
    """Say how many answers there are."""
    return f"{count} different answers" if count > 1 else "one answer"


def one_batch_after_another(patient: Patient) -> Seen:
    """Write the same batch before and after one with padding."""
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
    """Train, then look at what is written to one source."""
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
    """Count the answers to different sources."""
    model, _ = patient.trained()
    sources = rows_of(LENGTHS[-1], seed=10**6)[0].unique(dim=0)
    answers = len(set(map(tuple, write(patient.parts, model, sources))))
    return f"{len(sources)} different sources: {_answers(answers)}", answers < 10


def what_has_moved(patient: Patient) -> Seen:
    """Train for a few steps, and compare with the start."""
    model = patient.fresh()
    start = {name: p.detach().clone() for name, p in model.named_parameters()}
    fit(patient.parts, model, steps=10)
    still = sum(p.equal(start[name]) for name, p in model.named_parameters())
    said = f"after 10 steps, {still} of {len(start)} tensors of weights are exactly as they began"
    return said, still > 0


transformer = known("transformer", "Transformer")
fused = known("multi_head", "fused_attention")
SDPA = "F.scaled_dot_product_attention(query, key, value, mask, dropout_p)"
PAST = "causal_mask(tgt.size(1), tgt.device)"
OWN = "padding_mask(tgt, self.config.pad_id)"
ENCODED = "return self.encoder(self.positions(vectors), padding_mask(src, self.config.pad_id))"

CASES = (
    Case(
        "loss_near_zero", loss_and_writing, "causality",
        (catalogued("Transformer", "causal_missing"),),
    ),
    Case(
        "right_alone_only", alone_and_in_a_batch, "padding invariance",
        (catalogued("Transformer", "cross_mask_missing"),), fresh=False,
    ),
    Case(
        "few_parameters_move", what_the_optimizer_gets, "parameters registered",
        (catalogued("Encoder", "plain_list"), catalogued("Decoder", "plain_list")),
    ),
    Case(
        "loss_stops", one_row, "overfit one batch",
        (
            transformer(
                "softmax_before_cross_entropy",
                "the model returns probabilities, and cross-entropy applies a softmax to them",
                "nishnik/Deep-Semantic-Similarity-Model-PyTorch #2; ariecattan/SciCo #2",
                ("src, cache=cache))", "src, cache=cache)).softmax(dim=-1)"),
            ),
        ),
    ),
    Case(
        "right_with_a_teacher_only", forced_and_free, "free running",
        (catalogued("greedy_decode", "starts_with_padding"),), fresh=False,
    ),
    Case(
        "another_loss_in_eval_mode", both_modes, "training and eval mode",
        (
            transformer(
                "causal_in_training_only",
                "the causal mask is used in training mode only: in eval mode each position sees "
                "what comes later",
                "shiyu-coder/Kronos #199",
                (f"mask = {PAST} & {OWN}", f"mask = {OWN}\n            if self.training:\n"
                 f"                mask = mask & {PAST}"),
            ),
        ),
        fresh=False,
    ),
    Case(
        "many_answers_to_one_source", same_sequence_many_times, "batch invariance",
        (catalogued("PositionalEncoding", "added_along_batch"),),
    ),
    Case(
        "one_answer_to_all_sources", how_many_answers, "context",
        (catalogued("padding_mask", "padding_inverted"),),
    ),
    Case(
        "repeats_what_it_reads", loss_and_one_answer, "overfit one batch",
        (
            known("exercises.clinic_models", "sequence_loss")(
                "labels_not_shifted",
                "the model must predict `tgt[:, :-1]`, the very tokens that it reads",
                "jadore801120/attention-is-all-you-need-pytorch #123 asks where the shift is",
                ("tgt_out = tgt[:, 1:]", "tgt_out = tgt[:, :-1]"),
            ),
        ),
    ),
    Case(
        "some_weights_stay", what_has_moved, "gradient reach",
        (catalogued("DecoderLayer", "self_attn_used_twice"),),
    ),
    Case(
        "worse_after_each_batch", one_batch_after_another, "determinism",
        (
            transformer(
                "mask_changed_in_place",
                "a mask that is kept for later calls is changed in place: what was padding once "
                "stays hidden",
                "course notes",
                ("self.config = c = config", "self.config = c = config\n        self.masks = {}"),
                (ENCODED, "start = torch.ones(len(src), 1, 1, src.size(1), dtype=torch.bool)\n"
                 "        mask = self.masks.setdefault(src.shape, start)\n"
                 "        mask &= padding_mask(src, self.config.pad_id)\n"
                 "        return self.encoder(self.positions(vectors), mask)"),
            ),
        ),
        fresh=False,
    ),
    Case(
        "other_answers_than_elsewhere", weights_of_another, "attention scores",
        (
            fused(
                "scale_d_model",
                "the scores are divided by √d_model instead of √d_k, the width of one head",
                "karpathy/ng-video-lecture #6; aladdinpersson/Machine-Learning-Collection #65",
                (SDPA, SDPA[:-1] + ", scale=d_model**-0.5)"),
                ("    return F", "    d_model = query.size(1) * query.size(-1)\n    return F"),
            ),
        ),
        fresh=False,
    ),
    Case(
        "too_few_parameters", what_the_optimizer_gets, "parts used once",
        (catalogued("EncoderLayer", "one_norm"),),
    ),
    Case(
        "nan_in_half_precision", half_precision, "finite numbers",
        (
            fused(
                "softmax_without_maximum",
                "the softmax is written out, and the largest score is not subtracted before exp: "
                "in float16 exp overflows above 11",
                "NVIDIA/FasterTransformer #43; pyg-team/pytorch_geometric #53",
                (f"return {SDPA}, None", "scores = query @ key.transpose(-2, -1) / "
                 "query.size(-1) ** 0.5\n    if mask is not None:\n"
                 '        scores = scores.masked_fill(~mask, float("-inf"))\n'
                 "    weights = scores.exp()\n"
                 "    weights = weights / weights.sum(dim=-1, keepdim=True)\n"
                 "    return weights @ value, None"),
            ),
        ),
        fresh=False,
    ),
    Case(
        "loss_near_zero_again", loss_and_writing, "padding invariance",
        (catalogued("MultiHeadAttention", "heads_joined_without_transpose"),),
    ),
)  # fmt: skip
