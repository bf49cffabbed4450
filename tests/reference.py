"""What the tests compare with: loops in place of matrix multiplications; gradients side by side."""

import math
import re
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from course_lib.add_norm import AddNorm
from course_lib.decoder import DecoderLayer
from course_lib.encoder import EncoderLayer
from course_lib.exercises.outcomes import KINDS
from course_lib.interop import grad_pairs
from course_lib.multi_head import MultiHeadAttention
from course_lib.trainer.distributed import World
from course_lib.transformer import Transformer, TransformerConfig

B, H, T, S, D_K, D_V = 2, 3, 4, 5, 6, 7  # no two are equal, so no two axes can be swapped
D_MODEL, D_FF = H * D_K, 11
SRC_VOCAB, TGT_VOCAB, MAX_LEN, PAD = 13, 10, 9, 3  # PAD is not 0: nothing may assume it is
KILL_MATRIX = Path(__file__).resolve().parents[1] / "figures" / "kill_matrix.md"
EXACT = dict(rtol=0.0, atol=1e-10)  # float64

MASK_KINDS = ["none", "causal", "padding", "both", "per head", "blocked row"]
TORCH_MASK_KINDS = MASK_KINDS[:-1]  # nn.MultiheadAttention answers a blocked row with nan


def make_generator(seed: int = 0) -> torch.Generator:
    """Return a named source of random numbers."""
    return torch.Generator().manual_seed(seed)


def normal(generator: torch.Generator, *shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Draw from the standard normal distribution."""
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def random_ids(generator: torch.Generator, vocab_size: int, *shape: int) -> Tensor:
    """Draw ids of real tokens, none of them padding."""
    ids = torch.randint(vocab_size - 1, shape, generator=generator)
    return ids + (ids >= PAD)


@contextmanager
def seeded(seed: int = 0):
    """Make dropout and initialisation repeatable in here, and leave no trace outside."""
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(seed)
        yield


def randomize(module: nn.Module, seed: int = 0) -> nn.Module:
    """Fill every parameter with numbers that favour none, in float64; gains vary around 1."""
    generator = make_generator(seed)
    module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(0.3 * normal(generator, *parameter.shape))
            parameter.add_(float("norm" in name and name.endswith("weight")))
    return module


def tiny_config(**changes) -> TransformerConfig:
    """Describe a model in which no two sizes are equal, without dropout."""
    sizes = dict(src_vocab_size=SRC_VOCAB, tgt_vocab_size=TGT_VOCAB, d_model=D_MODEL, num_heads=H)
    depth = dict(num_encoder_layers=2, num_decoder_layers=1, d_ff=D_FF, max_len=MAX_LEN)
    rest = dict(dropout=0.0, tie_embeddings="none", pad_id=PAD)
    return TransformerConfig(**(sizes | depth | rest | changes))


def tiny_transformer(**changes) -> Transformer:
    """Build the model of a tiny configuration, in float64, filled with random numbers."""
    return randomize(Transformer(tiny_config(**changes)))


def torch_stack(
    kind: str, num_layers: int = 2, num_heads: int = H, norm_first: bool = False, **changes
) -> nn.Module:
    """Build torch's "Encoder" or "Decoder" with our sizes; a final norm only in pre-norm."""
    how = dict(dropout=0.0, batch_first=True, norm_first=norm_first) | changes
    layer = getattr(nn, f"Transformer{kind}Layer")(D_MODEL, num_heads, D_FF, **how)
    last = nn.LayerNorm(D_MODEL) if norm_first else None  # the paper has none
    if kind == "Decoder":
        return randomize(nn.TransformerDecoder(layer, num_layers, last))
    return randomize(nn.TransformerEncoder(layer, num_layers, last, enable_nested_tensor=False))


def torch_transformer(norm_first: bool = False, **changes) -> nn.Transformer:
    """Build torch's model with the sizes of the tiny one; its final norms only in pre-norm."""
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


def encoding_by_loops(length: int, d_model: int) -> Tensor:
    """Write the formula of §3.5 number by number."""
    rows = [
        [
            (math.cos if column % 2 else math.sin)(
                position / 10000 ** ((column - column % 2) / d_model)  # a pair shares a frequency
            )
            for column in range(d_model)
        ]
        for position in range(length)
    ]
    return torch.tensor(rows, dtype=torch.float64)


def attention_by_loops(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Attend one query at a time, among the keys it may see: no -inf, no broadcasting."""
    *leading, target_len, d_k = query.shape
    visible = torch.ones(*leading, target_len, key.size(-2), dtype=torch.bool)
    if mask is not None:
        visible = visible & mask
    outputs, weights = [], []
    for index in product(*map(range, (*leading, target_len))):
        *batch, _ = index
        seen = [s for s in range(key.size(-2)) if visible[*index, s]]
        row, output = key.new_zeros(key.size(-2)), value.new_zeros(value.size(-1))
        scores = [(query[*index] * key[*batch, s]).sum() / math.sqrt(d_k) for s in seen]
        total = sum(score.exp() for score in scores)
        for s, score in zip(seen, scores, strict=True):
            row = row + F.one_hot(torch.tensor(s), row.numel()) * score.exp() / total
            output = output + value[*batch, s] * score.exp() / total
        outputs.append(output)
        weights.append(row)
    shape = (*leading, target_len, -1)
    return torch.stack(outputs).view(shape), torch.stack(weights).view(shape)


def multi_head_by_loops(
    layer: MultiHeadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Give each head its own slices of the projections, and add up the heads' outputs."""
    d_k, d_v = (w.out_features // layer.num_heads for w in (layer.w_q, layer.w_v))
    output, weights = layer.w_o.bias, []
    for head in range(layer.num_heads):
        keys, values = (slice(head * width, (head + 1) * width) for width in (d_k, d_v))
        q = query @ layer.w_q.weight[keys].T + layer.w_q.bias[keys]  # (B, T, d_k)
        k = key @ layer.w_k.weight[keys].T + layer.w_k.bias[keys]  # (B, S, d_k)
        v = value @ layer.w_v.weight[values].T + layer.w_v.bias[values]  # (B, S, d_v)
        shape = (query.size(0), layer.num_heads, query.size(1), key.size(1))
        allowed = None if mask is None else mask.expand(shape)[:, head]  # (B, T, S)
        answer, row = attention_by_loops(q, k, v, allowed)
        output = output + answer @ layer.w_o.weight[:, values].T  # (B, T, d_model)
        weights.append(row)
    return output, torch.stack(weights, dim=1)


def feed_forward_by_hand(layer: nn.Module, x: Tensor) -> Tensor:
    """Write equation (2) of the paper: max(0, x W1 + b1) W2 + b2."""
    features = x @ layer.linear1.weight.T + layer.linear1.bias
    return features.clamp(min=0) @ layer.linear2.weight.T + layer.linear2.bias


def normed(norm: nn.Module, x: Tensor) -> Tensor:
    """Normalize as torch's function does."""
    return F.layer_norm(x, (x.size(-1),), norm.weight, norm.bias, eps=1e-5)


def add_norm_by_hand(add_norm: AddNorm, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    """Write LayerNorm(x + Sublayer(x)), or x + Sublayer(LayerNorm(x)) in pre-norm."""
    if add_norm.norm_first:
        return x + sublayer(normed(add_norm.norm, x))
    return normed(add_norm.norm, x + sublayer(x))


def encoder_layer_by_hand(layer: EncoderLayer, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Write one encoder layer as the paper's formulas, with loops inside."""
    x = add_norm_by_hand(
        layer.add_norm1, x, lambda x: multi_head_by_loops(layer.self_attn, x, x, x, mask)[0]
    )
    return add_norm_by_hand(
        layer.add_norm2, x, lambda x: feed_forward_by_hand(layer.feed_forward, x)
    )


def decoder_layer_by_hand(
    layer: DecoderLayer,
    x: Tensor,
    memory: Tensor,
    self_mask: Tensor | None = None,
    cross_mask: Tensor | None = None,
) -> Tensor:
    """Write one decoder layer as the paper's formulas, with loops inside."""
    across = (memory, memory, cross_mask)
    x = add_norm_by_hand(
        layer.add_norm1, x, lambda x: multi_head_by_loops(layer.self_attn, x, x, x, self_mask)[0]
    )
    x = add_norm_by_hand(
        layer.add_norm2, x, lambda x: multi_head_by_loops(layer.cross_attn, x, *across)[0]
    )
    return add_norm_by_hand(
        layer.add_norm3, x, lambda x: feed_forward_by_hand(layer.feed_forward, x)
    )


def torch_attn_mask(mask: Tensor | None, target_len: int, source_len: int) -> Tensor | None:
    """Spell our mask out in torch's shape and polarity, without our converter."""
    if mask is None:
        return None
    return ~mask.expand(B, H, target_len, source_len).reshape(-1, target_len, source_len)


def trace(
    function: Callable[..., Tensor | tuple],
    inputs: Iterable[Tensor],
    module: nn.Module | None = None,
) -> dict:
    """Run forwards and backwards; return outputs and the gradients of inputs and parameters."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    if module is not None:
        module.zero_grad()
    outputs = function(*leaves)
    outputs = [outputs] if isinstance(outputs, Tensor) else [o for o in outputs if o is not None]
    direction = make_generator(11)  # a loss that no symmetry can hide from
    loss = sum((o * normal(direction, *o.shape, dtype=o.dtype)).sum() for o in outputs)
    loss.backward()
    named = () if module is None else module.named_parameters()
    return {
        "outputs": [o.detach() for o in outputs],
        "inputs": [x.grad for x in leaves],
        "parameters": {name: p.grad.clone() for name, p in named if p.grad is not None},
    }


def assert_equal(actual, expected) -> None:
    """Agree in float64 to 1e-10: tensors, or lists and dictionaries of them."""
    torch.testing.assert_close(actual, expected, **EXACT)


def assert_parity(
    ours: nn.Module,
    theirs: nn.Module,
    run_ours: Callable[..., Tensor | tuple],
    run_theirs: Callable[..., Tensor | tuple],
    inputs: Iterable[Tensor],
) -> None:
    """Agree with torch in outputs and in the gradients of every input and every parameter."""
    mine, other = trace(run_ours, inputs, ours), trace(run_theirs, inputs, theirs)
    assert_equal(mine["outputs"], other["outputs"])
    assert_equal(mine["inputs"], other["inputs"])
    assert mine["parameters"].keys() == dict(ours.named_parameters()).keys()
    pairs = grad_pairs(ours, theirs)
    assert {id(grad) for grad, _ in pairs} == {id(p.grad) for p in ours.parameters()}
    assert sum(grad.numel() for _, grad in pairs) == sum(p.numel() for p in theirs.parameters())
    for mine_grad, other_grad in pairs:
        assert_equal(mine_grad, other_grad)


def silenced(module: nn.Module, *names: str) -> nn.Module:
    """Return a copy of a module in which some linear layers output their bias alone."""
    copy = deepcopy(module)
    for name in names:
        copy.get_submodule(name).weight.data.zero_()
    return copy


def overheard(module: nn.Module, names: Iterable[str], run: Callable[[], object]) -> dict:
    """Return the last (arguments, output) of each named part while something runs."""
    heard, handles = {}, []
    for name in names:

        def listen(part, args, kwargs, output, name=name):
            heard[name] = (args, kwargs, output)

        part = module.get_submodule(name)
        handles.append(part.register_forward_hook(listen, with_kwargs=True))
    run()
    for handle in handles:
        handle.remove()
    return heard


def says(*parts: object) -> str:
    """Match a message that holds all these words and numbers, in any order and wording."""
    return "(?s)" + "".join(f"(?=.*{re.escape(str(part))})" for part in parts)


@cache
def recorded_stages() -> dict[tuple[str, str], list[str]]:
    """Read figures/kill_matrix.md: at which stages each mistake of an exercise is seen."""
    stages, exercise = {}, ""
    for line in KILL_MATRIX.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            exercise = line.strip("# `")
        elif line.startswith("| `"):
            _, name, signs = line.split("|", 2)
            cells = signs.split("|")[-len(KINDS) - 1 : -1]
            stages[exercise, name.strip(" `")] = [
                stage for stage, sign in zip(KINDS, cells, strict=True) if sign.strip()
            ]
    return stages


@dataclass(frozen=True)
class Pretended(World):
    """Stand in for one of several processes.

    Args:
        others: What every number of the others adds up to.
    """

    others: float = 0.0

    def wait(self):
        """Wait for nobody: the others are not there."""

    def total(self, numbers):
        """Add what the others would have said."""
        return numbers + self.others


def hooks_left(module: nn.Module) -> int:
    """Count the hooks that are still registered."""
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in module.modules())


def assert_same(one, other):
    """Agree in structure and to the last bit."""
    assert type(one) is type(other)
    if isinstance(one, torch.Tensor):
        assert one.dtype == other.dtype and torch.equal(one, other)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert one == other
