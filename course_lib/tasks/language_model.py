"""A GPT that goes on with a text, character by character: its data, loss, scores and record."""

import zlib
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.data import Characters, read_text, side_by_side
from course_lib.decoder_only import random_windows
from course_lib.gpt import GPT, GPTConfig, param_groups, parse_rate, sample
from course_lib.trainer.options import LAST_SEED, LEAST, check_range, shared_fields, whole_from_one
from course_lib.trainer.task import Pipeline, Task
from course_lib.training import warmup_cosine

PROMPTS = {"library": "def ", "shakespeare": "\n"}  # how each text may begin
POSITIONS = 4_096  # characters read at once while measuring
SAMPLE = 300  # characters written for a record
COPIES = 20  # texts to count the lines of
COLDEST = 1e-3
HOTTEST = 1e3  # beyond, logits leave what a float can hold


@dataclass(frozen=True, kw_only=True)
class TextGeneratorConfig:
    """Hold the hyperparameters of a GPT and its training; the defaults are nanoGPT's for a CPU.

    Raises:
        ValueError: If there is no such text, a size or count is below 1, the heads do not divide
            the width, a rate or norm is no number above 0, or a fraction is outside its range.
    """

    text: str = "library"  #: Python's own, or "shakespeare"
    seed: int = 0  #: decides the first weights, the windows, and what dropout drops
    max_len: int = 64  #: most characters that the model reads at once, and those of a window
    num_layers: int = 4  #: depth of the stack
    num_heads: int = 4  #: of each attention
    d_model: int = 128  #: width of the vectors
    dropout: float = 0.0  #: its probability in GPT-2's places, in [0, 1]
    bias: bool = False  #: whether linear layers and norms have biases
    init_std: float = 0.05  #: of new matrices; GPT-2's 0.02 is for vectors 768 wide
    batch_size: int = 12  #: windows in a step
    steps: int = 2_000  #: the last step
    warmup_steps: int = 100  #: the step at which the learning rate peaks
    peak_rate: float = 1e-3  #: the learning rate there; from there it falls as a cosine
    last_rate: float = 1e-4  #: the learning rate of the last step
    beta1: float = 0.9  #: how long AdamW remembers gradients, in [0, 1)
    beta2: float = 0.99  #: how long it remembers their squares, in [0, 1)
    weight_decay: float = 0.1  #: the fraction of a matrix taken off in each step, times the rate
    clip_norm: float = 1.0  #: the largest norm that all gradients together may have
    bfloat16: bool = False  #: whether matrix products are computed in it while training
    val_every: int = 250  #: steps between two measurements of the loss on val
    val_windows: int = 400  #: on so many windows, the first ones; at the end, on all

    def __post_init__(self) -> None:
        if self.text not in PROMPTS:
            raise ValueError(f"text={self.text!r} is neither 'library' nor 'shakespeare'")
        check_range(self, "max_len", "num_layers", "num_heads", "d_model")
        check_range(self, "batch_size", "steps", "warmup_steps", "val_every", "val_windows")
        self.of_model(vocab_size=1)  # it refuses heads that do not divide the width
        check_range(self, "init_std", "peak_rate", "clip_norm", least=LEAST)
        check_range(self, "seed", least=0, most=LAST_SEED)
        check_range(self, "last_rate", least=0.0, most=self.peak_rate)
        check_range(self, "beta1", "beta2", least=0.0, most=1 - LEAST)
        most = 1 / self.peak_rate  # beyond, signs would turn
        check_range(self, "weight_decay", least=0.0, most=most)

    def of_model(self, vocab_size: int) -> GPTConfig:
        """Return the hyperparameters of the model."""
        return GPTConfig(vocab_size=vocab_size, **shared_fields(GPTConfig, self))

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""
        return warmup_cosine(
            step, self.warmup_steps, steps=self.steps, peak=self.peak_rate, last=self.last_rate
        )


class TextGenerator(Pipeline):
    """Put a ``GPT`` and its ``Characters`` together: a text in, a longer one out."""

    what = "a GPT that goes on with a text"
    config_class = TextGeneratorConfig
    model_class = GPT
    tokenizer_class = Characters

    def vocabulary(self) -> str:
        """Return all characters."""
        return self.tokenizer.characters

    def generate(
        self, prompt: str, tokens: int, *, copies: int = 1, seed: int = 0, **how: Any
    ) -> list[str]:
        """Go on with a prompt, in several ways.

        Args:
            prompt: At least one character, all of them known.
            tokens: Characters to write.
            copies: How many texts.
            seed: Another seed, other texts.
            **how: ``temperature`` (0.8 unless given), ``top_k`` and ``top_p``, as in ``sample``.

        Returns:
            The texts; each begins with the prompt.

        Raises:
            ValueError: If the prompt is empty or has unknown characters, or as ``sample``.
        """
        ids = self.tokenizer.encode(prompt).repeat(copies, 1).to(self.device)  # (B, T)
        generator = torch.Generator(self.device).manual_seed(seed)
        how = {"temperature": 0.8, **how}
        written = sample(self.model, ids, tokens, generator=generator, **how)
        return [self.tokenizer.decode(row) for row in written]


SIZES = {
    "cpu": {},
    "smoke": dict(
        max_len=32, num_layers=2, num_heads=2, d_model=32, batch_size=8, steps=60,
        warmup_steps=10, peak_rate=5e-3, val_every=20, val_windows=50, init_std=0.1,
    ),
    "gpu": dict(
        max_len=256, num_layers=6, num_heads=6, d_model=384, batch_size=64, steps=5_000,
        dropout=0.2, bfloat16=True, init_std=0.028,
    ),
}  # fmt: skip


class LanguageModel(Task):
    """Train a GPT on the windows of a text; see ``Task``.

    Raises:
        ValueError: If the text is missing, or too short for a window.
    """

    kind = TextGenerator
    name = "gpt"
    takes = "2 minutes of one CPU core"
    sizes = SIZES
    settings = {"text": dict(choices=PROMPTS), "steps": dict(type=whole_from_one)}
    named = "text"
    verb = "sample"
    writing = {
        "--prompt": dict(metavar="TEXT", help="how it begins"),
        "--tokens": dict(type=whole_from_one, default=300, help="characters to write"),
        "--temperature": dict(type=float, default=0.8),
        "--top-k": dict(type=whole_from_one, metavar="K", help="the K likeliest only"),
        "--top-p": dict(type=float, metavar="P", help="the likeliest up to this probability"),
        "--draw": dict(type=int, default=0, help="another number, another text"),
    }

    def __init__(
        self,
        config: TextGeneratorConfig,
        data: Path | str | None = None,
        pipeline: TextGenerator | None = None,
    ) -> None:
        self.text = read_text(config.text, data)
        for ids in (self.text.train, self.text.val):
            side_by_side(ids, config.max_len)  # refuses a text that is too short
        self.pipeline = pipeline or self.kind.new(config, self.text.characters)
        self.windows = side_by_side(self.text.val, config.max_len)[: config.val_windows]
        self.steps = config.steps
        self.clip_norm = config.clip_norm
        self.checksum = zlib.crc32(self.text.train.numpy())  # another Python: another library

    def optimizer(self) -> torch.optim.Optimizer:
        """Make AdamW, under which matrices decay."""
        config = self.pipeline.config
        groups = param_groups(self.pipeline.model, config.weight_decay)
        betas = (config.beta1, config.beta2)
        return torch.optim.AdamW(groups, lr=config.peak_rate, betas=betas, fused=True)

    def batches(self, step: int) -> tuple[Tensor, Tensor]:
        """Draw windows, and what follows each of their characters, each of shape ``(B, T)``."""
        config = self.pipeline.config
        return random_windows(self.text.train, config.batch_size, config.max_len)

    def predictions(self, batch: tuple[Tensor, ...]) -> Tensor:
        """Count the characters of each window. Shape ``(B,)``."""
        return torch.full((len(batch[-1]),), batch[-1].size(1))

    def loss(self, model: nn.Module, batch: tuple[Tensor, ...]) -> Tensor:
        """Compute the mean loss of all predictions."""
        return model(*(part.to(self.pipeline.device, non_blocking=True) for part in batch))[1]

    def measure(self, pipeline: TextGenerator, step: int) -> dict[str, float]:
        """Measure the loss on the first windows of val."""
        return {"val_loss": loss_on(pipeline.model, self.windows)}

    @staticmethod
    def write(pipeline: TextGenerator, options: Namespace) -> str:
        """Go on with a text."""
        check_range(options, "temperature", least=COLDEST, most=HOTTEST)
        prompt = PROMPTS[pipeline.config.text] if options.prompt is None else options.prompt
        how = dict(temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)
        seed = options.draw % (LAST_SEED + 1)
        return pipeline.generate(prompt, options.tokens, seed=seed, **how)[0]

    @staticmethod
    def evaluate(pipeline: TextGenerator, options: Namespace) -> dict[str, Any]:
        """Measure the loss on all of val, and of Python, how many lines written can be parsed.

        Raises:
            ValueError: If the text has other characters than the model knows.
        """
        config = pipeline.config
        text = read_text(config.text, options.data)
        if text.characters.characters != pipeline.tokenizer.characters:
            raise ValueError("this model learned from another text: it has other characters")
        windows = side_by_side(text.val, config.max_len)
        loss = loss_on(pipeline.model, windows)
        every = f"all {len(windows):,} windows of {config.max_len}, side by side"
        print(f"val loss {loss:.4f} nats per character, on {every}")
        found = {"val_loss": loss, "characters": {"train": len(text.train), "val": len(text.val)}}
        copies = COPIES if config.text == "library" else 1
        written = pipeline.generate(PROMPTS[config.text], SAMPLE, copies=copies, seed=config.seed)
        lines = [line for text in written for line in program_lines(text)]
        if config.text == "library" and lines:
            found["parse_rate"] = parse_rate(lines)
            print(f"parse rate {found['parse_rate']:.2f} of {len(lines)} lines written")
        return found | {"sample": written[0]}


@torch.no_grad()
def loss_on(model: nn.Module, windows: Tensor) -> float:
    """Measure the mean loss of a ``GPT`` on windows ``(windows, T + 1)``, in nats per character."""
    model.eval()
    total = 0.0
    for part in windows.split(max(1, POSITIONS // windows.size(1))):
        part = part.to(next(model.parameters()).device)
        total += len(part) * model(part[:, :-1], part[:, 1:])[1].item()
    return total / len(windows)


def program_lines(text: str) -> list[str]:
    """List the whole lines of what was written, without empty ones and comments.

    The first line was begun by somebody else, the last one is not finished: neither counts.
    """
    lines = (line.strip() for line in text.split("\n")[1:-1])
    return [line for line in lines if line and not line.startswith("#")]
