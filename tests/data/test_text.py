"""Texts for language models: each file is in one split, and each character has one id."""

import binascii

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parity import says

from course_lib.data import Characters, read_library, read_shakespeare
from course_lib.data.text import MIN_FILES, PRINTABLE, library_files

pytestmark = pytest.mark.usefixtures("no_network")

NAMES = [f"m{number:02}.py" for number in range(40)]
known_text = st.text("aZ09 \t\n~éЖ中\x00", min_size=1, max_size=30)


def fill(folder, names=NAMES, content="name = {name!r}\n"):
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_text(content.format(name=name), encoding="utf-8")
    return folder


@pytest.fixture
def library(tmp_path):
    return fill(tmp_path / "library")


@pytest.fixture
def shakespeare(tmp_path, monkeypatch):
    """Write a small file in place of Shakespeare's works, and return its folder."""
    monkeypatch.delenv("COURSE_DATA", raising=False)
    folder = tmp_path / "data"
    (folder / "tinyshakespeare").mkdir(parents=True)
    path = folder / "tinyshakespeare" / "input.txt"
    path.write_text("To be, or not to be: that is ça.", encoding="utf-8")  # 32 characters
    return folder


def names(files):
    return [path.name for path in files]


# --- characters


@given(known=known_text, data=st.data())
def test_every_text_of_known_characters_survives_the_round_trip(known, data):
    characters = Characters(known)
    whole = data.draw(st.text(alphabet=sorted(set(known)), max_size=50))
    ids = characters.encode(whole)
    assert ids.shape == (len(whole),) and ids.dtype == torch.long
    assert characters.decode(ids) == whole
    assert len(characters) == len(set(known)) == len(characters.characters)
    assert all(0 <= i < len(characters) for i in ids.tolist())


@pytest.mark.parametrize(("unknown", "first"), [("c\tb", r"'\t'"), ("zy", "'y'")])
def test_an_unknown_character_is_named(unknown, first):
    with pytest.raises(ValueError, match=says(first, "3 characters")):
        Characters("abc").encode(unknown)


# --- the split of files


def test_every_plain_file_is_in_one_split_by_the_checksum_of_its_name(library):
    train, val = library_files(library)
    assert names(val) == [n for n in NAMES if binascii.crc32(n.encode()) % 10 == 0]
    assert names(train) == [n for n in NAMES if n not in names(val)]
    assert len(train) > len(val) > 0
    assert all(path.parent == library for path in train + val)


def test_a_folder_with_too_few_modules_is_explained(tmp_path):
    folder = fill(tmp_path / "few", NAMES[: MIN_FILES - 1])
    fill(folder, ["other.txt"])
    with pytest.raises(ValueError, match=says(folder, f" {MIN_FILES - 1} ", "python.org")):
        read_library(folder)
    assert sum(map(len, library_files(fill(folder, NAMES[:MIN_FILES])))) == MIN_FILES


# --- the text of the library


def test_the_library_is_read_file_by_file_in_alphabetical_order(library):
    for place, name in enumerate(NAMES):
        (library / name).write_text(f"# {place}\n~{name}~", encoding="utf-8")
    read = read_library(library)
    assert read.characters.characters == "".join(sorted(PRINTABLE))  # whatever the files contain
    for side, files in zip((read.train, read.val), library_files(library), strict=True):
        assert side.dtype == torch.long and side.dim() == 1
        contents = [f"# {NAMES.index(name)}\n~{name}~" for name in names(files)]
        assert read.characters.decode(side) == "\n\n".join(contents)


# --- Shakespeare


def test_a_missing_file_is_named_with_a_solution(shakespeare):
    path = shakespeare / "tinyshakespeare" / "input.txt"
    path.unlink()
    with pytest.raises(ValueError, match=says(path, "--data", "COURSE_DATA", "--text shakespeare")):
        read_shakespeare(shakespeare)
