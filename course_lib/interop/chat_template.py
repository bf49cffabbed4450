"""The chat template of a published model, and the text that it makes of a conversation."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from course_lib.interop.config_fields import ConfigFields, read_json
from course_lib.interop.gguf_file import is_gguf, read_metadata
from course_lib.support.quoted_text import QUOTED

Message = Mapping[str, str]  # with the keys "role" and "content"
PROCESS = Path(__file__).with_name("template_process.py")
SECONDS = 10  # for one text


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

    If there are several, the one named default is read.
    Raises ValueError if there is no template, because then the model can only continue text.
    """
    path = Path(path)
    content = _from_gguf(path) if is_gguf(path) else _from_folder(path)
    source = content.get("chat_template")
    if isinstance(source, list):
        named = {item.get("name"): item.get("template") for item in source if type(item) is dict}
        source = named.get("default")
    if not isinstance(source, str):
        raise ValueError(
            f"{path} contains no chat template, so the model can continue text but cannot chat; "
            "choose a model that was trained to chat, which often has Instruct in its name"
        )
    bos, eos = (content.get(name) or "" for name in ("bos_token", "eos_token"))
    return ChatTemplate(source, bos, eos)


def render(template: ChatTemplate, messages: Sequence[Message]) -> str:
    """Format messages with the template, up to the point where the answer begins.

    A template is a program, so it runs in a process with limits on its time and memory.
    Raises ValueError if it rejects the messages, is not a valid Jinja template, or takes too much.
    """
    values = {"messages": list(messages), "add_generation_prompt": True}
    values |= {"bos_token": template.bos_token, "eos_token": template.eos_token}
    asked = json.dumps({"source": template.source, "values": values}).encode()
    command = [sys.executable, "-P", str(PROCESS)]  # nothing of this folder
    try:
        done = subprocess.run(command, input=asked, capture_output=True, timeout=SECONDS)
        reason = done.stdout.decode() or "it was stopped, probably for lack of memory"
    except subprocess.TimeoutExpired:
        raise ValueError(
            f"the chat template cannot be used: it takes more than {SECONDS} seconds"
        ) from None
    if done.returncode:
        raise ValueError(f"the chat template cannot be used: {reason[:QUOTED]}")
    return done.stdout.decode()


def read_end_ids(path: Path | str) -> set[int]:
    """Return the ids that end a text, according to a folder's configurations or a GGUF file."""
    path, found = Path(path), []
    if is_gguf(path):
        metadata = read_metadata(path)
        found = [metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom")]
    for file in (path / "config.json", path / "generation_config.json"):
        ids = read_json(file).get("eos_token_id") if file.is_file() else None
        found += ids if isinstance(ids, list) else [ids]
    return {number for number in found if type(number) is int}


def _from_gguf(path: Path) -> dict[str, Any]:
    """Return the chat settings in a GGUF file, under the names that published folders use."""
    metadata = read_metadata(path)
    fields = ConfigFields(metadata, path.name)
    content = {"chat_template": metadata.get("tokenizer.chat_template")}
    for name in ("bos_token", "eos_token"):
        if f"tokenizer.ggml.{name}_id" in metadata:
            tokens = fields.sequence("tokenizer.ggml.tokens", str)
            content[name] = tokens[fields.choice(f"tokenizer.ggml.{name}_id", range(len(tokens)))]
    return content


def _from_folder(folder: Path) -> dict[str, Any]:
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
    return content
