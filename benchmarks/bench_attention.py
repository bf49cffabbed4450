"""Measure several implementations of attention, forward and backward, at several lengths."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from timing import Row, can_compile, compared, in_turns, saved_mib
from torch import Tensor, nn
from torch.nn import functional as F
from torch.testing import assert_close

from course_lib.attention import scaled_dot_product_attention
from course_lib.interop import copy_to_torch
from course_lib.masks import causal_mask
from course_lib.multi_head import MultiHeadAttention, split_heads

BATCH = 2
D_MODEL = 256
NUM_HEADS = 4
DROPOUT = 0.1
LENGTHS = (128, 512, 2048)
ROUNDS = 7
BACKEND = "inductor"  # of torch.compile
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]  # takes the query, key and value of all heads
Attention = Callable[[Tensor], Tensor]


def project_and_attend(
    ours: MultiHeadAttention, attend: Callable[..., Tensor], x: Tensor
) -> Tensor:
    """Project x ``(B, T, d_model)``, attend in ``(B, H, T, d_k)``, and mix the heads."""
    q, k, v = (
        split_heads(projection(x), NUM_HEADS) for projection in (ours.w_q, ours.w_k, ours.w_v)
    )
    return ours.w_o(attend(q, k, v).transpose(1, 2).flatten(2))


def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend with all heads in one matrix multiplication, and save the attention weights."""
    return scaled_dot_product_attention(q, k, v)[0]


def implementations(length: int) -> tuple[dict[str, Attention], nn.ModuleList]:
    """Return every implementation by name, torch's first, and the modules with their weights."""
    torch.manual_seed(0)
    ours = MultiHeadAttention(D_MODEL, NUM_HEADS)
    torch_attention = nn.MultiheadAttention(D_MODEL, NUM_HEADS, batch_first=True)
    copy_to_torch(ours, torch_attention)
    fused = F.scaled_dot_product_attention
    attends: dict[str, Attend] = {
        "all heads at once": by_hand,
        "past only, by mask, fused": partial(fused, attn_mask=causal_mask(length)),
        "past only, is_causal, fused": partial(fused, is_causal=True),
        "the fused kernel, dropout": partial(fused, dropout_p=DROPOUT),
    }
    ways: dict[str, Attention] = {
        "torch.nn.MultiheadAttention": lambda x: torch_attention(x, x, x, need_weights=False)[0],
        "the fused kernel": lambda x: ours(x, x, x)[0],
        **{name: partial(project_and_attend, ours, attend) for name, attend in attends.items()},
    }
    if can_compile():
        compiled = torch.compile(ways["all heads at once"], backend=BACKEND, dynamic=False)
        ways["all heads at once, compiled"] = compiled
    return ways, nn.ModuleList([ours, torch_attention])


def check_outputs(ways: dict[str, Attention], x: Tensor) -> None:
    """Raise AssertionError if the outputs of equivalent implementations differ."""
    expected = ways["torch.nn.MultiheadAttention"](x)
    causal = ways["past only, by mask, fused"](x)
    for name, attend in ways.items():
        if "dropout" not in name:
            same = causal if name.startswith("past only") else expected
            assert_close(attend(x), same, atol=1e-4, rtol=0, msg=f"{name}: not the same attention")


def forward_and_backward(attend: Attention, x: Tensor) -> None:
    """Attend, and compute the gradients of x and of the weights."""
    attend(x).square().mean().backward()


def bench_attention() -> Iterator[Row]:
    """Measure time and saved activations at every length."""
    for length in LENGTHS:
        ways, modules = implementations(length)
        x = torch.randn(BATCH, length, D_MODEL, requires_grad=True)
        check_outputs(ways, x)
        actions = [partial(forward_and_backward, attend, x) for attend in ways.values()]
        seconds = in_turns(actions, ROUNDS)
        for (name, attend), measured in zip(ways.items(), seconds, strict=True):
            row = compared(f"attention, length {length}", name, measured, seconds[0])
            yield row | {"length": length, "kept_mib": saved_mib(modules, partial(attend, x))}
