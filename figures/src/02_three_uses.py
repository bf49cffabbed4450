"""Chapter 02: where queries, keys and values come from in the three uses of the layer."""

from colors import KEY, QUERY, VALUE, shade
from drawing import Box, arrow, centered, group, page, rect, text
from model_parts import sheets

TITLE = "One layer, three uses: they differ in where queries,\nkeys and values come from"
USES = (  # name, what is below V K Q from left to right, who may look where
    ("encoder self-attention", (("source", "VKQ"),), "each word sees all words"),
    ("masked self-attention", (("target so far", "VKQ"),), "no word sees later words"),
    ("cross-attention", (("memory", "VK"), ("target", "Q")), "each word sees memory"),
)
ROLES = {"V": VALUE, "K": KEY, "Q": QUERY}
PITCH, PORT, TOP, BELOW = 206, 56, 116, 212


def use(x: float, name: str, sources: tuple, looks: str) -> str:
    """Draw one use: the layer, its three inputs, and where they come from."""
    layer = Box(x - 84, TOP, 168, 40)
    ports = {letter: x + (i - 1) * PORT for i, letter in enumerate("VKQ")}
    parts = [
        text(x, TOP - 16, name, anchor="middle", bold=True),
        sheets(layer),
        centered(layer.cx, layer.cy, "attention"),
        text(x, BELOW + 54, looks, anchor="middle"),
    ]
    for words, letters in sources:
        at = [ports[letter] for letter in letters]
        box = Box(min(at) - 25, BELOW, max(at) - min(at) + 50, 30)
        parts += [rect(box), centered(box.cx, box.cy, words)]
    for letter, port in ports.items():
        color = ROLES[letter]
        parts += [
            arrow([(port, BELOW), (port, layer.bottom)], color=color, width=2.2),
            text(port + 8, BELOW - 20, letter, bold=True, color=shade(color)),
        ]
    return group(*parts)


def draw() -> str:
    """Draw the three uses side by side."""
    return page(
        TITLE,
        "Three attention layers side by side. In encoder self-attention, values, keys and queries "
        "all come from the source; in masked self-attention all come from the target so far; in "
        "cross-attention values and keys come from memory and queries from the target.",
        290,
        *(use(114 + i * PITCH, *each) for i, each in enumerate(USES)),
    )
