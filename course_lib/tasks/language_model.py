"""A GPT that goes on with a text, character by character: its numbers, its text, its model."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch

from course_lib.data import Characters, Text, read_library, read_shakespeare
from course_lib.gpt import GPT, GPTConfig, param_groups, sample
from course_lib.trainer.options import check_above_zero, check_between, check_from_one
from course_lib.training import warmup_cosine

PROMPTS = {"library": "def ", "shakespeare": "\n"}  # how each text may begin
COUNTS = ("batch_size", "steps", "warmup_steps", "val_every", "val_windows")
LAST_SEED = 2**32 - 1
GPT_START = 0.02  # the standard deviation that GPT's matrices start with


@dataclass(frozen=True, kw_only=True)
class TextGeneratorConfig:
    """Hold every number that defines a GPT and its training; the defaults are nanoGPT's for a CPU.

    Args:
        text: ``"library"``, Python's own, or ``"shakespeare"``.
        seed: Decides the first weights, the windows, and what dropout drops.
        max_len: Most characters that the model reads at once, and those of a window.
        num_layers: Depth of the stack.
        num_heads: Heads of each attention.
        d_model: Width of the vectors.
        dropout: Share dropped in GPT-2's places, in [0, 1].
        bias: Whether linear layers and norms have biases.
        start_std: Standard deviation of new matrices; of those that write into the sum, divided
            by √(2N). GPT-2's 0.02 is for vectors 768 wide; narrower ones want more.
        batch_size: Windows in a step.
        steps: The last step.
        warmup_steps: The step at which the learning rate peaks.
        peak_rate: The learning rate there, from where it falls along half a wave of the cosine.
        last_rate: The learning rate of the last step.
        beta1: How long AdamW remembers slopes: its first β, in [0, 1).
        beta2: How long it remembers their squares: its second β, in [0, 1).
        weight_decay: The share of a matrix that is taken off in each step, times the rate.
        clip_norm: The largest norm that all gradients together may have.
        bfloat16: Whether matrix products are computed in it while training.
        val_every: After how many steps the loss on val is measured.
        val_windows: On how many windows, the first ones; at the end, on all.

    Raises:
        ValueError: If there is no such text, a size or count is below 1, the heads do not divide
            the width, a rate or norm is no number above 0, or a share is outside its range.
    """

    text: str = "library"
    seed: int = 0
    max_len: int = 64
    num_layers: int = 4
    num_heads: int = 4
    d_model: int = 128
    dropout: float = 0.0
    bias: bool = False
    start_std: float = 0.05
    batch_size: int = 12
    steps: int = 2_000
    warmup_steps: int = 100
    peak_rate: float = 1e-3
    last_rate: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 0.1
    clip_norm: float = 1.0
    bfloat16: bool = False
    val_every: int = 250
    val_windows: int = 400

    def __post_init__(self) -> None:
        if self.text not in PROMPTS:
            raise ValueError(f"text={self.text!r} is neither 'library' nor 'shakespeare'")
        self.of_model(vocab_size=1)  # it refuses sizes that no model has
        check_from_one(self, *COUNTS)
        check_above_zero(self, "start_std", "peak_rate", "clip_norm")
        check_between(self, 0, LAST_SEED, "seed")
        check_between(self, 0, self.peak_rate, "last_rate")
        check_between(self, 0, 1 / self.peak_rate, "weight_decay")  # beyond, signs would turn
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1):
            raise ValueError(f"beta1={self.beta1} and beta2={self.beta2} must be in [0, 1)")

    def of_model(self, vocab_size: int) -> GPTConfig:
        """Return the part of the numbers that the model is built from."""
        return GPTConfig(
            vocab_size=vocab_size,
            max_len=self.max_len,
            num_layers=self.num_layers,
            num_heads=self.num_heads,
            d_model=self.d_model,
            dropout=self.dropout,
            bias=self.bias,
        )

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 1."""
        return warmup_cosine(
            step,
            self.warmup_steps,
            steps=self.steps,
            peak=self.peak_rate,
            last=self.last_rate,
        )


SIZES = {
    "cpu": {},
    "smoke": dict(
        max_len=32, num_layers=2, num_heads=2, d_model=32, batch_size=8, steps=60,
        warmup_steps=10, peak_rate=5e-3, val_every=20, val_windows=50, start_std=0.1,
    ),
    "gpu": dict(
        max_len=256, num_layers=6, num_heads=6, d_model=384, batch_size=64, steps=5_000,
        dropout=0.2, bfloat16=True, start_std=0.028,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class TextGenerator:
    """Put a model and its characters together: a text in, a longer one out.

    Args:
        model: The ``GPT``.
        characters: What turns text into its ids and back.
        config: What both were made from.
    """

    model: GPT
    characters: Characters
    config: TextGeneratorConfig
    what: ClassVar[str] = "a GPT that goes on with a text"
    config_class: ClassVar[type] = TextGeneratorConfig

    def facts(self) -> dict[str, Any]:
        """Return all but the weights."""
        return {"config": asdict(self.config), "characters": self.characters.characters}

    @classmethod
    def unlearned(cls, facts: dict[str, Any]) -> "TextGenerator":
        """Build a writer from its facts, all but the weights."""
        config = TextGeneratorConfig(**facts["config"])
        characters = Characters(facts["characters"])
        return cls(GPT(config.of_model(len(characters))), characters, config)

    @property
    def device(self) -> torch.device:
        """Say where the model is."""
        return self.model.output.weight.device

    def generate(
        self,
        prompt: str,
        tokens: int,
        *,
        copies: int = 1,
        seed: int = 0,
        temperature: float = 0.8,
        top_k: int | None = None,
        top_p: float | None = None,
    ) -> list[str]:
        """Write on from a prompt, in several ways.

        Args:
            prompt: At least one character, all of them known.
            tokens: Characters to write.
            copies: How many texts.
            seed: Another seed, other texts.
            temperature: As in ``sample``, like the next two.
            top_k: So many likeliest characters only.
            top_p: As few of the likeliest as reach this share.

        Returns:
            The texts; each begins with the prompt.

        Raises:
            ValueError: If the prompt is empty or has unknown characters, or as ``sample``.
        """
        ids = self.characters.encode(prompt).repeat(copies, 1).to(self.device)  # (B, T)
        generator = torch.Generator(self.device).manual_seed(seed)
        written = sample(self.model, ids, tokens, temperature, top_k, top_p, generator)
        return [self.characters.decode(row) for row in written]


def read_text(name: str, folder: Path | str | None = None) -> Text:
    """Read one of the texts that ``PROMPTS`` names.

    Args:
        name: ``"library"`` or ``"shakespeare"``.
        folder: Where data are, for Shakespeare; what COURSE_DATA names unless given.

    Raises:
        ValueError: As ``read_library`` and ``read_shakespeare``.
    """
    return read_library() if name == "library" else read_shakespeare(folder)


def new_generator(config: TextGeneratorConfig, characters: Characters) -> TextGenerator:
    """Make what a training starts from: a new model."""
    torch.manual_seed(config.seed)
    return TextGenerator(new_model(config, len(characters)), characters, config)


def new_model(config: TextGeneratorConfig, vocab_size: int) -> GPT:
    """Make a model that has learned nothing, as loud at the start as the configuration says."""
    model = GPT(config.of_model(vocab_size))
    for matrix in param_groups(model, config.weight_decay)[0]["params"]:
        matrix.data *= config.start_std / GPT_START
    return model
