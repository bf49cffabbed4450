"""Chapter 12 in other words."""

import torch

from course_lib.decoding import argmax_tokens
from course_lib.kv_cache import decoding_engine


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
        engine = decoding_engine(model, src, limit, use_cache=use_cache)
        for place in range(limit):
            over = (table == eos_id).any(dim=1)
            logits = engine.step(table[:, place : place + 1])
            logits = logits.index_fill(1, torch.tensor([pad_id]), -torch.inf)
            table[:, place + 1] = choose(logits).masked_fill(over, pad_id)
    finally:
        model.train(was_training)
    longest = int((table[:, 1:] != pad_id).sum(dim=1).max())
    return table[:, 1 : longest + 1]


def sample_by_sorting(logits, *, temperature=1.0, top_k=None, top_p=None, generator=None):
    """Sort the whole vocabulary, cut, and let ``multinomial`` draw."""
    bad_k = top_k is not None and top_k < 1
    bad_p = top_p is not None and not 0 < top_p <= 1
    if temperature <= 0 or bad_k or bad_p:
        raise ValueError(f"cannot draw with {temperature=}, {top_k=}, {top_p=}")
    scores, tokens = (logits / temperature).sort(dim=-1, descending=True)
    if not scores[:, 0].isfinite().all():
        raise ValueError("a row of logits has no softmax")
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
    "greedy_decode": (decode_into_a_table, annotated_decode),
    "sample_tokens": (sample_by_sorting, nano_sample),
}
