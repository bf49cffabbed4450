"""Multi30k: picture captions in German and English, read from a folder or downloaded once.

The corpus was made by Elliott, Frank, Sima'an and Specia (2016) from Flickr30k, and is provided for
"non-commercial research and/or educational purposes". This repository quotes five of the captions
(``course_lib/records/multi30k_translations.json``) and contains nothing else from it.
"""

import gzip
import zlib
from io import BytesIO
from pathlib import Path

import pooch

from course_lib.data.limited_progress import LimitedProgress
from course_lib.support.corpora import DIRECTIONS, SPLITS
from course_lib.support.terminal import as_typed
from course_lib.support.user_folders import data_folder

URL = "https://raw.githubusercontent.com/multi30k/dataset/master/data/task1/raw"
NAME = "multi30k"  # the folder's name inside the data folder
SUMS = {  # sha256 of the unpacked files
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
}
CAPTIONS = (  # our own, German and English; the records show how a translator translates them
    ("Ein Mann fährt Fahrrad.", "A man is riding a bicycle."),
    ("Zwei Hunde spielen im Schnee.", "Two dogs are playing in the snow."),
    ("Eine Frau, die einen roten Hut trägt, liest.", "A woman wearing a red hat is reading."),
    ("Ein Kind hüpft über eine Pfütze.", "A child is jumping over a puddle."),
    ("Die Lehrerin erklärt, warum der Transformer kein Gedächtnis braucht.",
     "The teacher explains why the Transformer needs no memory."),
)  # fmt: skip
MAX_BYTES = 50_000_000  # larger than any file of the corpus, compressed or not


def multi30k_folder(folder: Path | str | None = None) -> Path:
    """Find the folder that contains the six files of the corpus.

    Args:
        folder: The corpus folder, or the folder that contains it under the name ``multi30k``. The
            default is the course's data folder.

    Raises:
        ValueError: If files are missing; the message says which files, and how to get them.
    """
    named = Path(folder or data_folder())
    inside = named / NAME
    corpus = inside if inside.is_dir() else named
    missing = [name for name in SUMS if not (corpus / name).is_file()]
    if missing:
        download = as_typed("download", "multi30k", *([str(folder)] if folder else []))
        raise ValueError(
            f"{corpus} lacks {', '.join(missing)} from Multi30k; name another folder with --data "
            f"or COURSE_DATA, or download the corpus once (4 MB) with `{download}`"
        )
    return corpus


def load_multi30k(
    split: str, *, direction: str = "de-en", folder: Path | str | None = None
) -> list[tuple[str, str]]:
    """Read the sentence pairs of one split, without reading the other splits.

    Args:
        split: ``"train"``, ``"val"``, or ``"test_2016_flickr"``, which is for the final report.
        direction: ``"de-en"`` or ``"en-de"``: source, then target.
        folder: As in ``multi30k_folder``.

    Returns:
        The published source and target texts, but with exactly one space between words.

    Raises:
        ValueError: If the split or the direction is unknown, or if files are missing or do not
            have the sha256 of the published ones.
    """
    if split not in SPLITS or direction not in DIRECTIONS:
        raise ValueError(
            f"there is no split {split!r} in the direction {direction!r}; choose one of "
            f"{', '.join(SPLITS)} and one of {', '.join(DIRECTIONS)}"
        )
    corpus = multi30k_folder(folder)
    sides = []
    for language in direction.split("-"):
        path = corpus / f"{split}.{language}"
        actual = pooch.file_hash(path)
        if actual != SUMS[path.name]:
            raise ValueError(
                f"{path} is not the Multi30k file that our results were measured on (sha256 "
                f"{actual} instead of {SUMS[path.name]}); remove it and download it again"
            )
        lines = path.read_bytes().decode("utf-8").removesuffix("\n").split("\n")
        sides.append([" ".join(line.split()) for line in lines])
    return list(zip(*sides, strict=True))


def download_multi30k(folder: Path | str | None = None, *, url: str = URL) -> Path:
    """Download the files that are missing or changed, and check the digest of each.

    A file gets its final name only when it is complete and has the expected digest, so you can
    stop the download at any time and call this function again.

    Args:
        folder: The folder that contains the folder ``multi30k``, which is returned. The default
            is the course's data folder.
        url: The address of the compressed files, such as ``train.de.gz``.

    Raises:
        ValueError: If a file does not have the expected digest.
        OSError: If the network, the server or the disk fails.
    """
    target = Path(folder or data_folder()) / NAME
    addresses = {name: f"{url}/{name}.gz" for name in SUMS}
    corpus = pooch.create(target, url, registry=SUMS, urls=addresses)

    def download_unpacked(address: str, output_file: str, corpus: pooch.Pooch) -> None:
        """Download a compressed file, and write its uncompressed content."""
        packed = BytesIO()
        with LimitedProgress(desc=Path(address).name, unit="B", unit_scale=True) as progress:
            progress.max_bytes = MAX_BYTES
            pooch.HTTPDownloader(progressbar=progress)(address, packed, corpus)
        with gzip.open(BytesIO(packed.getvalue())) as content:
            Path(output_file).write_bytes(content.read(MAX_BYTES))

    for name in SUMS:
        try:
            corpus.fetch(name, downloader=download_unpacked)
        except (OSError, EOFError, zlib.error) as error:  # of the network, the disk, or gzip
            raise OSError(
                f"{addresses[name]} could not be downloaded ({error}); are you online? Fully "
                f"downloaded files stay in {target}: try again, or copy the rest from another "
                f"computer"
            ) from error
    return target
