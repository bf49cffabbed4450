"""Text for language models: the source code of Python's standard library, or Shakespeare."""

import sysconfig
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from course_lib.support.corpora import TEXTS
from course_lib.support.input_checks import check_choice, check_sizes
from course_lib.support.user_folders import data_folder

PRINTABLE = "\n" + "".join(map(chr, range(32, 127)))  # 96 characters
SHAKESPEARE = Path("tinyshakespeare") / "input.txt"
MIN_FILES = 20  # a folder with fewer files is not the standard library


class Characters:
    """A tokenizer that gives each character its own id.

    Args:
        characters: The characters of the vocabulary. They are sorted, and duplicates are left out.

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
        """Return the ids ``(L,)`` of a text's characters.

        Raises:
            ValueError: If the text contains a character that is not in the vocabulary.
        """
        unknown = sorted(set(text) - set(self.characters))
        if unknown:
            raise ValueError(f"{unknown[0]!r} is not one of the {len(self)} characters")
        return torch.tensor([self._ids[character] for character in text], dtype=torch.long)

    def decode(self, ids: Tensor) -> str:
        """Turn ids ``(L,)`` into text; raise ValueError if an id is not in the vocabulary."""
        unknown = [i for i in ids.tolist() if i not in range(len(self))]
        if unknown:
            raise ValueError(f"{unknown[0]} is not an id from 0 to {len(self) - 1}")
        return "".join(self.characters[i] for i in ids.tolist())


@dataclass(frozen=True)
class Text:
    """The ids of a text that is split into a training part and a validation part.

    Args:
        characters: The vocabulary.
        train: Ids of the training part. Shape ``(L,)``.
        val: Ids of the validation part, which shares no file or passage with the training
            part. Shape ``(L,)``.
    """

    characters: Characters
    train: Tensor
    val: Tensor


def library_files(folder: Path | str | None = None) -> tuple[list[Path], list[Path]]:
    """List the modules of Python's standard library for training and for validation.

    A file is used for validation if the checksum of its name ends in 0, which is true for about one
    file in ten. A file thus belongs to the same part in every version of Python. Files with
    characters that are not in ``PRINTABLE`` are left out.

    Args:
        folder: The folder of the library. The default is the running Python's library.

    Raises:
        ValueError: If there are too few files; some Python installations contain none.
    """
    folder = Path(folder or sysconfig.get_path("stdlib"))
    printable = PRINTABLE.encode()
    modules = sorted(folder.glob("*.py"))
    files = [path for path in modules if not path.read_bytes().translate(None, delete=printable)]
    if len(files) < MIN_FILES:
        raise ValueError(
            f"{folder} contains {len(files)} modules of Python's library, but we need {MIN_FILES}; "
            "this Python was installed without their source, so install Python from python.org"
        )
    val = [path for path in files if zlib.crc32(path.name.encode()) % 10 == 0]
    return [path for path in files if path not in val], val


@cache
def read_library(folder: Path | str | None = None) -> Text:
    """Read the source code of Python's standard library; the result is cached.

    Args:
        folder: As in ``library_files``.

    Raises:
        ValueError: For the same reasons as in ``library_files``.
    """
    characters = Characters(PRINTABLE)
    parts = [
        "\n\n".join(path.read_text(encoding="utf-8") for path in files)
        for files in library_files(folder)
    ]
    return Text(characters, *map(characters.encode, parts))


def read_shakespeare(folder: Path | str | None = None) -> Text:
    """Read 1.1 million characters of Shakespeare; the first nine tenths are the training part.

    Args:
        folder: The folder that contains ``tinyshakespeare/input.txt``. The default is the course's
            data folder.

    Raises:
        ValueError: If there is no such file, or it is not valid UTF-8.
    """
    path = Path(folder or data_folder()) / SHAKESPEARE
    if not path.is_file():
        raise ValueError(
            f"{path} does not exist; name the data folder with --data or COURSE_DATA, or leave out "
            "--text shakespeare to use Python's library"
        )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: byte {error.start} is invalid") from None
    characters = Characters(text)
    cut = len(text) * 9 // 10
    return Text(characters, characters.encode(text[:cut]), characters.encode(text[cut:]))


def read_text(name: str, folder: Path | str | None = None) -> Text:
    """Read the text called ``"library"`` or ``"shakespeare"``, the latter from the data folder.

    Raises:
        ValueError: If the name is unknown, or if the text cannot be read.
    """
    check_choice("text", name, TEXTS)
    return read_library() if name == "library" else read_shakespeare(folder)


def side_by_side(ids: Tensor, length: int) -> Tensor:
    """Cut a text ``(L,)`` into windows ``(windows, T + 1)``, so that each token is predicted once.

    Each window begins with the last token of the previous window. If the last tokens of the text do
    not fill a window, they are left out.

    Raises:
        ValueError: If the text is too short for one window.

    Example:
        >>> side_by_side(torch.arange(8), 3)
        tensor([[0, 1, 2, 3],
                [3, 4, 5, 6]])
    """
    check_sizes(length=length)
    if len(ids) <= length:
        raise ValueError(f"{len(ids)} characters are too few for a window of {length} + 1")
    return ids.unfold(0, length + 1, length)
