"""Read a file from the network, from where an earlier attempt broke off."""

from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from tqdm.auto import tqdm

BLOCK = 1 << 20


def fetch(address: str, part: Path, *, timeout: float = 30.0, most: float = float("inf")) -> None:
    """Read a file from the network into ``part``; what is in it already is not sent again.

    Args:
        address: Where it is published.
        part: Where it is put; whoever calls gives it its name when its digest is the right one.
        timeout: Seconds to wait for a sign of life.
        most: Bytes that it has at most.

    Raises:
        OSError: If the network, the server or the disk fails, or the file is longer.
    """
    start = part.stat().st_size if part.is_file() else 0
    request = Request(address, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        with urlopen(request, timeout=timeout) as answer:
            goes_on = answer.status == 206  # partial content: the server knows ranges
            size = start if goes_on else 0
            length = answer.headers.get("Content-Length", "")
            total = size + int(length) if length.isdigit() else None
            bar = tqdm(total=total, initial=size, desc=part.stem, unit="B", unit_scale=True)
            with part.open("ab" if goes_on else "wb") as file, bar:
                while size <= most and (block := answer.read1(BLOCK)):
                    size += file.write(block)
                    bar.update(len(block))
    except HTTPError as error:
        if error.code == 416 and start:  # nothing is left to send: it was whole already
            return
        raise OSError(f"{address} could not be read ({error})") from error
    except (OSError, HTTPException) as error:  # URLError, timeouts and resets are OSErrors
        raise OSError(
            f"{address} could not be read ({error}); is there a network? The next call goes on "
            f"from what is in {part}; or copy {part.parent} from another computer"
        ) from error
    if size > most:
        part.unlink()
        raise OSError(f"{address} sent more than {most} bytes: it is another file")
    if total not in (None, size):
        raise OSError(f"{address} broke off at {size} of {total} bytes; try again")
