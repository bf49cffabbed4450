"""Plots in the course's style, and interactive explorers."""

from course_lib.viz.plots import (
    COLORS,
    bars,
    curves,
    heatmap,
    probe_picture,
    show,
    use_course_style,
)

__all__ = [
    "COLORS",
    "bars",
    "curves",
    "heatmap",
    "probe_picture",
    "show",
    "use_course_style",
]
