"""Multi30k is read from a folder or downloaded from a server, and every file is checked."""

import gzip
import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from course_lib.data import multi30k_files as multi30k
from course_lib.data.multi30k_files import download_multi30k, load_multi30k, multi30k_folder

LINES = {"train": 3, "val": 2, "test_2016_flickr": 1}


def content(name: str) -> bytes:
    """Write a small stand-in for a file of the corpus, with the characters of real lines."""
    split, language = name.split(".")
    lines = [f"{language}  {split} {n}, «Straße»\x85 a\u2028b " for n in range(LINES[split])]
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.fixture
def small(monkeypatch):
    """Make the course accept a corpus of six lines."""
    sums = {name: hashlib.sha256(content(name)).hexdigest() for name in multi30k.SUMS}
    monkeypatch.setattr(multi30k, "SUMS", sums)
    monkeypatch.delenv("COURSE_DATA", raising=False)


@pytest.fixture
def folder(small, tmp_path):
    """Write the small corpus to a folder."""
    target = tmp_path / "data" / "multi30k"
    target.mkdir(parents=True)
    for name in multi30k.SUMS:
        (target / name).write_bytes(content(name))
    return target


class Quiet(SimpleHTTPRequestHandler):
    """A quiet handler that serves a folder, without the lengths of German files."""

    def send_header(self, keyword, value):
        if (keyword, self.path[-6:]) != ("Content-Length", ".de.gz"):
            super().send_header(keyword, value)

    def log_message(self, *args):
        pass


@pytest.fixture
def site(small, tmp_path):
    """Serve the compressed small corpus, and return its folder and its address."""
    public = tmp_path / "public"
    public.mkdir()
    for name in multi30k.SUMS:
        (public / f"{name}.gz").write_bytes(gzip.compress(content(name)))
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=public))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield public, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_only_the_requested_split_is_read_line_by_line(folder):
    for other in ("train", "val"):
        (folder / f"{other}.en").unlink()
        (folder / f"{other}.en").touch()  # it exists, but is never read
    pairs = load_multi30k("test_2016_flickr", folder=folder)
    assert pairs == [("de test_2016_flickr 0, «Straße» a b", "en test_2016_flickr 0, «Straße» a b")]


def test_the_folder_comes_from_the_environment(folder, monkeypatch):
    for named in (folder, folder.parent):
        monkeypatch.setenv("COURSE_DATA", str(named))
        assert multi30k_folder() == folder


@pytest.mark.parametrize(
    ("file", "content", "options", "message"),
    [
        ("val.de", None, {}, "lacks val.de from Multi30k"),
        ("train.en", b"x", {}, "train.en is not the Multi30k file"),
        (None, None, dict(split="test"), "choose one of train, val, test_2016_flickr and one"),
        (None, None, dict(direction="de-fr"), "no split 'train' in the direction 'de-fr'"),
    ],
)
def test_missing_changed_and_unknown_files_are_named(folder, file, content, options, message):
    if file:
        (folder / file).unlink()
    if content:
        (folder / file).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_multi30k(**{"split": "train", "folder": folder, **options})


def test_a_download_is_unpacked_checked_read_and_not_repeated(site, tmp_path):
    target = download_multi30k(tmp_path / "new", url=site[1])
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {
        name: content(name) for name in multi30k.SUMS
    }
    assert len(load_multi30k("train", folder=tmp_path / "new")) == 3
    for file in site[0].iterdir():
        file.unlink()  # a second request raises an error
    assert download_multi30k(tmp_path / "new", url=site[1]) == target


@pytest.mark.parametrize(
    ("sent", "error", "message"),
    [
        (gzip.compress(b"something else\n"), ValueError, "val.de.* does not match the known hash"),
        (gzip.compress(content("val.de"))[:40], OSError, "ended before"),
        (b"<html>Log in, please</html>", OSError, "Not a gzipped file"),
        (None, OSError, "404.*online"),
    ],
    ids=["other", "cut off", "not packed", "missing"],
)
def test_a_wrong_file_is_rejected_and_not_kept(sent, error, message, site, tmp_path):
    (site[0] / "val.de.gz").unlink()
    if sent:
        (site[0] / "val.de.gz").write_bytes(sent)
    with pytest.raises(error, match=f"(?s){message}"):
        download_multi30k(tmp_path, url=site[1])
    left = sorted(path.name for path in (tmp_path / "multi30k").iterdir())
    assert left == ["train.de", "train.en"]  # they came first
