"""Get published models once, whole, and checked; and let them translate and write."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from course_lib.atomic_write import write_whole
from course_lib.beam_search import beam_search
from course_lib.data import pad_rows
from course_lib.data.http_download import fetch
from course_lib.gpt import sample
from course_lib.interop import gpt2, llama, marian
from course_lib.interop.config_fields import read_config
from course_lib.transformer import Transformer, TransformerConfig

HUB = "https://huggingface.co"
SUMS = "SHA256SUMS"  # in a model's folder: the digest of every file that was downloaded
AT_ONCE = 32  # sentences translated together


@dataclass(frozen=True)
class Published:
    """Say where a model is published, and under which terms.

    Args:
        repository: On the hub.
        revision: A commit of it; ``"main"`` is whatever stands there on the day.
        licence: As its page says.
        megabytes: Of all files, about.
        files: Their names, each with its sha256, or ``None`` where we do not know it: then the
            first download stores the digest, and later ones are compared with it.
    """

    repository: str
    revision: str
    licence: str
    megabytes: int
    files: Mapping[str, str | None]


MODELS = {
    "opus-mt-de-en": Published(
        "Helsinki-NLP/opus-mt-de-en",
        "main",
        "Apache 2.0 or CC BY 4.0: read the model's page",
        300,
        dict.fromkeys(("config.json", "source.spm", "vocab.json", "pytorch_model.bin")),
    ),
    "gpt2": Published(
        "openai-community/gpt2",
        "607a30d783dfa663caf39e06633721c8d4cfcd7e",
        "MIT",
        550,
        {
            "config.json": "0daed7749b4f02b8f76240d5444551d7b08712dab4d0adb8239c56ba823bb7b4",
            "tokenizer.json": "8414cab924d8b9b33013f0d221c5862f365ee9be39c5c2bfae8a5a9e970478a6",
            "model.safetensors": "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
        },
    ),
    "smollm2-135m": Published(
        "HuggingFaceTB/SmolLM2-135M",
        "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
        "Apache 2.0",
        275,
        dict.fromkeys(("config.json", "tokenizer.json", "model.safetensors")),
    ),
}


def download(name: str, folder: Path | str, *, hub: str = HUB, timeout: float = 30.0) -> Path:
    """Get the files of a model that are not there yet.

    A file that breaks off is continued the next time, and gets its name only when it is whole and
    its digest the expected one.

    Args:
        name: A key of ``MODELS``.
        folder: Where a folder of that name is made, or is already.
        hub: The address that the repository's path is put behind.
        timeout: Seconds to wait for a sign of life.

    Returns:
        The model's folder.

    Raises:
        ValueError: If the name is unknown, or a file is not the expected one.
        OSError: If the network, the server or the disk fails.
    """
    if name not in MODELS:
        raise ValueError(f"there is no model {name!r}; there are {', '.join(MODELS)}")
    model = MODELS[name]
    target = Path(folder) / name
    target.mkdir(parents=True, exist_ok=True)
    for file, published in model.files.items():
        path = target / file
        expected = published or _read_sums(target).get(file)
        if not path.is_file():
            address = f"{hub}/{model.repository}/resolve/{model.revision}/{file}"
            part = path.with_name(f"{file}.part")
            fetch(address, part, timeout=timeout)
            _check(part, file, expected)
            os.replace(part, path)
        _check(path, file, expected)
    return target


def _read_sums(folder: Path) -> dict[str, str]:
    """Read the digests that earlier downloads have stored, by file."""
    path = folder / SUMS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    return {name: digest for digest, name in (line.split(maxsplit=1) for line in lines)}


def _check(path: Path, file: str, expected: str | None) -> None:
    """Compare a file's digest with the expected one; where there is none, store it."""
    with path.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if expected not in (None, found):
        if path.suffix == ".part":
            path.unlink()
        raise ValueError(
            f"{file} has the sha256 {found}, not {expected}: it was changed or damaged; remove "
            f"{path.parent / file} and download it again"
        )
    known = _read_sums(path.parent) | {file: found}
    lines = "".join(f"{digest}  {name}\n" for name, digest in sorted(known.items()))
    write_whole(path.parent / SUMS, lines)


def translate_with(
    folder: Path | str,
    texts: Sequence[str],
    beam_size: int = 4,
    model_class: Callable[[TransformerConfig], Transformer] = Transformer,
) -> list[str]:
    """Translate sentences with a Marian model, ``AT_ONCE`` in a batch.

    Args:
        folder: As for ``marian.from_pretrained``, with the tokenizer's files.
        texts: Source sentences.
        beam_size: As in ``beam_search``; α is 0.6.
        model_class: As for ``marian.from_pretrained``.

    Raises:
        ValueError: If the folder holds no Marian model, or no tokenizer.
    """
    model, tokenizer = marian.from_pretrained(folder, model_class)
    if tokenizer is None:
        raise ValueError(f"{folder} holds no source.spm: without its tokenizer no text is read")
    config: Any = model.config
    how = dict(bos_id=config.bos_id, eos_id=config.eos_id, beam_size=beam_size)
    written = []
    for first in range(0, len(texts), AT_ONCE):
        rows = [tokenizer.encode(text) for text in texts[first : first + AT_ONCE]]
        src = pad_rows(rows, tokenizer.pad_id)  # (B, S)
        longest = min(config.max_len, 2 * src.size(1) + 50)
        ids, _ = beam_search(model, src, **how, max_new_tokens=longest)
        written += [tokenizer.decode(best) for best in ids[:, 0].tolist()]
    return written


def continue_with(folder: Path | str, prompt: str, tokens: int, seed: int = 0, **how: Any) -> str:
    """Go on with a text, with a model in the layout of GPT-2 or Llama.

    Args:
        folder: As for ``from_pretrained``, with ``tokenizer.json``.
        prompt: How the text begins, from one token.
        tokens: How many to write.
        seed: Another number, another text.
        **how: ``temperature``, ``top_k`` or ``top_p``, as in ``sample``.

    Raises:
        ValueError: If the folder holds another model, no tokenizer, or the prompt is empty.
    """
    kinds = {"gpt2": gpt2, "llama": llama}
    kind = read_config(folder, kinds, {}).choice("model_type", "", kinds)
    model, tokenizer = kinds[kind].from_pretrained(folder)
    if tokenizer is None:
        raise ValueError(
            f"{folder} holds no tokenizer.json: without it no text is read; the library "
            f"transformers writes one: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    ids = torch.tensor([tokenizer.encode(prompt).ids], dtype=torch.long)  # (1, T)
    if ids.numel() == 0:
        raise ValueError("the prompt holds no token; give the text a beginning: --prompt TEXT")
    generator = torch.Generator().manual_seed(seed)
    written = sample(model, ids, tokens, generator=generator, **how)
    return tokenizer.decode(written[0].tolist())
