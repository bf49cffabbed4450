"""Train the positional embedding that the position explorer shows, and write it to a file.

A model with one attention layer predicts for every token which tokens are near it, so it has to
learn positions. The file contains the embedding, rounded to two decimals.
python experiments/learned_positions.py takes about a second.
"""

import json

import torch
from torch import Tensor, nn

from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import LearnedPositionalEmbedding
from course_lib.trainer.hardware import one_thread
from course_lib.viz.position_explorer import RECORD

MAX_LEN = 64
TRAINED = 48  # the length of the training sentences
D_MODEL = 32
VOCAB_SIZE = 16
BATCH_SIZE = 16
STEPS = 300
LEARNING_RATE = 0.012
WEIGHT_DECAY = 0.3  # keeps the vectors about as long as sinusoidal ones


class NearnessModel(nn.Module):
    """A model that predicts nearby tokens, with one attention layer and learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB_SIZE, D_MODEL)
        self.positions = LearnedPositionalEmbedding(D_MODEL, MAX_LEN)
        self.attention = MultiHeadAttention(D_MODEL, num_heads=4)
        self.output = nn.Linear(D_MODEL, VOCAB_SIZE)
        for name, parameter in self.named_parameters():
            std = {"embed.weight": 1.0, "positions.weight": 0.02}.get(name, D_MODEL**-0.5)
            nn.init.normal_(parameter, std=std)

    def forward(self, ids: Tensor) -> Tensor:
        """Turn ids (B, L) into logits (B, L, V)."""
        x = self.positions(self.embed(ids))  # (B, L, d_model)
        return self.output(self.attention(x, x, x)[0])  # (B, L, V)


def nearness_loss(model: NearnessModel, ids: Tensor) -> Tensor:
    """Compute the mean cross-entropy of the tokens near every token of ids (B, L), in nats."""
    position = torch.arange(ids.size(1))
    nearness = (-(position[:, None] - position).abs() / 3).softmax(dim=-1)  # (L, L)
    targets = nearness @ nn.functional.one_hot(ids, VOCAB_SIZE).float()  # (B, L, V)
    return -(targets * model(ids).log_softmax(dim=-1)).sum(dim=-1).mean()


def train() -> Tensor:
    """Train a model, and return its positional embedding (MAX_LEN, D_MODEL).

    The rows from TRAINED on are noise, which gets no gradient and shrinks under weight decay.
    """
    with one_thread(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = NearnessModel()
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=LEARNING_RATE, weight_decay=WEIGHT_DECAY, fused=True
        )
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = nearness_loss(model, torch.randint(VOCAB_SIZE, (BATCH_SIZE, TRAINED)))
            loss.backward()
            optimizer.step()
    return model.positions.weight.detach()


if __name__ == "__main__":
    rows = (100 * train()).round().int().tolist()
    text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
    RECORD.write_text(f"[{text}]\n", encoding="utf-8")
