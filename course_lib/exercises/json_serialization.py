"""Tensors and numbers as JSON, which holds no code: safe to read, whoever sent it."""

import base64
from typing import Any

import torch
from torch import Tensor


def packed(value: Any) -> Any:
    """Turn tensors, their types, numbers, texts, and collections of them into what JSON can hold.

    Anything else becomes the text of its type.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Tensor):
        data = value.detach().reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
        kind = str(value.dtype).removeprefix("torch.")
        return {"tensor": [kind, list(value.shape), base64.b64encode(data).decode()]}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, dict):
        return {"dict": [[packed(key), packed(inner)] for key, inner in value.items()]}
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [packed(inner) for inner in value]}
    return {"other": type(value).__name__}


def unpacked(value: Any) -> Any:
    """Turn it back.

    Raises:
        ValueError: If it is not what ``packed`` returns, or the numbers do not fill the shape.
    """
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tensor":
        name, shape, text = content
        data = bytearray(base64.b64decode(text))
        dtype = getattr(torch, name)
        flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
        return flat.reshape(shape)
    if kind == "dtype":
        return getattr(torch, content)
    if kind == "dict":
        return {unpacked(key): unpacked(inner) for key, inner in content}
    if kind in ("list", "tuple"):
        return (list if kind == "list" else tuple)(unpacked(inner) for inner in content)
    if kind == "other":
        return RuntimeError(content)
    raise ValueError(f"{kind!r} is no kind of packed data")
