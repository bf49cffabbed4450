"""Chapter 02: where queries, keys and values come from in the three uses of the layer."""

from colors import KEY, QUERY, VALUE, shade
from drawing import Box, arrow, centered, group, lines, page, rect, text
from model_parts import sheets

TITLE = "One layer, three uses: they differ in where queries,\nkeys and values come from"
USES = (  # name, what is below V K Q from left to right, who may look where
    ("encoder\nself-attention", (("source", "VKQ"),), "each word\nsees all words"),
    ("masked\nself-attention", (("target so far", "VKQ"),), "no word\nsees later words"),
    ("cross-attention", (("memory", "VK"), ("target", "Q")), "each word\nsees memory"),
)
ROLES = {"V": VALUE, "K": KEY, "Q": QUERY}
PITCH, PORT, TOP, BELOW = 176, 54, 132, 228


def use(x: float, name: str, sources: tuple, looks: str) -> str:
    """Draw one use: the layer, its three inputs, and where they come from."""
    layer = Box(x - 74, TOP, 148, 40)
    ports = {letter: x + (i - 1) * PORT for i, letter in enumerate("VKQ")}
    parts = [
        lines(x, TOP - 16 - 19 * name.count("\n"), name, anchor="middle", bold=True),
        sheets(layer),
        centered(layer.cx, layer.cy, "attention"),
        lines(x, BELOW + 54, looks, anchor="middle"),
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
        326,
        *(use(92 + i * PITCH, *each) for i, each in enumerate(USES)),
    )
