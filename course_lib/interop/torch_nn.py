"""Copy weights and convert masks between this package and ``torch.nn``.

Paper: §3 describes one model; ``torch.nn`` and ``course_lib`` both implement it.
"""

import re
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

TORCH_NAMES = {  # what our names contain: what torch's contain instead
    r"add_norm\d\.norm_first": "norm_first",
    r"add_norm(\d)\.norm": r"norm\1",
    r"feed_forward\.": "",
    "cross_attn": "multihead_attn",
    r"w_(q|k|v|qkv)\.": "in_proj_",
    r"w_o\.": "out_proj.",
}
NOT_IN_TORCH = re.compile(r"\w*embedding|positions|output")  # parts of Transformer and GPT
Pairs = list[tuple[Tensor, Tensor]]


def load_from_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """Give our module, in place, the weights of the module of ``torch.nn`` with the same numbers.

    Ours is a ``MultiHeadAttention``, ``LayerNorm``, ``EncoderLayer``, ``Encoder``,
    ``DecoderLayer``, ``Decoder``, ``Transformer`` (its two stacks), ``CausalSelfAttention``,
    ``GPTLayer`` or ``GPT`` (its layers and last norm).
    Raises ValueError if the two are not the same mathematics: another size, depth, number of heads,
    place of the norm, activation, or a final norm on one side only.
    """
    for mine, other in _pairs(ours, theirs, Tensor.detach):
        mine.copy_(other)


def copy_to_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """Give torch's module, in place, the weights of ours; otherwise as ``load_from_torch``."""
    for mine, other in _pairs(ours, theirs, Tensor.detach):
        other.copy_(mine)


def grad_pairs(ours: nn.Module, theirs: nn.Module) -> Pairs:
    """Pair the gradients of two modules that hold the same weights, parameter by parameter.

    Both have seen ``backward``. Returns pairs of the same shape, one for every parameter of ours
    (of a ``Transformer``: of its two stacks; of a ``GPT``: of its layers and last norm).
    Raises ValueError as ``load_from_torch`` does, and where there is no gradient yet.
    """
    return _pairs(ours, theirs, _gradient)


def to_blocked(mask: Tensor) -> Tensor:
    """Turn ``True`` = may look into ``True`` = blocked, as ``nn.MultiheadAttention`` reads it.

    Example:
        >>> to_blocked(torch.tensor([True, False]))
        tensor([False,  True])
    """
    if mask.dtype != torch.bool:  # of numbers, ~ would turn 1 into -2
        raise ValueError(f"a mask must be boolean (True = may look), got {mask.dtype}")
    return ~mask


def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Turn a mask into numbers to add to the scores: 0 where we may look, -inf where not.

    Example:
        >>> to_additive(torch.tensor([True, False]))
        tensor([0., -inf])
    """
    zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return zeros.masked_fill(to_blocked(mask), -torch.inf)


def to_attn_mask(mask: Tensor, B: int, H: int, T: int, S: int) -> Tensor:
    """Spread a mask out to the one shape per head that ``nn.MultiheadAttention`` takes.

    Returns:
        Shape ``(B * H, T, S)``, ``True`` = blocked.
    """
    return to_blocked(mask).expand(B, H, T, S).flatten(0, 1)


def _pairs(ours: nn.Module, theirs: nn.Module, read: Callable[[Tensor], Tensor]) -> Pairs:
    """Pair what ``read`` returns for our parameters and torch's; names and shapes must fit."""
    blocks = dict(theirs.named_parameters())
    named = ours.named_parameters()
    mine = {name: weight for name, weight in named if not NOT_IN_TORCH.match(name)}
    _check_names({_torch_name(name) for name in mine}, set(blocks))
    _check_settings(ours, theirs)
    pairs = [(name, weight, blocks[_torch_name(name)]) for name, weight in mine.items()]
    for name, weight, block in pairs:
        shape = _rows(block, name).shape
        if weight.shape != shape:
            raise ValueError(f"our {name} has shape {tuple(weight.shape)}, torch's {tuple(shape)}")
    return [(read(weight), _rows(read(block), name)) for name, weight, block in pairs]


def _torch_name(name: str) -> str:
    """Translate the name of one of our parameters or settings; torch's stay as they are."""
    for ours, theirs in TORCH_NAMES.items():
        name = re.sub(ours, theirs, name)
    return name


def _rows(theirs: Tensor, name: str) -> Tensor:
    """Return the rows that our parameter of this name has: torch keeps three projections as one."""
    projection = re.search(r"w_([qkv])\.", name)
    return theirs.chunk(3)["qkv".index(projection[1])] if projection else theirs


def _check_names(ours: set[str], theirs: set[str]) -> None:
    """Reject two modules whose parameters have different names."""
    if ours != theirs:
        raise ValueError(
            f"the parameters differ; for example, only ours has {sorted(ours - theirs)[:3]}, and "
            f"only torch's has {sorted(theirs - ours)[:3]}. If it is the final norm in post-norm, "
            "set the norm of torch's encoder and decoder to None, because the paper has none"
        )


def _check_settings(ours: nn.Module, theirs: nn.Module) -> None:
    """Reject two modules that differ in what no weight shows, unless a learner's class lacks it."""
    others = dict(_settings(theirs))
    for name, mine in _settings(ours):
        if mine != others.get(name, mine):
            raise ValueError(f"{name} differs: ours {mine}, torch's {others[name]}")


def _settings(module: nn.Module) -> Iterator[tuple[str, object]]:
    """Yield torch's name and the value of each setting; for an activation, three of its values."""
    for name, part in module.named_modules():
        for setting in ("num_heads", "norm_first", "eps", "activation"):
            value = getattr(part, setting, None)
            if callable(value):
                value = {x: value(torch.tensor(x)).item() for x in (-1.0, 0.5, 2.0)}
            if value is not None:
                yield _torch_name(f"{name}.{setting}".lstrip(".")), value


def _gradient(parameter: Tensor) -> Tensor:
    """Return the gradient of a parameter, or say that there is none yet."""
    if parameter.grad is None:
        raise ValueError(
            f"a parameter of shape {tuple(parameter.shape)} has no gradient; call backward first"
        )
    return parameter.grad
