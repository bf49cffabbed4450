"""An explorer of masks: which query may look at which key (paper, §3.2.3)."""

from zlib import crc32

import ipywidgets as widgets
import torch
from matplotlib import rc_context
from matplotlib.font_manager import findfont, get_font
from torch import Tensor

from course_lib.interop import to_additive, to_blocked
from course_lib.masks import causal_mask, padding_mask
from course_lib.multi_head import MultiHeadAttention
from course_lib.positions import PositionalEncoding
from course_lib.viz.explorer_base import Explorer, make_axes
from course_lib.viz.mask_table import FONT, draw_row, draw_scale, draw_table
from course_lib.viz.plots import STYLE

PAD = "[pad]"
BOS = "[bos]"
MAX_WORDS = 6
MAX_PADDING = 3
D_MODEL = 16
NUM_HEADS = 2
ENCODER = "encoder self-attention"
DECODER = "decoder self-attention"
CROSS = "cross-attention"
# left, bottom, width, height, in inches
TABLE, WEIGHTS = (1.0, 2.46, 2.34, 2.59), (3.52, 2.46, 2.34, 2.59)
ROW, SCALE = (0.035, 0.05, 6.32, 1.27), (5.95, 2.46, 0.1, 2.59)


def read_words(sentence: str, side: str) -> list[str]:
    """Split a sentence into the words of a table.

    Args:
        sentence: Words with spaces between them. ``[pad]`` is padding.
        side: ``"source"`` or ``"target"``, for the error message.

    Raises:
        ValueError: If there are no words, too many, or a letter that the font does not have.

    Example:
        >>> read_words("forty two", "source")
        ['forty', 'two']
    """
    words = sentence.split()
    if not 1 <= len(words) <= MAX_WORDS:
        raise ValueError(
            f"the {side} has {len(words)} words, “{sentence.strip()}”: type 1 to {MAX_WORDS} words"
        )
    letters = get_font(findfont(FONT))
    for letter in "".join(words):
        if not letters.get_char_index(ord(letter)):
            raise ValueError(f"our font does not contain “{letter}”: remove it from the {side}")
    return words


def small_layer() -> MultiHeadAttention:
    """Make an untrained layer that is always the same, without changing the global random state."""
    generator = torch.Generator().manual_seed(0)
    with torch.random.fork_rng(devices=[]):
        layer = MultiHeadAttention(D_MODEL, NUM_HEADS)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=D_MODEL**-0.5, generator=generator)
    return layer.eval().requires_grad_(False)


def embed(tokens: list[str]) -> Tensor:
    """Turn every word into a random vector, and add its position. Shape ``(1, L, d_model)``."""
    seeds = [crc32(token.encode()) for token in tokens]
    rows = [torch.randn(D_MODEL, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    return PositionalEncoding(D_MODEL, len(tokens))(torch.stack(rows).unsqueeze(0))


def may_look(queries: list[str], keys: list[str], causal: bool) -> Tensor:
    """Build the mask. Shape ``(T, S)``, ``True`` = may look."""
    ids = torch.tensor([[key != PAD for key in keys]]).long()  # (1, S), 0 is padding
    mask = padding_mask(ids, pad_id=0)[0, 0].expand(len(queries), -1)  # (T, S)
    return mask & causal_mask(len(queries)) if causal else mask


def conventions(row: Tensor) -> dict[str, list[str]]:
    """Print one row of a mask, shape ``(S,)``, in three conventions."""
    return {
        "ours": [str(cell) for cell in row.tolist()],
        "nn.MultiheadAttention": [str(cell) for cell in to_blocked(row).tolist()],
        "additive": [f"{cell:g}" for cell in to_additive(row).tolist()],
    }


def count(number: int, thing: str) -> str:
    """Write a number and its noun.

    Example:
        >>> count(2, "later word")
        '2 later words'
    """
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"


def describe(queries: list[str], keys: list[str], mask: Tensor, weights: Tensor, row: int) -> str:
    """Describe one row, from 0, of a mask and its weights ``(T, S)`` in words."""
    visible = mask[row]  # (S,)
    name = f"“{queries[row]}” (row {row + 1} of {len(queries)})"
    is_padding = torch.tensor([key == PAD for key in keys])  # (S,)
    later = int((~visible & ~is_padding).sum())
    padding = int((~visible & is_padding).sum())
    sentence = f"{int(mask.sum())} of {mask.numel()} cells are open. "
    if not visible.any():
        return sentence + f"{name} sees no key: ours returns zeros, nn.MultiheadAttention nan."
    hidden = [count(later, "later word")] if later else []
    hidden += [f"{padding} padding"] if padding else []
    best = int(weights[row].argmax())
    sentence += f"{name} sees {int(visible.sum())} of {count(len(keys), 'key')}; "
    sentence += f"hidden from it: {' and '.join(hidden) or 'nothing'}. "
    sentence += f"Its largest weight, {weights[row, best]:.2f}, goes to “{keys[best]}”."
    if queries[row] == PAD:
        sentence += " It is padding: it may look, but its output is never used."
    return sentence


def describe_leak(queries: list[str], mask: Tensor, weights: Tensor, row: int) -> str:
    """Describe how much weight a real word gives to later words, or return "" for none."""
    later = int(mask[row, row + 1 :].sum())
    if queries[row] == PAD or not later:
        return ""
    leaked = float(weights[row, row + 1 :].sum())
    return f" A leak: {leaked:.2f} of its weight is on {count(later, 'later word')}."


class MaskExplorer(Explorer):
    """Show the masks of two sentences that the reader types.

    The left panel shows the mask, and the right panel the weights of an untrained attention layer,
    averaged over its heads. Below them, the chosen row is printed in each convention.

    Attributes:
        mask: Shape ``(T, S)``, ``True`` = may look.
        weights: Shape ``(T, S)``.
        printed: The chosen row of the mask: a list of S words for each convention.
    """

    def __init__(self) -> None:
        self.layer = small_layer()
        self.typed: dict[str, str] = {}
        *axes, scale = make_axes((6.4, 5.4), TABLE, WEIGHTS, ROW, SCALE)
        with rc_context(fname=STYLE):
            draw_scale(scale)
        super().__init__(make_controls(), axes)
        wrap = widgets.Layout(flex_flow="row wrap", max_width="640px")
        panel = widgets.Box(tuple(self.controls.values()), layout=wrap)
        self.children = (panel, self.sentence, self.picture)

    def redraw(self) -> tuple[str, str]:
        """Draw the mask, the weights and the chosen row."""
        v = self.values()
        tokens = {side: self._tokens(side) for side in ("source", "target")}
        kind = v["attention"]
        decoder = kind == DECODER
        queries = tokens["source" if kind == ENCODER else "target"]
        keys = tokens["target" if decoder else "source"]
        self._disable_unused(kind)
        row = self._fit("position", len(queries)) - 1
        self.mask = may_look(queries, keys, decoder and v["causal"])
        x = embed(queries)
        memory = embed(keys)  # (1, T, d_model), (1, S, d_model)
        _, heads = self.layer(x, memory, memory, self.mask, need_weights=True)
        self.weights = heads[0].mean(dim=0)  # (T, S)
        self.printed = conventions(self.mask[row])
        self._draw(queries, keys, row)
        sentence = describe(queries, keys, self.mask, self.weights, row)
        if decoder:
            sentence += describe_leak(queries, self.mask, self.weights, row)
        lines = "; ".join(f"{name} prints {' '.join(row)}" for name, row in self.printed.items())
        return sentence, f"The table of a {kind}, {len(queries)} by {len(keys)}. {sentence} {lines}"

    def _draw(self, queries: list[str], keys: list[str], row: int) -> None:
        """Draw the three panels."""
        flat = torch.zeros(self.mask.shape)
        blank = [""] * len(queries)
        table, weights, printed = self.axes
        draw_table(flat, self.mask, (queries, keys), row, table, limit=1)
        draw_table(self.weights, self.mask, (blank, keys), row, weights)
        open_cells = f"{int(self.mask.sum())} of {self.mask.numel()}"
        table.set(xlabel="key", ylabel="query", title=f"{open_cells} cells are open")
        table.yaxis.set_label_coords(-0.36, 0.5)
        weights.set(xlabel="key", title="Weights (untrained layer)")
        numbers = {"weights": [f"{weight:.2f}" for weight in self.weights[row].tolist()]}
        draw_row(self.printed | numbers, self.mask[row], keys, printed)

    def _disable_unused(self, kind: str) -> None:
        """Disable the controls that do not affect this attention."""
        self.controls["causal"].disabled = kind != DECODER
        for side, unused_in in (("source", DECODER), ("target", ENCODER)):
            for name in (f"{side} length", f"{side} padding", side):
                self.controls[name].disabled = kind == unused_in

    def _tokens(self, side: str) -> list[str]:
        """Read a sentence up to its length control; a new sentence is read to its end."""
        text = self.controls[side].value
        words = [BOS] * (side == "target") + read_words(text, side)
        length = self._fit(f"{side} length", len(words), self.typed.get(side) != text)
        self.typed[side] = text
        return words[:length] + [PAD] * self.controls[f"{side} padding"].value

    def _fit(self, name: str, top: int, to_top: bool = False) -> int:
        """Set the maximum of a slider, and return its value."""
        slider = self.controls[name]
        slider.max = max(top, 2)  # in the browser, a slider needs two positions
        slider.value = top if to_top else min(slider.value, top)
        return slider.value


def make_controls() -> dict[str, widgets.Widget]:
    """Make the controls, in two columns, with the padded sentence of the chapter."""
    box = dict(style={"description_width": "105px"}, layout=widgets.Layout(width="300px"))
    text = box | dict(continuous_update=False)
    long = dict(min=1, max=MAX_WORDS + 1)
    pad = dict(min=0, max=MAX_PADDING)
    kinds = [ENCODER, DECODER, CROSS]
    return {
        "attention": widgets.Dropdown(description="attention", options=kinds, value=DECODER, **box),
        "causal": widgets.Checkbox(description="hide the future (causal)", value=True, **box),
        "source": widgets.Text(description="source words", value="three hundred five", **text),
        "target": widgets.Text(description="target words", value="drei hundert fünf", **text),
        "source length": widgets.IntSlider(description="source length", value=3, **long, **box),
        "target length": widgets.IntSlider(description="target length", value=4, **long, **box),
        "source padding": widgets.IntSlider(description="source padding", value=1, **pad, **box),
        "target padding": widgets.IntSlider(description="target padding", value=2, **pad, **box),
        "position": widgets.IntSlider(description="row (query)", value=4, min=1, max=6, **box),
    }
