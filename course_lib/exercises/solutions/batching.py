"""Right answers of chapter 16, in other styles."""

from bisect import bisect_right

import torch


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


ANSWERS = {
    "batch_by_tokens": (cut_by_loop, cut_by_searching, cut_by_tensors),
}
