"""A progress bar that limits the size of a download."""

from tqdm.auto import tqdm


class LimitedProgress(tqdm):
    """A progress bar that stops an endless download before it fills up the memory or the disk."""

    max_bytes = 2_000_000_000  # larger than any file that the course downloads
    received: float = 0

    def update(self, n: float | None = 1) -> bool | None:
        """Count the next bytes, and raise OSError if the total exceeds ``max_bytes``."""
        self.received += n or 0
        if self.received > self.max_bytes:
            raise OSError(f"the server sent more than {self.max_bytes} bytes")
        return super().update(n)

    def __bool__(self) -> bool:
        """Return True even if the length is unknown, because otherwise pooch counts no bytes."""
        return True
