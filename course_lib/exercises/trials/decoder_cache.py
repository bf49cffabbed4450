"""What is asked of DecoderCache: the model's own logits, of the new tokens, and only of them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome
from course_lib.exercises.trial import Trial, filled, refuses, value_trial
from course_lib.exercises.trials.layer_cache import portions
from course_lib.exercises.trials.small_models import SmallTransformer, small_config

PAD, MAX_LEN, BOS = 3, 9, 5
SOURCES = torch.tensor([[6, 8, PAD, PAD], [7, 9, 10, 0]])
WORDS = torch.tensor([[BOS, 7, 1, 8, 10, 2], [BOS, 0, 9, 9, 6, 4]])
ENDED = torch.tensor([[BOS, 7, 4, PAD, PAD, PAD], [BOS, 0, 9, 9, 6, 4]])
SAME = "Each step gives the logits of `model.decode` at the places that are new."


def model_of(norm_first: bool = False) -> SmallTransformer:
    """Build a model of two layers whose words matter, filled, in eval mode."""
    config = replace(small_config(PAD, MAX_LEN), d_model=12, num_decoder_layers=2)
    model = filled(SmallTransformer(replace(config, norm_first=norm_first)))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2 if parameter.dim() > 1 else 1)
    return model.eval()


def at_once(
    model: nn.Module, tgt: Tensor, kept: Tensor, steps: Sequence[int], after: int
) -> Outcome:
    """Read everything at once, with the old rows and with those that are kept; cut it up."""
    with torch.no_grad():
        old, new = (model(SOURCES[rows], tgt[rows]) for rows in (torch.tensor([0, 1]), kept))
    return portions(old, new, steps, after)


def read_case(
    label: str,
    steps: Sequence[int],
    tgt: Tensor = WORDS,
    norm_first: bool = False,
    rows: Sequence[int] = (),
    after: int = 0,
    says: str = SAME,
) -> Trial:
    """Read a target in steps, and compare with the whole model's logits.

    Args:
        label: What is special about it.
        steps: How many tokens are new in each step.
        tgt: The target, of two rows.
        norm_first: Whether the model is pre-norm.
        rows: Which rows are kept, if any.
        after: After how many steps.
        says: What wrong numbers mean.
    """
    kept, after = torch.tensor(rows or [0, 1]), after if rows else len(steps)

    def act(candidate: Callable) -> Outcome:
        """Hand over all that is written so far, in every step."""
        now, shown, end = tgt, {}, 0
        cache = candidate(model_of(norm_first), SOURCES.clone())
        for step, new in enumerate(steps):
            if step == after:
                cache.reorder(kept)
                now = tgt[kept]
            end += new
            shown[f"step {step + 1}"] = cache(now[:, :end].clone()).detach()
        return Outcome(shown)

    read = tgt[:, : sum(steps)]
    return Trial(
        label, act, lambda: at_once(model_of(norm_first), read, kept, steps, after), says=says
    )


def places(candidate: Callable) -> dict[str, Any]:
    """Count how often the encoder runs, and how many places go through the decoder."""
    model, passed = model_of(), []
    part: nn.Module = model.decoder.layers[0].feed_forward
    part.register_forward_pre_hook(lambda _, args: passed.append(args[0].size(1)))
    cache = candidate(model, SOURCES)
    for end in range(1, 6):
        cache(WORDS[:, :end])
    return {
        "runs of the encoder": len(model.modes["encoder"]),
        "places computed for five tokens": sum(passed),
        "length": int(cache.length),
        "layers": len(cache.layers),
    }


def gradients(candidate: Callable) -> dict[str, bool]:
    """Look for a graph behind the logits, and for gradients that stay off."""
    with torch.enable_grad():
        logits = candidate(model_of(), SOURCES)(WORDS[:, :2])
        after = torch.is_grad_enabled()
    return {"gradients are kept": logits.requires_grad, "gradients stay off": not after}


def bad_calls(candidate: Callable) -> dict[str, str]:
    """Ask for what cannot be done."""
    cache = candidate(model_of(), SOURCES)
    cache(WORDS[:, :2])
    long = torch.full((2, MAX_LEN + 1), BOS)
    return {
        "a model in training mode": refuses(candidate, model_of().train(), SOURCES),
        "no new token": refuses(cache, WORDS[:, :2]),
        "fewer tokens than were read": refuses(cache, WORDS[:, :1]),
        "another number of rows": refuses(cache, WORDS[:1, :3]),
        "more than max_len tokens": refuses(cache, long),
        "ids that the vocabulary does not have": refuses(cache, WORDS[:, :3] + 11),
    }


REFUSED = (
    "a model in training mode",
    "no new token",
    "fewer tokens than were read",
    "another number of rows",
    "more than max_len tokens",
    "ids that the vocabulary does not have",
)
ROWS = (
    "After `reorder(rows)`, row i goes on from what was row rows[i], in every layer, mask and all."
)

EXERCISES = (
    Exercise(
        "DecoderCache",
        "kv_cache",
        30,
        (
            read_case("six tokens, one by one", [1] * 6),
            read_case("three tokens, then one, then two", [3, 1, 2]),
            read_case("a row that has ended", [1] * 6, ENDED),
            read_case("norm_first=True", [1, 2, 1], norm_first=True),
            read_case("reorder([1, 0])", [2, 1, 2], ENDED, False, (1, 0), 1, ROWS),
            read_case("reorder([1, 1, 0]) first of all", [1, 1], ENDED, False, (1, 1, 0), 0, ROWS),
            value_trial(
                "a look at what is computed",
                places,
                {
                    "runs of the encoder": 1,
                    "places computed for five tokens": 5,
                    "length": 5,
                    "layers": 2,
                },
                says="The source is encoded once, and every token goes through the layers once.",
            ),
            value_trial(
                "a look at gradients",
                gradients,
                {"gradients are kept": False, "gradients stay off": False},
                says="A cache predicts: nothing is kept for gradients (`@torch.no_grad()`).",
            ),
            value_trial(
                "calls that cannot be right",
                bad_calls,
                dict.fromkeys(REFUSED, "a ValueError"),
                says="A ValueError, before anything is computed; `check_ids` knows two of them.",
            ),
        ),
        (
            "`__init__`: encode once, a LayerCache for each of `model.decoder.layers`, and the "
            "source's padding mask. `__call__` is `Transformer.decode` for `tgt[:, start:]` only.",
            "Where does the first new token stand? `model.positions.encoding[start:T]`. Which rows "
            "of the causal mask are new? `causal_mask(T)[start:]`; padding hides keys as ever.",
            "Set `self.length = T` at the end. In pre-norm the decoder has a last norm: "
            "`model.decoder.norm`. `reorder` picks rows of the mask, and tells every layer.",
        ),
    ),
)
