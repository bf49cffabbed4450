"""Chapter 00: the map of the course."""

from drawing import Box, group, page, rect, text
from model_parts import badge, look

TITLE = "The course: parts, the model, its use, and what came later"
STEPS = (
    ("the parts", "01 Attention", "02 Multi-head", "03 Positions"),
    ("", "04 Add & norm", "05 Feed-forward", "06 Masks"),
    ("the model", "07 Encoder", "08 Decoder", "09 Transformer"),
    ("its use", "11 Training", "12 Decoding", "13 KV cache"),
    ("", "14 Beam search", "15 Evaluation", "16 The bug clinic"),
    ("", "17 Real translation"),
    ("later models", "18 Decoder only", "19 GPT", "21 Modern models"),
    ("", "22 Open weights"),
    ("cost, scale", "24 Efficiency", "25 Distributed"),
)
LEFT, TOP, WIDE, HIGH = 138, 62, 164, 34


def draw(lit: str | None = None) -> str:
    """Draw every chapter with its number, in the order of reading.

    Args:
        lit: The two digits of a chapter, which is then lit.
    """
    parts = []
    for i, (step, *chapters) in enumerate(STEPS):
        y = TOP + i * (HIGH + 10)
        parts.append(text(20, y + 22, step, bold=True) if step else "")
        for j, chapter in enumerate(chapters):
            number, name = chapter.split(" ", 1)
            box = Box(LEFT + j * (WIDE - 2), y, WIDE - 12, HIGH)
            parts += [
                rect(box, radius=7, **look(number, lit)),
                badge(box.x + 18, box.cy, number, lit),
                text(box.x + 36, box.cy + 5, name, size=13.5),
            ]
    return page(
        TITLE,
        "The chapters in rows, from top to bottom: six parts, from attention to masks; the model, "
        "encoder, decoder and Transformer; its use, training, decoding, cache, beam search, "
        "evaluation and real sentences; later models and published weights; cost and scale.",
        TOP + len(STEPS) * (HIGH + 10) + 12,
        group(*parts),
    )
