"""Small models that have the methods of a ``Transformer`` and record how they are called."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from course_lib.exercises.checking.trial import filled
from course_lib.positions import PositionalEncoding
from course_lib.transformer import TransformerConfig, check_ids, check_same_batch

PATIENCE = 240  # calls; a correct answer needs fewer than half as many


def small_config(pad_id: int, max_len: int) -> TransformerConfig:
    """Return the config of a small model; source and target use the same 11 tokens."""
    return TransformerConfig(
        src_vocab_size=11, tgt_vocab_size=11, d_model=6, num_heads=2, num_encoder_layers=1,
        num_decoder_layers=1, d_ff=5, dropout=0.0, max_len=max_len, tie_embeddings="none",
        pad_id=pad_id,
    )  # fmt: skip


class RecordedModel(nn.Module):
    """A model that records its mode at every call, and stops endless loops."""

    encode: Callable[[Tensor], Tensor]
    decode: Callable[[Tensor, Tensor, Tensor], Tensor]

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.positions = PositionalEncoding(config.d_model, config.max_len)
        self.modes: dict[str, list[bool]] = {"encoder": [], "decoder": []}
        self.with_gradients: list[bool] = []

    def record(self, part: str) -> None:
        """Record one call to a part of the model."""
        self.modes[part].append(self.training)
        self.with_gradients.append(torch.is_grad_enabled())
        if len(self.with_gradients) > PATIENCE:
            raise RuntimeError(f"the model was called {PATIENCE} times: does this loop ever end?")

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Turn source ``(B, S)`` and target ``(B, T)`` into logits ``(B, T, V)``."""
        return self.decode(tgt, self.encode(src), src)


class SmallModel(RecordedModel):
    """A fast, causal model that predicts tokens from sums over the source and the target so far."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.src_embedding = nn.Embedding(config.src_vocab_size, config.d_model)
        self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, config.d_model)
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)

    def encode(self, src: Tensor) -> Tensor:
        """Turn source ids ``(B, S)`` into the memory ``(B, S, d_model)``."""
        self.record("encoder")
        check_ids(src, self.config.src_vocab_size, self.config.max_len, "source")
        return (2 * self.positions(self.src_embedding(src))).sin()  # (B, S, d_model)

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Turn target ids ``(B, T)`` and the memory into logits ``(B, T, V)``."""
        self.record("decoder")
        check_ids(tgt, self.config.tgt_vocab_size, self.config.max_len, "target")
        check_same_batch(tgt, memory, src)
        real = (src != self.config.pad_id).unsqueeze(-1)  # (B, S, 1)
        source = (memory * real).sum(dim=1, keepdim=True)  # (B, 1, d_model)
        seen = (2 * self.positions(self.tgt_embedding(tgt))).sin()  # (B, T, d_model)
        return 3 * self.output((seen.cumsum(dim=1) + 2 * source).sin())  # (B, T, V)


class SmallScript(RecordedModel):
    """A model that generates the line scripted for the first token of the source.

    A target that does not begin with *bos_id* gets a different line. Padding has the highest logit.
    """

    def __init__(self, config: TransformerConfig, lines: dict[int, list[int]], bos_id: int) -> None:
        super().__init__(config)
        self.lines = lines
        self.bos_id = bos_id

    def encode(self, src: Tensor) -> Tensor:
        """Return the ids themselves as the memory ``(B, S, d_model)``."""
        self.record("encoder")
        check_ids(src, self.config.src_vocab_size, self.config.max_len, "source")
        return src.unsqueeze(-1).expand(-1, -1, self.config.d_model).float()  # (B, S, d_model)

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Return logits ``(B, T, V)``; apart from padding, each row's line has the highest ones."""
        self.record("decoder")
        check_ids(tgt, self.config.tgt_vocab_size, self.config.max_len, "target")
        check_same_batch(tgt, memory, src)
        logits = torch.zeros(*tgt.shape, self.config.tgt_vocab_size)  # (B, T, V)
        logits[..., self.config.pad_id] = 2.0
        other_line = [1] * self.config.max_len
        for row, (began, first) in enumerate(zip(tgt[:, 0], memory[:, 0, 0], strict=True)):
            line = self.lines.get(int(first), other_line) if began == self.bos_id else other_line
            for position, token in enumerate(line[: tgt.size(1)]):
                logits[row, position, token] = 1.0
        return logits


def small_model(pad_id: int = 0, max_len: int = 6) -> SmallModel:
    """Build a small model whose parameters are the same every time."""
    return filled(SmallModel(small_config(pad_id, max_len)))
