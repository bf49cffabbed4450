"""Right answers of chapter 18, in other styles."""

import torch
from torch import Tensor, nn

from course_lib.encoder import Encoder, EncoderLayer
from course_lib.positions import LearnedPositionalEmbedding, PositionalEncoding, sinusoidal_encoding
from course_lib.transformer import check_ids, initialize


def windows_by_slices(ids, batch_size, length, generator=None):
    """Cut slices in a loop, and stack them."""
    starts = torch.randint(0, len(ids) - length, (batch_size,), generator=generator).tolist()
    x = torch.stack([ids[start : start + length] for start in starts])
    y = torch.stack([ids[start + 1 : start + 1 + length] for start in starts])
    return x, y


def get_batch(data, batch_size, block_size):
    """Hold the core, as nanoGPT does: one random offset a row, two slices."""
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


class DecoderOfSteps(nn.Module):
    """Give embedding and scoring methods of their own; share the matrix from the output's side."""

    def __init__(self, config, learned_positions=False):
        super().__init__()
        self.config = config
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size, bias=False)
        self.embedding = nn.Embedding(config.tgt_vocab_size, config.d_model)
        self.embedding.weight = self.output.weight
        how = dict(max_len=config.max_len, dropout=config.dropout)
        if learned_positions:
            self.positions = LearnedPositionalEmbedding(config.d_model, **how)
        else:
            self.positions = PositionalEncoding(config.d_model, **how)
        self.stack = Encoder(
            config.num_decoder_layers, config.d_model,
            num_heads=config.num_heads, d_ff=config.d_ff, dropout=config.dropout,
            norm_first=config.norm_first, activation=config.activation,
            d_k=config.d_k, d_v=config.d_v,
        )  # fmt: skip
        initialize(self)

    def embed(self, ids: Tensor) -> Tensor:
        """Look up, scale, place."""
        check_ids(ids, self.config.tgt_vocab_size, self.config.max_len, "text")
        return self.positions(self.embedding(ids).mul(self.config.d_model**0.5))

    def forward(self, ids):
        """Compare positions to learn what is past."""
        position = torch.arange(ids.shape[-1], device=ids.device)
        return self.output(self.stack(self.embed(ids), mask=position.view(-1, 1) >= position))


class DecoderOfTextbook(nn.Module):
    """Hold the core under other names, with a list of layers."""

    def __init__(self, cfg):
        super().__init__()
        self.config = cfg
        self.tok_emb = nn.Embedding(cfg.tgt_vocab_size, cfg.d_model)
        self.blocks = nn.ModuleList(
            EncoderLayer(
                cfg.d_model, cfg.num_heads, cfg.d_ff, norm_first=cfg.norm_first,
                activation=cfg.activation,
            )
            for _ in range(cfg.num_decoder_layers)
        )  # fmt: skip
        self.final_norm = nn.LayerNorm(cfg.d_model) if cfg.norm_first else nn.Identity()
        self.head = nn.Linear(cfg.d_model, cfg.tgt_vocab_size, bias=False)
        self.head.weight = self.tok_emb.weight
        initialize(self)

    def forward(self, idx):
        """Embed, run the blocks, score."""
        _, T = idx.shape
        x = self.tok_emb(idx) * self.config.d_model**0.5
        x = x + sinusoidal_encoding(T, self.config.d_model)
        mask = torch.tril(torch.ones(T, T, device=idx.device)).bool()
        for block in self.blocks:
            x = block(x, mask)
        return self.head(self.final_norm(x))


ANSWERS = {
    "random_windows": (windows_by_slices, get_batch),
    "DecoderOnly": (DecoderOfSteps, DecoderOfTextbook),
}
