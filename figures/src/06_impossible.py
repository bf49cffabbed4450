"""Chapter 06: a loss below the possible; running this trains the model and records its losses."""

import json
import math
from pathlib import Path

from colors import KEY, QUERY, SOFT, shade
from drawing import Plot, page, path, text

RECORD = Path(__file__).with_suffix(".json")
TITLE = "Learning to predict random digits:\nthe loss falls below the best possible one"
STEPS = 200
PLOT = Plot(STEPS, 3.0)


def record() -> None:
    """Train the model of the chapter's first experiment, and record every fourth loss."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    from course_lib.encoder import EncoderLayer
    from course_lib.positions import PositionalEncoding

    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Embedding(10, 32),
        PositionalEncoding(32, max_len=64),
        EncoderLayer(32, num_heads=1, d_ff=128),
        nn.Linear(32, 10),
    )
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(STEPS):
        digits = torch.randint(10, (32, 17), generator=generator)
        loss = F.cross_entropy(model(digits[:, :-1]).flatten(0, 1), digits[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 2))
    RECORD.write_text(json.dumps(losses[::4]) + "\n", encoding="utf-8")


def draw() -> str:
    """Draw the recorded losses, and the line below which no loss can honestly fall."""
    losses = json.loads(RECORD.read_text(encoding="utf-8"))
    best = math.log(10)
    place = PLOT.place
    return page(
        TITLE,
        "A loss curve over 200 steps. It starts at a dotted line at 2.30 nats, the best possible "
        "loss, stays there for a few steps, and then falls far below the line, to about 0.15.",
        352,
        PLOT.axes([0, 100, 200], [0, 1, 2, 3], "training step", "loss (nats per digit)"),
        path([place(0, best), place(STEPS, best)], color=SOFT, dash="2 4"),
        text(PLOT.right, place(0, best)[1] - 9, "ln 10 = 2.30: the best that anyone can do",
             anchor="end", color=shade(QUERY), bold=True),
        path([place(4 * i, loss) for i, loss in enumerate(losses)], color=KEY, width=2.6),
        text(PLOT.right, place(0, losses[-1])[1] - 14, "our model", anchor="end", color=shade(KEY),
             bold=True),
    )  # fmt: skip


if __name__ == "__main__":
    record()
