"""What the predictions ask for, worked out by the model's own parts."""

from functools import cache

import torch
from torch import Tensor, nn

from course_lib.add_norm import LayerNorm
from course_lib.attention import scaled_dot_product_attention
from course_lib.batching import padding_fraction
from course_lib.decoder import DecoderLayer
from course_lib.decoding import greedy_decode
from course_lib.encoder import EncoderLayer
from course_lib.evaluation import alignment_error_rate
from course_lib.feed_forward import FeedForward
from course_lib.flops import attention_flops
from course_lib.gpt import GPT, GPTConfig
from course_lib.kv_cache import LayerCache
from course_lib.modern_decoder import GroupedQueryAttention
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import sinusoidal_encoding
from course_lib.training import label_smoothed_cross_entropy
from course_lib.transformer import Transformer, TransformerConfig


def count(module: nn.Module) -> int:
    """Count what a module learns."""
    return sum(p.numel() for p in module.parameters())


def where_two_ends() -> Tensor:
    """Let three words attend to each other, and return the second."""
    words = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    return scaled_dot_product_attention(words, words, words)[0][1]


@cache  # it takes a second
def variance_divided_by_d_k() -> float:
    """Measure the variance of many dot products of width 64, divided by 64."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1_000_000, 64, generator=generator, dtype=torch.float32)
    return ((q * k).sum(dim=-1) / 64).var().item()


def sixteen_heads() -> int:
    """Count one attention layer of 16 heads without biases."""
    return count(MultiHeadAttention(512, 16, bias=False))


def length_of_row_499() -> float:
    """Measure a row of the table of positions."""
    return sinusoidal_encoding(500, 512)[499].norm().item()


def largest_after_norm() -> float:
    """Normalize [0, 0, 0, 1]."""
    return LayerNorm(4)(torch.tensor([0.0, 0.0, 0.0, 1.0])).max().item()


def feed_forward() -> int:
    """Count a small feed-forward layer."""
    return count(FeedForward(d_model=3, d_ff=5))


def loss_of_a_leak() -> float:
    """Know three of four digits for certain, and score the ten of the last one alike."""
    logits = torch.cat([1e4 * torch.eye(10)[:3], torch.zeros(1, 10)])
    return label_smoothed_cross_entropy(logits, torch.arange(4), smoothing=0.0).item()


def distance_without_positions() -> float:
    """Encode one word alone, and four times in a row; measure how far apart it comes out."""
    layer = EncoderLayer(d_model=8, num_heads=2, d_ff=16)
    word = torch.linspace(-1, 1, 8).expand(1, 1, 8)
    with torch.no_grad():
        return (layer(word)[:, 0] - layer(word.repeat(1, 4, 1))[:, 0]).norm().item()


def decoder_more() -> int:
    """Subtract the parameters of the paper's encoder layer from its decoder layer's."""
    sizes = dict(d_model=512, num_heads=8, d_ff=2048)
    return count(DecoderLayer(**sizes)) - count(EncoderLayer(**sizes))


def big_model() -> float:
    """Count the paper's big model, in millions, without filling its memory."""
    config = TransformerConfig(
        src_vocab_size=37_000, tgt_vocab_size=37_000, d_model=1024, d_ff=4096, num_heads=16
    )
    with torch.device("meta"):
        return count(Transformer(config)) / 1e6


def untrained_loss() -> float:
    """Measure the loss of a model that gives 400 pieces the same score."""
    return label_smoothed_cross_entropy(torch.zeros(1, 400), torch.tensor([7])).item()


class _Endless(nn.Module):
    """Write for ever, and count the tokens read on the way."""

    config = TransformerConfig(src_vocab_size=5, tgt_vocab_size=5, d_model=2, num_heads=1)
    read = 0

    def encode(self, src: Tensor) -> Tensor:
        """Remember nothing."""
        return src.unsqueeze(-1).float()

    def decode(self, tgt: Tensor, memory: Tensor, src: Tensor) -> Tensor:
        """Count what is read; score token 4 highest, always."""
        self.read += tgt.numel()
        return torch.arange(5.0).expand(*tgt.shape, 5)


def tokens_read() -> int:
    """Write ten tokens, and count what the decoder reads for them."""
    model = _Endless()
    greedy_decode(model, torch.ones(1, 3, dtype=torch.long), bos_id=1, eos_id=2, max_new_tokens=10)
    return model.read


def numbers_kept() -> int:
    """Let one of the six layers read 20 places, with 30 of a source, and count what it keeps."""
    layer = DecoderLayer(d_model=512, num_heads=8, d_ff=1).eval()
    with torch.no_grad():
        cache = LayerCache(layer, torch.zeros(1, 30, 512))
        cache(torch.zeros(1, 20, 512))
    kept = [*cache.source, *(x[:, :, : cache.length] for x in cache.target)]
    return 6 * sum(x.numel() for x in kept)


def rate_of_linking_everything() -> float:
    """Link four target pieces with all four source pieces; the diagonal is known."""
    everything = {(t, s) for t in range(4) for s in range(4)}
    return alignment_error_rate([everything], [{(t, t) for t in range(4)}])


def share_of_padding_of_two() -> float:
    """Put a short pair into one batch with a long one."""
    return padding_fraction([(4, 4), (12, 12)], [[0, 1]])


def first_loss() -> float:
    """Measure the loss of a model that gives 65 characters the same score."""
    return label_smoothed_cross_entropy(torch.zeros(1, 65), torch.tensor([7]), smoothing=0.0).item()


def gpt2_small() -> int:
    """Count GPT-2's smallest model, without filling its memory."""
    with torch.device("meta"):
        return count(GPT(GPTConfig(vocab_size=50_257)))


def cache_of_a_later_model() -> float:
    """Take what one layer makes beside queries, for 8,192 tokens, in 32 layers and GiB."""
    with torch.device("meta"):
        layer = GroupedQueryAttention(d_model=32 * 128, num_heads=32, num_groups=8)
    kept = layer.w_qkv.out_features - layer.w_qkv.in_features  # keys and values of a token
    return 32 * kept * 8_192 * 2 / 2**30


def length_where_attention_rules() -> float:
    """Tell apart what grows with n² in an encoder layer and what with n, and divide."""
    one, two = (attention_flops(512, 8, n, n) for n in (1, 2))
    pairs = (two - 2 * one) / 2  # scores and blend, for n = 1
    layer = FeedForward(512, 2048)
    matrices = layer.linear1.weight.numel() + layer.linear2.weight.numel()
    return (one - pairs + 2 * matrices) / pairs


def memory_of_a_share() -> float:
    """Take a step with a few numbers, count the bytes that stay for each, and share them out."""
    weight = nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.Adam([weight])
    weight.sum().backward()
    optimizer.step()
    kept = [weight, weight.grad, *optimizer.state[weight].values()]
    each = sum(x.element_size() for x in kept if x.shape == weight.shape)
    return 7e9 * each / 8 / 1e9
