"""Read the weights and the tokenizer of a published folder, and copy weights by name.

The weights are one file, or several that an index lists: ``*.safetensors``, or ``*.bin`` in older
folders.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from course_lib.interop.config_fields import read_json

DAMAGED = (
    "{} cannot be read as tensors ({}); it is damaged, a pointer that git-lfs left, or an object "
    "that was pickled whole: get the file again, or write it with `save_pretrained`"
)
SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")  # the first that is there is read
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
Convert = Callable[[str, Tensor], Tensor]  # the published name, and the weight
Model = TypeVar("Model", bound=nn.Module)


def read_weights(folder: Path | str) -> dict[str, Tensor]:
    """Read all weights of a folder by name; code in a file never runs.

    Raises ValueError if there are none, if a file contains anything but tensors, if there
    are several files without an index, or if the index and the files disagree.
    """
    for single in SINGLE_FILES:
        path = Path(folder) / single
        present = sorted(file.name for file in path.parent.glob(f"{path.stem}*{path.suffix}"))
        index = path.with_name(f"{single}.index.json")
        if index.is_file():
            return _read_shards(index, present)
        if present == [single]:
            return _read_tensors(path)
        if present:
            raise ValueError(
                f"{folder} contains {', '.join(present)}, and no {index.name} that says which of "
                f"them belong together; get the index, or leave {single} alone there"
            )
    raise ValueError(f"{folder} contains neither {' nor '.join(SINGLE_FILES)}")


def _read_shards(index: Path, present: list[str]) -> dict[str, Tensor]:
    """Read every tensor from the file that the index names for it."""
    places = read_json(index).get("weight_map")
    listed = sorted(set(map(str, places.values()))) if isinstance(places, dict) else []
    if not isinstance(places, dict) or listed != present:
        raise ValueError(
            f"{index} lists the files {listed}, but the folder contains {present}; get the "
            "missing files, and move the others out of the folder"
        )
    weights: dict[str, Tensor] = {}
    for file in present:
        tensors = _read_tensors(index.with_name(file))
        expected = {name for name, place in places.items() if place == file}
        if tensors.keys() != expected:
            names = ", ".join(sorted(tensors.keys() ^ expected)[:3])
            raise ValueError(f"{index} and {file} disagree about {names}; download both again")
        weights |= tensors
    return weights


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """Read one file, and check that it contains dense tensors by name."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # foreign bytes make readers fail in a dozen ways
        raise ValueError(DAMAGED.format(path, type(error).__name__)) from None
    if not isinstance(content, dict):
        content = {None: content}
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or not _is_complete(value):
            raise ValueError(
                f"{path} contains a {type(value).__name__} under the name {name!r}, where we "
                "expect a dense tensor; write the file again with `save_pretrained`"
            )
    return content


def _is_complete(value: Tensor) -> bool:
    """Check that a tensor is not nested, sparse or expanded, and has its numbers in memory."""
    if value.is_nested or value.layout is not torch.strided or value.device.type != "cpu":
        return False
    return value.numel() * value.element_size() <= value.untyped_storage().nbytes()


def read_tokenizer(folder: Path | str) -> Tokenizer | None:
    """Read ``tokenizer.json`` with the ``tokenizers`` library; ``None`` where there is none.

    Truncation and padding, which a file can switch on, would change prompts: both are off.
    Raises ValueError if it is not a tokenizer.
    """
    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        raise ValueError(f"{path} is not a tokenizer ({error}); get the file again") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def as_it_is(name: str, value: Tensor) -> Tensor:
    """Return a weight that both sides store in the same form."""
    return value


@dataclass(frozen=True)
class Layout:
    """Say under which names and in which shapes a published format stores a model's parameters.

    ``names`` maps our names of modules (or of a parameter) to published ones, where ``*`` stands
    for the number of a layer. ``copies`` maps names that may occur to those whose weight they must
    equal, and ``unread`` is a regular expression of names that are left out, such as masks.
    """

    names: Mapping[str, str]
    to_ours: Convert
    to_published: Convert
    copies: Mapping[str, str]
    unread: str

    def published_names(self, model: nn.Module) -> dict[str, str]:
        """Map each of our parameter names to the published name.

        A shared parameter appears once.
        """
        published = {}
        for ours, _ in model.named_parameters():
            number = re.search(r"\.(\d+)\.", ours)
            general = re.sub(r"\.\d+\.", ".*.", ours, count=1)
            module, _, parameter = general.rpartition(".")
            name = self.names.get(general) or f"{self.names[module]}.{parameter}"
            published[ours] = name.replace("*", number[1]) if number else name
        return published

    def load(self, model: nn.Module, weights: Mapping[str, Tensor]) -> None:
        """Copy every weight into the parameter that it belongs to.

        Raises ValueError, with its name, if a weight is missing, unknown, of another shape or type,
        not finite, or differs from its copy; then the model stays as it was.
        """
        needed = self._without_copies(weights)
        published = self.published_names(model)
        missing = sorted(set(published.values()) - needed.keys())[:3]
        unknown = sorted(needed.keys() - set(published.values()))[:3]
        if missing or unknown:
            raise ValueError(f"these weights do not fit the model: {missing=}, {unknown=}")
        converted = []
        for ours, name in published.items():
            parameter = model.get_parameter(ours)
            _check_weight(name, needed[name], self.to_published(name, parameter.detach()).shape)
            converted.append((parameter, self.to_ours(name, needed[name])))
        with torch.no_grad():
            for parameter, value in converted:
                parameter.copy_(value)

    def _without_copies(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Drop tensors that are duplicates or that no model uses."""
        needed = {n: value for n, value in weights.items() if not re.fullmatch(self.unread, n)}
        for copy, original in self.copies.items():
            value = needed.pop(copy, None)
            if value is not None and original in needed and not value.equal(needed[original]):
                raise ValueError(
                    f"{copy} differs from {original}; this loader covers one tied matrix"
                )
        return needed

    def state(self, model: nn.Module) -> dict[str, Tensor]:
        """Return copies of a model's weights under their published names."""
        return {
            name: self.to_published(name, model.get_parameter(ours).detach()).clone().contiguous()
            for ours, name in self.published_names(model).items()
        }


def _check_weight(name: str, value: Tensor, expected: torch.Size) -> None:
    """Check the shape, the type and the numbers of a published weight."""
    if value.shape != expected or value.dtype not in FLOATS:
        turned = " (it is transposed)" if value.shape == expected[::-1] != expected else ""
        raise ValueError(
            f"{name} is {value.dtype} of shape {tuple(value.shape)}{turned}; this model needs "
            f"floating-point numbers of shape {tuple(expected)}"
        )
    if not torch.stack(value.aminmax()).isfinite().all():
        raise ValueError(f"{name} contains nan or infinity; get the file of weights again")


def build_and_load(
    weights: Mapping[str, Tensor],
    build: Callable[[], Model],
    load: Callable[[Model, Mapping[str, Tensor]], None],
    build_mine: Callable[[], Model] | None = None,
) -> Model:
    """Build a model with published weights, in eval mode.

    All shapes are compared before the model takes memory, because a configuration can ask for
    more than any machine has. ``build_mine`` builds a learner's model in place of the course's.
    Raises ValueError as ``load`` does.
    """
    with torch.device("meta"):
        outline = build()
    load(outline, weights)
    model = (build_mine or build)()
    load(model, weights)
    return model.eval()
