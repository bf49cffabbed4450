"""Chapter 11 in other words."""

import torch
from torch import Tensor, nn

from course_lib.decoding import argmax_tokens, next_logits
from course_lib.exercises.solutions.sampling import ANSWERS as SAMPLING
from course_lib.kv_cache import KVCache


def decode_in_a_for_loop(
    model: nn.Module,
    src: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    max_new_tokens: int | None = None,
    choose=argmax_tokens,
) -> Tensor:
    """Keep every row to the end, padding where it has ended; stop from inside the loop."""
    mode, pad_id = model.training, model.config.pad_id
    model.eval()
    written = src.new_full((len(src), 1), bos_id)
    ended = src.new_zeros(len(src), dtype=torch.bool)
    with torch.no_grad():
        memory = model.encode(src)
        for _ in range(max_new_tokens or model.config.max_len):
            logits = model.decode(written, memory, src)[:, -1].clone()
            logits[:, pad_id] = -torch.inf
            token = choose(logits).masked_fill(ended, pad_id)
            written = torch.hstack([written, token[:, None]])
            ended |= token == eos_id
            if ended.all():
                break
    model.train(mode)
    return written[:, 1:]


@torch.inference_mode()
def decode_into_a_table(
    model, src, *, bos_id, eos_id, max_new_tokens=None, use_cache=True, choose=argmax_tokens
):
    """Fill a table of fixed size from left to right; cut what nobody needed."""
    was_training, pad_id = model.training, model.config.pad_id
    limit = max_new_tokens if max_new_tokens is not None else model.config.max_len
    table = torch.full((src.shape[0], limit + 1), pad_id)
    table[:, 0] = bos_id
    model.train(False)
    try:
        memory = model.encode(src)
        cache = KVCache(model.config.num_decoder_layers, limit) if use_cache else None
        for place in range(limit):
            over = (table == eos_id).any(dim=1)
            logits = next_logits(model, table[:, : place + 1], memory, src, cache)
            logits = logits.index_fill(1, torch.tensor([pad_id]), -torch.inf)
            table[:, place + 1] = choose(logits).masked_fill(over, pad_id)
    finally:
        model.train(was_training)
    longest = int((table[:, 1:] != pad_id).sum(dim=1).max())
    return table[:, 1 : longest + 1]


def decode_one_by_one(model, src, *, bos_id, eos_id, max_new_tokens=None, choose=argmax_tokens):
    """Write every sentence by itself, without its padding; then put them side by side."""
    before, limit, pad_id = model.training, max_new_tokens or 10**9, model.config.pad_id
    model.eval()
    lines = []
    for sentence in src:
        alone, line = sentence[None, sentence != pad_id], [bos_id]
        with torch.no_grad():
            while len(line) <= min(limit, model.config.max_len) and line[-1] != eos_id:
                scores = model(alone, torch.tensor([line]))[:, -1]
                scores[:, pad_id] = -torch.inf
                line += choose(scores).tolist()
        lines.append(torch.tensor(line[1:]))
    model.train(before)
    return nn.utils.rnn.pad_sequence(lines, batch_first=True, padding_value=pad_id)


ANSWERS = {
    "greedy_decode": (decode_in_a_for_loop, decode_into_a_table, decode_one_by_one),
    **SAMPLING,
}
