"""Text to continue: the source code of Python's own standard library, or a file of Shakespeare."""

import os
import sysconfig
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

PRINTABLE = "\n" + "".join(map(chr, range(32, 127)))  # 96 characters
SHAKESPEARE = Path("tinyshakespeare") / "input.txt"
FEWEST = 20  # files; with fewer, this is no standard library


class Characters:
    """Turn text into ids and back, one id for each character.

    Args:
        characters: Those it knows; each counts once, sorted.

    Example:
        >>> Characters("banana").encode("nab")
        tensor([2, 0, 1])
    """

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = "".join(sorted(set(characters)))
        self._ids = {character: i for i, character in enumerate(self.characters)}

    def __len__(self) -> int:
        return len(self.characters)

    def encode(self, text: str) -> Tensor:
        """Return the ids ``(L,)`` of a text.

        Raises:
            ValueError: If it holds a character that is not known; the message names it.
        """
        unknown = sorted(set(text) - set(self.characters))
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of the {len(self)} characters")
        return torch.tensor([self._ids[character] for character in text], dtype=torch.long)

    def decode(self, ids: Tensor) -> str:
        """Return the text of ids ``(L,)``."""
        return "".join(self.characters[i] for i in ids.tolist())


@dataclass(frozen=True)
class Text:
    """Hold a text in ids, in two parts that share no file or passage.

    Args:
        characters: What turns ids into text.
        train: To learn from. Shape ``(L,)``.
        val: To choose by. Shape ``(L,)``.
    """

    characters: Characters
    train: Tensor
    val: Tensor


def library_files(folder: Path | str | None = None) -> tuple[list[Path], list[Path]]:
    """List the modules of Python's standard library, to learn from and to choose by, by name.

    A file belongs to val if the check sum of its name ends in 0, about one in ten: a file keeps
    its side in every version of Python. Files with other characters than ``PRINTABLE`` are left
    out.

    Args:
        folder: That of this Python's library unless given.

    Raises:
        ValueError: If there are not enough files; some installations keep none.
    """
    folder = Path(folder or sysconfig.get_path("stdlib"))
    known = PRINTABLE.encode()
    every = sorted(folder.glob("*.py"))
    files = [path for path in every if not path.read_bytes().translate(None, delete=known)]
    if len(files) < FEWEST:
        raise ValueError(
            f"{folder} holds {len(files)} readable modules of Python's library, fewer than "
            f"{FEWEST}; this Python was installed without their source: take one from python.org"
        )
    val = [path for path in files if zlib.crc32(path.name.encode()) % 10 == 0]
    return [path for path in files if path not in val], val


@cache
def read_library(folder: Path | str | None = None) -> Text:
    """Read the standard library of the Python that runs this, once: it does not change meanwhile.

    Args:
        folder: As in ``library_files``.

    Raises:
        ValueError: As ``library_files``.
    """
    characters = Characters(PRINTABLE)
    sides = [
        "\n\n".join(path.read_text(encoding="utf-8") for path in files)
        for files in library_files(folder)
    ]
    return Text(characters, *map(characters.encode, sides))


def read_shakespeare(folder: Path | str | None = None) -> Text:
    """Read 1.1 million characters of Shakespeare; the first nine tenths are to learn from.

    Args:
        folder: Where ``tinyshakespeare/input.txt`` is; what COURSE_DATA names unless given.

    Raises:
        ValueError: If no folder is named, or the file is not there.
    """
    folder = folder or os.environ.get("COURSE_DATA")
    if not folder:
        raise ValueError("no folder with data: pass --data DIR, or set COURSE_DATA")
    path = Path(folder) / SHAKESPEARE
    if not path.is_file():
        raise ValueError(f"there is no {path}; leave out --text shakespeare to learn from Python")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is no text in UTF-8: byte {error.start} is none") from None
    characters = Characters(text)
    cut = len(text) * 9 // 10
    return Text(characters, characters.encode(text[:cut]), characters.encode(text[cut:]))


def read_text(name: str, folder: Path | str | None = None) -> Text:
    """Read ``"library"``, or from a folder of data ``"shakespeare"``.

    Raises:
        ValueError: As ``read_library`` and ``read_shakespeare``.
    """
    return read_library() if name == "library" else read_shakespeare(folder)


def side_by_side(ids: Tensor, length: int) -> Tensor:
    """Cut a text ``(L,)`` into windows ``(windows, T + 1)`` that share no prediction.

    Each begins with the last token of the one before; a rest too short for a window is left out.

    Raises:
        ValueError: If the text is too short for one window.

    Example:
        >>> side_by_side(torch.arange(8), 3)
        tensor([[0, 1, 2, 3],
                [3, 4, 5, 6]])
    """
    if len(ids) <= length:
        raise ValueError(f"{len(ids)} characters hold no window of {length} + 1")
    return ids.unfold(0, length + 1, length)
