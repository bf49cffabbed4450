"""Predictions: the reader writes down a number before the computer calculates it."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.add_norm import LayerNorm
from course_lib.attention import scaled_dot_product_attention
from course_lib.batching import padding_fraction
from course_lib.decoder import DecoderLayer
from course_lib.decoding import greedy_decode
from course_lib.encoder import EncoderLayer
from course_lib.encoder_only import patches
from course_lib.exercises.checking.error_messages import explain
from course_lib.exercises.checking.report import Report
from course_lib.exercises.checking.small_models import small_model
from course_lib.feed_forward import FeedForward
from course_lib.flops import attention_flops
from course_lib.gpt import GPT, GPTConfig
from course_lib.kv_cache import CachedDecoderLayer
from course_lib.modern_decoder import GroupedQueryAttention
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import sinusoidal_encoding
from course_lib.tokenization import BPETokenizer, train_bpe
from course_lib.training import label_smoothed_cross_entropy
from course_lib.transformer import Transformer, TransformerConfig

QUERY = torch.tensor([2.0, 1.0])  # in the picture in chapter 01
KEYS = torch.tensor([[1.0, -1.0], [-1.0, 0.5], [0.5, 1.0], [2.0, 1.0]])
PICTURE = KEYS @ QUERY  # [1, -1.5, 2, 5]


@dataclass(frozen=True)
class Prediction:
    """A question that asks for a number before it is computed.

    Args:
        asks: A few words that say which number to predict.
        truth: Computes the number.
        close: The largest relative error allowed in a correct guess; whole numbers are exact.
        guesses: Common wrong answers, with a hint for each.
        inputs: The arguments of an answer that is a function, if it may be one.
    """

    name: str
    chapter: int
    asks: str
    truth: Callable[[], float | Sequence[float] | Tensor]
    close: float = 0.01
    guesses: tuple[tuple[float, str], ...] = ()
    minutes: int = 3
    kind: str = "predict"
    inputs: tuple[Tensor, ...] = ()


def judge_prediction(question: Prediction, answer: object) -> Report:
    """Compare a guess, or what a function returns, with the true value, and never raise."""
    if not (question.inputs and isinstance(answer, FunctionType)):
        return _compared(question, answer)
    try:
        value = answer(*question.inputs)
    except Exception as error:  # the answer is somebody's first code
        hint, detail = explain(error)
        written = not isinstance(error, NotImplementedError)
        return Report(question.name, False, hint=hint, detail=detail, attempted=written)
    return _compared(question, value)


def _compared(question: Prediction, answer: object) -> Report:
    """Compare a guess with the computed value."""
    if answer is ... or answer is None:
        hint = "Replace `...` with your answer, and run the cell."
        return Report(question.name, False, hint=hint, attempted=False)
    with torch.random.fork_rng(devices=[]):  # the question may build a layer
        value = torch.as_tensor(question.truth())
    truth, close = value.double(), question.close if value.is_floating_point() else 0.0
    try:
        guess = torch.as_tensor(answer, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        guess = None
    if guess is not None and guess.numel() == truth.numel() == 1 and hasattr(answer, "item"):
        guess = guess.reshape(truth.shape)  # a tensor or an array with one number counts as it
    if guess is not None and guess.dim() > truth.dim() >= 1:
        guess = guess.squeeze()  # a table with one row counts as a list
    if guess is None or guess.shape != truth.shape:
        kinds = ["one number", "a list of {} numbers", "{} lists of {} numbers each"]
        kind = kinds[truth.dim()].format(*truth.shape)
        return Report(
            question.name, False, hint=f"{question.asks}: please give {kind}, not {answer!r}."
        )
    if _near(guess, truth, close):
        return Report(question.name, True, detail=f"{question.asks}: {_show(truth)}")
    hints = [hint for value, hint in question.guesses if _near(guess, torch.tensor(value), close)]
    hint = hints[0] if hints else "That is not correct. Work it out step by step, and try again."
    detail = f"{question.asks}; yours: {_show(guess)}"
    return Report(question.name, False, hint=hint, detail=detail)


def _near(guess: Tensor, truth: Tensor, share: float) -> bool:
    """Return whether a guess is close enough; two decimals always suffice."""
    return torch.allclose(guess.double(), truth.double(), rtol=share, atol=0.005)


def _show(value: Tensor) -> str:
    """Format a number, or a list of numbers, with three or four digits."""
    if value.dim():
        return f"[{', '.join(_show(x) for x in value)}]"
    number = round(value.item(), 4)
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def count(module: nn.Module) -> int:
    """Count a module's parameters."""
    return sum(p.numel() for p in module.parameters())


def asked(
    chapter: int,
    *guesses: tuple[Any, str],
    close: float = 0.01,
    minutes: int = 3,
    inputs: tuple[Tensor, ...] = (),
) -> Callable[[Callable], Prediction]:
    """Create a prediction question from a function whose docstring says which number to predict."""

    def make(truth: Callable[[], Any]) -> Prediction:
        """Use the function's name, and its docstring up to the first colon or period."""
        what = re.split("[:.]", str(truth.__doc__).removeprefix("Return "))[0]
        name = truth.__name__
        return Prediction(name, chapter, what, truth, close, guesses, minutes, inputs=inputs)

    return make


@asked(0, ([4.0, 2.0], "Those are the scores for *forty*. The second row of X is *two*."))
def scores_of_two() -> Tensor:
    """Return the scores for “two”: its dot products with “forty” and with itself."""
    words = torch.tensor([[2.0, 0.0], [1.0, 1.0]])
    return words @ words[1]


@asked(0, ([1.5, 0.5], "That is the result for two words. Now *three* has a weight as well."))
def where_two_ends() -> Tensor:
    """Return the output for “two”. It attends to three words."""
    words = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    return scaled_dot_product_attention(words, words, words)[0][1]


@asked(
    1,
    (PICTURE.softmax(0).tolist(), "You left out the division by √2."),
    ((PICTURE / 2).softmax(0).tolist(), "You divided by the width. Divide by its square root."),
    ((PICTURE / 2**0.5).tolist(), "Those are the scores. The softmax turns them into weights."),
    (
        (PICTURE / PICTURE.sum()).tolist(),
        "The softmax raises e to the power of each score before it divides.",
    ),
    minutes=5,
    inputs=(QUERY, KEYS),
)
def weights_of_the_picture() -> Tensor:
    """Return the weights of the four keys. The picture that opens chapter 01 shows them."""
    return scaled_dot_product_attention(QUERY.unsqueeze(0), KEYS, KEYS)[1][0]


@asked(
    2,
    (2_097_152, "With more heads, each head is narrower: 16 heads share the same 512 columns."),
    (786_432, "Three matrices compute queries, keys and values. A fourth one combines the heads."),
    (1_050_624, "You counted 512 biases for each matrix. This layer has no biases."),
)
def parameters_of_sixteen_heads() -> int:
    """Return the number of parameters with 16 heads. The attention layer has no biases."""
    return count(MultiHeadAttention(512, 16, bias=False))


@asked(3, (512**0.5, "That is the length of a vector of 512 ones. Sine² and cosine² add up to 1."))
def length_of_row_499() -> float:
    """Return the length of row 499. The row is in the table of positions."""
    return sinusoidal_encoding(500, 512)[499].norm().item()


@asked(
    4,
    (1.5, "You divided by n - 1. LayerNorm divides by n."),
    (0.75, "That is the distance from the mean. Divide it by the standard deviation."),
)
def largest_after_norm() -> float:
    """Return the largest number after the norm. The input is [0, 0, 0, 1]."""
    return LayerNorm(4)(torch.tensor([0.0, 0.0, 0.0, 1.0])).max().item()


@asked(5, (30, "You left out the biases: 5 in the first layer, 3 in the second."))
def parameters_of_feed_forward() -> int:
    """Return the number of parameters. The model is a small feed-forward layer."""
    return count(FeedForward(d_model=3, d_ff=5))


@asked(
    6,
    (
        math.log(10),
        "That is the loss without a leak, but the model copies three of the four digits.",
    ),
    (0.0, "The input contains three of the answers, but not the fourth."),
    (math.log(10) * 3 / 4, "The model copies three of the four digits and guesses only one."),
)
def loss_of_a_leak() -> float:
    """Return the lowest loss that the leaky model can reach. It knows three of the four digits."""
    logits = torch.cat([1e4 * torch.eye(10)[:3], torch.zeros(1, 10)])
    return label_smoothed_cross_entropy(logits, torch.arange(4), smoothing=0.0).item()


@asked(7)
def distance_without_positions() -> float:
    """Return the distance between the two outputs. One is for a word, one for four copies of it."""
    layer = EncoderLayer(d_model=8, num_heads=2, d_ff=16)
    word = torch.linspace(-1, 1, 8).expand(1, 1, 8)
    with torch.no_grad():
        return (layer(word)[:, 0] - layer(word.repeat(1, 4, 1))[:, 0]).norm().item()


@asked(
    9,
    (126.2, "You doubled everything. Twice the rows and columns give four times as many entries."),
    (252.3, "You multiplied everything by four, but the vocabulary keeps its size."),
    close=0.003,
)
def parameters_of_the_big_model() -> float:
    """Return the number of parameters in millions. We build the big model on the meta device."""
    config = TransformerConfig(
        src_vocab_size=37_000, tgt_vocab_size=37_000, d_model=1024, d_ff=4096, num_heads=16
    )
    with torch.device("meta"):
        return count(Transformer(config)) / 1e6


@asked(
    10,
    ([68, 75, 258, 257], "The bytes have the ids 0 to 255, so the first merge gets 256."),
    ([68, 75, 258, 256], "*e + v* is merge 2, so *ev* has the id 257."),
    close=0.0,
    minutes=5,
)
def ids_of_eleven() -> list[float]:
    """Return the ids of “eleven”. The tokenizer has the chapter's eight merges."""
    counts = {"six": 5, "sixteen": 2, "seven": 4, "seventeen": 3}
    text = "\n".join(word for word, count in counts.items() for _ in range(count))
    return [*map(float, BPETokenizer(train_bpe(text, 8)).encode("eleven"))]


@asked(
    12,
    (10, "That is with a cache. Without one, the decoder reads the whole prefix each time."),
    (100, "That is for ten tokens each time. Our input grows: one token, two, three, …."),
)
def tokens_read_for_ten() -> int:
    """Return the number of tokens read by the decoder. It generates ten tokens."""
    model: Any = small_model(max_len=10)  # instead of a Transformer
    read: list[int] = []
    model.tgt_embedding.register_forward_pre_hook(lambda _, args: read.append(args[0].numel()))
    greedy_decode(
        model, torch.ones(1, 3, dtype=torch.long), bos_id=1, eos_id=2, max_new_tokens=10,
        use_cache=False, choose=lambda logits: torch.full((len(logits),), 3),
    )  # fmt: skip
    return sum(read)


@asked(
    13,
    (65_536, "For token n, counted from 0, we copy n old positions, not all 256."),
    (256, "Each step copies all the old positions, not only one."),
    (32_896, "You counted the new position of every step as well. Count the old ones only."),
    (32_895, "You counted the new position of every step as well. Count the old ones only."),
    close=0.0,
)
def positions_copied() -> int:
    """Return the number of old positions copied. The 256 tokens arrive one at a time."""
    return sum(range(256))


@asked(
    13,
    (153_600, "The cache keeps a key *and* a value for each token."),
    (122_880, "That is for the target alone. The cache also keeps the source's keys and values."),
)
def numbers_kept() -> int:
    """Return how many numbers we cache. There are six layers, 20 target and 30 source positions."""
    layer = DecoderLayer(d_model=512, num_heads=8, d_ff=1).eval()
    with torch.no_grad():
        cached = CachedDecoderLayer(layer, memory=torch.zeros(1, 30, 512), max_len=20)
        cached.step(torch.zeros(1, 20, 512), None)
    stored = (cached.cache.keys, cached.cache.values, cached.keys, cached.values)
    return 6 * sum(x.numel() for x in stored if x is not None)


@asked(
    15,
    (1.0, "Every word is in the reference, but some are there less often, so clip the counts."),
    (4 / 7, "You counted each word once, but the reference has *the* twice."),
)
def clipped_precision() -> float:
    """Return the precision: the fraction of the output's words that the reference has, clipped."""
    output, reference = "the cat the cat on the mat".split(), "the cat is on the mat".split()
    return sum(min(output.count(x), reference.count(x)) for x in set(output)) / len(output)


@asked(
    15,
    (0.5, "That is in nats per byte. One nat is 1 / ln 2 bits."),
    (2 / math.log(2), "Those are bits per *token*. Divide by the number of bytes in a token."),
)
def bits_per_byte() -> float:
    """Return the bits per byte. The loss is 2 nats per token, and a token has 4 bytes."""
    return 2 / math.log(2) / 4


@asked(
    17,
    (2 / 3, "That is the fraction of positions with a token. The other positions are padding."),
    (1 / 2, "That is 16 padding positions per 32 tokens. Divide by *all* positions."),
    (0.0, "The longest source and the longest target are in different pairs."),
    (100 / 3, "That is a percentage. A fraction is between 0 and 1."),
)
def padding_of_two_pairs() -> float:
    """Return the fraction of padding. Each side is long in one pair of the batch."""
    return padding_fraction([(4, 12), (12, 4)], [[0, 1]])


@asked(
    18,
    (math.log2(50), "That is in bits, with the base-2 logarithm. Nats use the natural one."),
    (1 / 50, "That is the probability of each character. The loss is its negative logarithm."),
    (50.0, "That is the perplexity, e to the power of the loss."),
    close=0.001,
)
def first_loss() -> float:
    """Return the first loss. All 50 characters have the same score."""
    return label_smoothed_cross_entropy(torch.zeros(1, 50), torch.tensor([7]), smoothing=0.0).item()


@asked(
    19,
    (163_037_184, "The output layer shares the embedding's matrix, so the matrix counts once."),
    (123_653_376, "The embeddings of the 1,024 positions are also learned."),
    (85_056_000, "Those are the layers and the final norm. Add the two embedding tables."),
    (117_000_000, "The paper gives this number, but its authors have since corrected it."),
    minutes=6,
)
def parameters_of_gpt2() -> int:
    """Return the number of parameters in GPT-2 small. We build the model on the meta device."""
    with torch.device("meta"):
        return count(GPT(GPTConfig(vocab_size=50_257)))


@asked(
    21,
    (4.0, "That is with a KV head for each query head. Here, 32 query heads share 8 KV heads."),
    (0.5, "That is half the size, because the cache keeps keys *and* values."),
    (2.0, "That is with 4 bytes for each number. Here, each number takes 2."),
    (1 / 32, "That is for one layer. There are 32."),
)
def cache_of_a_later_model() -> float:
    """Return the size of the cache in GiB. 32 layers keep keys and values for 8,192 tokens."""
    with torch.device("meta"):
        layer = GroupedQueryAttention(d_model=32 * 128, num_heads=32, num_kv_heads=8)
    stored = layer.w_k.out_features + layer.w_v.out_features  # numbers for each token
    return 32 * stored * 8_192 * 2 / 2**30


@asked(
    22,
    (576, "Those are the rows of q_proj. Here, three query heads share one key head."),
    (64, "That is one head. There are three key heads."),
)
def rows_of_k_proj() -> int:
    """Return the number of rows of k_proj. It belongs to a small published model."""
    return GroupedQueryAttention(576, 9, 3).w_k.out_features


@asked(
    25,
    (196, "Those are the patches. ViT puts one more token before them."),
    (15, "That is one row of patches, and the class token. How many rows are there?"),
    (50_177, "That is one token for each pixel. A patch has 16 × 16 pixels."),
)
def tokens_of_an_image() -> int:
    """Return the number of tokens for a 224 × 224 image: 16 × 16 patches and the class token."""
    return patches(torch.zeros(1, 224, 224), 16).size(1) + 1


@asked(
    26,
    (512.0, "In table 1, self-attention and a recurrent layer have the same cost at this length."),
    (1024.0, "You counted the four projections. Add the feed-forward layer."),
    (2048.0, "Count four projections *and* two matrices in the feed-forward layer."),
    (6144.0, "The scores *and* the weighted average each need n · n · d multiplications."),
    close=0.0,
    minutes=6,
)
def length_where_attention_rules() -> float:
    """Return the length. At this length, the terms in n² and in n are equally large."""
    one, two = (attention_flops(512, 8, n, n) for n in (1, 2))
    pairs = (two - 2 * one) / 2  # scores and weighted average, for n = 1
    layer = FeedForward(512, 2048)
    matrices = layer.linear1.weight.numel() + layer.linear2.weight.numel()
    return (one - pairs + 2 * matrices) / pairs


@asked(
    27,
    (112.0, "That is the total. Each of the 8 devices holds an eighth."),
    (3.5, "Those are the weights. Add the gradients and Adam's two moments."),
    (7.0, "Those are weights and gradients. Add Adam's two moments for each number."),
    (38.5, "You divided the gradients and moments by 8. The weights are divided as well."),
    (14e9 / 2**30, "That is in GiB. A GiB has 2^30 bytes, but a GB has 10^9."),
)
def memory_of_a_share() -> float:
    """Return the memory on each device in GB. The weights, gradients and moments are sharded."""
    weight, gradient, moments = 4, 4, 2 * 4
    return 7e9 * (weight + gradient + moments) / 8 / 1e9


PREDICTIONS = tuple(each for each in vars().copy().values() if isinstance(each, Prediction))
