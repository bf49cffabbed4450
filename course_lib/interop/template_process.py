"""Render a chat template in a process of its own, which may use only so much memory.

``chat_template.py`` runs this file; it reads a JSON object and prints the text, or exits with 1
and a reason. It imports nothing of the course, so it starts quickly.
"""

import json
import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

MEMORY = 1 << 30  # bytes
LONGEST = 1 << 20  # characters of a text


class Generation(Extension):
    """Accept ``{% generation %}``, which marks the tokens to train on, and keep its contents."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Return what is between the two tags."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Write JSON as in training: nothing is escaped, and the keys keep their order."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def reject(reason: str) -> None:
    """Raise an error with the message from the template."""
    raise TemplateError(reason)


def rendered(source: str, values: dict[str, Any]) -> str:
    """Return the text that a template makes of the values."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
    )
    now: Callable[[str], str] = lambda form: datetime.now().strftime(form)  # noqa: E731
    environment.globals |= {"raise_exception": reject, "strftime_now": now}
    environment.filters["tojson"] = tojson
    text = environment.from_string(source).render(tools=None, documents=None, **values)
    if len(text) > LONGEST:
        raise TemplateError(f"its text has {len(text):,} characters, and {LONGEST:,} are allowed")
    return text


def main() -> int:
    """Render the template in the input."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    asked = json.loads(sys.stdin.buffer.read())
    try:
        written, code = rendered(asked["source"], asked["values"]), 0
    except MemoryError:
        written, code = f"it needs more than {MEMORY:,} bytes", 1
    except TemplateError as error:
        written, code = str(error), 1
    except Exception as error:  # a template can fail like any program
        written, code = f"{type(error).__name__}: {error}", 1
    sys.stdout.buffer.write(written.encode("utf-8", errors="replace"))
    return code


if __name__ == "__main__":
    sys.exit(main())
