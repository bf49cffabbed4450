"""Right answers of chapter 16, in other styles."""

from bisect import bisect_right
from collections import OrderedDict
from math import fsum

import torch
from torch import Tensor


def share_by_filling(lengths, batches):
    """Count what is missing in every row, beside what is there."""
    if len(batches) == 0:
        raise ValueError("no batches")
    padding = tokens = 0
    for batch in batches:
        if len(batch) == 0:
            raise ValueError("an empty batch")
        for side in range(2):
            rows = [lengths[place][side] for place in batch]
            padding += sum(max(rows) - row for row in rows)
            tokens += sum(rows)
    return padding / (padding + tokens)


def share_by_tensors(lengths, batches) -> float:
    """Let torch look for the longest rows."""
    table = torch.tensor(lengths, dtype=torch.float64)
    if not (batches and min(map(len, batches))):
        raise ValueError(f"{batches} have no share")
    parts = [table[list(batch)] for batch in batches]
    places = sum(len(part) * part.amax(dim=0).sum() for part in parts)
    return (1 - torch.cat(parts).sum() / places).item()


def share_by_grids(lengths, batches):
    """Draw every batch as 0 and 1, and take the mean of all."""
    cells = []
    for batch in batches:
        for side in zip(*[lengths[place] for place in batch], strict=True):
            cells += [column >= row for row in side for column in range(max(side))]
        if not batch:
            raise ValueError("nothing in a batch")
    if not cells:
        raise ValueError("nothing at all")
    return sum(cells) / len(cells)


def cut_by_loop(lengths, tokens):
    """Fill a batch, and look at every row of it again each time."""
    batches = []
    for place in sorted(
        range(len(lengths)), key=lambda place: (max(lengths[place]), min(lengths[place]))
    ):
        if sum(lengths[place]) > tokens:
            raise ValueError(f"{sum(lengths[place])} tokens are more than {tokens}")
        wider = [*batches[-1], place] if batches else []
        sources = [lengths[i][0] for i in wider]
        targets = [lengths[i][1] for i in wider]
        if wider and len(wider) * (max(sources) + max(targets)) <= tokens:
            batches[-1].append(place)
        else:
            batches.append([place])
    return batches


def cut_by_searching(lengths, tokens):
    """Look up how many of the rest fit; of equal pairs the last comes first."""
    longest = max(map(sum, lengths), default=0)
    if longest > tokens:
        raise ValueError(f"a pair has {longest} tokens, and a batch at most {tokens}")
    order = sorted(reversed(range(len(lengths))), key=lambda i: sorted(lengths[i])[::-1])

    def places(start, stop):
        """Count the places of a piece."""
        rows = [lengths[i] for i in order[start:stop]]
        return (stop - start) * sum(map(max, zip(*rows, strict=True)))

    cuts = [0]
    while cuts[-1] < len(order):
        start = cuts[-1]
        stops = range(start + 1, len(order) + 1)
        cuts.append(start + bisect_right(stops, tokens, key=lambda stop: places(start, stop)))
    return [order[a:b] for a, b in zip(cuts, cuts[1:], strict=False)]


def cut_by_tensors(lengths, tokens: int) -> list[list[int]]:
    """Sort twice, stably, and let running maxima say where a batch ends."""
    table = torch.tensor(list(lengths)).view(-1, 2)
    if len(table) and (most := table.sum(dim=1).max().item()) > tokens:
        raise ValueError(f"tokens={tokens} is less than {most}")
    short, long = table.amin(dim=1), table.amax(dim=1)
    order = short.argsort(stable=True)
    order = order[long[order].argsort(stable=True)]
    batches = []
    while len(order):
        widths = table[order].cummax(dim=0).values.sum(dim=1)
        fits = int((widths * torch.arange(1, len(order) + 1) <= tokens).sum())
        batches.append(order[:fits].tolist())
        order = order[fits:]
    return batches


def average_by_running_mean(states):
    """Go towards each further checkpoint, by less and less."""
    if len(states) == 0:
        raise ValueError("nothing to average")
    first, *others = states
    mean = {name: value.to(torch.float64) for name, value in first.items()}
    for n, state in enumerate(others, start=2):
        if state.keys() != mean.keys():
            raise ValueError(f"other names: {sorted(state.keys() ^ mean.keys())}")
        for name, value in state.items():
            if value.shape != mean[name].shape:
                raise ValueError(f"{name}: {tuple(value.shape)}, {tuple(mean[name].shape)}")
            mean[name] = mean[name] + (value.double() - mean[name]) / n
    return {name: value.type(first[name].dtype) for name, value in mean.items()}


def average_by_sum(states) -> OrderedDict[str, Tensor]:
    """Begin with zeros, and add."""
    kinds = {tuple(sorted((name, tuple(x.shape)) for name, x in state.items())) for state in states}
    if len(kinds) != 1:
        raise ValueError(f"{len(kinds)} kinds of model; 1 can be averaged")
    result = OrderedDict()
    for name in states[0]:
        total = torch.zeros_like(states[0][name], dtype=torch.float64)
        for state in states:
            total += state[name]
        result[name] = (total / len(states)).to(states[0][name].dtype)
    return result


def average_by_numbers(states):
    """Take the numbers out of the tensors, and put their means back."""
    if not states or any(_shapes(state) != _shapes(states[0]) for state in states):
        raise ValueError("one model at least, and not two different ones")
    means = {}
    for name, model in states[0].items():
        rows = zip(*(state[name].flatten().tolist() for state in states), strict=True)
        numbers = torch.tensor([fsum(row) / len(row) for row in rows], dtype=torch.float64)
        means[name] = numbers.reshape(model.shape).to(model.dtype)
    return means


def _shapes(state):
    """List names and shapes."""
    return {name: list(value.shape) for name, value in state.items()}


ANSWERS = {
    "padding_fraction": (share_by_filling, share_by_tensors, share_by_grids),
    "batch_by_tokens": (cut_by_loop, cut_by_searching, cut_by_tensors),
    "average_weights": (average_by_running_mean, average_by_sum, average_by_numbers),
}
