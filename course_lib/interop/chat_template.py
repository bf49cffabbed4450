"""The chat template of a published model, and the text that it makes of a conversation."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.interop.gguf_file import is_gguf, read_chat_fields
from course_lib.interop.pretrained import read_settings
from course_lib.support.quoted_text import QUOTED

Message = Mapping[str, str]  # with the keys "role" and "content"
PROCESS = Path(__file__).with_name("template_process.py")
SECONDS = 10  # for one text


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template, the special tokens that it uses, and the ids that end a text.

    ``source`` is a Jinja template. ``bos_token`` begins a text, and ``eos_token`` ends an answer.
    A template or token that the model does not define is "".
    """

    source: str
    bos_token: str
    eos_token: str
    end_ids: frozenset[int] = frozenset()


def read_chat_template(path: Path | str, required: bool = True) -> ChatTemplate:
    """Read the chat template from a published model's folder or from a GGUF file.

    If there are several, the one named default is read.
    Raises ValueError if there is none and it is required: the model can only continue text.
    """
    path = Path(path)
    content = read_chat_fields(path) if is_gguf(path) else read_settings(path)
    source = content.get("chat_template")
    if isinstance(source, list):
        named = {item.get("name"): item.get("template") for item in source if type(item) is dict}
        source = named.get("default")
    if not isinstance(source, str):
        if required:
            raise ValueError(
                f"{path} contains no chat template, so the model can continue text but not chat; "
                "choose a model that was trained to chat, which often has Instruct in its name"
            )
        source = ""
    bos, eos = (content.get(name) or "" for name in ("bos_token", "eos_token"))
    ends = frozenset(number for number in content["eos_token_id"] if type(number) is int)
    return ChatTemplate(source, bos, eos, ends)


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
