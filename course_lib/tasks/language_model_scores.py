"""What a writer is worth: its loss on all of val, its cache, its lines."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from course_lib.gpt import parse_rate, sample
from course_lib.tasks.language_model import TextGenerator

PLACES = 4_096  # characters read at once while measuring
NEAR = 32
BEYOND = 16  # characters written before the window is full, and afterwards
COPIES = 8  # texts written at once, that begin side by side: a small error shows in one of many


def side_by_side(ids: Tensor, length: int) -> Tensor:
    """Cut a text into windows that share no prediction.

    Args:
        ids: The text. Shape ``(L,)``.
        length: Tokens predicted in each, T.

    Returns:
        Shape ``(windows, T + 1)``: each window begins with the last token of the one before. What
        is left at the end, too short for a window, is left out.

    Raises:
        ValueError: If the text is too short for one window.

    Example:
        >>> side_by_side(torch.arange(8), 3)
        tensor([[0, 1, 2, 3],
                [3, 4, 5, 6]])
    """
    if len(ids) <= length:
        raise ValueError(f"{len(ids)} characters hold no window of {length} + 1")
    return ids.unfold(0, length + 1, length)


@torch.no_grad()
def loss_on(model: nn.Module, windows: Tensor) -> float:
    """Measure the loss on windows, in float32.

    Args:
        model: A ``GPT``; dropout is off while it is measured.
        windows: As ``side_by_side`` cuts them. Shape ``(windows, T + 1)``.

    Returns:
        The mean loss in nats per character predicted.
    """
    was_training = model.training
    model.eval()
    total = 0.0
    for part in windows.split(max(1, PLACES // windows.size(1))):
        part = part.to(model.output.weight.device)
        total += len(part) * model(part[:, :-1], part[:, 1:])[1].item()
    model.train(was_training)
    return total / len(windows)


def caching_is_exact(writer: TextGenerator, ids: Tensor) -> bool:
    """Say whether the cache changes no token that is written: in float64, and beyond the window.

    Args:
        writer: Stays as it is.
        ids: A text to begin with, longer than a window. Shape ``(L,)``.
    """
    exact = deepcopy(writer.model).double()
    max_len = writer.config.max_len
    length = max(1, max_len - NEAR)
    begun = ids[: length + COPIES - 1].unfold(0, length, 1).to(writer.device)  # (B, T)
    written = [
        sample(
            exact, begun, max_len - length + BEYOND, use_cache=use_cache,
            generator=torch.Generator(writer.device).manual_seed(0),
        )
        for use_cache in (True, False)
    ]  # fmt: skip
    return written[0].equal(written[1])


def program_lines(text: str) -> list[str]:
    """List the whole lines of what was written, without empty ones and comments.

    The first line was begun by somebody else, the last one is not finished: neither counts.
    """
    lines = (line.strip() for line in text.split("\n")[1:-1])
    return [line for line in lines if line and not line.startswith("#")]


def share_that_parses(texts: list[str]) -> float | None:
    """Return the share of the lines of some texts that Python accepts; ``None`` without lines."""
    lines = [line for text in texts for line in program_lines(text)]
    return parse_rate(lines) if lines else None
