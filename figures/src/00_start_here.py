"""Chapter 00: the map of the model."""

from architecture import FRAME, LEFT, LOGITS, RIGHT, TOKENS_Y, architecture
from colours import KEY, QUERY, VALUE, shade
from drawing import Box, arrow, centred, group, page, path, rect, text
from model_parts import badge, block, look, mask_grid
from token_cells import token

TITLE = "An encoder reads, a decoder writes, and at every step\nattention decides what to look at"
DESC = (
    "The Transformer from bottom to top: on the left, source tokens pass embedding, "
    "positional encoding and N encoder layers and become memory; on the right, the target so "
    "far passes N decoder layers, which also look at memory, and becomes output logits for "
    "training and decoding, which may keep a cache. Below, a model without a source: decoder "
    "only, which becomes a GPT and then modern models. In the last row, for all: efficiency "
    "and distributed training. Every part carries the number of the chapter that builds it."
)
TRAINING, DECODING = Box(12, 70, 134, 46), Box(158, 70, 134, 46)
CACHE, BEAMS = Box(304, 70, 136, 46), Box(452, 70, 160, 46)
SOURCE, TARGET = Box(LEFT - 95, TOKENS_Y, 190, 30), Box(RIGHT - 95, TOKENS_Y, 190, 30)
EVALUATION = Box(254, TOKENS_Y, 106, 30)
REAL = Box(SOURCE.x, SOURCE.bottom + 30, 190, 30)
WITHOUT_SOURCE_Y = REAL.bottom + 16
DECODER_ONLY, GPT = Box(12, WITHOUT_SOURCE_Y, 190, 46), Box(214, WITHOUT_SOURCE_Y, 196, 46)
LATER = Box(422, WITHOUT_SOURCE_Y, 190, 46)
WEIGHTS, EFFICIENCY = Box(12, LATER.bottom + 12, 188, 46), Box(210, LATER.bottom + 12, 174, 46)
SCALING = Box(394, LATER.bottom + 12, 218, 46)
OUTSIDE = 627  # where the loop of decoding runs down


def use(box: Box, name: str, what: str, chapter: str, lit: str | None) -> str:
    """Draw one of the things around the model."""
    return group(
        rect(box, radius=7, **look(chapter, lit)),
        text(box.x + 10, box.y + 19, name, bold=True),
        text(box.x + 10, box.y + 37, what),
        badge(box.right - 17, box.y + 17, chapter, lit),
    )


def uses(lit: str | None) -> str:
    """Draw training and decoding, and the loop that feeds a chosen token back."""
    fork = FRAME.y - 10
    return group(
        path([(RIGHT, LOGITS.y), (RIGHT, fork), (DECODING.cx, fork)]),
        arrow([(DECODING.cx, fork), (TRAINING.cx, fork), (TRAINING.cx, TRAINING.bottom)]),
        arrow([(DECODING.cx, fork), (DECODING.cx, DECODING.bottom)]),
        use(TRAINING, "Training", "from pairs", "10", lit),
        use(DECODING, "Decoding", "by tokens", "11", lit),
        use(CACHE, "KV cache", "read once", "12", lit),
        use(BEAMS, "Beam search", "K hypotheses", "13", lit),
        arrow([(DECODING.right, DECODING.cy), (CACHE.x, CACHE.cy)], dash="5 4"),
        arrow([(CACHE.right, CACHE.cy), (BEAMS.x, BEAMS.cy)], dash="5 4"),
        arrow(
            [(BEAMS.right, BEAMS.cy), (OUTSIDE, BEAMS.cy), (OUTSIDE, TARGET.cy)]
            + [(TARGET.right, TARGET.cy)],
            dash="5 4",
        ),
    )


def evaluation(lit: str | None) -> str:
    """Draw what is done with a target that is written: compare it with the right one."""
    box = EVALUATION
    return group(
        block(box, "Evaluation", "14", lit),
        badge(box.cx, box.bottom + 17, "14", lit),
        arrow([(TARGET.x, box.cy), (box.right, box.cy)]),
    )


def real_sentences(lit: str | None) -> str:
    """Draw what may stand in place of number words."""
    return group(
        rect(REAL, radius=7, **look("16", lit)),
        centred(REAL.cx, REAL.cy, "Ein Mann fährt Fahrrad."),
        badge(REAL.right + 16, REAL.cy, "16", lit),
    )


def without_source(lit: str | None) -> str:
    """Draw what becomes of the model when there is only one text, to read and to write."""
    return group(
        use(DECODER_ONLY, "Decoder only", "reads no source", "17", lit),
        use(GPT, "GPT", "writes text", "18", lit),
        use(LATER, "Modern models", "exchange parts", "19", lit),
        arrow([(DECODER_ONLY.right, GPT.cy), (GPT.x, GPT.cy)]),
        arrow([(GPT.right, GPT.cy), (LATER.x, GPT.cy)]),
    )


def all_models(lit: str | None) -> str:
    """Draw what is said of every model: whose weights, how it is computed, and by how many."""
    return group(
        use(WEIGHTS, "Published weights", "on your own class", "20", lit),
        use(EFFICIENCY, "Efficiency", "less time", "21", lit),
        use(SCALING, "Distributed training", "many processes", "22", lit),
    )


def legend(x: float, y: float) -> str:
    """Explain the signs of the map."""
    roles = (("Q", QUERY, "query: what a position asks for"),)
    roles += (("K", KEY, "key: what a position offers"),)
    roles += (("V", VALUE, "value: what a position says"),)
    return group(
        badge(x + 12, y, "05"),
        text(x + 36, y + 5, "the chapter that builds the part"),
        mask_grid(x - 1, y + 18, "both"),
        text(x + 36, y + 36, "mask: hatched, may not look"),
        *(
            group(
                text(x + 12, y + 67 + 26 * i, name, bold=True, anchor="middle", colour=shade(role)),
                text(x + 36, y + 67 + 26 * i, words),
            )
            for i, (name, role, words) in enumerate(roles)
        ),
    )


def draw(lit: str | None = None) -> str:
    """Draw every part of the model with the number of the chapter that builds it.

    Args:
        lit: The two digits of a chapter, whose parts are then lit.
    """
    return page(
        TITLE,
        DESC,
        SCALING.bottom + 16,
        architecture(lit),
        uses(lit),
        legend(30, 196),
        token(SOURCE, "three hundred forty-five"),
        token(TARGET, "dreihundertfünf"),
        evaluation(lit),
        real_sentences(lit),
        without_source(lit),
        all_models(lit),
        text(SOURCE.cx, SOURCE.bottom + 19, "source, or real sentences", anchor="middle"),
        text(TARGET.cx, TARGET.bottom + 19, "target so far", anchor="middle"),
    )
