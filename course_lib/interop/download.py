"""Published models: download them once, whole and checked, and let them translate and write."""

import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from filelock import FileLock
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HTTPError  # of the HTTP library that this version uses

from course_lib.beam_search import beam_search
from course_lib.data import pad_rows
from course_lib.data.limited_progress import LimitedProgress
from course_lib.gpt import sample
from course_lib.interop import gpt2, llama, marian
from course_lib.interop.config_fields import read_config
from course_lib.transformer import Transformer, TransformerConfig

BATCH_SIZE = 32  # sentences translated together


@dataclass(frozen=True)
class PublishedModel:
    """Describe a model on the hub: a commit of its repository, its licence, and its files.

    ``files`` maps each name to the file's sha256. None means that we do not know the digest, so
    that the first download of this file is trusted.
    """

    repository: str
    revision: str
    licence: str
    megabytes: int
    files: Mapping[str, str | None]


MODELS = {
    "opus-mt-de-en": PublishedModel(
        "Helsinki-NLP/opus-mt-de-en",
        "1a922f3b32a8e809e17a47d4b32142d8105924e5",
        "Apache 2.0 or CC BY 4.0: read the model's page",
        300,
        {
            "config.json": None,
            "source.spm": None,
            "vocab.json": None,
            "pytorch_model.bin": "e743c3070f61f477cb62fe95ef2c9be2e77f3e488cb6b8030ff8a19e8295c87d",
        },
    ),
    "gpt2": PublishedModel(
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
    "smollm2-135m": PublishedModel(
        "HuggingFaceTB/SmolLM2-135M",
        "93efa2f097d58c2a74874c7e644dbc9b0cee75a2",
        "Apache 2.0",
        275,
        {
            "config.json": "1d556eab73b69c7f11f64c557a2f9c6f440bd4c6b89bb2584a6b498c92603843",
            "tokenizer.json": "9ca9acddb6525a194ec8ac7a87f24fbba7232a9a15ffa1af0c1224fcd888e47c",
            "model.safetensors": "80521b40281d6ce74e35c9282c22539e75aa0ac8578892b2a59955ef78d55da1",
        },
    ),
}


def download(name: str, folder: Path | str, *, hub: str | None = None) -> Path:
    """Download the files of a model that are missing, and check the digests of all files.

    A file gets its name only when it is complete and has the expected digest, so you can stop a
    download at any moment and call it again.

    Args:
        name: A key of ``MODELS``, and the name of the model's folder, which is returned.
        folder: The folder that contains it.
        hub: Another address of the hub than the one in the environment variable HF_ENDPOINT.

    Raises:
        ValueError: If the name is unknown, or a file does not have the expected digest.
        OSError: If the network, the server or the disk fails.
    """
    if name not in MODELS:
        raise ValueError(f"there is no model {name!r}; choose one of {', '.join(MODELS)}")
    model = MODELS[name]
    target = Path(folder) / name
    target.mkdir(parents=True, exist_ok=True)
    with FileLock(Path(folder) / f".{name}.lock"):
        for leftover in target.glob(".download-*"):  # of a download that was killed
            shutil.rmtree(leftover)
        with TemporaryDirectory(dir=target, prefix=".download-") as unchecked:
            for file, digest in model.files.items():
                path = target / file
                if path.is_file():
                    _check(path, digest, f"remove {path}, and download it again")
                    continue
                downloaded = _download_file(model, file, unchecked, hub)
                _check(downloaded, digest, "the server sent another file")
                os.replace(downloaded, path)
    return target


def _download_file(model: PublishedModel, file: str, folder: str, hub: str | None) -> Path:
    """Download one file; the library continues after a broken connection, and checks the size."""
    try:
        path = hf_hub_download(
            model.repository,
            file,
            revision=model.revision,
            local_dir=folder,
            endpoint=hub,
            token=False,
            tqdm_class=LimitedProgress,
        )
        return Path(path)
    except (OSError, HTTPError) as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise OSError(
            f"{file} of {model.repository} could not be downloaded ({reason}); is there a "
            f"network? If another address offers the same models, name it with HF_ENDPOINT; or "
            f"copy the folder from another computer"
        ) from error


def _check(path: Path, digest: str | None, remedy: str) -> None:
    """Raise an error that ends with the remedy if a file does not have the expected sha256."""
    with path.open("rb") as content:
        actual = hashlib.file_digest(content, "sha256").hexdigest()
    if digest not in (None, actual):
        raise ValueError(
            f"{path.name} has the sha256 {actual} instead of {digest}, so it is not the published "
            f"file: {remedy}"
        )


def translate_with(
    folder: Path | str,
    texts: Sequence[str],
    beam_size: int = 4,
    model_class: Callable[[TransformerConfig], Transformer] = Transformer,
) -> list[str]:
    """Translate sentences with a Marian model, ``BATCH_SIZE`` in a batch.

    Args:
        folder: As for ``marian.from_pretrained``, with the tokenizer's files.
        texts: Source sentences.
        beam_size: As in ``beam_search``; α is 0.6.
        model_class: As for ``marian.from_pretrained``.

    Raises:
        ValueError: If the folder holds no Marian model, or no tokenizer.
    """
    return load_translator(folder, model_class)(texts, beam_size)


def load_translator(
    folder: Path | str, model_class: Callable[[TransformerConfig], Transformer] = Transformer
) -> Callable[[Sequence[str], int], list[str]]:
    """Load a Marian model once; return what translates texts with a number of beams."""
    model, tokenizer = marian.from_pretrained(folder, model_class)
    if tokenizer is None:
        raise ValueError(f"{folder} has no source.spm, the tokenizer that reads the sentences")

    def translate(texts: Sequence[str], beam_size: int) -> list[str]:
        """Translate texts, ``BATCH_SIZE`` in a batch."""
        translations = []
        for first in range(0, len(texts), BATCH_SIZE):
            rows = [tokenizer.encode(text) for text in texts[first : first + BATCH_SIZE]]
            src = pad_rows(rows, tokenizer.pad_id)  # (B, S)
            ids, _ = beam_search(
                model,
                src,
                bos_id=tokenizer.bos_id,
                eos_id=tokenizer.eos_id,
                beam_size=beam_size,
                max_new_tokens=min(model.config.max_len, 2 * src.size(1) + 50),
            )
            translations += [tokenizer.decode(best) for best in ids[:, 0].tolist()]
        return translations

    return translate


def continue_with(
    folder: Path | str,
    prompt: str,
    tokens: int,
    seed: int = 0,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> str:
    """Continue a text with a model in the layout of GPT-2 or Llama.

    Args:
        folder: As for ``from_pretrained``, with ``tokenizer.json``.
        prompt: The beginning of the text, at least one token.
        tokens: How many the model adds.
        seed: Another seed gives another text.
        temperature: As in ``sample``, like the two arguments after it.

    Raises:
        ValueError: If the folder holds another model or no tokenizer, or the prompt is empty.
    """
    loaders = {"gpt2": gpt2, "llama": llama}
    model_type = read_config(folder, loaders, {}).choice("model_type", "", loaders)
    model, tokenizer = loaders[model_type].from_pretrained(folder)
    if tokenizer is None:
        raise ValueError(
            f"{folder} has no tokenizer.json to read the text with; the library transformers "
            f"writes it: AutoTokenizer.from_pretrained(…).save_pretrained(…)"
        )
    ids = torch.tensor([tokenizer.encode(prompt).ids], dtype=torch.long)  # (1, T)
    if ids.numel() == 0:
        raise ValueError("the prompt has no token; give the text a beginning with --prompt TEXT")
    generator = torch.Generator().manual_seed(seed)
    continued = sample(model, ids, tokens, temperature, top_k, top_p, generator)
    return tokenizer.decode(continued[0].tolist())
