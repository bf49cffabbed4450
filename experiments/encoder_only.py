"""Train the encoders from chapter 25 and their controls with three seeds, and record their scores.

The scores answer four questions: how much it helps to read in both directions when filling a gap,
how much BERT's 80/10/10 masking rule helps, how many labels a pretrained encoder saves, and how
much positions help a Transformer that reads digits. A run takes under a minute on an idle core.
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
    TokenHead,
    mask_tokens,
    mean_pool,
    patches,
)
from course_lib.gpt import param_groups
from course_lib.masks import causal_mask, padding_mask
from course_lib.positions import LearnedPositionalEmbedding
from course_lib.records.missing_runs import SEEDS, main
from course_lib.records.results import Entry, record_of
from course_lib.trainer.schedules import warmup_cosine
from course_lib.training import training_step

LANGUAGES = ("en", "de", "fr", "zh")
STEPS, BATCH_SIZE, PEAK_RATE = 1600, 64, 3e-3
LOOKS = (200, 400, 800, 1600)  # steps after which we measure the accuracy at gaps
FINE_TUNING_STEPS, FINE_TUNING_RATE, FROZEN_RATE = 100, 1e-3, 1e-2
EPOCHS = 20
NEXT = "left, next token"
GAPS = ("both directions", NEXT, f"{NEXT}, 15%", "left, masked", "both, always [mask]")
WINDOWS = {  # by name: visible characters before and after the gap
    "4 before, 4 after": (4, 4),
    "8 before": (8, 0),
    "8 after": (0, 8),
    "4 before": (4, 0),
}
LABELS = (1, 2, 4, 8, 16, 32)  # for each language
STARTS = {  # by name: a multiple of the training steps
    "fine-tuned": 1,
    "from scratch": 1,
    "from scratch, longer": 4,
    "frozen": 1,
    "frozen, untrained": 1,
    "frozen, untrained, longer": 10,
    "character counts": 10,
}
IMAGES = ("positions", "no positions", "patches in one other order", "a new order in each image")


class Words:
    """Small numbers written out in four languages, as ids, with a test split."""

    def __init__(self, below: int = 1000) -> None:
        pairs = {s: [n for n in range(below) if split_of(n) == s] for s in ("train", "test")}
        texts = {s: [spell(n, x) for n in pairs[s] for x in LANGUAGES] for s in pairs}
        self.characters = Characters(" " + "".join(texts["train"]))
        self.pad_id, self.mask_id = len(self.characters), len(self.characters) + 1
        encode, pad_id = self.characters.encode, self.pad_id
        self.train, self.test = (
            pad_rows([encode(text).tolist() for text in texts[s]], pad_id) for s in pairs
        )
        self.max_len = max(self.train.size(1), self.test.size(1))
        self.stream = {s: encode(" ".join(shuffled(texts[s]))) for s in pairs}


def shuffled(texts: list[str]) -> list[str]:
    """Return the texts in a fixed random order."""
    order = torch.randperm(len(texts), generator=torch.Generator().manual_seed(0))
    return [texts[i] for i in order]


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
        return ids[:, :-1], (targets if "15" in name else ids)[:, 1:]
    if "always" in name:
        inputs = ids.masked_fill(targets != words().pad_id, words().mask_id)
    return inputs, targets


@cache
def trained_gap_model(name: str, seed: int) -> tuple[GapFiller, list[float]]:
    """Train a model that fills gaps; return it, and its accuracy after each step in ``LOOKS``."""
    torch.manual_seed(seed)
    draw, model = torch.Generator().manual_seed(seed), GapFiller(name)

    def draw_loss() -> Tensor:
        """Compute the loss on a batch, over the targets that are not padding."""
        rows = torch.randint(len(words().train), (BATCH_SIZE,), generator=draw)
        inputs, targets = inputs_and_targets(name, words().train[rows], draw)
        known = targets != words().pad_id
        return F.cross_entropy(model.head(model(inputs)[known]), targets[known])

    steps = learn(model, draw_loss, STEPS, PEAK_RATE)
    return model, [accuracy_at_gaps(model) for step in steps if step in LOOKS]


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


def fill_gaps(name: str, seed: int) -> Entry:
    """Train a model; return how often it restores hidden characters and corrects wrong ones."""
    model, accuracies = trained_gap_model(name, seed)
    entry: Entry = {"accuracy": accuracies}
    if not model.causal:
        entry["wrong_letter"] = accuracy_at_gaps(model, torch.Generator().manual_seed(0))
    return entry


def fill_windows(name: str, seed: int) -> Entry:
    """Train on windows with one gap and a few visible characters; return the accuracy."""
    torch.manual_seed(seed)
    draw, model = torch.Generator().manual_seed(seed), GapFiller("both")
    place, after = WINDOWS[name]  # the position of the gap, and the characters after it
    margin = max(after, 4)  # at the end of the text

    def windows(split: str, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Return windows with a gap at each of ``starts``, and the tokens in the gaps."""
        ids = words().stream[split][starts[:, None] + torch.arange(-place, after + 1)]
        targets = ids[:, place].clone()
        ids[:, place] = words().mask_id
        return ids, targets

    def draw_loss() -> Tensor:
        """Compute the loss at the gaps in a batch of windows."""
        last = len(words().stream["train"]) - margin
        starts = torch.randint(8, last, (2 * BATCH_SIZE,), generator=draw)
        ids, targets = windows("train", starts)
        return F.cross_entropy(model.head(model(ids)[:, place]), targets)

    deque(learn(model, draw_loss, STEPS, PEAK_RATE), maxlen=0)
    with torch.no_grad():
        starts = torch.arange(8, len(words().stream["test"]) - margin)
        ids, targets = windows("test", starts)
        right = model.head(model(ids)[:, place]).argmax(dim=-1) == targets
    return {"accuracy": fraction(right)}


def one_hot(ids: Tensor, mask: Tensor) -> Tensor:
    """Turn ids (B, L) into one-hot vectors (B, L, d_model); their means are frequencies."""
    return F.one_hot(ids, 64).float()


def tell_languages(name: str, seed: int) -> Entry:
    """Classify languages after seeing few labels; return the accuracy for each number of labels."""
    return {"accuracy": [language_accuracy(name, seed, count) for count in LABELS]}


def language_accuracy(name: str, seed: int, count: int) -> float:
    """Train a language classifier on ``count`` labels per language; return the accuracy."""
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(100 * seed + count)
    encoder = one_hot if name == "character counts" else new_encoder()
    head, frozen = nn.Linear(64, len(LANGUAGES)), "frozen" in name or "counts" in name
    if name in ("fine-tuned", "frozen"):
        encoder.load_state_dict(trained_gap_model(GAPS[0], seed)[0].encoder.state_dict())

    def means(ids: Tensor) -> Tensor:
        """Return the mean vector of each word."""
        return mean_pool(encoder(ids, padding_mask(ids, words().pad_id)), ids != words().pad_id)

    train, test = words().train, words().test
    languages = torch.arange(len(train)) % len(LANGUAGES)  # the rows cycle through them
    numbers = torch.randperm(len(train) // len(LANGUAGES), generator=draw)[:count]
    labeled = (numbers[:, None] * len(LANGUAGES) + torch.arange(len(LANGUAGES))).flatten()
    constant = means(train[labeled]).detach()  # used if the encoder is frozen

    def draw_loss() -> Tensor:
        """Compute the loss on a batch of labeled words."""
        rows = torch.randint(len(labeled), (32,), generator=draw)
        vectors = constant[rows] if frozen else means(train[labeled[rows]])
        return F.cross_entropy(head(vectors), languages[labeled[rows]])

    rate = FROZEN_RATE if frozen else FINE_TUNING_RATE
    learner = head if frozen else nn.ModuleList([encoder, head])
    deque(learn(learner, draw_loss, FINE_TUNING_STEPS * STARTS[name], rate), maxlen=0)
    with torch.no_grad():
        right = head(means(test)).argmax(dim=-1) == torch.arange(len(test)) % len(LANGUAGES)
    return fraction(right)


class VisionTransformer(nn.Module):
    """Chapter 25's image classifier, which uses the encoder from chapter 07."""

    def __init__(self, learned_positions: bool) -> None:
        super().__init__()
        self.embedding = nn.Linear(4, 64)
        self.class_token = nn.Parameter(0.02 * torch.randn(64))
        self.positions = (
            LearnedPositionalEmbedding(64, 17, 0.1) if learned_positions else nn.Dropout(0.1)
        )
        self.encoder = Encoder(2, 64, 4, 128, 0.1, norm_first=True, activation="gelu")
        self.output = nn.Linear(64, 10)

    def forward(self, squares: Tensor) -> Tensor:
        """Turn patches (B, 16, 4) into logits (B, 10)."""
        first = self.class_token.expand(len(squares), 1, -1)
        x = self.positions(torch.cat([first, self.embedding(squares)], dim=1))
        return self.output(self.encoder(x)[:, 0])


def read_images(name: str, seed: int) -> Entry:
    """Train on four fifths of the digits; return the accuracy on the last fifth."""
    torch.manual_seed(seed)
    draw, digits = torch.Generator().manual_seed(seed), load_digits()
    squares = patches(torch.tensor(digits.images, dtype=torch.float32) / 16, 2)
    labels = torch.tensor(digits.target)
    if name == "patches in one other order":
        squares = squares[:, torch.randperm(16, generator=draw)]
    if name == "a new order in each image":
        squares = torch.stack([x[torch.randperm(16, generator=draw)] for x in squares])
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    test, train = order.split([len(order) // 5, len(order) - len(order) // 5])
    model = VisionTransformer(name != "no positions")
    full = len(train) // 64 * 64  # whole batches
    epochs = [train[torch.randperm(len(train), generator=draw)[:full]] for _ in range(EPOCHS)]
    batches = iter(torch.cat(epochs).split(64))  # each epoch has a different order

    def draw_loss() -> Tensor:
        """Compute the loss on the next batch."""
        rows = next(batches)
        return F.cross_entropy(model(squares[rows]), labels[rows])

    deque(learn(model, draw_loss, EPOCHS * (len(train) // 64), 2e-3), maxlen=0)
    with torch.no_grad():
        right = model(squares[test]).argmax(dim=-1) == labels[test]
    return {"accuracy": fraction(right)}


Part = tuple[Iterable[str], Callable[[str, int], Entry]]
PARTS: dict[str, Part] = {  # the names of a part's models, and the function that trains one
    "gap": (GAPS, fill_gaps),
    "window": (WINDOWS, fill_windows),
    "labels": (STARTS, tell_languages),
    "images": (IMAGES, read_images),
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
