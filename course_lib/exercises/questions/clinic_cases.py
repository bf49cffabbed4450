"""The cases of the bug clinic, each with a symptom, a cause, and a probe that reveals it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from course_lib.exercises.checking.exercise import known_mistakes
from course_lib.exercises.checking.mistake import Mistake, mistake_of
from course_lib.exercises.questions.clinic_measures import (
    Measurement,
    alone_and_in_a_batch,
    both_modes,
    forced_and_free,
    half_precision,
    how_many_answers,
    loss_and_one_answer,
    loss_and_writing,
    one_batch_after_another,
    one_row,
    same_sequence_many_times,
    weights_of_another,
    what_has_moved,
    what_the_optimizer_gets,
)
from course_lib.exercises.questions.clinic_models import Patient


@dataclass(frozen=True)
class Case:
    """A model with a bug.

    Args:
        name: Short name of the symptom.
        measure: Measures a model; returns a sentence, and whether the model has the symptom.
        probe: The probe that best shows the cause.
        mistakes: The mistakes in the model; the first one names the cause.
        fresh: Whether the probes run on an untrained model.
    """

    name: str
    measure: Callable[[Patient], Measurement]
    probe: str
    mistakes: tuple[Mistake, ...]
    fresh: bool = True
    chapter: int = 16
    kind: str = "diagnose"
    minutes: int = 5

    @property
    def cause(self) -> str:
        """Return the name of the cause."""
        return self.mistakes[0].name.replace("_", " ")


def catalogued(exercise: str, name: str) -> Mistake:
    """Look up one of an exercise's known mistakes by name."""
    return next(mistake for mistake in known_mistakes(exercise) if mistake.name == name)


def case(
    name: str,
    measure: Callable[[Patient], Measurement],
    probe: str,
    *mistakes: Mistake,
    fresh: bool = True,
) -> Case:
    """Build a case from any number of mistakes."""
    return Case(name, measure, probe, mistakes, fresh)


transformer = partial(mistake_of, "transformer", "Transformer")
decoder = partial(mistake_of, "decoder", "Decoder")
attention = partial(mistake_of, "multi_head", "attention_output")
SDPA = "F.scaled_dot_product_attention(query, key, value, mask, dropout_p)"
OWN = "padding_mask(tgt, self.config.pad_id)"
ENCODED = "return self.encoder(self.positions(vectors), padding_mask(src, self.config.pad_id))"

DECOYS = {  # causes that no case has, with a sentence and the probe that would show them
    "dropout in eval mode": ("dropout is also active in eval mode", "determinism"),
    "positions missing": ("the order of the tokens is lost", "order sensitivity"),
    "residual path missing": ("a layer does not add its input to its output", "residual paths"),
}

CASES = (
    case(
        "loss_near_zero", loss_and_writing, "causality",
        catalogued("Transformer", "causal_missing"),
    ),
    case(
        "loss_near_zero_again", loss_and_writing, "padding invariance",
        catalogued("MultiHeadAttention", "heads_joined_without_transpose"),
    ),
    case(
        "repeats_what_it_reads", loss_and_one_answer, "overfit one batch",
        mistake_of(
            "exercises.questions.clinic_models", "sequence_loss",
            "labels_not_shifted: the model is trained to predict `tgt[:, :-1]`, the same tokens "
            "that it reads",
            ("tgt_out = tgt[:, 1:]", "tgt_out = tgt[:, :-1]"),
        ),
    ),
    case(
        "few_parameters_move", what_the_optimizer_gets, "parameters registered",
        catalogued("Encoder", "plain_list"),
        decoder(
            "plain_list: the layers are in a Python list, so no optimizer finds their parameters "
            "[maruya24/pytorch_robotics_transformer #3]",
            ("nn.ModuleList(layers)", "layers"),
        ),
    ),
    case(
        "loss_stops", one_row, "overfit one batch",
        transformer(
            "softmax_before_cross_entropy: the model returns probabilities, and cross-entropy "
            "applies a second softmax "
            "[nishnik/Deep-Semantic-Similarity-Model-PyTorch #2; ariecattan/SciCo #2]",
            ("memory, src))", "memory, src)).softmax(dim=-1)"),
        ),
    ),
    case(
        "worse_after_each_batch", one_batch_after_another, "determinism",
        transformer(
            "mask_changed_in_place: a cached mask is changed in place, so a position that was once "
            "padding stays blocked",
            ("self.config = c = config", "self.config = c = config\n        self.masks = {}"),
            (ENCODED, "start = torch.ones(len(src), 1, 1, src.size(1), dtype=torch.bool)\n"
             "        mask = self.masks.setdefault(src.shape, start)\n"
             "        mask &= padding_mask(src, self.config.pad_id)\n"
             "        return self.encoder(self.positions(vectors), mask)"),
        ), fresh=False,
    ),
    case(
        "another_loss_in_eval_mode", both_modes, "training and eval mode",
        transformer(
            "causal_in_training_only: the causal mask is used in training mode only, so in eval "
            "mode each position attends to later ones "
            "[shiyu-coder/Kronos #199]",
            (f"self_mask = past & {OWN}", f"self_mask = {OWN}\n"
             "        self_mask = self_mask & past if self.training else self_mask"),
        ), fresh=False,
    ),
    case(
        "some_weights_stay", what_has_moved, "gradient reach",
        catalogued("DecoderLayer", "self_attn_used_twice"),
    ),
    case(
        "right_alone_only", alone_and_in_a_batch, "padding invariance",
        catalogued("Transformer", "cross_mask_missing"), fresh=False,
    ),
    case(
        "right_with_a_teacher_only", forced_and_free, "free running",
        catalogued("greedy_decode", "starts_with_padding"),
    ),
    case(
        "nan_in_half_precision", half_precision, "finite numbers",
        attention(
            "softmax_without_maximum: the softmax does not subtract the largest score before exp, "
            "which overflows above 11 in float16 "
            "[NVIDIA/FasterTransformer #43; pyg-team/pytorch_geometric #53]",
            (f"return {SDPA}", "scores = query @ key.transpose(-2, -1) / "
             "query.size(-1) ** 0.5\n    if mask is not None:\n"
             '        scores = scores.masked_fill(~mask, float("-inf"))\n'
             "    weights = scores.exp()\n"
             "    weights = weights / weights.sum(dim=-1, keepdim=True)\n"
             "    return weights @ value"),
        ), fresh=False,
    ),
    case(
        "one_answer_to_all_sources", how_many_answers, "context",
        catalogued("padding_mask", "padding_inverted"),
    ),
    case(
        "many_answers_to_one_source", same_sequence_many_times, "batch invariance",
        catalogued("PositionalEncoding", "added_along_batch"),
    ),
    case(
        "too_few_parameters", what_the_optimizer_gets, "parts used once",
        catalogued("EncoderLayer", "one_norm"),
    ),
    case(
        "other_answers_than_elsewhere", weights_of_another, "attention scores",
        attention(
            "scale_d_model: the scores are divided by √d_model instead of √d_k, the width of one "
            "head "
            "[karpathy/ng-video-lecture #6; aladdinpersson/Machine-Learning-Collection #65]",
            (SDPA, SDPA[:-1] + ", scale=d_model**-0.5)"),
            ("    return F", "    d_model = query.size(1) * query.size(-1)\n    return F"),
        ), fresh=False,
    ),
)  # fmt: skip
