"""Limit the length of what an error message quotes from a user's text."""

import re

QUOTED = 200  # characters of a user's text that an error message quotes


def shortened(sentence: str) -> str:
    """Shorten words that have more than ``QUOTED`` characters."""
    return re.sub(rf"(\S{{{QUOTED}}})\S+", r"\1…", sentence)
