"""Chapter 11 in other words."""

import torch
from torch import Tensor, nn

from course_lib.decoding import next_tokens


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


def guard_one_by_one(bos_id, eos_id, pad_id, vocab_size):
    """Ask every question by itself."""
    for name, token in (("bos_id", bos_id), ("eos_id", eos_id), ("pad_id", pad_id)):
        if token < 0 or token >= vocab_size:
            raise ValueError(f"{name}={token} is not in 0 … {vocab_size - 1}")
    if bos_id == eos_id or bos_id == pad_id or eos_id == pad_id:
        raise ValueError(f"{bos_id}, {eos_id}, {pad_id}: each needs an id of its own")


def guard_by_sets(bos_id: int, eos_id: int, pad_id: int, vocab_size: int) -> None:
    """Count what is left of the three among the ids of the vocabulary."""
    if len({bos_id, eos_id, pad_id} & set(range(vocab_size))) != 3:
        raise ValueError(f"three different ids, please: {bos_id}, {eos_id}, {pad_id}")


def decode_by_forward(
    model: nn.Module, src: Tensor, *, bos_id: int, eos_id: int, max_new_tokens: int | None = None
) -> Tensor:
    """Ask the whole model in every round, and stop from inside the loop."""
    mode, pad_id = model.training, model.config.pad_id
    model.eval()
    written = src.new_full((len(src), 1), bos_id)
    ended = src.new_zeros(len(src), dtype=torch.bool)
    with torch.no_grad():
        for _ in range(max_new_tokens or model.config.max_len):
            token = next_tokens(model(src, written), ended, pad_id)
            written = torch.hstack([written, token[:, None]])
            ended |= token == eos_id
            if ended.all():
                break
    model.train(mode)
    return written[:, 1:]


@torch.inference_mode()
def decode_into_a_table(model, src, *, bos_id, eos_id, max_new_tokens=None):
    """Fill a table of fixed size from left to right; cut what nobody needed."""
    was_training, pad_id = model.training, model.config.pad_id
    limit = max_new_tokens if max_new_tokens is not None else model.config.max_len
    table = torch.full((src.shape[0], limit + 1), pad_id)
    table[:, 0] = bos_id
    model.train(False)
    try:
        memory = model.encode(src)
        for place in range(limit):
            scores = model.decode(table[:, :limit], memory, src)[:, place].clone()
            scores[:, pad_id] = scores.min() - 1
            alive = ~(table == eos_id).any(dim=1)
            table[alive, place + 1] = scores.argmax(dim=1)[alive]
    finally:
        model.train(was_training)
    longest = int((table[:, 1:] != pad_id).sum(dim=1).max())
    return table[:, 1 : longest + 1]


def decode_one_by_one(model, src, *, bos_id, eos_id, max_new_tokens=None):
    """Write every sentence by itself, without its padding; then put them side by side."""
    before, limit = model.training, max_new_tokens or model.config.max_len
    model.eval()
    lines = []
    for sentence in src:
        words = sentence[sentence != model.config.pad_id].unsqueeze(0)
        with torch.no_grad():
            memory, line = model.encode(words), [bos_id]
            while len(line) <= limit and line[-1] != eos_id:
                scores = model.decode(torch.tensor([line]), memory, words)[0, -1].tolist()
                scores[model.config.pad_id] = -float("inf")
                line.append(scores.index(max(scores)))
        lines.append(torch.tensor(line[1:]))
    model.train(before)
    return nn.utils.rnn.pad_sequence(lines, batch_first=True, padding_value=model.config.pad_id)


def decode_those_alive(model, src, *, bos_id, eos_id, max_new_tokens=None):
    """Ask only for the rows that go on."""
    was_training, pad_id = model.training, model.config.pad_id
    limit = max_new_tokens or model.config.max_len
    model.eval()
    with torch.no_grad():
        memory = model.encode(src)
        alive, columns = torch.arange(len(src)), [torch.full((len(src),), bos_id)]
        while len(alive) and len(columns) <= limit:
            tgt = torch.stack(columns, dim=1)[alive]
            scores = model.decode(tgt, memory[alive], src[alive])
            going = torch.zeros(len(alive), dtype=torch.bool)
            columns.append(torch.full((len(src),), pad_id))
            columns[-1][alive] = choose_by_sorting(scores, going, pad_id)
            alive = alive[columns[-1][alive] != eos_id]
    model.train(was_training)
    return torch.stack(columns[1:], dim=1)


ANSWERS = {
    "next_tokens": (choose_by_where, choose_by_sorting, choose_by_loop),
    "check_special_ids": (guard_one_by_one, guard_by_sets),
    "greedy_decode": (
        decode_by_forward,
        decode_into_a_table,
        decode_one_by_one,
        decode_those_alive,
    ),
}
