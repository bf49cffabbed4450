"""The chat template of a published model, and the text that it makes of a conversation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from course_lib.interop.config_fields import read_json
from course_lib.interop.gguf_file import is_gguf, read_metadata

Message = Mapping[str, str]  # with the keys "role" and "content"


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template and the special tokens that it uses.

    ``source`` is a Jinja template. ``bos_token`` begins a text, and ``eos_token`` ends an answer.
    A token that the model does not define is "".
    """

    source: str
    bos_token: str
    eos_token: str


def read_chat_template(path: Path | str) -> ChatTemplate:
    """Read the chat template from a published model's folder or from a GGUF file.

    Raises ValueError if there is no template, because then the model can only continue text.
    """
    path = Path(path)
    content = _from_gguf(path) if is_gguf(path) else _from_folder(path)
    if not isinstance(content.get("chat_template"), str):
        raise ValueError(
            f"{path} contains no chat template, so the model can continue text but cannot chat; "
            "choose a model that was trained to chat, which often has Instruct in its name"
        )
    bos, eos = (content.get(name) or "" for name in ("bos_token", "eos_token"))
    return ChatTemplate(content["chat_template"], bos, eos)


def render(template: ChatTemplate, messages: Sequence[Message]) -> str:
    """Format messages with the template, up to the point where the answer begins.

    Raises ValueError if the template rejects them, or is not a valid Jinja template.
    """

    def reject(reason: str) -> None:
        """Raise an error with the message from the template."""
        raise TemplateError(reason)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = reject
    try:
        return environment.from_string(template.source).render(
            messages=messages,
            add_generation_prompt=True,
            bos_token=template.bos_token,
            eos_token=template.eos_token,
        )
    except TemplateError as error:
        raise ValueError(f"the chat template cannot be used: {error}") from None


def _from_gguf(path: Path) -> dict[str, Any]:
    """Return the chat settings in a GGUF file, under the names that published folders use."""
    metadata = read_metadata(path)
    content = {"chat_template": metadata.get("tokenizer.chat_template")}
    for name in ("bos_token", "eos_token"):
        if (number := metadata.get(f"tokenizer.ggml.{name}_id")) is not None:
            content[name] = metadata["tokenizer.ggml.tokens"][number]
    return content


def _from_folder(folder: Path) -> dict[str, Any]:
    """Return a folder's chat settings; newer folders have a separate file for the template."""
    path = folder / "tokenizer_config.json"
    content = read_json(path) if path.is_file() else {}
    newer = folder / "chat_template.jinja"
    if newer.is_file():
        content["chat_template"] = newer.read_text(encoding="utf-8")
    for name in ("bos_token", "eos_token"):
        if isinstance(content.get(name), dict):  # older files describe a token in this way
            content[name] = content[name]["content"]
    return content
