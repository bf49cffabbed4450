"""Chapter 22: a published folder, and the class that its weights are carried into."""

from colours import INK, KEY, QUERY, VALUE, shade, tint
from drawing import Box, arrow, centred, group, page, rect, text

TITLE = (
    "Published weights are tensors with names:\ncarried over by name, they run on your own class"
)
DESC = (
    "On the left a folder with three files: config.json, model.safetensors and tokenizer.json. "
    "On the right your own class, ModernDecoder, with three parts: its hyperparameters, its "
    "parameters, and the text it reads. Arrows lead from file to part. The middle one carries "
    "four tensors by name: the embedding as it is, a matrix as it is, the query matrix with its "
    "rows reordered, and GPT-2's matrix transposed."
)
LEFT, RIGHT, WIDE = 12, 420, 208
ROWS = (  # file, what it becomes, role, y, height
    ("config.json", "ModernConfig", QUERY, 112, 44),
    ("model.safetensors", "parameters", VALUE, 178, 200),
    ("tokenizer.json", "text ↔ ids", KEY, 400, 44),
)
NAMES = (
    ("…embed_tokens.weight", "embedding.weight", "as it is"),
    ("…mlp.up_proj.weight", "…feed_forward.linear1", "as it is"),
    ("…self_attn.q_proj.weight", "…self_attn.w_q", "rows reordered"),
    ("h.0.mlp.c_fc.weight", "…feed_forward.linear1", "transposed"),
)
PITCH, FIRST = 40, 226


def part(x: float, y: float, h: float, name: str, role: str) -> str:
    """Draw a file, or a part of the class, with its name on top."""
    return group(
        rect(Box(x, y, WIDE, h), fill=tint(role), stroke=role),
        text(x + 12, y + 27, name, bold=True, colour=shade(role)),
    )


def carried(i: int, theirs: str, ours: str, how: str) -> str:
    """Draw one tensor on its way."""
    y = FIRST + PITCH * i
    middle = (LEFT + WIDE + RIGHT) / 2
    return group(
        text(LEFT + 12, y + 5, theirs),
        arrow([(LEFT + WIDE + 6, y), (RIGHT - 6, y)]),
        centred(middle, y - 10, how, colour=INK),
        text(RIGHT + 12, y + 5, ours),
    )


def draw() -> str:
    """Draw folder and class side by side, and what goes from one to the other."""
    straight = [(y + h / 2) for _, _, _, y, h in (ROWS[0], ROWS[2])]
    return page(
        TITLE,
        DESC,
        470,
        text(LEFT, 98, "the published folder", bold=True),
        text(RIGHT, 98, "your own class", bold=True),
        *(part(LEFT, y, h, file, role) for file, _, role, y, h in ROWS),
        *(part(RIGHT, y, h, ours, role) for _, ours, role, y, h in ROWS),
        *(arrow([(LEFT + WIDE + 6, y), (RIGHT - 6, y)]) for y in straight),
        *(carried(i, *names) for i, names in enumerate(NAMES)),
    )
