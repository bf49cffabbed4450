"""Chapter 11 in other words."""

import torch
from torch import Tensor, nn

from course_lib.decoding import argmax_tokens, next_logits
from course_lib.kv_cache import KVCache


def annotated_decode(model, src, start_symbol, end_symbol):
    """Keep every row to the end, under The Annotated Transformer's names: the core, no more."""
    mode, pad_id = model.training, model.config.pad_id
    model.eval()
    ys = torch.zeros(len(src), 1).fill_(start_symbol).type_as(src)
    ended = src.new_zeros(len(src), dtype=torch.bool)
    with torch.no_grad():
        memory = model.encode(src)
        for _ in range(model.config.max_len):
            prob = model.decode(ys, memory, src)[:, -1].clone()
            prob[:, pad_id] = -torch.inf
            _, next_word = torch.max(prob, dim=1)
            ys = torch.cat([ys, next_word.masked_fill(ended, pad_id).unsqueeze(1)], dim=1)
            ended |= next_word == end_symbol
            if ended.all():
                break
    model.train(mode)
    return ys[:, 1:]


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


def sample_by_noise(
    logits: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Forbid what is cut off where it stands; add Gumbel's noise and take the best."""
    V = logits.size(-1)
    scores = logits / temperature  # (B, V)
    if top_k is not None and top_k < V:
        least = scores.topk(top_k, dim=-1).values[:, -1:]  # (B, 1)
        scores = scores.masked_fill(scores < least, -torch.inf)
    if top_p is not None:
        shares = scores.softmax(dim=-1)  # (B, V)
        likelier = shares.unsqueeze(1) > shares.unsqueeze(2)  # (B, V, V): second than first
        before = (likelier * shares.unsqueeze(1)).sum(dim=-1)  # (B, V)
        scores = scores.masked_fill(before >= top_p, -torch.inf)
    uniform = torch.rand(scores.shape, generator=generator).clamp(min=1e-9)
    noise = -(-uniform.log()).log()  # (B, V)
    return (scores + noise).argmax(dim=-1)


def sample_by_sorting(logits, *, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Sort the whole vocabulary, cut, and let ``multinomial`` draw."""
    scores, tokens = (logits / temperature).sort(dim=-1, descending=True)
    shares = scores[:, :top_k].softmax(dim=-1)
    if top_p is not None:
        shares = shares * (shares.cumsum(dim=-1) - shares < top_p)
    return tokens.gather(1, torch.multinomial(shares, 1, generator=generator)).flatten()


def nano_sample(logits, temperature=1.0, top_k=None):
    """Cut and draw as nanoGPT does: without top_p and a generator."""
    logits = logits / temperature
    if top_k is not None:
        v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
        logits[logits < v[:, [-1]]] = -float("Inf")
    return torch.multinomial(logits.softmax(dim=-1), num_samples=1)[:, 0]


ANSWERS = {
    "greedy_decode": (decode_into_a_table, decode_one_by_one, annotated_decode),
    "sample_tokens": (sample_by_noise, sample_by_sorting, nano_sample),
}
