"""Random numbers, ids, masks and small models for the tests."""

from contextlib import contextmanager

import torch
from dimensions import D_FF, D_MODEL, MASK_KINDS, MAX_LEN, PAD, SRC_VOCAB, TGT_VOCAB, B, H, S, T
from torch import Tensor, nn

from course_lib.transformer import Transformer, TransformerConfig


def make_generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Draw from the standard normal distribution."""
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def random_ids(generator: torch.Generator, vocab_size: int, *shape: int) -> Tensor:
    """Draw ids of real tokens, none of them padding."""
    ids = torch.randint(vocab_size - 1, shape, generator=generator)
    return ids + (ids >= PAD)


def padded_ids(generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw sources and targets in which one sentence on each side has padding."""
    src, tgt = random_ids(generator, SRC_VOCAB, B, S), random_ids(generator, TGT_VOCAB, B, T)
    src[1, -2:] = tgt[0, -1:] = PAD
    return src, tgt


@contextmanager
def seeded(seed: int = 0):
    """Make dropout and initialization repeatable inside the context, without an effect outside."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        yield


def randomize(module: nn.Module, seed: int = 0) -> nn.Module:
    """Fill every parameter with random numbers in float64; gains vary around 1."""
    generator = make_generator(seed)
    module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(0.3 * normal(generator, *parameter.shape))
            parameter.add_(float("norm" in name and name.endswith("weight")))
    return module


def tiny_config(**changes) -> TransformerConfig:
    """Return a configuration in which all sizes differ, without dropout."""
    sizes = dict(src_vocab_size=SRC_VOCAB, tgt_vocab_size=TGT_VOCAB, d_model=D_MODEL, num_heads=H)
    depth = dict(num_encoder_layers=2, num_decoder_layers=1, d_ff=D_FF, max_len=MAX_LEN)
    rest = dict(dropout=0.0, tie_embeddings="none", pad_id=PAD)
    return TransformerConfig(**(sizes | depth | rest | changes))


def tiny_transformer(**changes) -> Transformer:
    """Build the model of a tiny configuration, in float64, filled with random numbers."""
    return randomize(Transformer(tiny_config(**changes)))


def torch_stack(kind: str, num_layers: int = 2, norm_first: bool = False, **changes) -> nn.Module:
    """Build torch's "Encoder" or "Decoder" with our sizes; only pre-norm has a final norm."""
    how = dict(dropout=0.0, batch_first=True, norm_first=norm_first) | changes
    layer = getattr(nn, f"Transformer{kind}Layer")(D_MODEL, H, D_FF, **how)
    last = nn.LayerNorm(D_MODEL) if norm_first else None  # the paper has none
    if kind == "Decoder":
        return randomize(nn.TransformerDecoder(layer, num_layers, last))
    return randomize(nn.TransformerEncoder(layer, num_layers, last, enable_nested_tensor=False))


def torch_transformer(norm_first: bool = False, **changes) -> nn.Transformer:
    """Build torch's model with the tiny sizes; only pre-norm has final norms."""
    stacks = {
        f"custom_{kind.lower()}": torch_stack(kind, num_layers, norm_first=norm_first, **changes)
        for kind, num_layers in (("Encoder", 2), ("Decoder", 1))
    }
    return randomize(nn.Transformer(D_MODEL, H, batch_first=True, **stacks))


def make_mask(kind: str, target_len: int = T, source_len: int = S) -> Tensor | None:
    """Return a boolean mask that broadcasts to (B, H, target_len, source_len)."""
    past = torch.ones(target_len, source_len, dtype=torch.bool).tril()
    lengths = torch.tensor([source_len, source_len - 2])
    real = (torch.arange(source_len) < lengths[:, None])[:, None, None, :]  # (B, 1, 1, S)
    scattered = torch.rand(B, H, target_len, source_len, generator=make_generator(7)) < 0.5
    scattered[..., 0] = True
    blocked = scattered.clone()
    blocked[0, :, 1] = blocked[1, 2, 0] = False  # a whole row, and a row of one head only
    masks = [None, past, real, past & real, scattered, blocked]
    return dict(zip(MASK_KINDS, masks, strict=True))[kind]


def torch_attn_mask(mask: Tensor | None, target_len: int, source_len: int) -> Tensor | None:
    """Write our mask in torch's shape and polarity, without our converter."""
    if mask is None:
        return None
    return ~mask.expand(B, H, target_len, source_len).reshape(-1, target_len, source_len)
