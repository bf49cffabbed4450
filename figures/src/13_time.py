"""Chapter 13: milliseconds per token without and with a cache; running this records them."""

import json
import time
from pathlib import Path

from colors import KEY, QUERY, shade
from drawing import Plot, page, path, text

RECORD = Path(__file__).with_suffix(".json")
TITLE = (
    "The longer the text, the longer the next token takes,\n"
    "unless the model keeps what it has computed"
)
LENGTHS = [1, *range(64, 513, 64)]  # tokens
PLOT = Plot(LENGTHS[-1], 350)  # tokens, ms


def record() -> None:
    """Time one more token at several lengths, on one core, and record milliseconds."""
    import torch

    from course_lib.kv_cache import DecodingEngine
    from course_lib.support.engines import Engine, RecomputingEngine
    from course_lib.transformer import Transformer, TransformerConfig

    torch.set_num_threads(1)
    config = TransformerConfig(src_vocab_size=1000, tgt_vocab_size=1000, max_len=512)
    model = Transformer(config).eval()
    src, tgt = torch.randint(1, 1000, (1, 20)), torch.randint(1, 1000, (1, 512))

    def milliseconds(engine: Engine, n: int) -> int:
        """Read n - 1 tokens, then time token n: the fastest of five tries."""
        if n > 1:
            engine.step(tgt[:, : n - 1])
        spent = []
        for _ in range(5):
            start = time.process_time()
            engine.step(tgt[:, n - 1 : n])
            spent.append(time.process_time() - start)
            engine.truncate(n - 1)
        return round(1000 * min(spent))

    with torch.no_grad():
        memory = model.encode(src)
        slow = [milliseconds(RecomputingEngine(model.decode, memory, src), n) for n in LENGTHS]
        fast = [milliseconds(DecodingEngine(model, src, 512), n) for n in LENGTHS]
    RECORD.write_text(json.dumps({"slow": slow, "fast": fast}) + "\n", encoding="utf-8")


def draw() -> str:
    """Draw the recorded times as two lines."""
    times = json.loads(RECORD.read_text(encoding="utf-8"))
    points = {
        name: [PLOT.place(n, ms) for n, ms in zip(LENGTHS, times[name], strict=True)]
        for name in times
    }
    last = PLOT.place(LENGTHS[-1], times["fast"][-1])[1]
    return page(
        TITLE,
        "Two lines over a text of 512 tokens. The time for one more token climbs steadily if the "
        "model computes everything again. With a KV cache, the line is flat, near the bottom.",
        352,
        PLOT.axes(
            [1, *range(128, 513, 128)],
            [0, 100, 200, 300],
            "the text's length, in tokens",
            "milliseconds",
        ),
        path(points["slow"], color=QUERY, width=2.6),
        text(PLOT.right - 150, PLOT.top + 40, "compute everything again", anchor="end",
             color=shade(QUERY), bold=True),
        path(points["fast"], color=KEY, width=2.6),
        text(PLOT.right, last - 14, "keep what you have computed", anchor="end", color=shade(KEY),
             bold=True),
    )  # fmt: skip


if __name__ == "__main__":
    record()
