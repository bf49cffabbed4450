"""Links to the public issues that the course cites, and to the form for a new issue."""

import os
import re

CITED = re.compile(r"([\w.-]+/[\w.-]+) (pull request )?(#\d+(?:(?:, | and )#\d+)*)")
ADDRESS = re.compile(r"https?://[\w.-]+(:\d+)?(/[\w.~-]+)*")


def with_links(text: str, link: str = "[{}]({})") -> str:
    """Turn every cited issue and pull request in a string into a link.

    Args:
        text: A string that cites issues as ``owner/repository #number``, with one or more numbers.
        link: A format string for a link, filled in with its text and then its address.

    Example:
        >>> with_links("see karpathy/nanoGPT #749")
        'see [karpathy/nanoGPT #749](https://github.com/karpathy/nanoGPT/issues/749)'
    """
    return CITED.sub(lambda cited: _links(link, *cited.groups(default="")), text)


def _links(link: str, repository: str, kind: str, numbers: str) -> str:
    """Return a link for each number; the first link also names the repository."""
    folder = f"https://github.com/{repository}/{'pull' if kind else 'issues'}"
    found = re.sub(r"#(\d+)", lambda n: link.format(n[0], f"{folder}/{n[1]}"), numbers)
    return found.replace("#", f"{repository} {kind}#", 1)


def course_repository() -> str:
    """Return the address of the course's own repository, or "" if none is set.

    Raises:
        ValueError: If the environment variable COURSE_REPOSITORY is not a web address.
    """
    address = os.environ.get("COURSE_REPOSITORY", "").rstrip("/")
    if address and not ADDRESS.fullmatch(address):
        raise ValueError(
            f"COURSE_REPOSITORY is {address!r}, but it must be a web address such as "
            "https://github.com/NAME/COURSE"
        )
    return address


def report_link(chapter: str, repository: str) -> str:
    """Return a link for reporting a mistake in a chapter, to be appended to a line.

    Args:
        chapter: The chapter's file name, which starts with the chapter's number.
        repository: The address of the repository; if it is empty, there is no link.
    """
    title = f"Chapter%20{chapter[:2]}%3A%20"
    return repository and f" · [Report a mistake]({repository}/issues/new?title={title})"
