"""What must be true of a Transformer whatever its weights are, and how it starts."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch.nn import functional as F

from course_lib.exercises.old_trial import filled, value_trial
from course_lib.exercises.trials.decoder_layer import FUTURE, asked
from course_lib.exercises.trials.initialize import loudness, reach
from course_lib.exercises.trials.transformer_formulas import APART, ONE, PAD, SRC, TGT


def steady(candidate: Callable) -> dict[str, bool]:
    """Ask twice in eval mode, with random numbers that differ."""
    model = filled(candidate(replace(APART, dropout=0.5))).eval()
    with torch.no_grad():
        return {"both answers are the same": torch.equal(model(SRC, TGT), model(SRC, TGT))}


def leaks(candidate: Callable) -> dict[str, bool]:
    """Change the last words of the target, and look whether the first logits notice."""
    model, later = filled(candidate(APART)), TGT.clone()
    later[:, 2:] = torch.tensor([[9, 2], [2, 9]])
    found = {}
    for mode, training in (("while training", True), ("afterwards", False)):
        model.train(training)
        before, after = (asked(model, {"src": SRC, "tgt": tgt}) for tgt in (TGT, later))
        found[f"a later word is heard {mode}"] = not torch.allclose(
            before[:, :2], after[:, :2], atol=1e-4
        )
    return found


def neighbours(candidate: Callable) -> dict[str, bool]:
    """Read a short source alone, beside a long one, and with more padding."""
    model = filled(candidate(APART)).eval()
    with torch.no_grad():
        both, alone = model(SRC, TGT), model(SRC[1:, :3], TGT[1:])
        longer = model(F.pad(SRC, (0, 2), value=PAD), TGT)
    return {
        "a long neighbour is heard": not torch.allclose(both[1:], alone, atol=1e-4),
        "more padding is heard": not torch.allclose(both, longer, atol=1e-4),
    }


def probabilities(candidate: Callable) -> dict[str, bool]:
    """Look whether a softmax stands at the end."""
    with torch.no_grad():
        logits = filled(candidate(APART)).eval()(SRC, TGT)
    one, zero = torch.ones(TGT.shape), torch.zeros(TGT.shape)
    return {
        "the numbers of a position add up to 1": torch.allclose(logits.sum(dim=-1), one, atol=1e-3),
        "they are logarithms of probabilities": torch.allclose(
            logits.logsumexp(dim=-1), zero, atol=1e-3
        ),
    }


def start(candidate: Callable) -> dict[str, float]:
    """Measure how a new model starts, with its matrices apart and shared."""
    wide = replace(ONE, src_vocab_size=200, tgt_vocab_size=200, d_model=64, num_heads=4, d_ff=192)
    apart, shared = (candidate(replace(wide, tie_embeddings=tie)) for tie in ("none", "all"))
    return {
        "times √d_model, the deviation of src_embedding": loudness(apart.src_embedding.weight),
        "times √d_model, the deviation of tgt_embedding": loudness(apart.tgt_embedding.weight),
        "times √d_model, the deviation of the shared matrix": loudness(shared.output.weight),
        "as a share of its bound, the largest of output": reach(apart.output.weight),
        "as a share of its bound, the largest of a linear layer": reach(
            apart.encoder.layers[0].feed_forward.linear1.weight
        ),
    }


STARTS = dict.fromkeys(
    (
        "times √d_model, the deviation of src_embedding",
        "times √d_model, the deviation of tgt_embedding",
        "times √d_model, the deviation of the shared matrix",
        "as a share of its bound, the largest of output",
        "as a share of its bound, the largest of a linear layer",
    ),
    1.0,
)

PROMISES = (
    value_trial(
        "two calls in eval mode",
        steady,
        {"both answers are the same": True},
        says="In eval mode nothing may be random: dropout belongs to training.",
    ),
    value_trial(
        "a later word of the target",
        leaks,
        {"a later word is heard while training": False, "a later word is heard afterwards": False},
        says=FUTURE,
    ),
    value_trial(
        "a short source beside a long one",
        neighbours,
        {"a long neighbour is heard": False, "more padding is heard": False},
        says="A sentence must be read alike alone and in a batch: its padding has no say.",
    ),
    value_trial(
        "a look at the logits",
        probabilities,
        {
            "the numbers of a position add up to 1": False,
            "they are logarithms of probabilities": False,
        },
        says="The model ends with logits; the softmax comes later, inside the loss.",
    ),
    value_trial(
        "a new model",
        start,
        STARTS,
        says="Every matrix starts as `initialize` says, a shared one as an embedding.",
    ),
)
