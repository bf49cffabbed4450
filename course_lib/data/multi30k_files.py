"""Multi30k: captions of pictures in German and English, from a folder or downloaded once.

Made by Elliott, Frank, Sima'an and Specia (2016) from Flickr30k, and provided for
"non-commercial research and/or educational purposes". No part of it is in this repository.
"""

import hashlib
import os
import zlib
from pathlib import Path

from course_lib.atomic_write import replacing
from course_lib.data.http_download import fetch

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
NAME = "multi30k"  # the folder's name inside COURSE_DATA
SPLITS = ("train", "val", "test_2016_flickr")
DIRECTIONS = ("de-en", "en-de")
SUMS = {  # sha256 of the unpacked files
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
}
CAPTIONS = (  # our own, German and English; how a translator writes them stands in its entry
    ("Ein Mann fährt Fahrrad.", "A man is riding a bicycle."),
    ("Zwei Hunde spielen im Schnee.", "Two dogs are playing in the snow."),
    ("Eine Frau, die einen roten Hut trägt, liest.", "A woman wearing a red hat is reading."),
    ("Ein Kind hüpft über eine Pfütze.", "A child is jumping over a puddle."),
    ("Die Lehrerin erklärt, warum der Transformer kein Gedächtnis braucht.",
     "The teacher explains why the Transformer needs no memory."),
)  # fmt: skip
MOST_BYTES = 50_000_000  # no file of the corpus is as long, packed or unpacked


def multi30k_folder(folder: Path | str | None = None) -> Path:
    """Find the folder that holds the six files.

    Args:
        folder: The folder itself, or one with a folder ``multi30k`` in it; what the environment
            variable COURSE_DATA names unless given.

    Raises:
        ValueError: If no folder is named, or files are missing from it; the message says which
            and how to get them.
    """
    named = folder or os.environ.get("COURSE_DATA")
    if not named:
        raise ValueError(
            "Multi30k is not part of the course: name its folder with --data or COURSE_DATA, or "
            "download it once (4 MB) with: course download multi30k DIR"
        )
    inside = Path(named) / NAME
    found = inside if inside.is_dir() else Path(named)
    missing = [name for name in SUMS if not (found / name).is_file()]
    if missing:
        raise ValueError(
            f"{found} lacks {', '.join(missing)} of Multi30k; name another folder with --data or "
            f"COURSE_DATA, or download them (4 MB) with: course download multi30k {named}"
        )
    return found


def load_multi30k(
    split: str, *, direction: str = "de-en", folder: Path | str | None = None
) -> list[tuple[str, str]]:
    """Read the sentence pairs of one split, and only that one.

    Args:
        split: ``"train"``, ``"val"``, or ``"test_2016_flickr"``, which is for the last report.
        direction: ``"de-en"`` or ``"en-de"``: source, then target.
        folder: As for ``multi30k_folder``.

    Returns:
        Source and target texts as published, save that one space stands between two words.

    Raises:
        ValueError: If the split or direction is unknown, or the files are missing or not those
            that were published (by their sha256).
    """
    if split not in SPLITS or direction not in DIRECTIONS:
        raise ValueError(
            f"no split {split!r} from and to {direction!r}; there are {', '.join(SPLITS)}, "
            f"and {', '.join(DIRECTIONS)}"
        )
    found = multi30k_folder(folder)
    sides = []
    for language in direction.split("-"):
        content = (found / f"{split}.{language}").read_bytes()
        check_sum(content, f"{split}.{language}", str(found))
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
        sides.append([" ".join(line.split()) for line in lines])
    return list(zip(*sides, strict=True))


def check_sum(content: bytes, name: str, place: str) -> None:
    """Refuse content that is not what was published under a name.

    Raises:
        ValueError: If its sha256 is not the one in ``SUMS``; the message holds both.
    """
    found = hashlib.sha256(content).hexdigest()
    if found != SUMS[name]:
        raise ValueError(
            f"{name} from {place} is not the file of Multi30k that this course was measured on "
            f"(sha256 {found}, not {SUMS[name]}); remove it and get it again"
        )


def download_multi30k(folder: Path | str, *, url: str = URL, timeout: float = 30.0) -> Path:
    """Get the files that are not there yet, check each, and only then put it in its place.

    Stopped at any moment, it leaves whole files and the part of one; called again, it goes on.

    Args:
        folder: Where the folder ``multi30k`` is made, or is already.
        url: Where the packed files are, ``train.de.gz`` and so on.
        timeout: Seconds to wait for a sign of life.

    Returns:
        The folder of the six files.

    Raises:
        ValueError: If a file is not the one published.
        OSError: If the network, the server or the disk fails.
    """
    target = Path(folder) / NAME
    target.mkdir(parents=True, exist_ok=True)
    missing = [name for name in SUMS if not (target / name).is_file()]
    for name in missing:
        part = target / f"{name}.gz.part"
        address = f"{url}/{name}.gz"
        fetch(address, part, timeout=timeout, most=MOST_BYTES)
        packed = part.read_bytes()
        part.unlink()
        content = _unpack(packed, address)
        check_sum(content, name, url)
        with replacing(target / name) as file:
            file.write(content)
    return target


def _unpack(packed: bytes, address: str) -> bytes:
    """Unpack a gzip file, but no more of it than the corpus can hold."""
    try:
        content = zlib.decompressobj(wbits=31).decompress(packed, MOST_BYTES)  # 31: gzip
    except zlib.error as error:
        raise ValueError(f"{address} is no gzip file ({error}); is this the right URL?") from None
    return content
