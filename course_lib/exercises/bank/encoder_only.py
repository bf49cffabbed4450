"""Exercises for chapter 25: trials, known mistakes and correct answers."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.checking.exercise import Exercise
from course_lib.exercises.checking.mistake import ignored
from course_lib.exercises.checking.trial import (
    B,
    S,
    answer_to,
    as_trial,
    function_trial,
    half_precision,
    normal,
)

NUM_ORDINARY, PAD, MASK = 17, 17, 18
MANY = torch.ones(1, 99, dtype=torch.bool)
SPECIAL = dict(num_ordinary=NUM_ORDINARY, mask_id=MASK, pad_id=PAD)


def long_ids() -> Tensor:
    """Draw many ids below 12; the last third of each row is padding."""
    ids = torch.randint(12, (600, 1500), generator=torch.Generator().manual_seed(0))
    ids[:, 1000:] = PAD
    return ids


def percent(flags: Tensor, expected: float = 0) -> str:
    """Return the percentage of True flags; up to a difference of 1, the expected one."""
    if not flags.numel():
        return "none"
    found = 100 * flags.float().mean().item()
    return f"about {expected if abs(found - expected) < 1 else round(found)} %"


def spread(random_ids: Tensor, rows: Tensor) -> str:
    """Say whether most rows have several random ids."""
    different = (NUM_ORDINARY * rows + random_ids).unique().numel()
    return "several" if different > 3 * rows.unique().numel() else "few"


def varies(flags: Tensor, among: Tensor) -> str:
    """Name the axes along which the flags differ in most rows; only flags in ``among`` count."""
    yes, no = flags & among, ~flags & among
    axes = {"sentences": 0, "tokens": 1}
    mixed = {axis: (yes.any(dim) & no.any(dim))[among.any(dim)] for axis, dim in axes.items()}
    found = [axis for axis, both in mixed.items() if both.float().mean() > 0.5]
    return "differs between " + " and ".join(found or ["nothing"])


def hidden(candidate: Callable[..., Any], **options: Any) -> tuple[Tensor, ...]:
    """Mask many ids; return the ids, the inputs, the targets and a mask of the chosen tokens."""
    ids = long_ids()
    inputs, targets = candidate(ids.clone(), **SPECIAL, **options)
    return ids, inputs, targets, targets != PAD


@as_trial(
    "many tokens, a third of them padding",
    "Each real token is chosen independently with probability 0.15. Only chosen tokens have a "
    "target.",
)
def choice(candidate: Callable[..., Any]) -> dict[str, Any]:
    ids, _, targets, chosen = hidden(candidate)
    return {
        "real tokens with a target": percent(chosen[ids != PAD], 15),
        "padding with a target": percent(chosen[ids == PAD]),
        "the choice": varies(chosen, ids != PAD),
        "the target of a chosen token is its id": bool((targets == ids)[chosen].all()),
    }


@as_trial(
    "what happens to the chosen tokens",
    "Of the chosen tokens, replace 80% with mask_id and 10% with a random ordinary id, and leave "
    "10% unchanged.",
)
def fates(candidate: Callable[..., Any]) -> dict[str, Any]:
    ids, inputs, _, chosen = hidden(candidate)
    masked, same = inputs == MASK, inputs == ids
    changed = ~masked & ~same
    random_ids, (sentences, places) = inputs[changed], changed.nonzero().T
    return {
        "chosen tokens replaced with mask_id": percent(masked[chosen], 80),
        "chosen tokens replaced with a different id": percent(~(masked | same)[chosen], 9.4),
        "chosen tokens left unchanged": percent(same[chosen], 10.6),
        "what a chosen token becomes": varies(masked, chosen),
        "other real tokens that change": percent(~same[~chosen & (ids != PAD)]),
        "padding that changes": percent(~same[ids == PAD]),
        "how many different random ids": len(random_ids.unique()),
        "how many distances from the old ids": len((random_ids - ids[changed]).unique()),
        "random ids in a sentence": spread(random_ids, sentences),
        "random ids at a position": spread(random_ids, places),
        "random ids are ordinary": bool((random_ids < NUM_ORDINARY).all()),
    }


@as_trial(
    "the ids passed to the function", "Build new tensors, because the caller needs the ids again."
)
def ids_kept(candidate: Callable[..., Any]) -> dict[str, Any]:
    ids = long_ids()
    inputs, targets = candidate(ids, **SPECIAL)
    return {
        "the ids have changed": not ids.equal(long_ids()),
        "shapes of inputs and targets": str([tuple(inputs.shape), tuple(targets.shape)]),
        "types of inputs and targets": str([inputs.dtype, targets.dtype]),
    }


@as_trial("a generator", "Draw every random number from `generator`.")
def draws(candidate: Callable[..., Any]) -> dict[str, Any]:
    runs = [hidden(candidate, generator=torch.Generator().manual_seed(s)) for s in (0, 0, 1)]
    state = torch.get_rng_state()
    hidden(candidate, generator=torch.Generator())
    return {
        "the same seed, the same targets": runs[0][2].equal(runs[1][2]),
        "the same seed, the same inputs": runs[0][1].equal(runs[1][1]),
        "a different seed, the same inputs": runs[0][1].equal(runs[2][1]),
        "the global seed is left alone": state.equal(torch.get_rng_state()),
    }


END = torch.tensor([[True, True, True, False, False], [True] * S])
SCATTERED = torch.tensor([[False, True, False, False, True], [True, False, True, True, False]])


def pooled(label: str, real: Tensor) -> Any:
    """Compare the means and their gradients."""
    return function_trial(label, {"vectors": normal("x", *real.shape, 6), "real": real})


@as_trial("a side that `size` does not divide", "Raise a ValueError, so that no pixel is lost.")
def rest(candidate: Callable[..., Tensor]) -> dict[str, str]:
    return {"images of 4 × 5, cut into squares of 2": answer_to(lambda: candidate(PIXELS, 2))}


PIXELS = normal("pixels", B, 4, 5)


def cut(label: str, height: int, width: int, size: int) -> Any:
    """Compare the patches of two images."""
    return function_trial(
        label, {"images": normal("images", B, height, width), "size": size}, ("patches",)
    )


EXERCISES = (
    Exercise(
        "mask_tokens",
        25,
        core={"choice": (choice,), "fates": (fates,), "new tensors": (ids_kept,)},
        hints=(
            "Draw one number from 0 to 1 for each token with `torch.rand(ids.shape)`. A token is "
            "chosen if its number is below 0.15, and if it is not padding.",
            "Draw a second number for each token. Replace chosen tokens whose second number is "
            "below 0.8 with `mask_id` and those whose second number is at least 0.9 with a random "
            "id; leave those in between unchanged. `torch.where(condition, new, old)` puts them "
            "together.",
            "The targets are `ids` at the chosen positions, including those left unchanged, and "
            "`pad_id` everywhere else: `ids.masked_fill(~chosen, pad_id)`.",
        ),
        extras={"generator": (draws,)},
    ),
    Exercise(
        "mean_pool",
        10,
        core={
            "mean": (pooled("padding at the end", END),),
            "any positions": (
                pooled("padding between real tokens", SCATTERED),
                pooled("one sequence without padding", torch.ones(1, S, dtype=torch.bool)),
            ),
        },
        formula="Average the vectors of the real tokens of each sequence.",
        hints=(
            "Set the vectors at padding positions to zero, and add up the vectors of each "
            "sequence. What number do you divide by?",
            "`real.unsqueeze(-1)` has the shape (B, L, 1), so it broadcasts with the vectors. Its "
            "sum over `dim=1` counts the real tokens of each sequence.",
        ),
        extras={
            "no real token": (pooled("a sequence without a real token", END & SCATTERED[:1]),),
            "empty": (pooled("nothing but padding", torch.zeros(B, S, dtype=torch.bool)),),
            "half precision": (
                half_precision(
                    "A float16 ends at 65,504, so add up the vectors in float32.",
                    lambda pool, dtype: pool(torch.full((1, 99, 2), 1e3, dtype=dtype), MANY),
                ),
            ),
        },
        rejects=(
            "(torch.ones(2, 3, 4), torch.ones(2, 3))",
            "(torch.ones(2, 3, 4), torch.ones(1, 3).bool())",
        ),
    ),
    Exercise(
        "patches",
        15,
        core={
            "squares": (cut("patches of 2 × 2", 4, 6, 2),),
            "other sizes": (cut("patches of 3 × 3", 6, 3, 3), cut("patches of 1 × 1", 2, 3, 1)),
        },
        formula="Each row is one patch, read line by line, and the patches come in the same order.",
        hints=(
            "Draw an image of 4 × 4 pixels, number the pixels from 0 to 15 in reading order, and "
            "write down the four 2 × 2 patches. Which pixels are in the first one?",
            "`F.unfold(images.unsqueeze(1), size, stride=size)` cuts out the squares. The result "
            "has the shape (B, size², L), so swap its last two axes.",
        ),
        extras={"rest": (rest,)},
    ),
)


# known mistakes


DRAWN = "torch.rand(ids.shape, generator=generator)"
FATE = f"fate = {DRAWN}"
TARGETS = "ids.masked_fill(~chosen, pad_id)"
MEAN = "total / column.sum(dim=1).clamp(min=1)"
CUT = "return F.unfold(images.unsqueeze(1), size, stride=size).transpose(1, 2)"

MISTAKES = {
    "mask_tokens": {
        "targets_everywhere: every token has a target, so the loss also counts the tokens that the "
        "model can see [lucidrains/mlm-pytorch #2]": (TARGETS, "ids"),
        "targets_at_masks_only: the chosen tokens that are left unchanged or replaced with a "
        "random id have no target": (TARGETS, "ids.masked_fill(inputs != mask_id, pad_id)"),
        "targets_from_inputs: the targets are taken from the inputs, so the model learns to "
        "predict mask_id": (TARGETS, "inputs.masked_fill(~chosen, pad_id)"),
        "results_swapped: the targets come first, but the inputs should": (
            f"return inputs, {TARGETS}",
            f"return {TARGETS}, inputs",
        ),
        "always_masked: every chosen token is replaced with mask_id, and none is replaced with a "
        "random "
        "id or left unchanged": (("fate < 0.8", "fate < 1"), ("(fate >= 0.9)", "(fate > 1)")),
        "one_draw_for_both: one random number chooses a token and decides what happens to it, but "
        "one below 0.15 is also below 0.8, so mask_id always replaces the token; draw a second "
        "number": ((FATE, "pass"), (f"chosen = ({DRAWN}", f"{FATE}\n    chosen = (fate")),
        "none_stays: 20% of the chosen tokens are replaced with a random id, so none is left "
        "unchanged": ("fate >= 0.9", "fate >= 0.8"),
        "none_random: 20% of the chosen tokens are left unchanged, and none is replaced with a "
        "random id": ("torch.where(chosen & (fate >= 0.9), random_ids, inputs)", "inputs"),
        "padding_chosen: padding is chosen like real tokens": (" & (ids != pad_id)", ""),
        "chosen_inverted: 85% of the tokens are chosen instead of 15%": ("< 0.15", "> 0.15"),
        "random_everywhere: random ids replace 10% of all tokens instead of 10% of the chosen "
        "ones": (
            "torch.where(chosen & (fate >= 0.9)",
            "torch.where((fate >= 0.9) & (ids != pad_id)",
        ),
        "masks_everywhere: mask_id replaces 80% of all tokens instead of 80% of the chosen ones": (
            "ids.masked_fill(chosen & (fate < 0.8)",
            "ids.masked_fill((fate < 0.8)",
        ),
        "special_random_ids: a random id can be pad_id or mask_id": (
            "torch.randint(num_ordinary,",
            "torch.randint(max(mask_id, pad_id) + 1,",
        ),
        "one_random_id: the same random id is used for all tokens that are replaced at random": (
            "random_ids = torch.randint(num_ordinary, ids.shape",
            "random_ids = torch.randint(num_ordinary, ()",
        ),
        "ids_changed: the inputs overwrite the ids, so the targets are lost": (
            "ids.masked_fill(chosen &",
            "ids.masked_fill_(chosen &",
        ),
        "targets_where_changed: the chosen tokens that are left unchanged have no target": (
            TARGETS,
            "ids.masked_fill(inputs == ids, pad_id)",
        ),
        "targets_of_minus_100: all other targets are -100, as "
        "in `transformers`, but here they are pad_id": (TARGETS, "ids.masked_fill(~chosen, -100)"),
        "too_few: tokens are chosen with probability 0.12 = 0.15 · 0.8": ("< 0.15", "< 0.12"),
        "masks_overwritten: half of all chosen tokens get a random id, even if they have mask_id": (
            "(fate >= 0.9)",
            "(torch.rand(ids.shape, generator=generator) < 0.5)",
        ),
        "generator_in_part: the choice uses `generator`, but not every number after it does": (
            "torch.randint(num_ordinary, ids.shape, generator=generator)",
            "torch.randint(num_ordinary, ids.shape)",
        ),
        **ignored(("generator", (", generator=generator)", ")"))),
    },
    "mean_pool": {
        "padding_averaged: the mean is taken over all positions, including padding "
        "[huggingface/transformers "
        "#17463; jsboige/CoursIA #15045; HKUDS/LightRAG #3675]": (MEAN, "vectors.mean(dim=1)"),
        "divided_by_length: the vectors at padding positions are set to zero, but the sum is "
        "divided by L instead of the number of real tokens": (MEAN, "total / real.size(1)"),
        "divided_by_all: the sum is divided by the number of real tokens in the whole batch "
        "[SeanLee97/AnglE "
        "#101; StarlightSearch/EmbedAnything #210]": (MEAN, "total / column.sum()"),
        "not_divided: the vectors are added up, but the sum is not divided": (MEAN, "total"),
        "first_token: the result is the vector of the first token instead of the mean": (
            MEAN,
            "vectors[:, 0]",
        ),
        "mask_inverted: the mean is taken over the padding, but True means a real token here": (
            "column = real.unsqueeze(-1)",
            "column = ~real.unsqueeze(-1)",
        ),
        "padding_added_up: the vectors of the padding "
        "are added up, and divided by the number of real tokens": ("~column, 0.0", "column, 0.0"),
        "squeezed: squeeze removes the axis of a single sequence": (MEAN, f"({MEAN}).squeeze()"),
        "largest: the result is the largest entry of each column instead of the mean": (
            MEAN,
            'vectors.masked_fill(~column, float("-inf")).amax(dim=1)',
        ),
        "mean_of_features: the mean is taken over the d_model entries of each vector instead of "
        "over the tokens": (MEAN, "vectors.mean(dim=2)"),
        "no_real_token_is_nan: a sequence without real tokens gives nan, because its sum is "
        "divided by 0": (".clamp(min=1)", ""),
    },
    "patches": {
        "reshaped: the image is reshaped instead of cut, so a patch contains pieces of pixel rows "
        "instead of a square "
        "[duoan/TorchCode #21]": (CUT, "return images.reshape(len(images), -1, size * size)"),
        "pixels_before_patches: the "
        "shape is (B, size², L), because two axes have not been swapped": (".transpose(1, 2)", ""),
        "reshaped_after_cutting: reshape gives the correct shape, but mixes the pixels of "
        "different patches; swap "
        "the axes with transpose": (".transpose(1, 2)", ".reshape(len(images), -1, size * size)"),
        "overlapping: the window moves by one pixel, so the patches overlap": (", stride=size", ""),
        "columns_first: the patches go down the columns of the image instead of along its rows": (
            CUT,
            CUT + ".unflatten(1, (images.size(1) // size, -1)).transpose(1, 2).flatten(1, 2)",
        ),
        "pixels_by_column: the pixels of a patch go down its columns instead of along its rows": (
            CUT,
            CUT + ".unflatten(2, (size, size)).transpose(2, 3).flatten(2)",
        ),
        "rest_lost: pixels at the border are lost without an error if size "
        "does not divide a side": ("images.size(1) % size or images.size(2) % size", "size < 1"),
    },
}
PATTERNS = {"one_draw_for_both": r"(\b\w+) < 0?\.15(?s:.*)\b\1 < 0?\.8"}


# right answers

CHOSEN = f"({DRAWN} < 0.15) & (ids != pad_id)"
FEW = """order = drawn.masked_fill(ids == pad_id, 1.0).argsort(dim=1).argsort(dim=1)
    count = (0.15 * (ids != pad_id).sum(dim=1, keepdim=True)).round()"""

ANSWERS = {
    "mask_tokens": {
        "one_draw: one random number for each token decides whether and how the token is hidden": (
            (
                f"chosen = {CHOSEN}",
                f"drawn = {DRAWN}\n    chosen = (drawn < 0.15) & (ids != pad_id)",
            ),
            (FATE, "fate = drawn / 0.15"),
        ),
        "coins: coins are tossed with probabilities 0.15, 0.8 and then 0.5, as in `transformers`": (
            (", generator: Generator | None = None", ""),
            (CHOSEN, "torch.bernoulli(0.15 * (ids != pad_id)).bool()"),
            (FATE, "masked = torch.bernoulli(torch.full(ids.shape, 0.8)).bool()"),
            (
                "torch.randint(num_ordinary, ids.shape, generator=generator)",
                "torch.randint_like(ids, num_ordinary)",
            ),
            ("(fate < 0.8)", "masked"),
            ("(fate >= 0.9)", "~masked & torch.bernoulli(torch.full(ids.shape, 0.5)).bool()"),
        ),
        "exactly_15_percent: exactly 15% of each sentence are chosen, and divided into groups": (
            (f"chosen = {CHOSEN}", f"drawn = {DRAWN}\n    {FEW}\n    chosen = order < count"),
            (FATE, "fate = order / count"),
        ),
    },
}
