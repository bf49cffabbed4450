"""The result of a probe: whether it passed, and what it found."""

import html
from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class ProbeResult:
    """The result of one probe, which a notebook shows as a line with a colored edge.

    Args:
        name: Name of the probe.
        passed: Whether the probe passed.
        hint: What the probe found and, if it failed, where to look.
        data: The numbers behind the hint; ``course_lib.viz.probe_picture`` draws some of them.
    """

    name: str
    passed: bool
    hint: str
    data: object = None

    def __repr__(self) -> str:
        """Show the result as a line of text."""
        return f"{'✓' if self.passed else '✗'} {self.name}: {self.hint}"

    def _repr_html_(self) -> str:
        """Show the result as a line with a colored edge."""
        color = "#009E73" if self.passed else "#D55E00"
        style = f"border-left: 4px solid {color}; padding: 4px 12px"
        return f'<div role="status" style="{style}">{html.escape(str(self))}</div>'
