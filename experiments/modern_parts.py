"""Train a GPT without biases, and variants that each replace one part, as in chapter 21."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from ablation import SEEDS, USUAL, train_one
from torch import Tensor, nn

from course_lib.gpt import GPT, initialize_gpt
from course_lib.modern_decoder import GroupedQueryAttention, RMSNorm, SwiGLU, rope_angles
from course_lib.multi_head import split_heads
from course_lib.positions import PositionalEncoding
from course_lib.records.missing_runs import main
from course_lib.records.results import Entry, record_of


class RotaryAttention(GroupedQueryAttention):
    """Attention that stores the RoPE angles, because a layer of the GPT does not pass them."""

    def __init__(self) -> None:
        super().__init__(USUAL.d_model, USUAL.num_heads, USUAL.num_heads)
        angles = rope_angles(USUAL.max_len, USUAL.d_model // USUAL.num_heads)
        self.register_buffer("angles", angles, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Attend, and rotate queries and keys by their positions, counted from 0."""
        return super().forward(x, self.angles[: x.size(1)])


def rms_norm(model: GPT) -> None:
    """Replace the layer norms with RMSNorm."""
    for layer in model.layers:
        layer.add_norm1.norm = RMSNorm(USUAL.d_model)
        layer.add_norm2.norm = RMSNorm(USUAL.d_model)
    model.norm = RMSNorm(USUAL.d_model)


def swiglu(model: GPT) -> None:
    """Replace the feed-forward networks with SwiGLU networks of about the same size."""
    for layer in model.layers:
        layer.feed_forward = SwiGLU(USUAL.d_model, 4 * USUAL.d_model * 2 // 3)


def rope(model: GPT) -> None:
    """Rotate queries and keys, and add nothing to the embeddings."""
    model.positions = nn.Identity()
    for layer in model.layers:
        layer.self_attn = RotaryAttention()


def sinusoids(model: GPT, scale: float = 1.0) -> None:
    """Add the paper's table, ``scale`` times as large as the embeddings, as fixed positions."""
    model.positions = PositionalEncoding(USUAL.d_model, USUAL.max_len, dropout=0.0)
    model.positions.encoding *= scale * USUAL.init_std * math.sqrt(2)  # sines have the RMS 1/√2


class SinusoidAttention(GroupedQueryAttention):
    """Attention that adds sinusoids to the input of the query and key (and value) projections."""

    def __init__(self, scale: float, *, values: bool = False) -> None:
        super().__init__(USUAL.d_model, USUAL.num_heads, USUAL.num_heads)
        self.positions = PositionalEncoding(USUAL.d_model, USUAL.max_len, dropout=0.0)
        self.positions.encoding *= scale
        self.values = values

    def project(self, x: Tensor, angles: None) -> tuple[Tensor, Tensor, Tensor]:
        """Compute queries and keys from x and the positions, and usually values from x alone."""
        placed = self.positions(x)  # (B, T, d_model)
        q, k = self.w_q(placed), self.w_k(placed)  # (B, T, d_model) each
        v = self.w_v(placed if self.values else x)  # (B, T, d_model)
        return tuple(split_heads(part, self.num_heads) for part in (q, k, v))


def sinusoids_inside(
    model: GPT, scale: float, *, values: bool = False, only_first: bool = False
) -> None:
    """Add the paper's table, scaled, inside the attention layers, not to the embeddings."""
    model.positions = nn.Identity()
    for number, layer in enumerate(model.layers):
        used = 0.0 if only_first and number else scale
        layer.self_attn = SinusoidAttention(used, values=values)


def build(exchange: Callable[[GPT], None], vocab_size: int) -> GPT:
    """Build a GPT without biases, replace a part, and initialize all parts by the same rule."""
    model = GPT(replace(USUAL, bias=False).of_model(vocab_size))
    exchange(model)
    initialize_gpt(model, USUAL.init_std, USUAL.num_layers)
    return model


PARTS: dict[str, Callable[[int], nn.Module]] = {
    "GPT": partial(build, lambda model: None),
    "RMSNorm": partial(build, rms_norm),
    "SwiGLU": partial(build, swiglu),
    "RoPE": partial(build, rope),
    "sinusoids": partial(build, sinusoids),  # controls: fixed positions, added
    "sinusoids, × 3": partial(build, partial(sinusoids, scale=3.0)),
    "in every layer": partial(build, partial(sinusoids_inside, scale=1.0)),
    "in every layer, × 3": partial(build, partial(sinusoids_inside, scale=3.0)),
    "values too, × 3": partial(build, partial(sinusoids_inside, scale=3.0, values=True)),
    "in one layer, × 3": partial(build, partial(sinusoids_inside, scale=3.0, only_first=True)),
}
RUNS: list[Entry] = [{"name": name, "seed": seed, "steps": 500} for name in PARTS for seed in SEEDS]

if __name__ == "__main__":
    main(__doc__, record_of("modern_parts"), RUNS, lambda run: train_one(run, PARTS))
