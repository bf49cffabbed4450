"""What is asked of sampling: tokens that come as often as they should, and from the right ones."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.outcomes import Outcome, describe
from course_lib.exercises.trial import Trial, value_trial

PAD, ROWS, V = 3, 6000, 7
RANKED = (5, 1, 6, 0, 2, 4)  # the tokens, the likeliest first
FALLING = (0.4, 0.3, 0.2, 0.1)
WHOLE = (0.4, 0.24, 0.16, 0.12, 0.08)  # the first three have 0.8 together: as 5 to 3 to 2


def logits_for(shares: tuple[float, ...], temperature: float = 1.0) -> Tensor:
    """Make rows that have these shares at this temperature; padding is liked best, in all."""
    last = torch.full((V,), float("-inf"))
    for token, share in zip(RANKED, shares, strict=False):
        last[token] = temperature * torch.tensor(share).log()
    last[PAD] = 5.0
    before = torch.arange(float(V))  # an earlier position, of which nothing is asked
    return torch.stack([before, last]).expand(ROWS, 2, V).clone()  # (B, T, V)


def rounded(tokens: Any) -> dict[str, Any]:
    """Tell how often every token came, to a tenth."""
    if not isinstance(tokens, Tensor) or tokens.shape != (ROWS,):
        return {"returned": describe(tokens)}
    counts = tokens.long().bincount(minlength=V)
    often = {token: round(counts[token].item() / ROWS, 1) for token in range(V) if counts[token]}
    return {f"token {token}": f"about {share}" for token, share in sorted(often.items())}


def drawn_case(
    label: str, shares: tuple[float, ...], right: tuple[float, ...], says: str, **how: Any
) -> Trial:
    """Draw from many equal rows, and compare how often every token comes."""
    logits = logits_for(shares, how.get("temperature", 1.0))
    pairs = sorted(zip(RANKED, right, strict=False))
    wanted = {f"token {token}": f"about {share}" for token, share in pairs}

    def act(candidate: Callable) -> Outcome:
        """Draw, and look whether the logits are as they were."""
        given, goes_on = logits.clone(), torch.zeros(ROWS, dtype=torch.bool)
        seen = {"drawn": rounded(candidate(given, goes_on, PAD, **how))}
        return Outcome(seen, {}, () if torch.equal(given, logits) else ("logits",))

    return Trial(label, act, lambda: Outcome({"drawn": wanted}), says=says)


def ends(candidate: Callable) -> dict[str, Any]:
    """Draw for rows of which every third has ended."""
    logits, ended = logits_for(FALLING), torch.arange(ROWS) % 3 == 0
    tokens = candidate(logits, ended, PAD)
    if not isinstance(tokens, Tensor) or tokens.shape != (ROWS,):
        return {"returned": describe(tokens)}
    return {
        "dtype": str(tokens.dtype),
        "rows that have ended get padding": bool((tokens[ended] == PAD).all()),
        "rows that go on get padding": bool((tokens[~ended] == PAD).any()),
    }


def dice(candidate: Callable) -> dict[str, bool]:
    """Draw with generators of the same seed, of another, and row against row."""
    logits, goes_on = logits_for(FALLING), torch.zeros(ROWS, dtype=torch.bool)

    def draw(seed: int) -> Tensor:
        """Draw with a generator of one's own."""
        return candidate(logits, goes_on, PAD, generator=torch.Generator().manual_seed(seed))

    first, again, other = draw(1), draw(1), draw(2)
    return {
        "the same generator gives the same tokens": torch.equal(first, again),
        "another one gives others": not torch.equal(first, other),
        "rows are drawn one by one": len(first.unique()) > 1,
    }


SAMPLED = "How often each token comes: as the softmax of the last position says, without padding."
CUT = "What is cut off never comes; what is left comes in its old proportions."


EXERCISES = (
    Exercise(
        "sample_tokens",
        "decoding",
        30,
        (
            drawn_case("temperature 1", FALLING, FALLING, SAMPLED),
            value_trial(
                "rows that have ended",
                ends,
                {
                    "dtype": "torch.int64",
                    "rows that have ended get padding": True,
                    "rows that go on get padding": False,
                },
                says="A token for each row, `(B,)`; padding where it has ended, and only there.",
            ),
            value_trial(
                "generators",
                dice,
                {
                    "the same generator gives the same tokens": True,
                    "another one gives others": True,
                    "rows are drawn one by one": True,
                },
                says="The random numbers come from `generator`, and every row has its own draw.",
            ),
            drawn_case(
                "temperature=0.5",
                (0.7, 0.2, 0.1),
                (0.7, 0.2, 0.1),
                "The logits are divided by the temperature, before the softmax.",
                temperature=0.5,
            ),
            drawn_case("top_k=3", WHOLE, (0.5, 0.3, 0.2), CUT, top_k=3),
            drawn_case("top_k=1", WHOLE, (1.0,), CUT, top_k=1),
            drawn_case("top_k=50, more than there are", FALLING, FALLING, CUT, top_k=50),
            drawn_case(
                "top_p=0.75",
                WHOLE,
                (0.5, 0.3, 0.2),
                "As few of the likeliest as reach p together; the one that crosses it is kept.",
                top_p=0.75,
            ),
            drawn_case(
                "top_p=0.3, less than the likeliest has",
                WHOLE,
                (1.0,),
                "The likeliest token always stays.",
                top_p=0.3,
            ),
            drawn_case(
                "top_k=3 and top_p=0.75",
                WHOLE,
                (0.6, 0.4),
                "`top_p` is a share of what `top_k` left: 0.5, 0.3 and 0.2 here.",
                top_k=3,
                top_p=0.75,
            ),
            drawn_case(
                "temperature=0.5 and top_p=0.75",
                WHOLE,
                (0.5, 0.3, 0.2),
                "The temperature comes first, and `top_p` looks at what it made.",
                temperature=0.5,
                top_p=0.75,
            ),
        ),
        (
            "As in `argmax_tokens`, take the last position and hide padding. Then sort the scores "
            "with `sort(descending=True)`; its second result says which token stands where.",
            "Cut after k, divide by the temperature, take the softmax. `cumsum` minus the share "
            "itself is what the likelier ones have: keep a token while that is below p.",
            "`torch.multinomial(shares, 1, generator=generator)` draws a place in each row, and "
            "need not be given shares that add up to 1; `order.gather(1, place)` is the token.",
        ),
    ),
)
