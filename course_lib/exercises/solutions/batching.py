"""Right answers of chapter 16, in other styles."""

from bisect import bisect_right
from collections import OrderedDict

import torch
from torch import Tensor


def padding_by_filling(lengths, batches):
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


def padding_by_tensors(lengths, batches) -> float:
    """Let torch look for the longest rows."""
    table = torch.tensor(lengths, dtype=torch.float64)
    if not (batches and min(map(len, batches))):
        raise ValueError(f"{batches} have no share")
    parts = [table[list(batch)] for batch in batches]
    places = sum(len(part) * part.amax(dim=0).sum() for part in parts)
    return (1 - torch.cat(parts).sum() / places).item()


def padding_without_checks(lengths, batches):
    """Hold the core: cost of each batch, as a loader computes it."""
    costs = [
        len(batch) * (max(lengths[i][0] for i in batch) + max(lengths[i][1] for i in batch))
        for batch in batches
    ]
    return 1 - sum(sum(lengths[i]) for batch in batches for i in batch) / sum(costs)


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
        """Count the positions of a part."""
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


def average_plainly(state_dicts):
    """Hold the core: sums divided by their number, as in the Annotated Transformer."""
    first, *_ = state_dicts
    return {key: sum(state[key] for state in state_dicts) / len(state_dicts) for key in first}


ANSWERS = {
    "padding_fraction": (padding_by_filling, padding_by_tensors, padding_without_checks),
    "batch_by_tokens": (cut_by_loop, cut_by_searching, cut_by_tensors),
    "average_weights": (average_by_running_mean, average_by_sum, average_plainly),
}
