"""Treasure hunts: ten boxes with notes that name other boxes, and models that follow them."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from course_lib.gpt import GPT, sample

BOXES, DOT = 10, 10  # ten boxes; a token that says nothing
WRONG = -1  # the note of a token that is not a box
SIZES = (1, 2, 4, 8, 16, 32)


def follow(notes: Tensor, box: Tensor, count: int) -> Tensor:
    """Read the note in each box, go to the box it names, and so on.

    Shapes: notes (B, 10), box (B,) → the boxes on the way (B, count), without the first.
    """
    path = []
    for _ in range(count):
        box = notes.gather(1, box.unsqueeze(1)).squeeze(1)
        path.append(box)
    return torch.stack(path, dim=1)


def draw_hunts(
    count: int, generator: torch.Generator, notes_to_read: int = 5
) -> tuple[Tensor, Tensor]:
    """Draw hunts whose notes form one circle.

    Returns prompts (B, 11), the ten notes and the first box, and the paths (B, notes_to_read).
    """
    circle = torch.rand(count, BOXES, generator=generator).argsort(dim=1)
    notes = torch.empty_like(circle).scatter_(1, circle, circle.roll(-1, dims=1))
    first = torch.randint(BOXES, (count, 1), generator=generator)
    return torch.cat([notes, first], dim=1), follow(notes, first.squeeze(1), notes_to_read)


def examples(way: str, prompts: Tensor, path: Tensor) -> tuple[Tensor, Tensor]:
    """Return what a model reads, and what it should predict there, both (B, L); -100 = nothing.

    ``way`` is "at once", "dots", "steps", or "dots, all five", which reads dots but is
    trained on steps.
    """
    middle = path[:, :-1] if way == "steps" else torch.full_like(path[:, :-1], DOT)
    read = torch.cat([prompts, middle[:, :0] if way == "at once" else middle], dim=1)
    targets = torch.full_like(read, -100)
    targets[:, -1] = path[:, -1]
    if way in ("steps", "dots, all five"):
        targets[:, BOXES:] = path
    return read, targets


def accuracy(model: GPT, way: str, notes_to_read: int = 5, count: int = 1000) -> float:
    """Return the fraction of new hunts that end in the right box, if the model writes greedily."""
    generator = torch.Generator().manual_seed(10_000)
    prompts, path = draw_hunts(count, generator, notes_to_read)
    if way == "steps":
        last = sample(model, prompts, notes_to_read, top_k=1)[:, -1]
    else:
        last = sample(model, examples(way, prompts, path)[0], 1, top_k=1)[:, -1]
    return (last == path[:, -1]).double().mean().item()


def forgeries_followed(model: GPT, place: int, count: int = 1000) -> float:
    """Replace one of the first four steps; return how often the model ends where it leads."""
    generator = torch.Generator().manual_seed(20_000)
    prompts, path = draw_hunts(count, generator)
    wrong = (path[:, place] + torch.randint(1, BOXES, (count,), generator=generator)) % BOXES
    text = torch.cat([prompts, path[:, :place], wrong.unsqueeze(1)], dim=1)
    last = sample(model, text, 4 - place, top_k=1)[:, -1]
    return (last == follow(prompts[:, :BOXES], wrong, 4 - place)[:, -1]).double().mean().item()


def draw_paths(model: GPT, prompts: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Sample ``count`` paths for each prompt (B, 11): (count, B, 5)."""
    ids = sample(model, prompts.repeat(count, 1), 5, generator=generator)
    return ids[:, BOXES + 1 :].unflatten(0, (count, -1))


def accepted(prompts: Tensor, paths: Tensor) -> Tensor:
    """Verify every step of paths (n, B, 5) with its note: bool (n, B)."""
    first = prompts[:, BOXES:].expand(len(paths), -1, -1)  # (n, B, 1)
    before = torch.cat([first, paths[:, :, :-1]], dim=2)
    notes = F.pad(prompts[:, :BOXES], (0, 1), value=WRONG).expand(len(paths), -1, -1)
    return (notes.gather(2, before) == paths).all(dim=2)


def sampled(model: GPT, count: int = 1000) -> tuple[float, float]:
    """Sample a path for new hunts; return how often the last box, and every step, is right."""
    generator = torch.Generator().manual_seed(30_000)
    prompts, path = draw_hunts(count, generator)
    paths = draw_paths(model, prompts, 1, generator)
    right = (paths[0, :, -1] == path[:, -1]).double().mean().item()
    return right, accepted(prompts, paths).double().mean().item()


def with_more_samples(
    model: GPT, vote: Callable[[Tensor], Tensor], count: int = 500
) -> tuple[list[float], list[float]]:
    """Return the accuracies of a vote, and of best of n with a verifier, for n in ``SIZES``.

    ``vote`` turns answers (n, B) into one answer to each question (B,).
    """
    generator = torch.Generator().manual_seed(40_000)
    prompts, path = draw_hunts(count, generator)
    paths = draw_paths(model, prompts, max(SIZES), generator)  # (n, B, 5)
    ends, right, fine = paths[:, :, -1], path[:, -1], accepted(prompts, paths).long()
    voted, best = [], []
    for n in SIZES:
        voted.append((vote(ends[:n]) == right).double().mean().item())
        chosen = ends[:n].gather(0, fine[:n].argmax(dim=0, keepdim=True))[0]  # (B,)
        best.append((chosen == right).double().mean().item())
    return voted, best
