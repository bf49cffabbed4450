"""Compare the GPT's training step to ``torch.nn``, and sampling with and without a KV cache."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from timing import Row, compared, in_turns, require_close_losses, require_same_tokens
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.gpt import GPT, GPTConfig, param_groups, sample
from course_lib.interop import copy_to_torch

VOCAB = 96  # about the number of characters in Python's library
WINDOWS = 12  # as in nanoGPT's batch
SIZES = {(4, 4, 128, 64): 31, (6, 6, 384, 256): 9}  # (layers, heads, d_model, max_len): rounds
SAMPLING_ROUNDS = 3
PROMPT = 4
LEARNING_RATE = 1e-3
BETAS = (0.9, 0.99)
DECAY = 0.1


class TorchGPT(nn.Module):
    """The same model, built from torch's own layers with the same weights.

    Args:
        ours: The model whose sizes and weights are copied (not shared).
    """

    blocked: Tensor

    def __init__(self, ours: GPT) -> None:
        super().__init__()
        c = ours.config
        layer = nn.TransformerEncoderLayer(
            c.d_model, c.num_heads, 4 * c.d_model, c.dropout, "gelu", batch_first=True,
            norm_first=True,
        )  # fmt: skip
        norm = nn.LayerNorm(c.d_model)
        self.stack = nn.TransformerEncoder(layer, c.num_layers, norm, enable_nested_tensor=False)
        copy_to_torch(ours, self.stack)
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.embedding.load_state_dict(ours.embedding.state_dict())
        self.positions = nn.Parameter(ours.positions.weight.detach().clone())
        self.output = nn.Linear(c.d_model, c.vocab_size, bias=False)
        self.output.weight = self.embedding.weight
        blocked = nn.Transformer.generate_square_subsequent_mask(c.max_len)
        self.register_buffer("blocked", blocked)

    def forward(self, ids: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Compute the logits after each token ``(B, T)``, and the loss."""
        length = ids.size(1)
        x = self.embedding(ids) + self.positions[:length]  # (B, T, d_model)
        x = self.stack(x, mask=self.blocked[:length, :length], is_causal=True)
        logits = self.output(x)  # (B, T, V)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def our_model(size: tuple[int, int, int, int]) -> GPT:
    """Build our model, with biases like torch's layers and without dropout."""
    num_layers, num_heads, d_model, max_len = size
    torch.manual_seed(0)
    return GPT(
        GPTConfig(
            vocab_size=VOCAB, num_layers=num_layers, num_heads=num_heads, d_model=d_model,
            max_len=max_len, dropout=0.0, bias=True,
        )
    )  # fmt: skip


def training_step(model: nn.Module, ids: Tensor, targets: Tensor) -> Callable[[], float]:
    """Return a function that runs a training step and returns the loss before the update."""
    optimizer = torch.optim.AdamW(
        param_groups(model, DECAY), lr=LEARNING_RATE, betas=BETAS, fused=True
    )

    def step() -> float:
        """Compute the loss and the gradients, and update the weights."""
        loss = model(ids, targets)[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def sample_tokens(model: GPT, ids: Tensor, use_cache: bool) -> Tensor:
    """Fill the window with tokens, always from the same random numbers."""
    draw = torch.Generator().manual_seed(1)
    new_tokens = model.config.max_len - ids.size(1)
    return sample(model, ids, new_tokens, generator=draw, use_cache=use_cache)


def bench_gpt() -> Iterator[Row]:
    """Compare a training step to torch's layers, and sampling with and without the KV cache."""
    draw = torch.Generator().manual_seed(0)
    for size, rounds in SIZES.items():
        ours = our_model(size)
        ids, targets = torch.randint(VOCAB, (2, WINDOWS, ours.config.max_len), generator=draw)
        steps = [training_step(model, ids, targets) for model in (ours, TorchGPT(ours))]
        require_close_losses(*(step() for step in steps))
        yield compared("GPT, training step", str(size), *in_turns(steps, rounds))
    for size in SIZES:
        ours = our_model(size).eval()
        ids = torch.randint(VOCAB, (1, PROMPT), generator=draw)
        samplers = [partial(sample_tokens, ours, ids, use_cache) for use_cache in (True, False)]
        require_same_tokens(*(write() for write in samplers))
        new_tokens = ours.config.max_len - PROMPT
        cached, uncached = (
            [seconds / new_tokens for seconds in measured]
            for measured in in_turns(samplers, SAMPLING_ROUNDS)
        )
        yield compared("GPT, a token written", str(size), cached, uncached)
