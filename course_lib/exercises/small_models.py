"""Small models that behave like a ``Transformer``, and note how they are used."""

from typing import Any

import torch
from torch import Tensor, nn

from course_lib.exercises.trial import filled
from course_lib.positions import PositionalEncoding
from course_lib.transformer import TransformerConfig, check_ids, check_same_batch

PATIENCE = 240  # calls; no right answer needs half as many


def small_config(pad_id: int, max_len: int) -> TransformerConfig:
    """Return the numbers of a small model; source and target share 11 tokens."""
    return TransformerConfig(
        src_vocab_size=11, tgt_vocab_size=11, d_model=6, num_heads=2, num_encoder_layers=1,
        num_decoder_layers=1, d_ff=5, dropout=0.0, max_len=max_len, tie_embeddings="none",
        pad_id=pad_id,
    )  # fmt: skip


class Witness(nn.Module):
    """Note in which mode a model is called, and end a loop that does not end.

    Args:
        *args: What the model is built from.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.modes: dict[str, list[bool]] = {"encoder": [], "decoder": []}
        self.with_gradients: list[bool] = []

    def encode(self, src: Tensor) -> Tensor:
        """Take note, and encode."""
        self._notice("encoder")
        return super().encode(src)  # type: ignore[misc]  # of the class beside it

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Take note, and decode."""
        self._notice("decoder")
        return super().decode(tgt, memory, src)  # type: ignore[misc]

    def _notice(self, part: str) -> None:
        """Keep what there is to see."""
        self.modes[part].append(self.training)
        self.with_gradients.append(torch.is_grad_enabled())
        if len(self.with_gradients) > PATIENCE:
            raise RuntimeError(f"the model was called {PATIENCE} times: does this loop end?")


class Summary(nn.Module):
    """Sum up what is written so far and the source, and score the next token: causal, and quick.

    Args:
        config: Every number that defines the model.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.src_embedding = nn.Embedding(config.src_vocab_size, config.d_model)
        self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, config.d_model)
        self.positions = PositionalEncoding(config.d_model, config.max_len)
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)

    def encode(self, src: Tensor) -> Tensor:
        """Turn source ids ``(B, S)`` into the memory ``(B, S, d_model)``."""
        check_ids(src, self.config.src_vocab_size, self.config.max_len, "source")
        return (2 * self.positions(self.src_embedding(src))).sin()  # (B, S, d_model)

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Turn target ids ``(B, T)`` and the memory into logits ``(B, T, V)``."""
        check_ids(tgt, self.config.tgt_vocab_size, self.config.max_len, "target")
        check_same_batch(tgt, memory, src)
        real = (src != self.config.pad_id).unsqueeze(-1)  # (B, S, 1)
        source = (memory * real).sum(dim=1, keepdim=True)  # (B, 1, d_model)
        seen = (2 * self.positions(self.tgt_embedding(tgt))).sin()  # (B, T, d_model)
        return 3 * self.output((seen.cumsum(dim=1) + 2 * source).sin())  # (B, T, V)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Turn source ``(B, S)`` and target ``(B, T)`` into logits ``(B, T, V)``."""
        return self.decode(tgt, self.encode(src), src)


class SmallModel(Witness, Summary):
    """Learn and decode quickly, under watch."""


class Script(nn.Module):
    """Write to each source, known by its first token, the line that a script gives it.

    Whoever does not begin with ``bos_id`` gets another line. Padding always has the highest score.

    Args:
        config: Every number that defines the model.
        lines: What to write, by the first token of the source.
        bos_id: What every target begins with.
    """

    def __init__(self, config: TransformerConfig, lines: dict[int, list[int]], bos_id: int) -> None:
        super().__init__()
        self.config = config
        self.lines = lines
        self.bos_id = bos_id
        self.positions = PositionalEncoding(config.d_model, config.max_len)

    def encode(self, src: Tensor) -> Tensor:
        """Keep the ids themselves as the memory ``(B, S, d_model)``."""
        check_ids(src, self.config.src_vocab_size, self.config.max_len, "source")
        return src.unsqueeze(-1).expand(-1, -1, self.config.d_model).float()  # (B, S, d_model)

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Score the tokens of each row's line: ``(B, T, V)``."""
        check_ids(tgt, self.config.tgt_vocab_size, self.config.max_len, "target")
        check_same_batch(tgt, memory, src)
        logits = torch.zeros(*tgt.shape, self.config.tgt_vocab_size)  # (B, T, V)
        logits[..., self.config.pad_id] = 2.0
        babble = [1] * self.config.max_len
        for row, (began, first) in enumerate(zip(tgt[:, 0], memory[:, 0, 0], strict=True)):
            line = self.lines.get(int(first), babble) if began == self.bos_id else babble
            for place, token in enumerate(line[: tgt.size(1)]):
                logits[row, place, token] = 1.0
        return logits

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Score without a break: ``(B, T, V)``."""
        return self.decode(tgt, self.encode(src), src)


class SmallScript(Witness, Script):
    """Follow a script, under watch."""


def small_model(pad_id: int = 0, max_len: int = 6) -> SmallModel:
    """Build a model and fill it with known numbers."""
    return filled(SmallModel(small_config(pad_id, max_len)))
