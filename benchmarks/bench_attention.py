"""Measure attention alone, forwards and backwards, by length: the same mathematics in many ways."""

from collections.abc import Callable
from functools import partial

import torch
from timing import HEAD, Row, can_compile, cells, compared, in_turns, kept_bytes
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.attention import scaled_dot_product_attention
from course_lib.interop import copy_to_torch
from course_lib.masks import causal_mask
from course_lib.multi_head import MultiHeadAttention, split_heads
from course_lib.trainer.hardware import one_thread

BATCH = 2
WIDTH = 256
HEADS = 4
DROPOUT = 0.1
LENGTHS = (128, 512, 2048)
ROUNDS = 7
BACKEND = "inductor"  # of torch.compile
COMPILED = "all heads at once, compiled"
LATER = "past only"
ANOTHER = "dropout"
Way = Callable[[Tensor], Tensor]


def joined(ours: MultiHeadAttention, attend: Callable[..., Tensor], x: Tensor) -> Tensor:
    """Project x ``(B, T, d_model)``, attend as told in ``(B, H, T, d_k)``, and mix the heads."""
    parts = (split_heads(w(x), HEADS) for w in (ours.w_q, ours.w_k, ours.w_v))
    return ours.w_o(attend(*parts).transpose(1, 2).flatten(2))


def in_a_loop(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend with one head after another, as chapter 02 begins."""
    heads = zip(q.unbind(1), k.unbind(1), v.unbind(1), strict=True)
    return torch.stack([scaled_dot_product_attention(*head)[0] for head in heads], dim=1)


def at_once(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend with all heads in one product, and keep their weights."""
    return scaled_dot_product_attention(q, k, v, mask)[0]


def ways(length: int) -> tuple[dict[str, Way], nn.ModuleList]:
    """Name every way to attend, torch's first; return them, and what holds their weights."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(WIDTH, HEADS)
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    copy_to_torch(ours, theirs)
    past = causal_mask(length)
    kernel = F.scaled_dot_product_attention
    found = {
        "torch.nn.MultiheadAttention": lambda x: theirs(x, x, x, need_weights=False)[0],
        "the fused kernel": lambda x: ours(x, x, x)[0],
        "all heads at once": partial(joined, ours, at_once),
        "heads in a loop": partial(joined, ours, in_a_loop),
        "past only, by mask, at once": partial(joined, ours, partial(at_once, mask=past)),
        "past only, by mask, fused": partial(joined, ours, partial(kernel, attn_mask=past)),
        "past only, is_causal, fused": partial(joined, ours, partial(kernel, is_causal=True)),
        "the fused kernel, dropout": partial(joined, ours, partial(kernel, dropout_p=DROPOUT)),
    }
    if can_compile():
        way = torch.compile(found["all heads at once"], backend=BACKEND, dynamic=False)
        found[COMPILED] = way
    return found, nn.ModuleList([ours, theirs])


def there_and_back(way: Way, x: Tensor) -> None:
    """Attend, and send a slope back to x and to the weights."""
    way(x).square().mean().backward()


def agree(found: dict[str, Way], x: Tensor) -> None:
    """See that what should be the same is the same.

    Raises:
        RuntimeError: If two ways differ that compute one mathematics.
    """
    firsts = {}
    for name, way in found.items():
        answer = way(x).detach()
        kind = next((kind for kind in (LATER, ANOTHER) if kind in name), "")
        first = firsts.setdefault(kind, answer)
        if kind != ANOTHER and not torch.allclose(answer, first, atol=1e-4):
            raise RuntimeError(f"{name}: not the same attention")


def bench_length(length: int) -> list[Row]:
    """Print a row for every way, at one length, and return the rows."""
    table = f"attention, length {length}"
    print(f"\n{table:28} {HEAD} {'MiB kept':>9} {'rounds':>7}")
    found, holders = ways(length)
    x = torch.randn(BATCH, length, WIDTH, requires_grad=True)
    agree(found, x)
    acts = [partial(there_and_back, way, x) for way in found.values()]
    in_turns(acts, 1)  # warm up
    spent = list(zip(*in_turns(acts, ROUNDS), strict=True))
    rows = []
    for (name, way), times in zip(found.items(), spent, strict=True):
        kept = round(kept_bytes(holders, partial(way, x)) / 2**20, 2)
        rows.append(compared(table, name, times, spent[0], length=length, kept_mib=kept))
        print(f"{name:28} {cells(rows[-1])} {kept:9.1f} {len(times):7}")
    return rows


def bench_attention() -> list[Row]:
    """Print time and memory by length, measured on one thread; return the rows."""
    with one_thread():
        return [row for length in LENGTHS for row in bench_length(length)]


if __name__ == "__main__":
    bench_attention()
