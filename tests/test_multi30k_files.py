"""Real sentences come from a folder or from a server, whole and the right ones, or not at all."""

import gzip
import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from course_lib.data import multi30k_files as multi30k
from course_lib.data.multi30k_files import download_multi30k, load_multi30k, multi30k_folder

LINES = {"train": 3, "val": 2, "test_2016_flickr": 1}


def content(name: str) -> bytes:
    """Write a small stand-in for a file of the corpus, with what real lines hold."""
    split, language = name.split(".")
    lines = [f"{language}  {split} {n}, «Straße»\x85 a\u2028b " for n in range(LINES[split])]
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture
def small(monkeypatch):
    """Let the course take a corpus of six lines for the real one."""
    sums = {name: hashlib.sha256(content(name)).hexdigest() for name in multi30k.SUMS}
    monkeypatch.setattr(multi30k, "SUMS", sums)
    monkeypatch.delenv("COURSE_DATA", raising=False)


@pytest.fixture
def folder(small, tmp_path):
    """Put the small corpus on the disk."""
    target = tmp_path / "data" / "multi30k"
    target.mkdir(parents=True)
    for name in multi30k.SUMS:
        (target / name).write_bytes(content(name))
    return target


class Quiet(SimpleHTTPRequestHandler):
    """Serve a folder without a word."""

    def log_message(self, *args):
        pass


@pytest.fixture
def site(small, tmp_path):
    """Serve the packed small corpus; return its folder and its address."""
    public = tmp_path / "public"
    public.mkdir()
    for name in multi30k.SUMS:
        (public / f"{name}.gz").write_bytes(gzip.compress(content(name)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=public))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield public, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def left(target: Path) -> list[str]:
    """List the files in a folder."""
    return sorted(path.name for path in target.iterdir())


def test_a_split_is_read_line_by_line_and_only_that_one(folder):
    for other in ("train", "val"):
        (folder / f"{other}.en").unlink()
        (folder / f"{other}.en").touch()  # there, but never read
    pairs = load_multi30k("test_2016_flickr", folder=folder)
    assert pairs == [("de test_2016_flickr 0, «Straße» a b", "en test_2016_flickr 0, «Straße» a b")]


def test_the_direction_turns_the_pairs(folder):
    there = load_multi30k("train", direction="de-en", folder=folder)
    back = load_multi30k("train", direction="en-de", folder=folder)
    assert len(there) == 3 and [pair[::-1] for pair in there] == back != there


@pytest.mark.parametrize("inside", [True, False])
def test_the_folder_is_named_by_an_argument_or_by_the_environment(folder, inside, monkeypatch):
    named = folder.parent if inside else folder
    monkeypatch.setenv("COURSE_DATA", str(named))
    assert multi30k_folder() == folder
    monkeypatch.setenv("COURSE_DATA", "elsewhere")  # the argument stands over it
    assert multi30k_folder(named) == folder


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_folder_the_error_says_what_to_do(small, value, monkeypatch):
    if value is not None:
        monkeypatch.setenv("COURSE_DATA", value)
    with pytest.raises(ValueError, match="--data or COURSE_DATA, or download it once"):
        load_multi30k("train")


@pytest.mark.parametrize(
    ("file", "content", "how", "message"),
    [
        ("val.de", None, {}, "lacks val.de of Multi30k"),
        ("train.en", b"x", {}, "train.en from .* is not the file of Multi30k"),
        (None, None, dict(split="test"), "there are train, val, test_2016_flickr, and de-en"),
        (None, None, dict(direction="de-fr"), "there are train, val, test_2016_flickr, and de-en"),
    ],
)
def test_missing_changed_and_unknown_files_are_named(folder, file, content, how, message):
    if file:
        (folder / file).unlink()
    if content:
        (folder / file).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_multi30k(**{"split": "train", "folder": folder, **how})


def test_the_download_unpacks_checks_is_then_read_and_not_repeated(site, tmp_path):
    target = download_multi30k(tmp_path / "new", url=site[1])
    assert left(target) == sorted(multi30k.SUMS)
    assert {name: (target / name).read_bytes() for name in multi30k.SUMS} == {
        name: content(name) for name in multi30k.SUMS
    }
    assert len(load_multi30k("train", folder=tmp_path / "new")) == 3
    for file in site[0].iterdir():
        file.unlink()  # whoever asks for one again gets an error
    assert download_multi30k(tmp_path / "new", url=site[1]) == target


@pytest.mark.parametrize(
    ("sent", "message"),
    [
        (gzip.compress(b"something else\n"), "val.de from http://.* is not the file of Multi30k"),
        (gzip.compress(content("val.de"))[:40], "is not the file of Multi30k"),
        (b"<html>Log in, please</html>", "is no gzip file"),
    ],
    ids=["other", "cut off", "not packed"],
)
def test_a_wrong_file_is_refused_and_nothing_of_it_is_left(sent, message, site, tmp_path):
    (site[0] / "val.de.gz").write_bytes(sent)
    with pytest.raises(ValueError, match=message):
        download_multi30k(tmp_path, url=site[1])
    assert left(tmp_path / "multi30k") == ["train.de", "train.en"]  # whole ones, before it


def test_neither_file_nor_content_is_longer_than_the_corpus(site, tmp_path, monkeypatch):
    endless = bytes(1_000_000)
    monkeypatch.setattr(multi30k, "MOST_BYTES", 100_000)
    monkeypatch.setitem(multi30k.SUMS, "train.de", hashlib.sha256(endless).hexdigest())
    (site[0] / "train.de.gz").write_bytes(gzip.compress(endless))
    with pytest.raises(ValueError, match="is not the file of Multi30k"):
        download_multi30k(tmp_path, url=site[1])
    (site[0] / "train.de.gz").write_bytes(bytes(100_001))
    with pytest.raises(OSError, match="more than 100000 bytes"):
        download_multi30k(tmp_path, url=site[1])
    assert left(tmp_path / "multi30k") == []
