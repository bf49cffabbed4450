"""Chapter 11 in other words."""

import torch
from torch import Tensor, nn

from course_lib.decoding import Rereader, argmax_tokens
from course_lib.exercises.solutions.beam_step import ANSWERS as BEAMS
from course_lib.exercises.solutions.sampling import ANSWERS as SAMPLING


def choose_by_where(logits: Tensor, ended: Tensor, pad_id: int) -> Tensor:
    """Hide padding behind a mask instead of changing a copy."""
    B, T, V = logits.shape
    allowed = torch.arange(V) != pad_id
    best = torch.where(allowed, logits.select(1, T - 1), -torch.inf).max(dim=-1).indices
    return torch.where(ended, torch.full_like(best, pad_id), best)


def choose_by_sorting(scores, done, pad):
    """Take the second best where the best is padding."""
    first, second = scores[:, -1, :].topk(2, dim=1).indices.unbind(dim=1)
    chosen = first * (first != pad) + second * (first == pad)
    chosen[done] = pad
    return chosen


def choose_by_loop(logits, ended, pad_id):
    """Look through one row after another."""
    chosen = []
    for row, over in zip(logits[:, -1].tolist(), ended.tolist(), strict=True):
        ranked = sorted(range(len(row)), key=lambda v: -row[v])
        chosen.append(pad_id if over else next(v for v in ranked if v != pad_id))
    return torch.tensor(chosen)


def decode_in_a_for_loop(
    model: nn.Module,
    src: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    max_new_tokens: int | None = None,
    scorer=Rereader,
    choose=argmax_tokens,
) -> Tensor:
    """Count the rounds, and stop from inside the loop."""
    mode, pad_id = model.training, model.config.pad_id
    model.eval()
    written = src.new_full((len(src), 1), bos_id)
    ended = src.new_zeros(len(src), dtype=torch.bool)
    with torch.no_grad():
        logits_after = scorer(model, src)
        for _ in range(max_new_tokens or model.config.max_len):
            token = choose(logits_after(written), ended, pad_id)
            written = torch.hstack([written, token[:, None]])
            ended |= token == eos_id
            if ended.all():
                break
    model.train(mode)
    return written[:, 1:]


@torch.inference_mode()
def decode_into_a_table(
    model, src, *, bos_id, eos_id, max_new_tokens=None, scorer=Rereader, choose=argmax_tokens
):
    """Fill a table of fixed size from left to right; cut what nobody needed."""
    was_training, pad_id = model.training, model.config.pad_id
    limit = max_new_tokens if max_new_tokens is not None else model.config.max_len
    table = torch.full((src.shape[0], limit + 1), pad_id)
    table[:, 0] = bos_id
    model.train(False)
    try:
        score = scorer(model, src)
        for place in range(limit):
            over = (table == eos_id).any(dim=1)
            table[:, place + 1] = choose(score(table[:, : place + 1]), over, pad_id)
    finally:
        model.train(was_training)
    longest = int((table[:, 1:] != pad_id).sum(dim=1).max())
    return table[:, 1 : longest + 1]


def decode_one_by_one(
    model, src, *, bos_id, eos_id, max_new_tokens=None, scorer=Rereader, choose=argmax_tokens
):
    """Write every sentence by itself, without its padding; then put them side by side."""
    before, limit, pad_id = model.training, max_new_tokens or 10**9, model.config.pad_id
    model.eval()
    lines, going = [], torch.tensor([False])
    for sentence in src:
        with torch.no_grad():
            score, line = scorer(model, sentence[None, sentence != pad_id]), [bos_id]
            while len(line) <= min(limit, model.config.max_len) and line[-1] != eos_id:
                line += choose(score(torch.tensor([line])), going, pad_id).tolist()
        lines.append(torch.tensor(line[1:]))
    model.train(before)
    return nn.utils.rnn.pad_sequence(lines, batch_first=True, padding_value=pad_id)


def decode_those_alive(
    model, src, *, bos_id, eos_id, max_new_tokens=None, scorer=Rereader, choose=argmax_tokens
):
    """Ask only for the rows that go on."""
    was_training, pad_id = model.training, model.config.pad_id
    limit = max_new_tokens or model.config.max_len
    model.eval()
    with torch.no_grad():
        score = scorer(model, src)
        alive, columns = torch.arange(len(src)), [torch.full((len(src),), bos_id)]
        while len(alive) and len(columns) <= limit:
            tgt = torch.stack(columns, dim=1)[alive]
            tokens = choose(score(tgt), torch.zeros(len(alive), dtype=torch.bool), pad_id)
            columns.append(torch.full((len(src),), pad_id))
            columns[-1][alive] = tokens
            score.reorder((tokens != eos_id).nonzero().squeeze(1))
            alive = alive[tokens != eos_id]
    model.train(was_training)
    return torch.stack(columns[1:], dim=1)


ANSWERS = {
    "argmax_tokens": (choose_by_where, choose_by_sorting, choose_by_loop),
    "greedy_decode": (
        decode_in_a_for_loop,
        decode_into_a_table,
        decode_one_by_one,
        decode_those_alive,
    ),
    **SAMPLING,
    **BEAMS,
}
