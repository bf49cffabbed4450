"""A GPT that continues a prompt, character by character: its data, loss and scores."""

import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data import Characters, read_text, side_by_side
from course_lib.decoder_only import random_windows
from course_lib.gpt import GPT, GPTConfig, param_groups, sample
from course_lib.support.corpora import TEXTS
from course_lib.tasks.task_sizes import GPT_SIZES
from course_lib.trainer.options import LEAST, TrainingConfig, check_range, shared_fields
from course_lib.trainer.schedules import warmup_cosine
from course_lib.trainer.task import Pipeline, Task

PROMPTS = {"library": "def ", "shakespeare": "\n"}  # how each text may begin
POSITIONS = 4_096  # characters read at once while measuring


@dataclass(frozen=True, kw_only=True)
class TextGeneratorConfig(TrainingConfig):
    """Hyperparameters of a GPT and its training; the defaults are nanoGPT's for a CPU."""

    choices = {"text": TEXTS}
    ranges = TrainingConfig.ranges | {
        "last_rate": (0.0, math.inf),
        "beta1": (0.0, 1 - LEAST),
        "beta2": (0.0, 1 - LEAST),
        "weight_decay": (0.0, math.inf),
    }
    text: str = next(iter(TEXTS))  #: Python's standard library, or "shakespeare"
    num_layers: int = 4  #: depth of the stack
    num_heads: int = 4  #: in each attention layer
    bias: bool = False  #: whether linear layers and norms have biases
    init_std: float = 0.05  #: of new matrices; GPT-2's 0.02 is for vectors 768 wide
    batch_size: int = 12  #: windows in a step
    steps: int = 2_000  #: the last step
    warmup_steps: int = 100  #: the step at which the learning rate peaks
    peak_rate: float = 1e-3  #: the highest learning rate, which then falls along a cosine
    last_rate: float = 1e-4  #: the learning rate of the last step
    beta1: float = 0.9  #: how long AdamW remembers gradients, in [0, 1)
    beta2: float = 0.99  #: how long it remembers their squares, in [0, 1)
    weight_decay: float = 0.1  #: in each step, matrices shrink by this fraction times the rate
    clip_norm: float = 1.0  #: the largest norm that all gradients together may have
    val_every: int = 250  #: steps between two measurements of the loss on val
    val_windows: int = 400  #: windows of val measured in training; ``evaluate`` measures all

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("last_rate", self.last_rate, 0.0, self.peak_rate)
        largest = 1 / self.peak_rate  # beyond, signs would turn
        check_range("weight_decay", self.weight_decay, 0.0, largest)

    def of_model(self, vocab_size: int) -> GPTConfig:
        """Return the hyperparameters of the model."""
        return GPTConfig(vocab_size=vocab_size, **shared_fields(GPTConfig, self))

    def rate(self, step: int) -> float:
        """Return the learning rate for a step; steps are counted from 1."""
        return warmup_cosine(
            step, self.warmup_steps, steps=self.steps, peak=self.peak_rate, last=self.last_rate
        )


class TextGenerator(Pipeline):
    """A ``GPT`` and its ``Characters`` tokenizer, for continuing text."""

    what = "a GPT that continues a prompt"
    config_class = TextGeneratorConfig
    model_class = GPT
    tokenizer_class = Characters
    model: GPT
    tokenizer: Characters
    config: TextGeneratorConfig

    def vocabulary(self) -> str:
        """Return all characters in the vocabulary."""
        return self.tokenizer.characters

    def generate(
        self, prompt: str, tokens: int, *, copies: int = 1, seed: int = 0, **options: Any
    ) -> list[str]:
        """Continue a prompt by ``tokens`` characters; return ``copies`` texts that begin with it.

        A different seed gives different texts. The options are those of ``sample``; the default
        temperature is 0.8. Raises ValueError if the prompt is empty or has unknown characters.
        """
        ids = self.tokenizer.encode(prompt).repeat(copies, 1).to(self.device)  # (B, T)
        generator = torch.Generator(self.device).manual_seed(seed)
        options = {"temperature": 0.8, **options}
        texts = sample(self.model, ids, tokens, generator=generator, **options)
        return [self.tokenizer.decode(row) for row in texts]


class LanguageModel(Task[TextGenerator]):
    """The task of training a GPT on windows of a text; see ``Task``."""

    name = "gpt"
    sizes = {name: size.changes for name, size in GPT_SIZES.items()}
    variant = "text"
    pipeline_class = TextGenerator

    def __init__(
        self,
        config: TextGeneratorConfig,
        data: Path | None = None,
        pipeline: TextGenerator | None = None,
    ) -> None:
        self.text = read_text(config.text, data)
        windows = side_by_side(self.text.val, config.max_len)  # an error if the text is too short
        self.windows = windows[: config.val_windows]
        self.pipeline = pipeline or TextGenerator.new(config, self.text.characters)
        self.positions = config.batch_size * config.max_len
        self.steps = config.steps
        self.val_every = config.val_every
        self.rate = config.rate
        self.clip_norm = config.clip_norm
        self.checksum = zlib.crc32(self.text.train.numpy().tobytes())  # varies by Python version

    def optimizer(self) -> torch.optim.Optimizer:
        """Return AdamW with weight decay for matrices only."""
        config = self.pipeline.config
        groups = param_groups(self.pipeline.model, config.weight_decay)
        betas = (config.beta1, config.beta2)
        return torch.optim.AdamW(groups, lr=config.peak_rate, betas=betas, fused=True)

    def batches(self, step: int) -> tuple[Tensor, Tensor]:
        """Draw windows and their targets, the next characters; both have the shape ``(B, T)``."""
        config = self.pipeline.config
        return random_windows(self.text.train, config.batch_size, config.max_len)

    def predictions(self, batch: tuple[Tensor, ...]) -> Tensor:
        """Count the predicted characters in each window. Shape ``(B,)``."""
        return torch.full((len(batch[-1]),), batch[-1].size(1))

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Compute the mean loss over all predictions."""
        return model(*(ids.to(self.pipeline.device, non_blocking=True) for ids in batch))[1]

    def measure(self, pipeline: TextGenerator, step: int) -> dict[str, float]:
        """Measure the loss on the first windows of the validation part."""
        return {"val_loss": loss_on(pipeline.model, self.windows)}


@torch.no_grad()
def loss_on(model: nn.Module, windows: Tensor) -> float:
    """Measure the mean loss of a ``GPT`` on windows ``(windows, T + 1)``, in nats per character."""
    model.eval()
    total = 0.0
    for part in windows.split(max(1, POSITIONS // windows.size(1))):
        part = part.to(next(model.parameters()).device)
        total += len(part) * model(part[:, :-1], part[:, 1:])[1].item()
    return total / len(windows)
