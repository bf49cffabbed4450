"""Right answers of chapter 17, in other styles."""

from bisect import bisect_right


def cut_by_loop(lengths, tokens):
    """Fill a batch, and look at every row of it again each time."""
    batches = []
    for place in sorted(
        range(len(lengths)), key=lambda place: (max(lengths[place]), min(lengths[place]))
    ):
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


ANSWERS = {"batch_by_tokens": (cut_by_loop, cut_by_searching)}
