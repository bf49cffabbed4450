"""Chapter 09 in other words: the start, the guards and the hooks."""

import math

import torch
from torch import nn


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


ANSWERS = {
    "initialize": (initialize_by_apply, initialize_by_skipping, initialize_by_parameters),
}
