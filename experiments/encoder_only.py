"""Train chapter 25's models and their controls with three seeds, and record their scores.

The scores answer four questions: how much it helps to read in both directions when filling a gap,
how much BERT's 80/10/10 masking rule helps to find a wrong letter, how much positions help a
Transformer that reads images, and whether it pools with a class token or a mean. A run takes under
a minute on an idle core.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.data import Characters, pad_rows, spell
from course_lib.data.number_words import split_of
from course_lib.encoder import Encoder
from course_lib.encoder_only import (
    EncoderOnly,
    EncoderOnlyConfig,
    SequenceHead,
    TokenHead,
    mask_tokens,
    patches,
)
from course_lib.gpt import param_groups
from course_lib.masks import causal_mask, padding_mask
from course_lib.positions import LearnedPositionalEmbedding
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.trainer.schedules import warmup_cosine
from course_lib.training import training_step

STEPS, BATCH_SIZE, PEAK_RATE = 800, 64, 3e-3
LOOKS = (100, 200, 400, 800)  # steps after which we measure the accuracy at gaps
SHOWN = 442  # the chapter's example, which is kept out of training
GAPS = ("both sides", "left, next letter", "left, masked", "both sides, always [mask]")
IMAGE_STEPS, SIDE = 600, 4  # pixels of a patch
IMAGES = ("class token", "mean", "no positions", "one other order")


class Words:
    """German number words below 1,000, as ids, with a test split."""

    def __init__(self) -> None:
        splits = {n: "test" if n == SHOWN else split_of(n) for n in range(1000)}
        texts = {s: [spell(n, "de") for n in splits if splits[n] == s] for s in ("train", "test")}
        self.characters = Characters("".join(texts["train"]))
        self.pad_id, self.mask_id = len(self.characters), len(self.characters) + 1
        self.train, self.test = (
            pad_rows([self.characters.encode(text).tolist() for text in texts[s]], self.pad_id)
            for s in texts
        )
        self.max_len = max(self.train.size(1), self.test.size(1))


words = cache(Words)


def new_encoder() -> EncoderOnly:
    """Build an encoder with random weights."""
    config = EncoderOnlyConfig(
        vocab_size=words().mask_id + 1, max_len=words().max_len, num_layers=2, num_heads=4,
        d_model=64, d_ff=256, dropout=0.0, init_std=0.125,
    )  # fmt: skip
    return EncoderOnly(config)


def learn(
    model: nn.Module, draw_loss: Callable[[], Tensor], steps: int, peak: float
) -> Iterator[int]:
    """Train a model with the losses from ``draw_loss``; yield the number of each finished step."""
    optimizer = torch.optim.AdamW(param_groups(model, 0.01), fused=True)
    for step in range(1, steps + 1):
        rate = warmup_cosine(step, max(1, steps // 10), steps=steps, peak=peak)
        training_step(model.train(), optimizer, [draw_loss()], rate)
        model.eval()
        yield step


class GapFiller(nn.Module):
    """A model that predicts characters, from both directions or only from the left."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.encoder = new_encoder()
        self.head = TokenHead(self.encoder.embedding)
        self.causal, self.next_token = "left" in name, "next" in name

    def forward(self, ids: Tensor) -> Tensor:
        """Turn ids (B, L) into vectors (B, L, d_model)."""
        mask = padding_mask(ids, words().pad_id)
        return self.encoder(ids, mask & causal_mask(ids.size(1)) if self.causal else mask)


def inputs_and_targets(name: str, ids: Tensor, draw: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the ids that a model reads in one step, and those it should predict."""
    special = dict(mask_id=words().mask_id, pad_id=words().pad_id)
    num_ordinary = len(words().characters)
    inputs, targets = mask_tokens(ids, num_ordinary=num_ordinary, generator=draw, **special)
    if "next" in name:
        return ids[:, :-1], ids[:, 1:]
    if "always" in name:
        inputs = ids.masked_fill(targets != words().pad_id, words().mask_id)
    return inputs, targets


def fill_gaps(name: str, seed: int) -> Entry:
    """Train a model; return how often it restores hidden characters and corrects wrong ones."""
    torch.manual_seed(seed)
    draw, model = torch.Generator().manual_seed(seed), GapFiller(name)

    def draw_loss() -> Tensor:
        """Compute the loss on a batch, over the targets that are not padding."""
        rows = torch.randint(len(words().train), (BATCH_SIZE,), generator=draw)
        inputs, targets = inputs_and_targets(name, words().train[rows], draw)
        known = targets != words().pad_id
        return F.cross_entropy(model.head(model(inputs)[known]), targets[known])

    steps = learn(model, draw_loss, STEPS, PEAK_RATE)
    entry: Entry = {"accuracy": [accuracy_at_gaps(model) for step in steps if step in LOOKS]}
    if not model.causal:
        entry["wrong_letter"] = accuracy_at_gaps(model, torch.Generator().manual_seed(0))
    return entry


def fraction(flags: Tensor) -> float:
    """Return the fraction of flags that are True, rounded to four decimals."""
    return round(flags.float().mean().item(), 4)


@torch.no_grad()
def accuracy_at_gaps(model: GapFiller, generator: torch.Generator | None = None) -> float:
    """Hide each character of the test words in turn; return the fraction that the model restores.

    The first character is left out, because nothing comes before it. If a generator is given,
    each hidden character is replaced with a random wrong character instead of [mask].
    """
    right = []
    for place in range(1, words().test.size(1)):
        ids = words().test[words().test[:, place] != words().pad_id]
        seen = ids.clone()
        if generator is None:
            seen[:, place] = words().mask_id
        else:
            num_ordinary = len(words().characters)
            other = torch.randint(1, num_ordinary, (len(ids),), generator=generator)
            seen[:, place] = (ids[:, place] + other) % num_ordinary
        place_read = place - 1 if model.next_token else place
        logits = model.head(model(seen)[:, place_read])
        right.append(logits[:, : len(words().characters)].argmax(dim=-1) == ids[:, place])
    return fraction(torch.cat(right))


class ImageReader(nn.Module):
    """The side trip's Vision Transformer, with the encoder from chapter 07."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.embedding = nn.Linear(SIDE**2, 64)
        self.class_token = nn.Parameter(0.02 * torch.randn(64))
        self.positions: nn.Module = LearnedPositionalEmbedding(64, 9, 0.0)
        if name == "no positions":
            self.positions = nn.Identity()
        self.encoder = Encoder(2, 64, 4, 128, 0.0, norm_first=True, activation="gelu")
        self.output = SequenceHead(64, 100)
        self.order = torch.randperm(8) if name == "one other order" else torch.arange(8)
        self.pooled = torch.tensor([name != "mean"] + 8 * [name == "mean"])

    def forward(self, images: Tensor) -> Tensor:
        """Turn images (B, 8, 16) into logits (B, 100)."""
        squares = self.embedding(patches(images, SIDE)[:, self.order])
        first = self.class_token.expand(len(images), 1, -1)
        vectors = self.encoder(self.positions(torch.cat([first, squares], dim=1)))
        return self.output(vectors, self.pooled.expand(len(images), -1))


def read_images(name: str, seed: int) -> Entry:
    """Train on pairs of digits; return the accuracy on new ones, and how often they are swapped."""
    torch.manual_seed(seed)
    draw, digits = torch.Generator().manual_seed(seed), load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    test, train = order.split([len(order) // 5, len(order) - len(order) // 5])
    model = ImageReader(name)

    def pairs(rows: Tensor, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Draw images (count, 8, 16) of two digits, and the two-digit numbers."""
        left, right = rows[torch.randint(len(rows), (2, count), generator=generator)]
        return torch.cat([images[left], images[right]], dim=2), 10 * labels[left] + labels[right]

    def draw_loss() -> Tensor:
        """Compute the loss on a batch of new pairs."""
        drawn, numbers = pairs(train, BATCH_SIZE, draw)
        return F.cross_entropy(model(drawn), numbers)

    deque(learn(model, draw_loss, IMAGE_STEPS, PEAK_RATE), maxlen=0)
    drawn, numbers = pairs(test, 2000, torch.Generator().manual_seed(0))
    with torch.no_grad():
        found = model(drawn).argmax(dim=-1)
    swapped = found == numbers % 10 * 10 + numbers // 10
    wrong = found != numbers
    return {"accuracy": fraction(~wrong), "swapped": fraction(swapped & wrong)}


Part = tuple[Iterable[str], Callable[[str, int], Entry]]
PARTS: dict[str, Part] = {  # the names of a part's models, and the function that trains one
    "images": (IMAGES, read_images),
    "gap": (GAPS, fill_gaps),
}
RUNS: list[Entry] = [
    {"part": part, "name": name, "seed": seed}
    for part, (names, _) in PARTS.items()
    for name in names
    for seed in SEEDS
]


def train_one(run: Entry) -> Entry:
    """Train one model, and return its scores."""
    _, train = PARTS[run["part"]]
    return train(run["name"], run["seed"])


if __name__ == "__main__":
    main(__doc__, record_of("encoder_only"), RUNS, train_one)
