"""Serialize tensors and numbers as JSON of limited size, which cannot contain code.

``torch.load(weights_only=True)`` runs no code either, but a 2 KB file can hold a tensor of 2**40
numbers that share the same memory, or nested lists that are all the same list.
"""

import base64
import json
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

MOST_BYTES = 4 << 20  # about twenty times the largest answer
MOST_PARTS = 50_000  # commas and brackets: each number, list and pair needs one


def to_json(value: object) -> bytes:
    """Serialize tensors, dtypes, numbers, strings and collections of them as one line of JSON."""
    return json.dumps(_packed(value)).encode()


def from_json(line: bytes) -> Any:
    """Parse a line from ``to_json``; raise ValueError if it is too large to be an answer."""
    if len(line) > MOST_BYTES or sum(map(line.count, (b",", b"[", b"{"))) > MOST_PARTS:
        raise ValueError("this is too large to be an answer")
    return json.loads(line, object_hook=_unpacked)


def _packed(value: object) -> Any:
    """Convert values whose types JSON lacks; an unknown object is replaced with its type name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        data = save({"": value.detach().contiguous()})
        return {"tensor": base64.b64encode(data).decode()}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, dict):
        return {"dict": [[_packed(key), _packed(inner)] for key, inner in value.items()]}
    if isinstance(value, list):
        return [_packed(inner) for inner in value]
    if isinstance(value, tuple):
        return {"tuple": [_packed(inner) for inner in value]}
    return {"other": type(value).__name__}


def _unpacked(entry: dict[str, Any]) -> Any:
    """Convert one JSON object back; the objects inside it have already been converted."""
    ((kind, content),) = entry.items()
    if kind == "tensor":
        return load(base64.b64decode(content))[""]
    if kind == "dtype":
        return getattr(torch, content)
    if kind == "other":
        return RuntimeError(content)
    return {"dict": dict, "tuple": tuple}[kind](content)
