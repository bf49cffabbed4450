"""Chapter 23: how a base model, a fine-tuned model and a rewarded model react to a question."""

from colors import LIT_FILL, PAPER, VALUE, shade
from drawing import Box, arrow, centered, group, lines, page, rect, text

TITLE = "A base model continues a question;\na few training steps make it answer"
DESC = (
    "Three columns with an arrow from each to the next. All three get the question 36 plus 61. "
    "The base model writes another question: 12 plus 40? The fine-tuned model gets the question "
    "between the tokens user and assistant, and answers eighty-seven, which is wrong, and then "
    "end. After training on rewards, the model answers ninety-seven and end."
)
COLUMNS = (  # heading, what it learns from, what it reads, what it writes, whether that is right
    ("Base model", "many texts", "3 6 plus 6 1?", "1 2 plus 4 0?", False),
    ("After SFT", "examples", "[user] 3 6 plus 6 1?\n[assistant]",
     "eighty-seven. [end]", False),
    ("After GRPO", "rewards", "[user] 3 6 plus 6 1?\n[assistant]",
     "ninety-seven. [end]", True),
)  # fmt: skip
WIDE, GAP = 180, 26
RIGHT = {"color": shade(VALUE), "bold": True}


def column(i: int) -> str:
    """Draw one model with its training data, its input and its output."""
    heading, source, reads, writes, right = COLUMNS[i]
    x = 24 + i * (WIDE + GAP)
    box, answer = Box(x, 84, WIDE, 190), Box(x + 8, 226, WIDE - 16, 38)
    return group(
        rect(box, radius=8),
        centered(box.cx, 104, heading, bold=True),
        centered(box.cx, 126, f"learns from {source}", size=13.34),
        text(x + 10, 156, "reads", bold=True),
        lines(x + 10, 176, reads, size=13.34),
        text(x + 10, 218, "writes", bold=True),
        rect(answer, fill=LIT_FILL if right else PAPER, radius=6),
        centered(answer.cx, answer.cy, writes, size=13.34, **(RIGHT if right else {})),
        arrow([(x - GAP + 3, 180), (x - 3, 180)]) if i else "",
    )


def draw() -> str:
    """Draw the three models next to each other."""
    return page(TITLE, DESC, 294, *(column(i) for i in range(3)))
