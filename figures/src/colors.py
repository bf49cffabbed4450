"""Colors that have the same meaning in every drawing of the course."""

import re
from colorsys import hls_to_rgb, rgb_to_hls

INK, LINE, SOFT = "#222222", "#555555", "#9A9A9A"
PAPER, BOX_FILL, LIT_FILL = "#FFFFFF", "#F6F6F6", "#FFF0B3"
QUERY, KEY, VALUE, MASKED = "#0072B2", "#D55E00", "#009E73", "#BBBBBB"  # Okabe-Ito
HATCH = "#777777"  # on what is masked, as in the plots

# Nine evenly spaced colors from two matplotlib color maps; we interpolate between them.
CIVIDIS = "00224e 1a386f 434e6c 61656f 7d7c78 9b9476 bcae6c dec958 fee838".split()
RDBU_R = "053061 2a71b2 6bacd1 c2ddec f7f6f6 fbccb4 e48066 ba2832 67001f".split()


def mix(color: str, other: str, share: float) -> str:
    """Mix a color with another color; share 0 returns the first, and share 1 the second."""
    pairs = zip(_channels(color), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)


def tint(color: str) -> str:
    """Return the pale form of a role's color, for areas behind text."""
    return mix(color, PAPER, 0.8)


def shade(color: str) -> str:
    """Return the dark form of a role's color, for text on white."""
    return mix(color, "#000000", 0.25)


def _channels(color: str) -> list[int]:
    """Return the red, green and blue values of '#RRGGBB'."""
    return [int(color.lstrip("#")[i : i + 2], 16) for i in (0, 2, 4)]


def on_map(value: float, colors: list[str]) -> str:
    """Return the color of a value between 0 and 1 on a color map; it is the same in the dark."""
    place = min(max(value, 0), 1) * (len(colors) - 1)
    low = min(int(place), len(colors) - 2)
    return fixed(mix(colors[low], colors[low + 1], place - low))


def ink_on(color: str) -> str:
    """Return black or white, whichever is easier to read on the color."""
    changes = color.startswith("#")
    red, green, blue = _channels(color) if changes else map(int, re.findall(r"\d+", color))
    ink = INK if 0.3 * red + 0.59 * green + 0.11 * blue > 140 else PAPER
    return ink if changes else fixed(ink)


def fixed(color: str) -> str:
    """Write a color in the form that stays the same in the dark theme."""
    return f"rgb({','.join(map(str, _channels(color)))})"


def dark(color: str) -> str:
    """Return a color of the dark theme: light and dark change places, and the hue stays."""
    hue, light, full = rgb_to_hls(*(part / 255 for part in _channels(color)))
    parts = hls_to_rgb(hue, 0.07 + 0.86 * (1 - light), 0.75 * full)
    return "#" + "".join(f"{round(255 * part):02X}" for part in parts)


def both_themes(drawing: str) -> str:
    """Return the rules that give a drawing the colors of the page's theme.

    A picture in a page follows the color scheme of the page, and so does an inlined drawing.
    """
    used = sorted(set(re.findall(r'(fill|stroke)="(#\w{6})"', drawing)))
    rules = (f'[{n}="{c}"]{{{n}:light-dark({c},{dark(c)})}}' for n, c in used)
    return ":root{color-scheme:light dark}" + "".join(rules)
