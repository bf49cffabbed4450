"""Beam search in other words."""

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from course_lib.decoding import Rereader, generation_mode, length_penalty


def penalty_by_logarithm(lengths, alpha):
    """Go through the logarithm."""
    return torch.exp(alpha * torch.log1p((lengths - 1) / 6))


def penalty_by_pow(lengths: Tensor, alpha: float) -> Tensor:
    """Call the power by its name."""
    return torch.pow(lengths.float().add(5).div(6), alpha)


def extend_by_lists(log_probs, tgt, totals, eos_id, pad_id, *, alpha):
    """Gather all candidates of a sentence in a list, and sort it."""
    K, rows, lines, sums = tgt.size(1), [], [], []
    for b, beams in enumerate(tgt.tolist()):
        pool = []
        for k, line in enumerate(beams):
            written = [token for token in line[1:] if token != pad_id]
            steps = {pad_id: 0.0}
            if eos_id not in written:
                steps = {v: p for v, p in enumerate(log_probs[b, k].tolist()) if v != pad_id}
            for token, step in steps.items():
                n = len(written) + (eos_id not in written)
                total = totals[b, k].item() + step
                pool.append((total / (5 / 6 + n / 6) ** alpha, total, b * K + k, [*line, token]))
        pool.sort(key=lambda candidate: candidate[0], reverse=True)
        rows += [row for _, _, row, _ in pool[:K]]
        lines.append([line for *_, line in pool[:K]])
        sums.append([total for _, total, *_ in pool[:K]])
    return torch.tensor(rows), torch.tensor(lines), torch.tensor(sums)


def extend_in_two_steps(
    log_probs: Tensor, tgt: Tensor, totals: Tensor, eos_id: int, pad_id: int, *, alpha: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Take the best K of every beam first, then the best K of these."""
    B, K, T = tgt.shape
    over = tgt.eq(eos_id).any(-1, keepdim=True)  # (B, K, 1)
    is_pad = torch.arange(log_probs.size(-1)).eq(pad_id)  # (V,)
    steps = log_probs.masked_fill(is_pad, -torch.inf)
    steps = torch.where(over, torch.zeros_like(steps).masked_fill(~is_pad, -torch.inf), steps)
    sums, tokens = (totals[..., None] + steps).topk(min(K, steps.size(-1)))  # (B, K, K)
    length = tgt[..., 1:].ne(pad_id).sum(-1, keepdim=True) + (~over)  # (B, K, 1)
    scores = (sums / ((length + 5) / 6) ** alpha).flatten(1)
    place = scores.argsort(dim=-1, descending=True)[:, :K]  # (B, K)
    beam = place.div(sums.size(-1), rounding_mode="floor")
    token = tokens.flatten(1).gather(1, place)
    lines = torch.stack([tgt[b, beam[b]] for b in range(B)])  # (B, K, T)
    rows = [b * K + k for b, beams in enumerate(beam.tolist()) for k in beams]
    return (
        torch.tensor(rows),
        torch.cat([lines, token[..., None]], -1),
        sums.flatten(1).gather(1, place),
    )


def candidates(beams, steps, eos_id, pad_id, alpha):
    """Gather all that can follow, each with the row it goes on from."""
    pool = []
    for row, (old, total, line) in enumerate(beams):
        if line[-1] == eos_id:
            pool.append((old, total, line, row))
            continue
        lp = ((5 + len(line)) / 6) ** alpha
        for token, step in enumerate(steps[row]):
            if token != pad_id:
                pool.append(((total + step) / lp, total + step, [*line, token], row))
    return sorted(pool, key=lambda one: one[0], reverse=True)


def padded(lines, pad_id):
    """Fill lines up to the longest."""
    longest = max(map(len, lines))
    return torch.tensor([line + [pad_id] * (longest - len(line)) for line in lines])


def search_alone(score, limit, size, bos_id, eos_id, pad_id, alpha):
    """Search for one sentence, in lists."""
    beams = [(0.0, 0.0, [bos_id])]
    for _ in range(limit):
        tgt = padded([line for *_, line in beams], pad_id)
        steps = score(tgt)[:, -1].log_softmax(dim=-1).tolist()
        pool = candidates(beams, steps, eos_id, pad_id, alpha)[:size]
        score.reorder(torch.tensor([row for *_, row in pool]))
        beams = [one[:3] for one in pool]
        if all(line[-1] == eos_id for *_, line in beams):
            break
    return beams


def search_one_by_one(
    model, src, *, bos_id, eos_id, beam_size=4, alpha=0.6, max_new_tokens=None, scorer=Rereader
):
    """Search for every sentence by itself, and fill up with padding."""
    found, pad_id = [], model.config.pad_id
    with generation_mode(model, bos_id, eos_id, max_new_tokens) as limit:
        for sentence in src:
            score = scorer(model, sentence[None, sentence != pad_id])
            found += search_alone(score, limit, beam_size, bos_id, eos_id, pad_id, alpha)
    ids = padded([line[1:] for *_, line in found], pad_id)
    scores = torch.tensor([score for score, *_ in found])
    return ids.unflatten(0, (len(src), -1)), scores.view(len(src), -1)


def search_in_tables(model: nn.Module, src: Tensor, *, bos_id: int, eos_id: int, **how):
    """Keep one table of rows, and notes of lengths and ends beside it."""
    N, K, alpha = len(src), how.get("beam_size", 4), how.get("alpha", 0.6)
    with generation_mode(model, bos_id, eos_id, how.get("max_new_tokens")) as limit:
        score = how.get("scorer", Rereader)(model, src)
        score.reorder(torch.arange(N * K) // K)
        table = torch.full((N * K, 1), bos_id)
        total = torch.where(torch.arange(N * K) % K == 0, 0.0, -torch.inf)  # (N·K,)
        length, over = torch.zeros(N * K), torch.zeros(N * K, dtype=torch.bool)
        while table.size(1) <= limit and not over.all():
            steps = score(table)[:, -1].log_softmax(dim=-1)  # (N·K, V)
            steps[:, model.config.pad_id] = -torch.inf
            steps[over] = -torch.inf
            steps[over, model.config.pad_id] = 0.0
            sums, length = total[:, None] + steps, length + (~over).float()
            ranked = (sums / length_penalty(length, alpha)[:, None]).view(N, -1)
            places = ranked.sort(dim=1, descending=True).indices[:, :K]
            places = (places + torch.arange(N)[:, None] * ranked.size(1)).flatten()  # of N·K·V
            rows, tokens = places // steps.size(1), places % steps.size(1)
            score.reorder(rows)
            table = torch.cat([table[rows], tokens[:, None]], dim=1)
            total, length = sums.flatten()[places], length[rows]
            over = over[rows] | (tokens == eos_id)
    return pad(table, (-1, 0)).view(N, K, -1), (total / length_penalty(length, alpha)).view(N, K)


ANSWERS = {
    "length_penalty": (penalty_by_logarithm, penalty_by_pow),
    "beam_step": (extend_by_lists, extend_in_two_steps),
    "beam_search": (search_one_by_one, search_in_tables),
}
