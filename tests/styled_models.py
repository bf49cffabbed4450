"""Small decoders in the styles of well-known code, with traits that once raised false alarms."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

VOCAB, WIDTH, HEADS, PAD = 40, 32, 4, 0


class Attention(nn.Module):
    """Causal self-attention whose scores are scaled and limited to a window."""

    def __init__(self, scale: float | None = None, window: int = 99) -> None:
        super().__init__()
        self.scale, self.window = scale or (WIDTH // HEADS) ** -0.5, window
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        """Attend to the last tokens."""
        parts = self.qkv(x).unflatten(-1, (3, HEADS, -1)).transpose(1, 3)  # (B, H, 3, T, d_k)
        query, key, value = parts.unbind(dim=2)
        scores = self.scale * (query @ key.transpose(-2, -1))
        near = torch.ones_like(scores[0, 0]).tril().triu(1 - self.window).bool()
        weights = scores.masked_fill(~near, -1e9).softmax(dim=-1)
        return self.out((weights @ value).transpose(1, 2).flatten(-2))


class Block(nn.Module):
    """A pre-norm layer whose feed-forward part is a function that captures its modules."""

    def __init__(self, **options: float) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention(**options)
        parts = dict(up=nn.Linear(WIDTH, 64), down=nn.Linear(64, WIDTH), drop=nn.Dropout(0.1))
        self.parts = captured = nn.ModuleDict(parts)
        self.feed_forward = lambda x: captured.drop(captured.down(F.gelu(captured.up(x))))

    def forward(self, x: Tensor) -> Tensor:
        """Add the outputs of both parts."""
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Decoder(nn.Module):
    """A decoder that computes the loss itself or, without targets, only the last logits.

    Args:
        last_only: Whether it computes only the last position's logits if it gets no targets.
        repeats: How often it runs the layers.
        initialize: Changes a fresh model, in place.
        options: The options of the attention.
    """

    def __init__(
        self,
        last_only: bool = False,
        repeats: int = 1,
        initialize: Callable[[nn.Module], object] = lambda model: None,
        **options: float,
    ) -> None:
        super().__init__()
        self.last_only, self.repeats = last_only, repeats
        self.embedding = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Block(**options) for _ in range(3 - repeats))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)
        self.positions = torch.randn(32, WIDTH)  # a constant that forward moves to the device
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        initialize(self)

    def forward(self, ids: Tensor, targets: Tensor | None = None):
        """Return the logits of the next token, and the loss if there are targets."""
        x = self.embedding(ids) + 0.02 * self.positions[: ids.size(1)].to(self.embedding.weight)
        for layer in self.repeats * list(self.layers):
            x = layer(x)
        if targets is None:
            return self.head(self.norm(x[:, [-1]] if self.last_only else x)), None
        logits = self.head(self.norm(x))
        return logits, F.cross_entropy(logits.view(-1, VOCAB), targets.view(-1))


def zero_outputs(model: nn.Module) -> None:
    """Initialize as the identity, with output projections and a head of zeros."""
    for name, parameter in model.named_parameters():
        if any(part in name for part in ("out", "down", "head")):
            nn.init.zeros_(parameter)


class Translator(nn.Module):
    """A model with ``nn.Transformer``, which uses a special path for padding masks in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, WIDTH, padding_idx=PAD)
        self.positions = nn.Embedding(32, WIDTH)
        self.transformer = nn.Transformer(WIDTH, HEADS, 2, 2, 64, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Return the logits of the next target token."""
        future = torch.ones(tgt.size(1), tgt.size(1)).triu(1).bool()  # True = blocked
        masks = dict(src_key_padding_mask=src == PAD, tgt_key_padding_mask=tgt == PAD)
        masks |= dict(memory_key_padding_mask=src == PAD, tgt_mask=future, tgt_is_causal=True)
        placed = (self.embedding(x) + self.positions(torch.arange(x.size(1))) for x in (src, tgt))
        return self.head(self.transformer(*placed, **masks))


def own_loss(model: nn.Module, ids: Tensor) -> Tensor:
    return model(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())[1]


SHORT = dict(forward=lambda model, ids: model(ids, ids))
STYLES: dict[str, tuple[Callable[[], nn.Module], dict]] = {
    "a function captures modules": (Decoder, dict(loss=own_loss)),
    "logits of the last position only": (lambda: Decoder(last_only=True), SHORT),
    "output projections start at zero": (lambda: Decoder(initialize=zero_outputs), {}),
    "the scale of muP": (lambda: Decoder(scale=0.125), dict(attention_scale=0.125)),
    "a repeated layer": (lambda: Decoder(repeats=2), {}),
    "a window of two tokens": (lambda: Decoder(window=2, initialize=lambda x: x.layers.pop(1)), {}),
    "nn.Transformer with padding": (Translator, dict(pad_id=PAD)),
}
