"""Type a number, look through every head of the translator, and switch heads off (§3.2.2)."""

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
LONGEST = 14  # tokens written, at most; numbers below a million need up to 12 or so
ROOM = 11  # letters of a piece below the map; beside it there is room for all
SMALL = 6  # up to so many cells in a row, their values are written into them
# left, bottom, width, height, in inches: room for the longest pieces
HEAD, OVERVIEW = (1.9, 1.45, 2.4, 2.75), (4.95, 1.45, 1.35, 2.75)
EDGE = 0.06  # white around each map of the overview, a share of its place


@dataclass(frozen=True)
class Reading:
    """Keep what the translator made of a text, and where it looked.

    Args:
        source: The pieces it read.
        read: The pieces the decoder read, from ``[bos]``.
        written: The pieces it wrote, one after each piece read.
        text: The translation.
        maps: Weights ``(N, H, T, S)`` by place, as ``attention_maps`` gives them.
    """

    source: list[str]
    read: list[str]
    written: list[str]
    text: str
    maps: dict[str, Tensor]

    def words(self, place: str) -> tuple[list[str], list[str]]:
        """Name the queries and the keys of a place; those that write, after what they write."""
        keys = {"encoder": self.source, "decoder": self.read, "cross": self.source}[place]
        return (self.source if place == "encoder" else self.written), keys


def number_words(text: str) -> str:
    """Turn what somebody typed, digits or words, into English words.

    Raises:
        ValueError: If it is no number below one million; the message says what to write.
    """
    text = " ".join(text.lower().split())
    digits = text.replace(",", "")
    if not (digits.isascii() and digits.isdigit()):
        check_number_words(text)
        return text
    if len(digits.lstrip("0")) >= len(str(LIMIT)):
        raise ValueError(f"{text[:20]} is too large: the translator knows 0 to {LIMIT - 1:,}")
    return spell(int(digits), "en")


def heads_off(attention: nn.Module, heads: Collection[int]) -> RemovableHandle:
    """Take away what some heads contribute, while the context lasts; no weight is touched.

    Args:
        attention: A ``MultiHeadAttention``. What these heads hand to its ``w_o`` becomes zero.
        heads: Which, from 0.

    Returns:
        The context, to be entered by ``with``.
    """

    def blank(_: nn.Module, args: tuple[Tensor]) -> tuple[Tensor]:
        """Put zeros where these heads stand among the joined ones."""
        joined = args[0].unflatten(-1, (attention.num_heads, -1)).clone()  # (B, T, H, d_v)
        joined[..., list(heads), :] = 0.0
        return (joined.flatten(-2),)  # (B, T, H * d_v)

    return attention.w_o.register_forward_pre_hook(blank)


def attention_of(translator: Translator, place: str, layer: int) -> nn.Module:
    """Return the attention of a place, ``"encoder"``, ``"decoder"`` or ``"cross"``, in a layer."""
    model = translator.model
    if place == "encoder":
        return model.encoder.layers[layer].self_attn
    return getattr(model.decoder.layers[layer], {"decoder": "self_attn"}.get(place, "cross_attn"))


def read_through(
    translator: Translator, text: str, place: str, layer: int, off: Collection[int]
) -> Reading:
    """Translate a text by greedy decoding, some heads of one layer switched off.

    Args:
        translator: In eval mode; it is left as it was.
        text: English number words.
        place: Where heads are switched off: ``"encoder"``, ``"decoder"`` or ``"cross"``.
        layer: In which layer of it, from 0.
        off: Which heads, from 0.

    Returns:
        The translation, of at most ``LONGEST`` tokens, and the maps of that very pass.
    """
    model = translator.model
    tokenizer = translator.tokenizer
    src = translator.source_ids([text])  # (1, S)
    limit = min(LONGEST, translator.config.max_len)
    with torch.no_grad(), heads_off(attention_of(translator, place, layer), off):
        written = translator.search(src, max_new_tokens=limit)  # (1, T)
        tgt_in = torch.cat([torch.tensor([[tokenizer.bos_id]]), written[:, :-1]], dim=1)  # (1, T)
        maps = model.attention_maps(src, tgt_in)
    source, read, wrote = (tokenizer.tokens(ids[0]) for ids in (src, tgt_in, written))
    maps = {name: weights[:, 0] for name, weights in maps.items()}
    return Reading(source, read, wrote, tokenizer.decode(written[0]), maps)


def draw_head(ax: Axes, reading: Reading, place: str, layer: int, head: int) -> None:
    """Draw the map of one head, queries down and keys across; what it may not see is hatched."""
    rows, columns = reading.words(place)
    weights = reading.maps[place][layer, head]  # (T, S)
    mask = causal_mask(len(rows)) if place == "decoder" else None
    small = max(len(rows), len(columns)) <= SMALL
    keys = [key if len(key) <= ROOM else f"{key[: ROOM - 1]}…" for key in columns]
    heatmap(weights, rows, keys, mask=mask, numbers=small, ax=ax)
    ax.tick_params(axis="x", rotation=90)
    ax.set_xlabel(f"key: {'token read' if place == 'decoder' else 'English token'}")
    ax.set_ylabel(f"query: {'English token' if place == 'encoder' else 'about to write'}")
    ax.set_title(f"Head {head} of layer {layer}, {NAMES[place]}")


def draw_overview(
    ax: Axes, reading: Reading, place: str, chosen: tuple[int, int], off: Collection[int]
) -> None:
    """Draw the maps of all layers and heads small, frame the chosen one, and say which are off."""
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
    """Say where the head looks most sharply, with its weight.

    On the first row of the decoder nothing can be chosen; it counts only where it stands alone.
    """
    rows, columns = reading.words(place)
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
    """Show where every head of the trained translator looks, and what it writes without some.

    It takes the translator that chapter 11 left; if there is none it is trained, in half a
    minute. The switches act on the heads of the chosen place and layer.
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
        self.children = [*controls.values(), row, self.words, self.picture]

    def redraw(self) -> tuple[str, str]:
        """Draw the chosen head and all others; say what is written with and without those off."""
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
        said = f"“{text}” becomes {_judged(whole, right)}"
        if off:
            names = ", ".join(map(str, off))
            said += (
                f"; without head{'s' * (len(off) > 1)} {names} of layer {layer} in {NAMES[place]}, "
            )
            said += _judged(cut, right)
        looks = describe_head(cut, place, layer, v["head"])
        alt = f"The attention map of one head, beside all maps of {NAMES[place]}. "
        return f"{said}. {looks}", f"{alt}{looks} {said}."

    def plain_text(self) -> str:
        """Leave out the weight, which depends on how this machine trained the translator."""
        place = NAMES[self.controls["place"].value]
        return f"The attention map of one head of the translator, next to all maps of {place}."


def _judged(reading: Reading, right: str) -> str:
    """Quote a translation, and say whether it is right."""
    quoted = f"“{reading.text}”" if reading.text else "nothing at all"
    if reading.written[-1] != "[eos]":
        quoted += f", cut after {len(reading.written)} tokens without an end"
    return f"{quoted} ({'right' if reading.text == right else 'wrong'})"
