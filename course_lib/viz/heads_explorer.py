"""An explorer of the attention heads of the trained translator (paper, §3.2.2)."""

from collections.abc import Collection
from dataclasses import dataclass
from functools import cache, partial

import ipywidgets as widgets
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.transforms import Affine2D
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from course_lib.data import LIMIT, check_number_words, spell
from course_lib.data.number_words import read_number
from course_lib.masks import causal_mask
from course_lib.tasks.numbers import Translator, load_or_train
from course_lib.viz.explorer_base import LOOK, Explorer, make_axes
from course_lib.viz.plots import COLOURS, hatched, heatmap

PLACES = {"cross: target to source": "cross", "encoder": "encoder", "decoder": "decoder"}
NAMES = {"cross": "cross-attention", "encoder": "the encoder", "decoder": "the decoder"}
MAX_NEW_TOKENS = 14  # numbers below a million need about 12
MAX_LETTERS = 11  # of a token below the map; next to it, all letters fit
MAX_NUMBERED = 6  # in a map with at most this many rows and columns, cells show their numbers
# left, bottom, width, height, in inches, with room for the longest tokens
HEAD, OVERVIEW = (1.9, 1.45, 2.4, 2.75), (4.95, 1.45, 1.35, 2.75)
EDGE = 0.06  # white margin around each map of the overview, as a fraction of its cell


@dataclass(frozen=True)
class Reading:
    """Store a translation and its attention weights.

    Args:
        source: The source tokens.
        tgt_in: The tokens that the decoder reads, from ``[bos]``.
        tgt_out: The tokens that the decoder predicts, one for each token in ``tgt_in``.
        text: The translation.
        maps: Weights ``(N, H, T, S)`` by place, as in ``attention_maps``.
    """

    source: list[str]
    tgt_in: list[str]
    tgt_out: list[str]
    text: str
    maps: dict[str, Tensor]

    def labels(self, place: str) -> tuple[list[str], list[str]]:
        """Name the queries and the keys of a place; the decoder's queries by what they predict."""
        keys = self.tgt_in if place == "decoder" else self.source
        return (self.source if place == "encoder" else self.tgt_out), keys


def number_words(text: str) -> str:
    """Turn digits or words into the English words of a number.

    Raises:
        ValueError: If the text is not a number below one million. The message gives an example.
    """
    text = " ".join(text.lower().split())
    digits = text.replace(",", "")
    if not (digits.isascii() and digits.isdigit()):
        check_number_words(text)
        return text
    if len(digits.lstrip("0")) >= len(str(LIMIT)):
        raise ValueError(f"{text[:20]} is too large: the number must be in 0 to {LIMIT - 1:,}")
    return spell(int(digits), "en")


def heads_off(attention: nn.Module, heads: Collection[int]) -> RemovableHandle:
    """Switch off some heads until the returned handle is removed; no weight changes.

    Args:
        attention: A ``MultiHeadAttention``. The outputs of these heads are zeros when ``w_o`` reads
            them.
        heads: The heads to switch off, from 0.

    Returns:
        The handle of a hook. Use it with ``with``.
    """

    def zero_heads(_: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        """Replace the outputs of these heads by zeros."""
        joined = args[0].unflatten(-1, (attention.num_heads, -1)).clone()  # (B, T, H, d_v)
        joined[..., list(heads), :] = 0.0
        return (joined.flatten(-2),)  # (B, T, H * d_v)

    return attention.get_submodule("w_o").register_forward_pre_hook(zero_heads)


def attention_of(translator: Translator, place: str, layer: int) -> nn.Module:
    """Return the attention of a place, ``"encoder"``, ``"decoder"`` or ``"cross"``, in a layer."""
    stack = "encoder" if place == "encoder" else "decoder"
    sublayer = "cross_attn" if place == "cross" else "self_attn"
    return translator.model.get_submodule(f"{stack}.layers.{layer}.{sublayer}")


def read_through(
    translator: Translator, text: str, place: str, layer: int, off: Collection[int]
) -> Reading:
    """Translate a text by greedy decoding, with some heads of one layer switched off.

    Args:
        translator: A translator in eval mode.
        text: English number words.
        place: The place of these heads: ``"encoder"``, ``"decoder"`` or ``"cross"``.
        layer: Their layer, from 0.
        off: The heads to switch off, from 0.

    Returns:
        The translation, of at most ``MAX_NEW_TOKENS`` tokens, and its attention weights.
    """
    model = translator.model
    tokenizer = translator.tokenizer
    src = translator.source_ids([text])  # (1, S)
    limit = min(MAX_NEW_TOKENS, translator.config.max_len)
    with torch.no_grad(), heads_off(attention_of(translator, place, layer), off):
        tgt_out = translator.search(src, max_new_tokens=limit)  # (1, T)
        tgt_in = torch.cat([torch.tensor([[tokenizer.bos_id]]), tgt_out[:, :-1]], dim=1)  # (1, T)
        maps = model.attention_maps(src, tgt_in)
    source, read, predicted = (tokenizer.tokens(ids[0]) for ids in (src, tgt_in, tgt_out))
    maps = {name: weights[:, 0] for name, weights in maps.items()}
    return Reading(source, read, predicted, tokenizer.decode(tgt_out[0]), maps)


def draw_head(ax: Axes, reading: Reading, place: str, layer: int, head: int) -> None:
    """Draw the map of one head, queries down and keys across; blocked cells are hatched."""
    rows, columns = reading.labels(place)
    weights = reading.maps[place][layer, head]  # (T, S)
    mask = causal_mask(len(rows)) if place == "decoder" else None
    small = max(len(rows), len(columns)) <= MAX_NUMBERED
    keys = [key if len(key) <= MAX_LETTERS else f"{key[: MAX_LETTERS - 1]}…" for key in columns]
    heatmap(weights, rows, keys, mask=mask, numbers=small, ax=ax)
    ax.tick_params(axis="x", rotation=90)
    ax.set_xlabel(f"key: {'token read' if place == 'decoder' else 'English token'}")
    ax.set_ylabel(f"query: {'English token' if place == 'encoder' else 'about to write'}")
    ax.set_title(f"Head {head} of layer {layer}, {NAMES[place]}")


def draw_overview(
    ax: Axes, reading: Reading, place: str, chosen: tuple[int, int], off: Collection[int]
) -> None:
    """Draw small maps of all heads, frame the chosen one, and mark those that are off."""
    maps = reading.maps[place]  # (N, H, T, S)
    layers, heads = maps.shape[:2]
    for layer in range(layers):
        for head in range(heads):
            sides = (layer + EDGE, layer + 1 - EDGE, head + 1 - EDGE, head + EDGE)
            image = maps[layer, head].numpy()
            ax.imshow(image, vmin=0, vmax=1, cmap="cividis", extent=sides, aspect="auto")
            if place == "decoder":
                later = hatched(~causal_mask(len(image)))
                later.set(fill=True, facecolor=COLOURS["masked"])
                small = Affine2D().translate(0.5, 0.5).scale((1 - 2 * EDGE) / len(image))
                later.set_transform(small.translate(layer + EDGE, head + EDGE) + ax.transData)
                ax.add_artist(later)
    white = dict(boxstyle="square,pad=0.15", fc="white", ec="black")
    for head in off:
        ax.text(chosen[0] + 0.5, head + 0.5, "off", ha="center", va="center", bbox=white)
    ax.add_patch(Rectangle(chosen, 1, 1, fill=False, lw=2.5, ec="black", clip_on=False))
    ax.set(xlim=(0, layers), ylim=(heads, 0))
    ax.set_xticks([n + 0.5 for n in range(layers)], [f"layer {n}" for n in range(layers)])
    ax.set_yticks([n + 0.5 for n in range(heads)], [f"head {n}" for n in range(heads)])
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def describe_head(reading: Reading, place: str, layer: int, head: int) -> str:
    """Describe the largest weight of a head in words.

    The decoder's first row counts only if there are no others, because it has only one key.
    """
    rows, columns = reading.labels(place)
    weights = reading.maps[place][layer, head]  # (T, S)
    first = int(place == "decoder" and len(rows) > 1)
    row, column = divmod(int(weights[first:].argmax()), len(columns))
    row += first
    doing = "reading" if place == "encoder" else "about to write"
    return (
        f"Head {head} of layer {layer} looks most sharply when {doing} “{rows[row]}”: "
        f"{weights[row, column]:.2f} on “{columns[column]}”."
    )


class HeadsExplorer(Explorer):
    """Show the attention weights of the trained translator, and what it writes without some heads.

    The translator is that of chapter 11. If it does not exist yet, it is trained in half a minute.
    The switches act on the heads of the chosen place and layer.
    """

    def __init__(self) -> None:
        self.translator = load_or_train()
        config = self.translator.config
        self.reading = cache(partial(read_through, self.translator))
        depth = config.num_layers - 1
        heads = config.num_heads
        box = dict(indent=False, layout=widgets.Layout(width="115px"))
        number = dict(value="three hundred forty-five", continuous_update=False)
        controls = {
            "text": widgets.Text(description="number", **number, **LOOK),
            "place": widgets.Dropdown(options=PLACES, description="attention", **LOOK),
            "layer": widgets.IntSlider(depth, 0, depth, description="layer", **LOOK),
            "head": widgets.IntSlider(0, 0, heads - 1, description="head to look at", **LOOK),
        }
        self.switches = [widgets.Checkbox(description=f"head {n} off", **box) for n in range(heads)]
        named = {f"off{n}": switch for n, switch in enumerate(self.switches)}
        super().__init__(controls | named, make_axes((6.4, 4.6), HEAD, OVERVIEW))
        row = widgets.HBox(self.switches)
        self.children = [*controls.values(), row, self.sentence, self.picture]

    def redraw(self) -> tuple[str, str]:
        """Draw the chosen head and an overview, and compare the translations."""
        v = self.values()
        text = number_words(v["text"])
        place = v["place"]
        layer = v["layer"]
        off = tuple(n for n, switch in enumerate(self.switches) if switch.value)
        whole = self.reading(text, "cross", 0, ())
        cut = self.reading(text, place, layer, off) if off else whole
        draw_head(self.axes[0], cut, place, layer, v["head"])
        draw_overview(self.axes[1], cut, place, (layer, v["head"]), off)
        right = spell(read_number(text), self.translator.config.to)
        outcome = f"“{text}” becomes {_judged(whole, right)}"
        if off:
            heads = f"head{'s' * (len(off) > 1)} {', '.join(map(str, off))}"
            outcome += f"; without {heads} of layer {layer} in {NAMES[place]}, "
            outcome += _judged(cut, right)
        largest = describe_head(cut, place, layer, v["head"])
        alt = f"The attention map of one head, next to all maps of {NAMES[place]}. "
        return f"{outcome}. {largest}", f"{alt}{largest} {outcome}."

    def plain_text(self) -> str:
        """Return the alt text without numbers, which depend on the machine."""
        place = NAMES[self.controls["place"].value]
        return f"The attention map of one head of the translator, next to all maps of {place}."


def _judged(reading: Reading, right: str) -> str:
    """Quote a translation, and say whether it is right."""
    quoted = f"“{reading.text}”" if reading.text else "nothing at all"
    if reading.tgt_out[-1] != "[eos]":
        quoted += f", cut after {len(reading.tgt_out)} tokens without an end"
    return f"{quoted} ({'right' if reading.text == right else 'wrong'})"
