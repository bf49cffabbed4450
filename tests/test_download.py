"""Published files arrive whole and checked, from a server of this computer."""

import hashlib
import http.server
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from parity import says

from course_lib import cli
from course_lib.data.http_download import fetch
from course_lib.interop import download as module
from course_lib.interop.download import SUMS, Published, download

FILES = {"config.json": b"{}" * 10, "model.safetensors": bytes(range(256)) * 20_000}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}


class Hub(http.server.BaseHTTPRequestHandler):
    """Serve FILES; ``breaks_at`` bytes of an answer the connection is closed."""

    breaks_at = None
    knows_ranges = True
    asked = []
    served = FILES

    def do_GET(self):
        """Answer, from the byte that is asked for."""
        repository, _, name = self.path.rpartition("/")
        self.asked.append((self.path, self.headers.get("Range")))
        if repository != "/org/model/resolve/abc" or name not in self.served:
            self.send_error(404)
            return
        content = self.served[name]
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if self.knows_ranges else 0
        if start >= len(content):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        stop = len(content) if self.breaks_at is None else start + self.breaks_at
        self.wfile.write(content[start:stop])

    def log_message(self, *_):
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch):
    """Start a hub that publishes one model; return its handler and address."""
    kind = type("OneHub", (Hub,), {"asked": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), kind)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    model = Published("org/model", "abc", "free", 5, dict.fromkeys(FILES))
    monkeypatch.setattr(module, "MODELS", {"small": model})
    yield kind, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def read_all(folder: Path) -> dict[str, bytes]:
    """Return what a folder holds, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def sums() -> bytes:
    """Return what is stored of the digests."""
    return "".join(f"{DIGESTS[name]}  {name}\n" for name in sorted(FILES)).encode()


def test_files_are_fetched_once_and_their_digests_stored(hub, tmp_path):
    handler, address = hub
    folder = download("small", tmp_path, hub=address)
    assert read_all(folder) == FILES | {SUMS: sums()}
    asked = len(handler.asked)
    assert download("small", tmp_path, hub=address) == folder
    assert len(handler.asked) == asked == len(FILES)


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_file_that_broke_off_is_continued(hub, tmp_path, knows_ranges):
    handler, address = hub
    handler.breaks_at = 1_000_000
    with pytest.raises(OSError, match=says("model.safetensors")):
        download("small", tmp_path, hub=address)
    found = read_all(tmp_path / "small")
    assert found["model.safetensors.part"] == FILES["model.safetensors"][:1_000_000]
    assert "model.safetensors" not in found
    handler.breaks_at, handler.knows_ranges = None, knows_ranges
    assert read_all(download("small", tmp_path, hub=address)) == FILES | {SUMS: sums()}
    assert handler.asked[-1][1] == "bytes=1000000-"


def test_a_part_that_is_whole_already_is_taken(hub, tmp_path):
    handler, address = hub
    (tmp_path / "small").mkdir()
    (tmp_path / "small" / "config.json.part").write_bytes(FILES["config.json"])
    assert read_all(download("small", tmp_path, hub=address)) == FILES | {SUMS: sums()}


def test_a_file_that_is_not_the_published_one_gets_no_name(hub, tmp_path, monkeypatch):
    handler, address = hub
    model = Published("org/model", "abc", "free", 5, DIGESTS | {"config.json": "0" * 64})
    monkeypatch.setattr(module, "MODELS", {"small": model})
    with pytest.raises(ValueError, match=says("config.json", DIGESTS["config.json"], "0" * 64)):
        download("small", tmp_path, hub=address)
    assert read_all(tmp_path / "small") == {}


def test_a_later_download_is_compared_with_the_first(hub, tmp_path):
    handler, address = hub
    folder = download("small", tmp_path, hub=address)
    (folder / "config.json").unlink()
    handler.served = FILES | {"config.json": b"another"}
    with pytest.raises(ValueError, match=says("config.json", DIGESTS["config.json"])):
        download("small", tmp_path, hub=address)
    assert "config.json" not in read_all(folder)


def test_a_file_that_was_changed_on_the_disk_is_noticed(hub, tmp_path):
    _, address = hub
    folder = download("small", tmp_path, hub=address)
    (folder / "model.safetensors").write_bytes(b"other")
    with pytest.raises(ValueError, match=says("model.safetensors", "changed or damaged")):
        download("small", tmp_path, hub=address)
    assert (folder / "model.safetensors").exists()  # the reader decides what is removed


def test_what_cannot_be_had_is_named(hub, tmp_path):
    handler, address = hub
    with pytest.raises(ValueError, match=says("'other'", "small")):
        download("other", tmp_path, hub=address)
    handler.served = {}
    with pytest.raises(OSError, match=says("config.json", 404)):
        download("small", tmp_path, hub=address)
    with pytest.raises(OSError, match=says("network")):
        download("small", tmp_path, hub="http://127.0.0.1:9")


def promise(handler, seconds=0):
    """Promise more bytes than are sent, and perhaps keep the line open."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b"x" * 70_000)
    handler.wfile.flush()
    time.sleep(seconds)


def never_end(handler):
    """Send for a long time, and note if somebody has listened to the end."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(ConnectionError):
        for _ in range(200):
            handler.wfile.write(b"x" * 100_000)
        handler.asked.append("all")


@pytest.mark.parametrize(
    ("answer", "message", "bytes_left"),
    [
        (lambda handler: handler.wfile.write(b"hello\n"), "could not be read .*hello", None),
        (promise, "broke off at 70000 of 100000 bytes", 70_000),
        (partial(promise, seconds=2), "timed out.*is there a network.*copy", 70_000),
        (never_end, "sent more than 1000000 bytes", None),
    ],
)
def test_a_server_that_fails_is_explained(answer, message, bytes_left, hub, tmp_path, monkeypatch):
    handler, address = hub
    monkeypatch.setattr(handler, "do_GET", lambda self: answer(self))
    part = tmp_path / "file.part"
    with pytest.raises(OSError, match=message):
        fetch(address, part, timeout=0.3, most=1_000_000)
    assert (part.stat().st_size if part.exists() else None) == bytes_left
    assert "all" not in handler.asked


def test_every_model_of_the_list_has_what_its_loader_reads():
    for model in module.MODELS.values():
        assert "config.json" in model.files and model.licence and model.megabytes
        assert {"tokenizer.json", "vocab.json"} & model.files.keys()
        assert {"model.safetensors", "pytorch_model.bin"} & model.files.keys()
        assert all(len(digest) == 64 for digest in model.files.values() if digest)


def test_the_command_says_where_the_model_is(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cli, "MODELS", module.MODELS)
    monkeypatch.setattr(cli, "download", lambda *words: download(*words, hub=hub[1]))
    assert cli.main(["download", "small", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"small is in {tmp_path / 'small'}; licence: free\n"
