"""What is asked of chapter 18's model: logits and loss by the formulas, and how it starts."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import (
    Trial,
    by_name,
    filled,
    module_trial,
    normal,
    parameters_trial,
    refuses,
    value_trial,
)
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trials.decoder_layer import asked, by_place
from course_lib.exercises.trials.gpt_formulas import CONFIG, IDS, scores, surprise
from course_lib.exercises.trials.layer_formulas import TORCHS
from course_lib.gpt import GPT, GPTConfig

BARE = replace(CONFIG, bias=False)
TARGETS = torch.tensor([[4, 0, 6, 3, 5], [7, 8, 2, 9, 0]])
PARTS = (
    "The parts are embedding, positions, layers (an nn.ModuleList), norm and output, which has no "
    "bias and shares the embedding's matrix. With bias=False no layer has any."
)


def formulas(p: Mapping, ids: Tensor, targets: Tensor | None = None) -> tuple:
    """Compute logits, and the loss if there are targets."""
    logits = scores(p, ids)
    return logits, None if targets is None else surprise(logits, targets)


def model_case(label: str, config: GPTConfig, **targets: Tensor) -> Trial:
    """Compare logits and loss, and the gradients of all parameters, with the formulas."""
    given = {"ids": IDS, **targets}
    case = module_trial(label, GPT, {"config": config}, given, formulas, ("logits", "loss"))
    return by_place(case, "config")


def matrices(label: str, config: GPTConfig) -> Trial:
    """Compare names, shapes and sharing of all parameters."""
    case = parameters_trial(GPT, {"config": config}, PARTS)
    return replace(by_place(case, "config"), label=label)


def logits_of(model: nn.Module, ids: Tensor) -> Tensor:
    """Return the logits alone."""
    answer = model(ids)
    return answer[0] if isinstance(answer, tuple | list) else answer


def promises(candidate: Callable) -> dict[str, bool]:
    """Change the last tokens; look who notices, and whether a softmax stands at the end."""
    model, later, found = filled(candidate(CONFIG)), IDS.clone(), {}
    later[:, 3:] = (IDS[:, 3:] + 1) % 10
    for mode, training in (("while training", True), ("afterwards", False)):
        model.train(training)
        plain, other = (
            asked(lambda ids: logits_of(model, ids), {"ids": ids})[:, :3] for ids in (IDS, later)
        )
        found[f"a later token is heard {mode}"] = not torch.allclose(plain, other, atol=1e-4)
    total = plain.sum(dim=-1)
    found["the logits of a place add up to 1"] = torch.allclose(
        total, torch.ones_like(total), atol=1e-3
    )
    return found


def deviation(matrices: list[Tensor], unit: float) -> float:
    """Measure the deviation of some matrices in a unit, to one digit."""
    return round(float(torch.cat([m.detach().flatten() for m in matrices]).std()) / unit, 1)


def start(candidate: Callable) -> dict[str, Any]:
    """Measure how a new model of four layers starts."""
    config = GPTConfig(vocab_size=150, max_len=100, num_layers=4, num_heads=4, d_model=64)
    model, into_sum = candidate(config), 0.02 / 8**0.5
    named = dict(model.named_parameters())
    table = model.embedding.weight.detach()

    def of(*ends: str) -> list[Tensor]:
        """Gather the parameters whose names end so."""
        return [parameter for name, parameter in named.items() if name.endswith(ends)]

    norms = [m.weight for m in model.modules() if isinstance(m, nn.LayerNorm)]
    return {
        "in units of 0.02, the deviation of embedding": deviation([table], 0.02),
        "in units of 0.02, the deviation of positions": deviation([model.positions.weight], 0.02),
        "in units of 0.02, the deviation of w_qkv": deviation(of("w_qkv.weight"), 0.02),
        "in units of 0.02, the deviation of linear1": deviation(of("linear1.weight"), 0.02),
        "in units of 0.02 / √8, the deviation of w_o": deviation(of("w_o.weight"), into_sum),
        "in units of 0.02 / √8, the deviation of linear2": deviation(
            of("linear2.weight"), into_sum
        ),
        "numbers are normal: some lie far out": bool(table.abs().max() > 2.5 * table.std()),
        "all biases are 0": all(not p.any() for p in of("bias")),
        "all gains of norms are 1": all(bool((gain == 1).all()) for gain in norms),
    }


STARTS = {
    **dict.fromkeys(
        (
            "in units of 0.02, the deviation of embedding",
            "in units of 0.02, the deviation of positions",
            "in units of 0.02, the deviation of w_qkv",
            "in units of 0.02, the deviation of linear1",
            "in units of 0.02 / √8, the deviation of w_o",
            "in units of 0.02 / √8, the deviation of linear2",
        ),
        1.0,
    ),
    "numbers are normal: some lie far out": True,
    "all biases are 0": True,
    "all gains of norms are 1": True,
}


def bad_calls(candidate: Callable) -> dict[str, str]:
    """Hand over what cannot be looked up, and targets of another shape."""
    model = filled(candidate(CONFIG)).eval()
    return {
        "more tokens than max_len": refuses(model, torch.ones(2, 7, dtype=torch.long)),
        "an id that the vocabulary lacks": refuses(model, IDS + 1),
        "numbers that are no ids": refuses(model, normal("no ids", 2, 5)),
        "targets of another length": refuses(model, IDS, TARGETS[:, 1:]),
        "as many targets in another shape": refuses(model, IDS, TARGETS.view(5, 2)),
    }


def steady(candidate: Callable) -> dict[str, bool]:
    """Ask twice in eval mode."""
    model = filled(candidate(replace(CONFIG, dropout=0.5))).eval()
    with torch.no_grad():
        return {"both answers are the same": logits_of(model, IDS).equal(logits_of(model, IDS))}


def silenced(candidate: Callable) -> dict[str, Tensor]:
    """Drop everything."""
    with torch.no_grad():
        model = filled(candidate(replace(CONFIG, dropout=1.0))).train()
        return {"logits": logits_of(model, IDS)}


def silenced_wanted() -> dict[str, Tensor]:
    """Normalize zeros once: the last norm's bias is left."""
    p = by_name(filled(GPT(CONFIG)))
    logits = (p["embedding.weight"] @ p["norm.bias"]).detach()
    return {"logits": logits.expand(*IDS.shape, -1)}


EXERCISES = (
    Exercise(
        "GPT",
        "gpt",
        35,
        (
            matrices("its parameters", CONFIG),
            matrices("bias=False", BARE),
            model_case("ids alone", CONFIG),
            model_case("ids and targets", CONFIG, targets=TARGETS),
            model_case("bias=False and targets", BARE, targets=TARGETS),
            value_trial(
                "a look at the logits",
                promises,
                {
                    "a later token is heard while training": False,
                    "a later token is heard afterwards": False,
                    "the logits of a place add up to 1": False,
                },
                says="Logits come out, before any softmax, and no row hears a later token.",
            ),
            value_trial(
                "a new model of four layers",
                start,
                STARTS,
                says="Matrices start as N(0, 0.02²), those that write into the sum, w_o and "
                "linear2, √(2N) times quieter; biases start at 0, gains at 1.",
            ),
            value_trial(
                "calls that cannot be right",
                bad_calls,
                dict.fromkeys(
                    (
                        "more tokens than max_len",
                        "an id that the vocabulary lacks",
                        "numbers that are no ids",
                        "targets of another length",
                        "as many targets in another shape",
                    ),
                    "a ValueError",
                ),
                says="`check_ids` refuses ids; targets have the shape of the ids, or a ValueError.",
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
                lambda candidate: Outcome(silenced(candidate)),
                lambda: Outcome(silenced_wanted()),
                "train and eval",
                "Tokens with their positions, and all that the layers add, are dropped then.",
            ),
        ),
        (
            "Five parts, with the names of the docstring; tie the output as in `DecoderOnly`. "
            "`forward`: `check_ids`, embedding (not scaled), positions, layer after layer, the "
            "norm, the output.",
            "`F.cross_entropy` wants one row for each token: `logits.flatten(0, 1)` and "
            "`targets.flatten()`. The targets are shifted already.",
            "Go through `self.named_parameters()`: `dim() == 2` is a matrix; a name that ends in "
            "`w_o.weight` or `linear2.weight` writes into the sum, 2N times in all. To take a bias "
            "away, set `module.bias = None`, in norms as well.",
        ),
        TORCHS,
    ),
)
