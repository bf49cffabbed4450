"""Copy weights between this package and ``torch.nn``.

Paper: ``torch.nn`` and ``course_lib`` both implement the model in §3.
"""

import re
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

TORCH_NAMES = {  # a part of our names: the same part in torch's names
    r"add_norm\d\.norm_first": "norm_first",
    r"add_norm(\d)\.norm": r"norm\1",
    r"feed_forward\.": "",
    "cross_attn": "multihead_attn",
    r"w_(q|k|v|qkv)\.": "in_proj_",
    r"w_o\.": "out_proj.",
}
NOT_IN_TORCH = re.compile(r"\w*embedding|positions|output")  # in Transformer and GPT
Pairs = list[tuple[Tensor, Tensor]]


def load_from_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy the weights of a ``torch.nn`` module into our module of the same kind and size.

    ``ours`` is a ``MultiHeadAttention``, ``LayerNorm``, ``EncoderLayer``, ``Encoder``,
    ``DecoderLayer``, ``Decoder``, ``Transformer`` (its two stacks), ``CausalSelfAttention``,
    ``GPTLayer`` or ``GPT`` (its layers and last norm).
    Raises ValueError if the two do not compute the same function: if the size, depth, number of
    heads, position of the norm or activation differs, or if only one of them has a final norm.
    """
    for mine, other in _pairs(ours, theirs, Tensor.detach):
        mine.copy_(other)


def copy_to_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """Copy the weights of our module into torch's, under the same rules as ``load_from_torch``."""
    for mine, other in _pairs(ours, theirs, Tensor.detach):
        other.copy_(mine)


def grad_pairs(ours: nn.Module, theirs: nn.Module) -> Pairs:
    """Pair the gradients of two modules that hold the same weights, parameter by parameter.

    Call ``backward`` for both first. Returns pairs of equal shape, one for each of our parameters
    (for a ``Transformer``, only in its stacks; for a ``GPT``, only in its layers and last norm).
    Raises ValueError in the same cases as ``load_from_torch``, and if a gradient is missing.
    """
    return _pairs(ours, theirs, _gradient)


def _pairs(ours: nn.Module, theirs: nn.Module, read: Callable[[Tensor], Tensor]) -> Pairs:
    """Pair the results of ``read`` for our parameters and torch's; names and shapes must match."""
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
    sizes = [sum(weight.numel() for weight in each.values()) for each in (mine, blocks)]
    if sizes[0] != sizes[1] or any(getattr(m, "add_zero_attn", False) for m in theirs.modules()):
        raise ValueError("biases in only some projections, and add_zero_attn, are not supported")
    return [(read(weight), _rows(read(block), name)) for name, weight, block in pairs]


def _torch_name(name: str) -> str:
    """Translate our name for a parameter or setting into torch's; leave torch's names unchanged."""
    for ours, theirs in TORCH_NAMES.items():
        name = re.sub(ours, theirs, name)
    return name


def _rows(theirs: Tensor, name: str) -> Tensor:
    """Return the rows that match ours in torch's parameter, which may join three projections."""
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
    """Reject two modules whose settings differ; a learner's class may lack some of the settings."""
    others = dict(_settings(theirs))
    for name, mine in _settings(ours):
        if mine != others.get(name, mine):
            raise ValueError(f"{name} differs: ours is {mine}, torch's is {others[name]}")


def _settings(module: nn.Module) -> Iterator[tuple[str, object]]:
    """Yield each setting's torch name and value; an activation's value is five outputs."""
    for name, part in module.named_modules():
        for setting in ("num_heads", "norm_first", "eps", "activation"):
            value = getattr(part, setting, None)
            if callable(value):
                value = {x: value(torch.tensor(x)).item() for x in (-1.0, 0.5, 2.0, -10.0, 10.0)}
            if value is not None:
                yield _torch_name(f"{name}.{setting}".lstrip(".")), value


def _gradient(parameter: Tensor) -> Tensor:
    """Return a parameter's gradient; raise ValueError if it has none yet."""
    if parameter.grad is None:
        raise ValueError(
            f"a parameter of shape {tuple(parameter.shape)} has no gradient; call backward first"
        )
    return parameter.grad
