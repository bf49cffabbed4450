"""Carry weights between ``GPT`` and the names that GPT-2 and nanoGPT keep theirs under."""

import re
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from course_lib.gpt import GPT, GPTConfig

NAMES = {  # theirs: ours; h.0, h.1, … are our layers.0, layers.1, …
    "wte": "embedding",
    "wpe": "positions",
    "ln_1": "add_norm1.norm",
    "attn.c_attn": "self_attn.w_qkv",
    "attn.c_proj": "self_attn.w_o",
    "ln_2": "add_norm2.norm",
    "mlp.c_fc": "feed_forward.linear1",
    "mlp.c_proj": "feed_forward.linear2",
    "ln_f": "norm",
}
CONV1D = ("c_attn", "c_proj", "c_fc")  # OpenAI's own layer keeps its matrix the other way round
LEFT_OUT = re.compile(r"h\.\d+\.attn\.(bias|masked_bias)|lm_head\.weight")  # masks; the embedding
PREFIX = re.compile(r"^(_orig_mod\.)?(transformer\.)?")  # of a compiled model, of a whole one


def from_gpt2(state: Mapping[str, Tensor], num_heads: int) -> GPT:
    """Build a model from the weights of GPT-2, or of a nanoGPT.

    OpenAI's weights are known by their ``Conv1D`` matrices, which are transposed; such a model
    gets GELU's approximation by tanh, as they were trained with.

    Args:
        state: Weights by name, with or without ``transformer.`` in front. Masks and
            ``lm_head.weight``, which is the embedding again, are not read.
        num_heads: Which no weight shows.

    Returns:
        A ``GPT`` without dropout, of the sizes of the weights, in training mode.

    Raises:
        ValueError: If a name is missing or unknown, or a weight has another shape.
    """
    given = {PREFIX.sub("", name): value for name, value in state.items()}
    given = {name: value for name, value in given.items() if not LEFT_OUT.fullmatch(name)}
    try:
        (vocab_size, d_model) = given["wte.weight"].shape
        max_len = len(given["wpe.weight"])
        conv1d = given["h.0.attn.c_attn.weight"].size(0) == d_model
    except KeyError as missing:
        raise ValueError(f"{missing} is missing: these are no weights of GPT-2") from None
    num_layers = 1 + max(int(name.split(".")[1]) for name in given if name.startswith("h."))
    model = GPT(
        GPTConfig(
            vocab_size=vocab_size, max_len=max_len, num_layers=num_layers, num_heads=num_heads,
            d_model=d_model, dropout=0.0, bias="ln_f.bias" in given,
        )
    )  # fmt: skip
    if conv1d:
        for layer in model.layers:
            layer.feed_forward.activation = nn.GELU("tanh")
    _copy(given, model, conv1d)
    return model


def to_gpt2(model: GPT, *, conv1d: bool = True) -> dict[str, Tensor]:
    """Return a model's weights under GPT-2's names.

    Args:
        model: Stays as it is.
        conv1d: Whether matrices are transposed, as OpenAI's are and nanoGPT's are not. What reads
            those approximates GELU by tanh, so ours answers there in almost the same numbers.

    Returns:
        Copies, with ``transformer.`` in front, and ``lm_head.weight``.
    """
    state = {}
    for ours, value in model.named_parameters():
        name = _their_name(ours)
        state[f"transformer.{name}"] = _turned(name, value.detach(), conv1d).clone()
    return state | {"lm_head.weight": model.output.weight.detach().clone()}


def _copy(given: Mapping[str, Tensor], model: GPT, conv1d: bool) -> None:
    """Give every parameter its weight; refuse what is missing, unknown or of another shape."""
    wanted = {_their_name(name): value for name, value in model.named_parameters()}
    if given.keys() != wanted.keys():
        missing = sorted(wanted.keys() - given.keys())[:3]
        unknown = sorted(given.keys() - wanted.keys())[:3]
        raise ValueError(f"{missing=}, {unknown=}: these are no weights of GPT-2")
    with torch.no_grad():
        for name, parameter in wanted.items():
            value = _turned(name, given[name], conv1d)
            if value.shape != parameter.shape:
                shape = tuple(_turned(name, parameter, conv1d).shape)
                raise ValueError(f"{name} has shape {tuple(given[name].shape)}, not {shape}")
            parameter.copy_(value)


def _turned(name: str, value: Tensor, conv1d: bool) -> Tensor:
    """Transpose the matrix of a ``Conv1D``."""
    is_matrix = name.endswith(tuple(f"{part}.weight" for part in CONV1D))
    return value.t() if conv1d and is_matrix else value


def _their_name(ours: str) -> str:
    """Translate the name of a parameter of ``GPT``."""
    layer = re.match(r"layers\.(\d+)\.", ours)
    front, rest = (f"h.{layer[1]}.", ours[layer.end() :]) if layer else ("", ours)
    part, _, kind = rest.rpartition(".")
    theirs = {ours: theirs for theirs, ours in NAMES.items()}
    return f"{front}{theirs[part]}.{kind}"
