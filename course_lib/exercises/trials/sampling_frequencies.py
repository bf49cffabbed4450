"""What is asked of draws: a model that gives tokens known shares, and how often each comes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.exercises.old_trial import Trial, value_trial
from course_lib.exercises.outcomes import describe
from course_lib.gpt import GPT, GPTConfig

ROWS = 3000
MANY = (0.1, 0.3, 0.1, 0.2, 0.1, 0.1, 0.1)  # the first two of the likeliest: as 3 to 2
FEW = (0.1, 0.4, 0.2, 0.3)


def liking(shares: Sequence[float], temperature: float = 1.0) -> GPT:
    """Build a model that gives tokens these shares at this temperature, whatever it reads."""
    sizes = dict(vocab_size=len(shares), max_len=5, num_layers=1, num_heads=1, d_model=2)
    model = GPT(GPTConfig(**sizes, dropout=0.0)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        model.norm.bias[0] = 1.0
        model.embedding.weight[:, 0] = temperature * torch.tensor(shares).log()
    return model


def drawn_case(
    label: str, shares: Sequence[float], right: dict[int, float], says: str, **how: Any
) -> Trial:
    """Draw one token for many equal rows, and compare how often each comes.

    Args:
        label: What is special about it.
        shares: What the model gives, at the temperature that is asked for.
        right: How often tokens come; the others never.
        says: What other shares mean.
        how: Options of the draw.
    """
    tokens = range(len(shares))

    def act(candidate: Callable) -> dict[str, str]:
        """Count, to a tenth."""
        ids = torch.tensor([[2, 0]]).repeat(ROWS, 1)
        text = candidate(liking(shares, how.get("temperature", 1.0)), ids, 1, **how)
        if not isinstance(text, Tensor) or text.dim() != 2 or len(text) != ROWS:
            return {"returned": describe(text)}
        counts = text[:, -1].long().bincount(minlength=len(shares)).tolist()
        return {f"token {n}": f"about {count / ROWS:.1f}" for n, count in enumerate(counts)}

    wanted = {f"token {n}": f"about {right.get(n, 0.0):.1f}" for n in tokens}
    return value_trial(label, act, wanted, says=says)


def dice(candidate: Callable) -> dict[str, bool]:
    """Draw with generators of the same seed, of another, and row against row."""

    def write(seed: int) -> Tensor:
        """Write with a generator of one's own."""
        generator = torch.Generator().manual_seed(seed)
        return candidate(liking(MANY), torch.zeros(60, 1).long(), 6, generator=generator)

    first, again, other = write(1), write(1), write(2)
    return {
        "the same generator writes the same": torch.equal(first, again),
        "another one writes something else": not torch.equal(first, other),
        "rows are drawn one by one": len({*map(tuple, first.tolist())}) > 1,
    }


DRAWS = (
    drawn_case(
        "one token for many rows",
        MANY,
        dict(enumerate(MANY)),
        "How often each token comes: as the softmax of the last place says, none left out.",
    ),
    drawn_case(
        "temperature=0.5",
        FEW,
        dict(enumerate(FEW)),
        "The logits are divided by the temperature: below 1 the likely get likelier.",
        temperature=0.5,
    ),
    drawn_case(
        "top_k=2",
        MANY,
        {1: 0.6, 3: 0.4},
        "Only the k likeliest tokens are drawn from; the others never come.",
        top_k=2,
    ),
    drawn_case(
        "top_p=0.45",
        MANY,
        {1: 0.6, 3: 0.4},
        "Only as few of the likeliest as reach p together are drawn from.",
        top_p=0.45,
    ),
    value_trial(
        "generators",
        dice,
        dict.fromkeys(
            (
                "the same generator writes the same",
                "another one writes something else",
                "rows are drawn one by one",
            ),
            True,
        ),
        says="The random numbers come from `generator`, and every row has its own draw.",
    ),
)
