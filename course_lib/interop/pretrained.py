"""Read a folder in the layout that models are published in, and carry its weights over by name.

A folder holds ``config.json``, the weights (``*.safetensors``, or ``*.bin`` in older ones), and the
files of a tokenizer.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

OTHERS = "`course translate` takes Marian models, `course sample` those like GPT-2 or Llama"
DAMAGED = (
    "{} cannot be read as tensors ({}); it is damaged, a pointer that git-lfs left, or an object "
    "that was pickled whole: get the file again, or write it by `save_pretrained`"
)
Convert = Callable[[str, Tensor], Tensor]  # the published name, and the weight
Supported = Mapping[str, tuple[Any, Collection]]  # field: (what it means if absent, what we cover)


class Config(dict):
    """A configuration that names a field which it lacks."""

    def __missing__(self, field: str) -> Any:
        raise ValueError(f"config.json has no field {field}; get the file again")


def read_config(
    folder: Path | str, model_types: Collection[str], supported: Supported
) -> dict[str, Any]:
    """Read ``config.json``, and refuse what a loader does not cover.

    Args:
        folder: The model's folder.
        model_types: Of the field ``model_type``, such as ``["gpt2"]``.
        supported: Of each field that matters what a configuration without it means, and the
            values that are covered.

    Raises:
        ValueError: If there is no such file, the model is of another type, its weights are
            quantized, or a field has another value. The message names field and value.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{folder} is no folder with a config.json; name that of a published model "
            "(`course download` gets one)"
        )
    try:
        config = Config(json.loads(path.read_text(encoding="utf-8")))
    except ValueError as error:
        raise ValueError(f"{path} is no JSON ({error}); get the file again") from None
    every = {"model_type": ("unknown", model_types), "quantization_config": (None, [None])}
    for field, (default, covered) in (every | dict(supported)).items():
        value = config.get(field, default)
        if value not in covered:
            known = " or ".join(map(repr, covered))
            other = f"; {OTHERS}" if field == "model_type" else ""
            raise ValueError(
                f"config.json says {field}={value!r}; this loader covers {known} only{other}"
            )
    return config


def read_weights(folder: Path | str) -> dict[str, Tensor]:
    """Read all weights of a folder by name, of one file or several; no code in a file is run.

    Raises:
        ValueError: If there are none, or a file does not hold tensors only.
    """
    weights: dict[str, Tensor] = {}
    safe = sorted(Path(folder).glob("model*.safetensors"))  # a large model has several
    for path in safe or sorted(Path(folder).glob("pytorch_model*.bin")):
        try:
            if safe:
                weights |= load_file(path)
            else:
                weights |= torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # foreign bytes make readers fail in a dozen ways
            raise ValueError(DAMAGED.format(path, type(error).__name__)) from None
    if not weights:
        raise ValueError(f"{folder} holds neither model.safetensors nor pytorch_model.bin")
    return weights


def read_tokenizer(folder: Path | str) -> Tokenizer | None:
    """Read ``tokenizer.json`` with the library ``tokenizers``; ``None`` where there is none.

    Raises:
        ValueError: If it is no tokenizer.
    """
    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        raise ValueError(f"{path} is no tokenizer ({error}); get the file again") from None


def published_names(model: nn.Module, names: Mapping[str, str]) -> dict[str, str]:
    """Give every parameter of a model its published name.

    Args:
        model: One of ours; a parameter that is shared is named once.
        names: Our names of modules (or of a parameter) to theirs; ``*`` stands for the number of
            a layer.

    Returns:
        Our names of the parameters to theirs.

    Example:
        >>> published_names(nn.Sequential(nn.Linear(2, 3)), {"0": "lm_head"})
        {'0.weight': 'lm_head.weight', '0.bias': 'lm_head.bias'}
    """
    found = {}
    for ours, _ in model.named_parameters():
        number = re.search(r"\.(\d+)\.", ours)
        general = re.sub(r"\.\d+\.", ".*.", ours, count=1)
        module, _, kind = general.rpartition(".")
        theirs = names[general] if general in names else f"{names[module]}.{kind}"
        found[ours] = theirs.replace("*", number[1]) if number else theirs
    return found


def load_by_name(
    model: nn.Module, weights: Mapping[str, Tensor], names: Mapping[str, str], convert: Convert
) -> None:
    """Copy every weight into the parameter that it belongs to.

    Args:
        model: Changed in place, unless something does not fit.
        weights: By published name; all must be used.
        names: As for ``published_names``.
        convert: Turns a published weight into one of our shape.

    Raises:
        ValueError: If a weight is missing, unknown, no floating-point tensor, or of another
            shape. The message names it.
    """
    wanted = published_names(model, names)
    missing = sorted(set(wanted.values()) - weights.keys())[:3]
    unknown = sorted(weights.keys() - set(wanted.values()))[:3]
    if missing or unknown:
        raise ValueError(f"these weights do not fit the model: {missing=}, {unknown=}")
    pairs = []
    for ours, theirs in wanted.items():
        parameter = model.get_parameter(ours)
        value = weights[theirs]
        converted = convert(theirs, value)
        if converted.shape != parameter.shape or not value.is_floating_point():
            raise ValueError(
                f"{theirs} is {value.dtype} of shape {tuple(value.shape)}; {ours} needs "
                f"floating-point numbers that make {tuple(parameter.shape)}"
            )
        pairs.append((parameter, converted))
    with torch.no_grad():
        for parameter, value in pairs:
            parameter.copy_(value)


def state_by_name(model: nn.Module, names: Mapping[str, str], convert: Convert) -> dict:
    """Return copies of a model's weights under their published names.

    Args:
        model: Stays as it is.
        names: As for ``published_names``.
        convert: Turns one of our weights into the published shape.
    """
    return {
        theirs: convert(theirs, model.get_parameter(ours).detach()).clone().contiguous()
        for ours, theirs in published_names(model, names).items()
    }


def drop_copies(
    weights: Mapping[str, Tensor], copies: Mapping[str, str], unread: str
) -> dict[str, Tensor]:
    """Leave out what a file holds twice, and what no model reads.

    Args:
        weights: By published name.
        copies: A name that may occur, and the one that it must equal.
        unread: A regular expression of names that are left out unseen, such as masks.

    Raises:
        ValueError: If a copy differs: the model is not tied, as ours is.
    """
    kept = {name: value for name, value in weights.items() if not re.fullmatch(unread, name)}
    for copy, original in copies.items():
        value = kept.pop(copy, None)
        if value is not None and original in kept and not torch.equal(value, kept[original]):
            raise ValueError(f"{copy} differs from {original}; this loader covers one tied matrix")
    return kept
