"""Chapter 09 in other words: the start, the guards and the hooks."""

import math
from functools import partial
from unittest.mock import patch

import torch
from torch import Tensor, nn


def initialize_by_apply(model: nn.Module) -> None:
    """Walk twice with apply, filling in place under no_grad."""

    def linear(module: nn.Module) -> None:
        """Fill uniformly."""
        if isinstance(module, nn.Linear):
            rows, columns = module.weight.shape
            bound = math.sqrt(6.0 / (rows + columns))
            module.weight.uniform_(-bound, bound)

    def embedding(module: nn.Module) -> None:
        """Fill normally."""
        if isinstance(module, nn.Embedding):
            module.weight.normal_().div_(math.sqrt(module.weight.size(1)))

    with torch.no_grad():
        model.apply(linear)
        model.apply(embedding)


def initialize_by_skipping(model: nn.Module) -> None:
    """Note which matrices belong to embeddings, and leave them out among the linear layers."""
    tables = {}
    for _, module in model.named_modules():
        if type(module) is nn.Embedding:
            tables[id(module.weight)] = module.weight
    for module in list(model.modules())[::-1]:
        if type(module) is nn.Linear and id(module.weight) not in tables:
            nn.init.xavier_uniform_(module.weight, gain=1.0)
    for weight in tables.values():
        weight.data = torch.randn(weight.shape) * weight.shape[1] ** -0.5


def initialize_by_parameters(model: nn.Module) -> None:
    """Go by the kind of the owner of each matrix, found in one sorted walk."""
    owners = sorted(model.modules(), key=lambda module: isinstance(module, nn.Embedding))
    start = {
        nn.Linear: nn.init.xavier_uniform_,
        nn.Embedding: lambda w: nn.init.normal_(w, std=math.sqrt(1 / w.size(-1))),
    }
    for owner in owners:
        if type(owner) in start:
            start[type(owner)](owner.weight)


SIZE_NAMES = (
    "d_model d_ff num_heads num_encoder_layers num_decoder_layers max_len src_vocab_size "
    "tgt_vocab_size"
)


def sizes_collected(config) -> None:
    """Collect what is wrong, and say it all at once."""
    numbers = {name: getattr(config, name) for name in SIZE_NAMES.split()}
    wrong = {n: x for n, x in numbers.items() if not isinstance(x, int) or x <= 0}
    if config.dropout < 0 or config.dropout > 1:
        wrong["dropout"] = config.dropout
    if config.activation not in ("relu", "gelu"):
        wrong["activation"] = config.activation
    if wrong:
        raise ValueError("no model can be built with " + str(wrong))


def sizes_one_by_one(config) -> None:
    """Ask for each kind in turn."""
    for name, value in vars(config).items():
        size = name.endswith(("_size", "_layers", "_len", "_heads", "d_model", "d_ff"))
        if size and (value != int(value) or isinstance(value, float)):
            raise ValueError(f"{name} should be whole: {value}")
        if size and not value > 0:
            raise ValueError(f"{name} should be positive: {value}")
    if not 0.0 <= config.dropout <= 1.0:
        raise ValueError(f"{config.dropout} of 1 cannot be dropped")
    if config.activation not in {"gelu", "relu"}:
        raise ValueError(f"unknown activation {config.activation}")


def ids_by_questions(ids: Tensor, vocab_size: int, max_len: int, name: str) -> None:
    """Put every question into a row of a table."""
    if ids.is_floating_point() or ids.ndim != 2 or ids.numel() == 0:
        raise ValueError(f"{name}: want integers (B, L), got {ids.dtype} {tuple(ids.shape)}")
    questions = {
        f"at most {max_len} tokens, not {ids.shape[1]}": ids.shape[1] <= max_len,
        f"no id below 0, not {ids.min().item()}": bool((ids >= 0).all()),
        f"no id above {vocab_size - 1}, not {ids.max().item()}": bool((ids < vocab_size).all()),
    }
    wrong = [words for words, fine in questions.items() if not fine]
    if wrong:
        raise ValueError(f"{name}: {'; '.join(wrong)}")


def ids_first_offender(ids: Tensor, vocab_size: int, max_len: int, name: str) -> None:
    """Point at the first id that is wrong."""
    if ids.dtype != torch.long and ids.dtype != torch.int:
        raise ValueError(f"the {name} holds {ids.dtype}")
    try:
        rows, length = ids.shape
    except ValueError:
        raise ValueError(f"the {name} has shape {tuple(ids.shape)}, not (B, L)") from None
    if rows == 0 or length == 0:
        raise ValueError(f"the {name} is empty: {(rows, length)}")
    if length > max_len:
        raise ValueError(f"the {name} is {length} long; {max_len} is the limit")
    for value in ids.flatten().tolist():
        if value not in range(vocab_size):
            raise ValueError(f"the {name} holds {ids.flatten().tolist()}: {value} is no token")


def batch_by_unpacking(tgt: Tensor, memory: Tensor, src: Tensor) -> None:
    """Unpack the sizes and compare them."""
    (B, _), (B2, S, _), (B3, S2) = tgt.shape, memory.shape, src.shape
    if not B == B2 == B3 or S != S2:
        raise ValueError(f"batches of {B}, {B2} and {B3} sentences; sources of {S} and {S2} tokens")


def batch_by_sets(tgt: Tensor, memory: Tensor, src: Tensor) -> None:
    """Let equal sizes fall together in sets."""
    sizes = {len(x) for x in (tgt, memory, src)}, {x.size(1) for x in (memory, src)}
    if any(len(found) > 1 for found in sizes):
        raise ValueError(f"sizes that should be one: {sizes}")


def record_by_trying(attentions, run):
    """Keep in named functions; remove in finally."""
    handles, weights = [], {place: [] for place in attentions}

    def ask(module, args, kwargs):
        """Ask for weights."""
        kwargs["need_weights"] = True
        return args, kwargs

    def keep(place, module, args, output):
        """Keep them."""
        weights[place].append(output[-1])

    try:
        for place, layers in attentions.items():
            for layer in layers:
                handles.append(layer.register_forward_pre_hook(ask, with_kwargs=True))
                handles.append(layer.register_forward_hook(partial(keep, place)))
        run()
    finally:
        for handle in handles:
            handle.remove()
    return {place: torch.stack(kept, dim=0) for place, kept in weights.items()}


def record_by_wrapping(attentions, run):
    """Put another forward in front of each layer's own for as long as it takes."""
    kept = {id(layer): None for layers in attentions.values() for layer in layers}
    everyone = [layer for layers in attentions.values() for layer in layers]

    def wrapped(layer):
        """Return a forward that keeps the weights."""
        forward = layer.forward

        def asking(*args, **kwargs):
            """Ask, keep, answer as before."""
            kwargs["need_weights"] = True
            output, kept[id(layer)] = forward(*args, **kwargs)
            return output, kept[id(layer)]

        return asking

    patches = [patch.object(layer, "forward", wrapped(layer)) for layer in everyone]
    for each in patches:
        each.start()
    try:
        run()
    finally:
        for each in patches:
            each.stop()
    found = {place: [kept[id(layer)] for layer in layers] for place, layers in attentions.items()}
    return {place: torch.cat([w[None] for w in each]) for place, each in found.items()}


def record_by_asking_again(attentions, run):
    """Keep the arguments only, and ask each layer once more when run is done."""
    heard = {}
    handles = [
        layer.register_forward_hook(
            lambda layer, args, kwargs, _: heard.update({layer: (args, kwargs)}), with_kwargs=True
        )
        for layers in attentions.values()
        for layer in layers
    ]
    try:
        run()
    finally:
        [handle.remove() for handle in handles]
    answers = {}
    for place, layers in attentions.items():
        asked = [layer(*heard[layer][0], **heard[layer][1], need_weights=True) for layer in layers]
        answers[place] = torch.stack([weights for _, weights in asked])
    return answers


ANSWERS = {
    "initialize": (initialize_by_apply, initialize_by_skipping, initialize_by_parameters),
    "check_sizes": (sizes_collected, sizes_one_by_one),
    "check_ids": (ids_by_questions, ids_first_offender),
    "check_same_batch": (batch_by_unpacking, batch_by_sets),
    "capture_attention": (record_by_trying, record_by_wrapping, record_by_asking_again),
}
