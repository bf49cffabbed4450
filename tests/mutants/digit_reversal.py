"""The toy task for two experiments: a small Transformer learns to reverse digits."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib import decoding, training, transformer

BOS, EOS, PAD, DIGIT = 0, 1, 2, 3  # the id of the digit 0 is 3
VOCAB, SMOOTHING, TEST = 13, 0.1, 200
SEED_STRIDE = 1_000_003  # larger than the number of steps in a training run


@dataclass(frozen=True, kw_only=True)
class ReversalConfig:
    """The hyperparameters of a model that reverses digits."""

    seed: int = 0  #: determines the initial weights and the digits
    steps: int = 300  #: number of training steps
    batch_size: int = 64  #: sequences per step
    d_model: int = 32  #: width of the vectors
    warmup_steps: int = 40  #: the step at which the learning rate peaks
    rate_scale: float = 0.3  #: factor on the paper's learning rate

    def rate(self, step: int) -> float:
        """Return the paper's learning rate times ``rate_scale``."""
        return self.rate_scale * training.warmup_inverse_sqrt(step, self.d_model, self.warmup_steps)


def new_model(config: ReversalConfig, **changes: Any) -> transformer.Transformer:
    """Build the paper's model with two layers on each side, plus these changes."""
    sizes = dict(d_model=config.d_model, num_heads=4, d_ff=64, max_len=16, pad_id=PAD)
    sizes |= dict(num_encoder_layers=2, num_decoder_layers=2)
    sizes |= dict(src_vocab_size=VOCAB, tgt_vocab_size=VOCAB)
    torch.manual_seed(config.seed)
    return transformer.Transformer(transformer.TransformerConfig(**sizes | changes))


def reversals(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw rows of three to six digits, and the reversed rows between ``BOS`` and ``EOS``."""
    src = torch.full((count, 6), PAD)
    tgt = torch.full((count, 8), PAD)
    tgt[:, 0] = BOS
    lengths = torch.randint(3, 7, (count,), generator=generator)
    for row, length in enumerate(lengths.tolist()):
        digits = DIGIT + torch.randint(10, (length,), generator=generator)
        src[row, :length] = digits
        tgt[row, 1 : length + 2] = torch.cat([digits.flip(0), torch.tensor([EOS])])
    return src, tgt


class GradientRecorder(torch.optim.SGD):
    """An optimizer that records the gradients of a step, and leaves the weights unchanged."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters)
        self.gradients: list[Tensor | None] = [None] * len(parameters)

    def step(self, closure: None = None) -> None:
        """Record the gradients."""
        parameters = self.param_groups[0]["params"]
        self.gradients = [None if p.grad is None else p.grad.clone() for p in parameters]


def batch_loss(model: nn.Module, src: Tensor, tgt: Tensor) -> Tensor:
    """Return the loss on a batch, computed as in chapter 11."""
    return training.translation_loss(model, src, tgt, pad_id=PAD, smoothing=SMOOTHING)


def loss_of_step(model: nn.Module, src: Tensor, tgt: Tensor) -> Tensor:
    """Return the loss of ``training_step``, with the gradients that the step would use."""
    parameters = list(model.parameters())
    before = [parameter.grad for parameter in parameters]
    recorder = GradientRecorder(parameters)
    with torch.enable_grad():
        loss = batch_loss(model, src, tgt)
        total = training.training_step(model, recorder, [loss], rate=1.0).detach()
    for parameter, grad in zip(parameters, before, strict=True):
        parameter.grad = grad
    pairs = zip(parameters, recorder.gradients, strict=True)
    line = sum(((p * g).sum() for p, g in pairs if g is not None), torch.zeros(()))
    return total + line - line.detach()


def write(model: nn.Module, src: Tensor) -> Tensor:
    """Decode greedily."""
    options = dict(bos_id=BOS, eos_id=EOS, max_new_tokens=8, use_cache=False)
    return decoding.greedy_decode(model, src, **options)


def train(
    model: nn.Module, config: ReversalConfig, rate: Callable[[int], float]
) -> dict[str, float]:
    """Train a model to reverse digits, and evaluate it on sequences that it has not seen.

    ``rate`` returns the learning rate of each step, counted from 1. Raises ValueError if the final
    loss is not finite.
    """
    generator = torch.Generator().manual_seed(1_000 + config.seed)
    learned = reversals(config.batch_size * 50, generator)
    optimizer = torch.optim.Adam(model.parameters(), fused=True, **training.ADAM)
    for step in range(1, config.steps + 1):
        torch.manual_seed(SEED_STRIDE * config.seed + step)
        rows = (torch.arange(config.batch_size) + step * config.batch_size) % len(learned[0])
        loss = batch_loss(model.train(), *(ids[rows] for ids in learned))
        training.training_step(model, optimizer, [loss], rate(step))
    return measure(model.eval(), *reversals(TEST, generator))


def measure(model: nn.Module, src: Tensor, tgt: Tensor) -> dict[str, float]:
    """Measure the training loss, the teacher-forced accuracy, and the exact match."""
    loss = loss_of_step(model, src, tgt).item()
    if not math.isfinite(loss):
        raise ValueError(f"the loss after training is {loss}")
    with torch.no_grad():
        right = model(src, tgt[:, :-1]).argmax(-1) == tgt[:, 1:]  # (B, T)
        written = write(model, src)  # (B, T)
    real = tgt[:, 1:] != PAD
    wanted = tgt[:, 1:][:, : written.size(1)]
    whole = (written[:, : wanted.size(1)] == wanted).all(1) & (wanted == EOS).any(1)
    return {
        "val_loss": loss,
        "accuracy": right[real].float().mean().item(),
        "exact_match": whole.float().mean().item(),
    }
