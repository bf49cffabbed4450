"""Read the folder of a published model, and copy weights by name."""

import json
import re
import reprlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from course_lib.interop.config_fields import ConfigFields

WRAPPERS = r"(module\.|_orig_mod\.)*"  # added to names by DDP and torch.compile
SINGLE_FILES = ("model.safetensors", "pytorch_model.bin")  # we read the first one that exists
Config = TypeVar("Config")
Model = TypeVar("Model", bound=nn.Module)


def read_config(
    folder: Path | str, model_types: Collection[str], fixed: Mapping[str, object]
) -> ConfigFields:
    """Read ``config.json``, and check the model's type.

    ``fixed`` maps each field to its only supported value, which is also its default.
    Raises ValueError, with the field's name and value, if a field has any other value, if the
    weights are quantized, or if there is no ``config.json``.
    """
    path = Path(folder) / "config.json"
    if not path.is_file():
        raise ValueError(
            f"{folder} is not the folder of a published model, because it has no config.json; "
            "`find_weights` returns the path of a downloaded model"
        )
    fields = ConfigFields(read_json(path))
    fields.choice("model_type", model_types)
    for name, value in {"quantization_config": None, **fixed}.items():
        fields.choice(name, [value], default=value)
    return fields


def read_settings(folder: Path) -> dict[str, Any]:
    """Return a folder's chat settings; newer folders have a separate file for the template."""
    content: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).is_file():
            content |= {key: x for key, x in read_json(folder / name).items() if x is not None}
    newer = folder / "chat_template.jinja"
    if newer.is_file():
        content["chat_template"] = newer.read_text(encoding="utf-8")
    for name in ("bos_token", "eos_token"):
        if isinstance(content.get(name), dict):  # older files describe a token in this way
            content[name] = content[name].get("content")
    content["eos_token_id"] = []
    for file in (folder / "config.json", folder / "generation_config.json"):
        ids = read_json(file).get("eos_token_id") if file.is_file() else None
        content["eos_token_id"] += ids if isinstance(ids, list) else [ids]
    return content


def read_json(path: Path) -> dict[str, Any]:
    """Read a file that contains one JSON object; raise ValueError for any other content."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON ({error}); download it again") from None
    if not isinstance(content, dict):
        shown = reprlib.repr(content)
        raise ValueError(f"{path} must contain a JSON object, got {shown}; download it again")
    return content


def read_weights(folder: Path | str) -> dict[str, Tensor]:
    """Read all weights in a folder by name, without running any code in the files.

    A folder contains one weights file, or several with an index; older weights files end in .bin.
    Raises ValueError if there are no weights, if a file is missing or does not contain named
    tensors, or if there are several files without an index.
    """
    for single in SINGLE_FILES:
        index = Path(folder) / f"{single}.index.json"
        if index.is_file():
            return _unwrapped(_read_shards(index))
        present = sorted(path.name for path in Path(folder).glob(single.replace(".", "*.")))
        if present == [single]:
            return _unwrapped(_read_tensors(Path(folder) / single))
        if present:
            raise ValueError(
                f"{folder} contains {', '.join(present)}, but no {index.name} to say which of "
                f"them belong together; download the index, or remove all of them except {single}"
            )
    raise ValueError(f"{folder} contains neither {' nor '.join(SINGLE_FILES)}")


def _unwrapped(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Remove what a wrapper of the saved model has added to the names."""
    shorter = {re.sub(f"^{WRAPPERS}", "", name): value for name, value in weights.items()}
    if len(shorter) < len(weights):
        raise ValueError("a weight occurs twice: with and without the name of a wrapper in front")
    return shorter


def _read_shards(index: Path) -> dict[str, Tensor]:
    """Read each weight from the file that an index names for it, whatever the others contain."""
    places = read_json(index).get("weight_map")
    if not isinstance(places, dict) or not all(type(file) is str for file in places.values()):
        raise ValueError(f"{index} does not say which file has which weight; download it again")
    weights: dict[str, Tensor] = {}
    for file in sorted(set(places.values())):
        found = _read_tensors(index.with_name(file))
        wanted = [name for name, place in places.items() if place == file]
        if missing := [name for name in wanted if name not in found]:
            raise ValueError(f"{index} says that {file} has {missing[0]}; download both again")
        weights |= {name: found[name] for name in wanted}
    return weights


def _read_tensors(path: Path) -> dict[str, Tensor]:
    """Read one file, without running any code that it may contain."""
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        weights = dict(torch.load(path, map_location="cpu", weights_only=True))
        if not all(isinstance(x, Tensor) and x.layout == torch.strided for x in weights.values()):
            raise TypeError("something in it is not a dense tensor")
        return weights
    except Exception as error:  # arbitrary bytes make readers fail in many ways
        raise ValueError(
            f"{path} cannot be read as tensors ({type(error).__name__}); download the file again, "
            "or, if it contains a whole pickled model, save that model with `save_pretrained`"
        ) from None


def read_tokenizer(folder: Path | str) -> Tokenizer | None:
    """Read ``tokenizer.json`` with the ``tokenizers`` library; return ``None`` if there is none.

    Truncation and padding, which a file can switch on, would change prompts, so both are off.
    Raises ValueError if the file does not contain a tokenizer.
    """
    path = Path(folder) / "tokenizer.json"
    if not path.is_file():
        return None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more specific
        raise ValueError(f"{path} is not a tokenizer ({error}); download it again") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@dataclass(frozen=True)
class Layout:
    """The names and the shapes that a published format uses for a model's parameters.

    ``names`` maps our names for modules (or parameters) to published names, where ``*`` stands
    for a layer's number. ``to_ours`` and ``to_published`` convert a weight, given its published
    name and our configuration. In files, each name may begin with ``prefix``. ``unread`` is a
    regular expression that matches the names to leave out, such as those of masks.
    """

    names: Mapping[str, str]
    to_ours: Callable[[str, Tensor, Any], Tensor] = lambda name, value, config: value
    to_published: Callable[[str, Tensor, Any], Tensor] = lambda name, value, config: value
    prefix: str = ""
    unread: str = ""

    def build(
        self,
        weights: Mapping[str, Tensor],
        config: Config,
        course_class: Callable[[Config], Model],
        model_class: Callable[[Config], Model] | None = None,
    ) -> Model:
        """Build a model of our class or a learner's, load its weights, and switch it to eval mode.

        All shapes are compared before the model is allocated, because a configuration can ask for
        more memory than any machine has. Raises ValueError in the same cases as ``load``.
        """
        with torch.device("meta"):
            outline = course_class(config)
        self._match(outline, weights, config)
        model = (model_class or course_class)(config)
        self.load(model, weights, config)
        return model.eval()

    def load(self, model: nn.Module, weights: Mapping[str, Tensor], config: object) -> None:
        """Copy every weight into the parameter that it belongs to.

        Raises ValueError, with the name, if a weight is missing, unknown, not finite, of the wrong
        shape or type, or different from a weight that it is tied to; the model is then unchanged.
        """
        matched = self._match(model, weights, config)
        with torch.no_grad():
            for parameter, value in matched.items():
                parameter.copy_(value)

    def state(self, model: nn.Module, config: object) -> dict[str, Tensor]:
        """Return copies of all weights under their published names; tied weights appear once."""
        state = {}
        for ours, parameter in model.named_parameters():
            name = self._published_name(ours)
            value = self.to_published(name, parameter.detach(), config)
            state[self.prefix + name] = value.clone(memory_format=torch.contiguous_format)
        return state

    def _match(
        self, model: nn.Module, weights: Mapping[str, Tensor], config: object
    ) -> dict[nn.Parameter, Tensor]:
        """Return each parameter's new value; raise ValueError in the same cases as ``load``."""
        shorter = {name.removeprefix(self.prefix): value for name, value in weights.items()}
        if len(shorter) < len(weights):
            raise ValueError(f"a weight occurs twice: with and without {self.prefix} in front")
        given = {n: value for n, value in shorter.items() if not re.fullmatch(self.unread, n)}
        matched: dict[nn.Parameter, Tensor] = {}
        for ours, parameter in model.named_parameters(remove_duplicate=False):
            name = self._published_name(ours)
            if name in given:
                expected = self.to_published(name, parameter.detach(), config)
                _check_weight(name, given[name], expected.shape, parameter.dtype)
                value = self.to_ours(name, given.pop(name), config)
                if not matched.setdefault(parameter, value).equal(value):
                    raise ValueError(f"{name} differs from the weight that it is tied to")
        named = model.named_parameters()
        missing = [self._published_name(ours) for ours, p in named if p not in matched][:3]
        unknown = list(given)[:3]
        if missing or unknown:
            raise ValueError(f"these weights do not fit the model: {missing=}, {unknown=}")
        return matched

    def _published_name(self, ours: str) -> str:
        """Translate a parameter's name into the published one."""
        number = re.search(r"\.(\d+)\.", ours)
        general = re.sub(r"\.\d+\.", ".*.", ours, count=1)
        module, _, parameter = general.rpartition(".")
        name = self.names.get(general) or f"{self.names[module]}.{parameter}"
        return name.replace("*", number[1]) if number else name


def _check_weight(name: str, value: Tensor, expected: torch.Size, dtype: torch.dtype) -> None:
    """Check a published weight's shape and type, and that its numbers are finite in ``dtype``."""
    if value.is_floating_point() and value.dtype.itemsize < 2:
        raise ValueError(
            f"{name} has numbers of 8 bits ({value.dtype}), which need scales that this loader "
            "does not read; choose a model with weights in bfloat16, float16 or float32"
        )
    if value.shape != expected or not value.is_floating_point():
        turned = " (it is transposed)" if value.shape == expected[::-1] != expected else ""
        raise ValueError(
            f"{name} is {value.dtype} of shape {tuple(value.shape)}{turned}; this model needs "
            f"floating-point numbers of shape {tuple(expected)}"
        )
    if not value.to(dtype).isfinite().all():
        wide = f", or numbers too large for {dtype}" if value.isfinite().all() else ""
        raise ValueError(f"{name} contains nan or infinity{wide}; download the weights again")
