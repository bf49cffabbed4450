"""Plots in the course's style, and interactive explorers."""

from course_lib.viz.plots import (
    COLORS,
    COLOURS,
    bars,
    curves,
    heatmap,
    probe_picture,
    show,
    use_course_style,
)

__all__ = [
    "COLORS",
    "COLOURS",
    "bars",
    "curves",
    "heatmap",
    "probe_picture",
    "show",
    "use_course_style",
]
