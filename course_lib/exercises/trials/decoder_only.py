"""What is asked of chapter 17: the model equals its formulas, and no row hears what comes later."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course_lib.decoder_only import DecoderOnly
from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    Trial,
    filled,
    module_trial,
    normal,
    parameters_trial,
    refuses,
    value_trial,
)
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trials.decoder_layer import asked, by_place
from course_lib.exercises.trials.initialize import loudness, reach
from course_lib.exercises.trials.layer_formulas import TORCHS, add_norms, encoder
from course_lib.exercises.trials.random_windows import EXERCISES as WINDOWS
from course_lib.exercises.trials.transformer_formulas import APART, waves
from course_lib.transformer import TransformerConfig

SINES = replace(APART, num_decoder_layers=2, max_len=6)  # a vocabulary of 10, and 13 for a source
GPTS = replace(SINES, norm_first=True, activation="gelu", d_k=5, d_v=7, dropout=0.5)
IDS = torch.tensor([[1, 4, 0, 6, 3], [3, 7, 8, 2, 9]])  # 3 is pad_id, and a token like any other
LEARNED = dict(learned_positions=True)
PARTS = (
    "The parts are embedding, positions, stack (an `Encoder` of num_decoder_layers) and output, "
    "which has no bias and shares the embedding's matrix."
)


def score(p: Mapping, ids: Tensor, config: TransformerConfig, learned: bool = False) -> Tensor:
    """Run the model: a table, positions, layers under a triangle, the table again."""
    length = ids.size(1)
    table = p["positions.weight"][:length] if learned else waves(length)
    x = p["embedding.weight"][ids] * config.d_model**0.5 + table
    layers = [f"stack.layers.{n}." for n in range(config.num_decoder_layers)]
    how = dict(norm_first=config.norm_first, activation=config.activation)
    last = "stack.norm" if config.norm_first else None
    past = torch.ones(length, length).tril().bool()
    x = encoder(p, layers, x, past, last=last, **how)
    return torch.einsum("btd,vd->btv", x, p["embedding.weight"])


def model_case(label: str, config: TransformerConfig, ids: Tensor = IDS, **build: Any) -> Trial:
    """Compare logits, and the gradients of all parameters, with the formulas."""
    learned = bool(build.get("learned_positions"))
    build = {"config": config} | build
    case = module_trial(
        label,
        DecoderOnly,
        build,
        {"ids": ids},
        lambda p, ids: score(p, ids, config, learned),
        ("logits",),
    )
    return by_place(case, "config")


def matrices(label: str, config: TransformerConfig, **build: Any) -> Trial:
    """Compare names, shapes and sharing of all parameters."""
    case = parameters_trial(DecoderOnly, {"config": config} | build, PARTS)
    return replace(by_place(case, "config"), label=label)


def ears(candidate: Callable) -> dict[str, bool]:
    """Change later tokens, an earlier one, and the order of earlier ones; look who notices."""
    model, found = filled(candidate(SINES)), {}
    later, earlier, swapped = IDS.clone(), IDS.clone(), IDS[:, [1, 0, 2, 3, 4]]
    later[:, 3:] = (IDS[:, 3:] + 1) % 10
    earlier[:, 0] = (IDS[:, 0] + 1) % 10
    for mode, training in (("while training", True), ("afterwards", False)):
        model.train(training)
        plain, other = (asked(model, {"ids": ids})[:, :3] for ids in (IDS, later))
        found[f"a later token is heard {mode}"] = not torch.allclose(plain, other, atol=1e-4)
    model = filled(candidate(replace(SINES, num_decoder_layers=1)))  # two would tell the order
    last = asked(model, {"ids": IDS})[:, -1]
    for what, ids in (("an earlier token", earlier), ("the order of earlier tokens", swapped)):
        other = asked(model, {"ids": ids})[:, -1]
        found[f"{what} is heard"] = bool(((other - last).abs().amax(dim=-1) > 1e-4).all())
    return found


def lengths(answer: Callable) -> dict[str, Tensor]:
    """Read one token, and as many as fit."""
    full = torch.cat([IDS, IDS[:, :1]], dim=1)
    return {"one token": answer(IDS[:, :1]), "max_len tokens": answer(full)}


def numbers() -> dict[str, Tensor]:
    """Return the known numbers of a model by name."""
    return dict(filled(DecoderOnly(SINES)).named_parameters())


def probabilities(candidate: Callable) -> dict[str, bool]:
    """Look whether a softmax stands at the end."""
    with torch.no_grad():
        logits = filled(candidate(SINES)).eval()(IDS)
    one = torch.ones(logits.shape[:-1])
    return {
        "the numbers of a place add up to 1": torch.allclose(logits.sum(dim=-1), one, atol=1e-3),
    }


def steady(candidate: Callable) -> dict[str, bool]:
    """Ask twice in eval mode."""
    model = filled(candidate(replace(SINES, dropout=0.5))).eval()
    with torch.no_grad():
        return {"both answers are the same": torch.equal(model(IDS), model(IDS))}


def silenced(candidate: Callable) -> dict[str, Tensor]:
    """Drop everything, tokens and answers; what is left are norms of norms."""
    with torch.no_grad():
        return {"logits": filled(candidate(replace(SINES, dropout=1.0))).train()(IDS)}


def silenced_wanted() -> dict[str, Tensor]:
    """Normalize zeros, sub-layer after sub-layer."""
    p, x = numbers(), torch.zeros(*IDS.shape, SINES.d_model)
    for n in range(SINES.num_decoder_layers):
        x = add_norms(p, f"stack.layers.{n}.", x, [torch.zeros_like] * 2, norm_first=False)
    return {"logits": (x @ p["embedding.weight"].T).detach()}


def start(candidate: Callable) -> dict[str, Any]:
    """Measure how a new model starts."""
    wide = replace(SINES, src_vocab_size=200, tgt_vocab_size=200, d_model=64, num_heads=4)
    model = candidate(replace(wide, d_ff=192, max_len=200), learned_positions=True)
    linear = model.stack.layers[0].feed_forward.linear1.weight
    return {
        "times √d_model, the deviation of the embedding": loudness(model.embedding.weight),
        "as a share of its bound, the largest of a linear layer": reach(linear),
        "in units of 0.02, the deviation of learned positions": round(
            float(model.positions.weight.detach().std()) / 0.02, 1
        ),
    }


STARTS = {
    "times √d_model, the deviation of the embedding": 1.0,
    "as a share of its bound, the largest of a linear layer": 1.0,
    "in units of 0.02, the deviation of learned positions": 1.0,
}


def bad_ids(candidate: Callable) -> dict[str, str]:
    """Hand over what the embedding cannot look up."""
    model = filled(candidate(SINES)).eval()
    return {
        "more tokens than max_len": refuses(model, torch.ones(2, 7, dtype=torch.long)),
        "an id that the vocabulary lacks": refuses(model, IDS + 1),
        "numbers that are no ids": refuses(model, normal("no ids", 2, 5)),
    }


HEARD = {
    "a later token is heard while training": False,
    "a later token is heard afterwards": False,
    "an earlier token is heard": True,
    "the order of earlier tokens is heard": True,
}
BAD = ("more tokens than max_len", "an id that the vocabulary lacks", "numbers that are no ids")

EXERCISES = (
    *WINDOWS,
    Exercise(
        "DecoderOnly",
        "decoder_only",
        20,
        (
            matrices("its parameters", SINES),
            matrices("learned_positions=True, in pre-norm", GPTS, **LEARNED),
            model_case("sines and post-norm", SINES),
            model_case(
                "learned_positions=True, norm_first, gelu and free head widths", GPTS, **LEARNED
            ),
            value_trial(
                "a look at who hears whom",
                ears,
                HEARD,
                says="A row hears what stands before it, in its order, and never what "
                "comes later, while training and afterwards.",
            ),
            Trial(
                "one token, and as many as fit",
                lambda candidate: Outcome(lengths(filled(candidate(SINES)).eval())),
                lambda: Outcome(lengths(lambda ids: score(numbers(), ids, SINES))),
            ),
            value_trial(
                "a look at the logits",
                probabilities,
                {"the numbers of a place add up to 1": False},
                says="The model ends with logits; the softmax comes later, inside the loss.",
            ),
            value_trial(
                "a new model",
                start,
                STARTS,
                says="Every matrix starts as `initialize` says, the shared one as an embedding; "
                "learned positions stay as they were made.",
            ),
            value_trial(
                "ids that cannot be",
                bad_ids,
                dict.fromkeys(BAD, "a ValueError"),
                says="`check_ids` refuses them, in words, before anything is looked up.",
            ),
            value_trial(
                "two calls in eval mode",
                steady,
                {"both answers are the same": True},
                stage="train and eval",
                says="In eval mode nothing may be random: dropout belongs to training.",
            ),
            Trial(
                "dropout=1.0 while training",
                lambda c: Outcome(silenced(c)),
                lambda: Outcome(silenced_wanted()),
                "train and eval",
                "Tokens with their positions, and all that sub-layers say, are dropped then.",
            ),
        ),
        (
            "It is chapter 09's `Transformer` without its left half: four parts, embedding, "
            "positions, stack, output. What hides the future, if there is no padding?",
            "`Encoder(c.num_decoder_layers, c.d_model, c.num_heads, c.d_ff, c.dropout, "
            "c.norm_first, c.activation, d_k=c.d_k, d_v=c.d_v)`; then tie "
            "`self.output.weight = self.embedding.weight`, and `initialize(self)` last.",
            "In `forward`: `check_ids`, look up, times √d_model, positions, the stack under "
            "`causal_mask(ids.size(1), ids.device)`, and `self.output`.",
        ),
        TORCHS,
    ),
)
