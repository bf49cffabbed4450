"""What is asked of writing: a limit, no dropout, no gradients, and a model handed back."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.trial import refuses, value_trial
from course_lib.exercises.trials.small_models import SmallModel, small_config

PAD, MAX_LEN, BOS, EOS = 3, 9, 5, 4
FORGOTTEN = "an error of yours"


def model_in(training: bool) -> nn.Module:
    """Build a small model in one of the two modes."""
    return SmallModel(small_config(PAD, MAX_LEN)).train(training)


def mode_of(model: nn.Module) -> str:
    """Name the mode of a model and all its parts."""
    return " and ".join(sorted({"training" if m.training else "eval" for m in model.modules()}))


def limits(candidate: Callable) -> dict[str, Any]:
    """Look what is handed out."""
    shown = {}
    for asked in (None, 1, 4, MAX_LEN):
        with torch.enable_grad(), candidate(model_in(True), BOS, EOS, asked) as limit:
            shown[f"max_new_tokens={asked}"] = limit
    return shown


def modes(candidate: Callable) -> dict[str, str]:
    """Look at the mode inside, and behind."""
    shown = {}
    for training in (True, False):
        model, mode = model_in(training), "training" if training else "eval"
        with torch.enable_grad(), candidate(model, BOS, EOS):
            shown[f"from {mode}: inside"] = mode_of(model)
        shown[f"from {mode}: behind"] = mode_of(model)
    return shown


def gradients(candidate: Callable) -> dict[str, bool]:
    """Look whether gradients are kept inside, and behind."""
    with torch.enable_grad():
        with candidate(model_in(True), BOS, EOS):
            inside = torch.is_grad_enabled()
        behind = torch.is_grad_enabled()
    return {"gradients inside": inside, "gradients behind": behind}


def after_an_error(candidate: Callable) -> dict[str, Any]:
    """Raise inside, and look what is left."""
    model, said = model_in(True), "no error"
    with torch.enable_grad():
        try:
            with candidate(model, BOS, EOS):
                raise ArithmeticError(FORGOTTEN)
        except ArithmeticError as error:
            said = str(error)
        behind = torch.is_grad_enabled()
    return {"what came out": said, "mode": mode_of(model), "gradients": behind}


REFUSED = {
    "max_new_tokens=0": (BOS, EOS, 0),
    "max_new_tokens=-1": (BOS, EOS, -1),
    f"max_new_tokens={MAX_LEN + 1}": (BOS, EOS, MAX_LEN + 1),
    "bos is eos": (BOS, BOS, None),
    "eos is pad": (BOS, PAD, None),
    "bos beyond the last": (11, EOS, None),
}


def refused(candidate: Callable) -> dict[str, str]:
    """Ask for what cannot be."""

    def enter(*args: Any) -> None:
        """Go in and out again."""
        with torch.enable_grad(), candidate(model_in(True), *args):
            pass

    return {name: refuses(enter, *args) for name, args in REFUSED.items()}


EXERCISES = (
    Exercise(
        "generation_mode",
        "decoding",
        15,
        (
            value_trial(
                "limits of all kinds",
                limits,
                {f"max_new_tokens={n}": n or MAX_LEN for n in (None, 1, 4, MAX_LEN)},
                stage="equality",
                says="`with generation_mode(…) as limit` gives max_new_tokens, or max_len.",
            ),
            value_trial(
                "a look at gradients",
                gradients,
                {"gradients inside": False, "gradients behind": True},
                says="No gradients inside (`torch.no_grad`), and behind it as before.",
            ),
            value_trial(
                "an error inside",
                after_an_error,
                {"what came out": FORGOTTEN, "mode": "training", "gradients": True},
                says="An error passes through, and the model comes back as it was all the same.",
            ),
            value_trial(
                "what cannot be",
                refused,
                dict.fromkeys(REFUSED, "a ValueError"),
                says="The limit is in 1 … max_len, the three special ids differ, or a ValueError.",
            ),
            value_trial(
                "a look at the mode",
                modes,
                {
                    "from training: inside": "eval",
                    "from training: behind": "training",
                    "from eval: inside": "eval",
                    "from eval: behind": "eval",
                },
                stage="train and eval",
                says="Eval mode inside, dropout off; behind it the mode that the model came in.",
            ),
        ),
        (
            "First the limit and `check_special_ids`; then remember `model.training`, and call "
            "`model.eval()`.",
            "`try: … finally: model.train(was_training)`, and within the `try`, under "
            "`torch.no_grad()`, the one line `yield limit`.",
        ),
    ),
)
