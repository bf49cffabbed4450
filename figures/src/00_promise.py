"""Chapter 00: what the trained translator writes and where it looks; running this records both."""

import json
from pathlib import Path

from colors import CIVIDIS, on_map
from drawing import Box, group, page, text
from token_cells import cell

RECORD = Path(__file__).with_suffix(".json")
TITLE = "To write “fünf”, it looks at “five”.\nThen it goes back for “forty”"
LEFT, TOP, WIDE, HIGH = 188, 130, 83, 38


def record() -> None:
    """Translate 345 with the trained translator, and record its cross-attention.

    The map is the mean of the four heads of the last decoder layer.
    """
    import torch

    from course_lib.tasks.numbers import load_or_train

    translator = load_or_train()
    tokenizer, words = translator.tokenizer, "three hundred forty-five"
    src = translator.source_ids([words])
    written = tokenizer.encode(translator.translate([words])[0])
    tgt_in = torch.tensor([[tokenizer.bos_id, *written]])
    with torch.no_grad():
        weights = translator.model.attention_maps(src, tgt_in)["cross"][-1, 0].mean(0)
    source = [tokenizer.decode([token]) or "end" for token in src[0].tolist()]
    target = [tokenizer.decode([token]) or "end" for token in written]
    table = [[round(weight, 2) for weight in row] for row in weights[: len(target)].tolist()]
    kept = {"source": source, "target": target, "weights": table}
    RECORD.write_text(json.dumps(kept, ensure_ascii=False) + "\n", encoding="utf-8")


def draw() -> str:
    """Draw the recorded map, with the written words down and the read words across."""
    kept = json.loads(RECORD.read_text(encoding="utf-8"))
    rows = list(zip(kept["target"], kept["weights"], strict=True))
    written = "".join(kept["target"])
    return page(
        TITLE,
        f"The model reads “{' '.join(kept['source'])}” and writes “{written}”. A map of its "
        "cross-attention has a row for each German token and a column for each English one: fünf "
        "is bright at five, undvierzig at forty.",
        TOP + HIGH * len(rows) + 60,
        text(20, TOP - 20, "it writes ↓   it reads →", bold=True),
        *(
            text(LEFT + WIDE * (j + 0.5), TOP - 12, word, anchor="middle")
            for j, word in enumerate(kept["source"])
        ),
        *(
            group(
                text(LEFT - 14, TOP + HIGH * (i + 0.5) + 5, word, anchor="end"),
                *(
                    cell(
                        Box(LEFT + WIDE * j, TOP + HIGH * i, WIDE, HIGH),
                        f"{weight:.2f}",
                        fill=on_map(weight, CIVIDIS),
                        stroke="#FFFFFF",
                    )
                    for j, weight in enumerate(weights)
                ),
            )
            for i, (word, weights) in enumerate(rows)
        ),
        text(
            20, TOP + HIGH * len(rows) + 34, "Each row adds up to 1. It looks at the bright cells."
        ),
    )


if __name__ == "__main__":
    record()
