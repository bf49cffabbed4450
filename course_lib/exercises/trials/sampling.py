"""What is asked of sampling: tokens that come as often as they should, and from the right ones."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.check import Exercise
from course_lib.exercises.old_trial import Trial, value_trial
from course_lib.exercises.outcomes import Outcome, describe

ROWS, V = 6000, 7
RANKED = (5, 1, 6, 0, 2, 4)  # the tokens, the likeliest first
FALLING = (0.4, 0.3, 0.2, 0.1)
WHOLE = (0.4, 0.24, 0.16, 0.12, 0.08)  # the first three have 0.8 together: as 5 to 3 to 2


def logits_for(shares: tuple[float, ...], temperature: float = 1.0) -> Tensor:
    """Make rows that have these shares at this temperature; some tokens are impossible."""
    last = torch.full((V,), float("-inf"))
    for token, share in zip(RANKED, shares, strict=False):
        last[token] = temperature * torch.tensor(share).log()
    return last.expand(ROWS, V).clone()  # (B, V)


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
        given = logits.clone()
        seen = {"drawn": rounded(candidate(given, **how))}
        return Outcome(seen, {}, () if torch.equal(given, logits) else ("logits",))

    return Trial(label, act, lambda: Outcome({"drawn": wanted}), says=says)


def one_for_each_row(candidate: Callable) -> dict[str, Any]:
    """Draw, and look at the tensor itself."""
    tokens = candidate(logits_for(FALLING))
    if not isinstance(tokens, Tensor):
        return {"returned": describe(tokens)}
    return {"dtype": str(tokens.dtype), "shape": tuple(tokens.shape)}


def dice(candidate: Callable) -> dict[str, bool]:
    """Draw with generators of the same seed, of another, and row against row."""
    logits = logits_for(FALLING)

    def draw(seed: int) -> Tensor:
        """Draw with a generator of one's own."""
        return candidate(logits, generator=torch.Generator().manual_seed(seed))

    first, again, other = draw(1), draw(1), draw(2)
    return {
        "the same generator gives the same tokens": torch.equal(first, again),
        "another one gives others": not torch.equal(first, other),
        "rows are drawn one by one": len(first.unique()) > 1,
    }


SAMPLED = "How often each token comes: as the softmax of the logits says."
CUT = "What is cut off never comes; what is left comes in its old proportions."


EXERCISES = (
    Exercise(
        "sample_tokens",
        "decoding",
        30,
        (
            drawn_case("temperature 1", FALLING, FALLING, SAMPLED),
            value_trial(
                "a look at the tensor",
                one_for_each_row,
                {"dtype": "torch.int64", "shape": (ROWS,)},
                stage="shape",
                says="A token for each row, `(B,)`, as ids (torch.long).",
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
            "`logits.topk(k)` gives the k best, the best first, and which tokens they are; with "
            "`top_p` alone, k is V. Divide by the temperature, take the softmax.",
            "`cumsum` minus the probability itself is what the likelier tokens have: keep a token "
            "while that is below p.",
            "`torch.multinomial(probs, 1, generator=generator)` draws an index in each row, and "
            "need not be given probabilities that add up to 1; `order.gather(1, drawn)` is the "
            "token. Faster: `searchsorted` in the cumulative sum.",
        ),
    ),
)
