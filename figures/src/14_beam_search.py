"""Chapter 14: a tree with three steps of a beam search with K = 2, and greedy decoding."""

from typing import NamedTuple

from colors import INK, LINE, LIT_FILL, SOFT, VALUE, tint
from drawing import Box, centered, group, page, path, rect, text
from token_cells import cell, number, token

TITLE = "Greedy decoding commits to “it”; a beam of two also\nkeeps “rain”, and “rain falls” wins"
DESC = (
    "A tree of words in three steps, with the best four continuations of each step. Step 1: it 0.5 "
    "and rain 0.3 are kept; snow 0.15 and end 0.05 are dropped. Step 2: it is 0.25 and rain falls "
    "0.27 are kept; it rains 0.15 and it end 0.1 are dropped. Step 3: rain falls end 0.189 leaves "
    "for the pool, it is raining 0.15 and it is wet 0.1 are kept, rain falls again 0.081 is "
    "dropped. A dashed path marks greedy decoding: it is raining, whose probability is 0.135 with "
    "its end."
)
WEATHER = {  # the chapter's toy language: what follows each word
    "start": {"it": 0.5, "rain": 0.3, "snow": 0.15, "end": 0.05},
    "it": {"is": 0.5, "rains": 0.3, "end": 0.2},
    "rain": {"falls": 0.9, "end": 0.1},
    "is": {"raining": 0.6, "wet": 0.4},
    "falls": {"end": 0.7, "again": 0.3},
    "raining": {"end": 0.9, "again": 0.1},
}
K, STEPS = 2, 3
TOP, ROW, LEFT, COLUMN = 106, 38, 62, 152
WIDE, HIGH, ROOT = 96, 28, 46


class Grown(NamedTuple):
    """One of the best 2K continuations in a step."""

    words: tuple[str, ...]
    total: float
    fate: str  # "kept", "pool" or "dropped"


def search() -> list[list[Grown]]:
    """Return the best 2K continuations at every step, best first."""
    steps, beam = [], [((), 1.0)]
    for _ in range(STEPS):
        grown = [
            ((*words, word), total * probability)
            for words, total in beam
            for word, probability in WEATHER[words[-1] if words else "start"].items()
        ]
        best = sorted(grown, key=lambda each: -each[1])[: 2 * K]
        beam = [each for each in best if each[0][-1] != "end"][:K]
        steps.append(
            [
                Grown(*each, "kept" if each in beam else "pool" if i < K else "dropped")
                for i, each in enumerate(best)
            ]
        )
    return steps


def greedy() -> tuple[tuple[str, ...], float]:
    """Return the sentence that takes the best word at every step, and its probability."""
    words, total = ["start"], 1.0
    while words[-1] != "end":
        word = max(WEATHER[words[-1]], key=WEATHER[words[-1]].get)
        total *= WEATHER[words[-1]][word]
        words.append(word)
    return tuple(words[1:]), total


def rows(steps: list[list[Grown]]) -> dict[tuple[str, ...], float]:
    """Return the y of every node: leaves below each other, parents next to their first child."""
    nodes = [each.words for step in steps for each in step]
    found, leaves = {}, 0

    def place(words: tuple[str, ...]) -> None:
        nonlocal leaves
        found[words] = TOP + ROW * leaves + HIGH / 2
        below = [each for each in nodes if each[:-1] == words]
        for each in below:
            place(each)
        leaves += not below

    place(())
    return found


def branch(grown: Grown, heights: dict[tuple[str, ...], float]) -> str:
    """Draw one continuation with its word and total, and a line with its probability."""
    step, y = len(grown.words) - 1, heights[grown.words]
    place, words = Box(LEFT + COLUMN * step + 56, y - HIGH / 2, WIDE, HIGH), grown.words[-1]
    start, above = place.x - 56, heights[grown.words[:-1]]
    before = grown.words[-2] if step else "start"
    on_it = grown.words == greedy()[0][: step + 1]
    label = f"{words} {number(grown.total, 3)}"
    looks = {
        "kept": token(place, label, lit=True),
        "pool": cell(place, label, fill=tint(VALUE), stroke=VALUE),
        "dropped": text(place.x + 5, y + 5, label),
    }
    style = {"color": INK, "width": 3.4, "dash": "8 4"} if on_it else {"width": 1.4}
    faint = {"color": SOFT if grown.fate == "dropped" else LINE} | style
    return group(
        path([(start, above), (start + 9, above), (start + 9, y), (place.x - 1, y)], **faint),
        text(place.x - 4, y - 7, f"· {number(WEATHER[before][words])}", anchor="end"),
        looks[grown.fate],
    )


def legend(top: float) -> str:
    """Explain the shapes."""
    kept, pool = Box(20, top, 24, 20), Box(210, top, 24, 20)
    return group(
        rect(kept, fill=LIT_FILL, stroke=INK, width=2.2, radius=7),
        text(kept.right + 8, top + 15, "kept in the beam"),
        cell(pool, fill=tint(VALUE), stroke=VALUE),
        text(pool.right + 8, top + 15, "finished"),
        path([(20, top + 38), (56, top + 38)], color=INK, width=3.4, dash="8 4"),
        text(64, top + 43, "greedy decoding"),
        text(210, top + 43, "no frame: dropped"),
    )


def draw() -> str:
    """Draw three steps of a search with K = 2, and the path of greedy decoding."""
    steps = search()
    heights = rows(steps)
    root, bottom = Box(LEFT - ROOT, TOP, ROOT, HIGH), int(max(heights.values())) + 34
    finished = max((g for step in steps for g in step if g.fate == "pool"), key=lambda g: g.total)
    ends = {"Greedy:": greedy(), f"Beam, K = {K}:": (finished.words, finished.total)}
    return page(
        TITLE,
        DESC,
        bottom + 126,
        *(
            centered(LEFT + COLUMN * step + 56 + WIDE / 2, TOP - 18, f"step {step + 1}", bold=True)
            for step in range(STEPS)
        ),
        *(branch(grown, heights) for step in steps for grown in reversed(step)),
        cell(root, "start"),
        legend(bottom),
        *(
            group(
                text(20, bottom + 82 + 24 * i, name, bold=True),
                text(134, bottom + 82 + 24 * i, f"{' '.join(words)}  {number(total, 3)}"),
            )
            for i, (name, (words, total)) in enumerate(ends.items())
        ),
    )
