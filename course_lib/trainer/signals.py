"""How a training ends before its end: after a step, or at once, and never without a word."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

STOPPED = 130  # the exit code after Ctrl-C


@contextmanager
def graceful_shutdown(*, patient: bool = False) -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C (and a plain kill) ask for a stop after the step; a second one stops at once.

    Args:
        patient: Whether a second one is the first again: both the terminal and ``torchrun`` tell
            every process.
    """
    asked = []

    def ask(number: int, frame: Any) -> None:
        """Remember the first signal; obey the second."""
        if asked and not patient:
            raise KeyboardInterrupt
        asked.append(number)

    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.signal(number, ask) for number in signals}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stopped_at_once(checkpoint: Path) -> int:
    """Say what is kept after a stop that did not wait for a step; return the exit code."""
    kept = "nothing is kept yet"
    if checkpoint.exists():
        kept = f"{checkpoint} is as it was kept last, and --resume goes on from it"
    print(f"\nstopped at once; {kept}", file=sys.stderr)
    return STOPPED
