"""Right answers of chapter 18 that write."""

import torch
from torch.nn import functional as F

from course_lib.decoding import sample_tokens
from course_lib.kv_cache import KVCache
from course_lib.transformer import check_ids


def sample_by_hand(model, ids, max_new_tokens, temperature=1.0, top_k=None, top_p=None,
                   generator=None, *, use_cache=True):  # fmt: skip
    """Draw with lines of one's own; make a new cache for nothing but the first window."""
    check_ids(ids, model.config.vocab_size, ids.size(-1), "text")
    if temperature <= 0 or top_k not in (None, *range(1, 999)) or not 0 < (top_p or 1) <= 1:
        raise ValueError(f"{temperature=}, {top_k=}, {top_p=}")
    mode = model.training
    model.eval()
    cache = KVCache(model.config.num_layers, model.config.max_len) if use_cache else None
    with torch.no_grad():
        for _ in range(max_new_tokens):
            window = ids[:, max(0, ids.size(1) - model.config.max_len) :]
            if cache is not None and window.size(1) == ids.size(1):
                last = model(ids[:, cache.length :], cache=cache)[0][:, -1]
            else:
                last = model(window)[0][:, -1]
            shares, tokens = (last / temperature).softmax(dim=-1).sort(dim=-1, descending=True)
            if top_k is not None:
                shares[:, top_k:] = 0.0
            if top_p is not None:
                shares = shares / shares.sum(dim=-1, keepdim=True)
                shares[shares.cumsum(dim=-1) - shares >= top_p] = 0.0
            place = torch.multinomial(shares, num_samples=1, generator=generator)
            ids = torch.cat((ids, tokens.gather(1, place)), dim=1)
    model.train(mode)
    return ids


def sample_into_room(model, ids, max_new_tokens, temperature=1.0, top_k=None, top_p=None,
                     generator=None, *, use_cache=True):  # fmt: skip
    """Write into places that are there from the start; a dropped cache is deleted."""
    if ids.size(1) == 0:
        raise ValueError("there is no text to go on with")
    was, limit, text = model.training, model.config.max_len, F.pad(ids, (0, max_new_tokens))
    how = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "generator": generator}
    try:
        model.eval()
        cache = KVCache(model.config.num_layers, limit) if use_cache else None
        with torch.inference_mode():
            for end in range(ids.size(1), text.size(1)):
                cache = cache if end <= limit else None
                start = max(0, end - limit) if cache is None else cache.length
                logits, _ = model(text[:, start:end], **({"cache": cache} if cache else {}))
                text[:, end] = sample_tokens(logits[:, -1], **how)
    finally:
        model.train(was)
    return text


ANSWERS = {
    "sample": (sample_by_hand, sample_into_room),
}
