"""The coordination of sessions on one machine: whether one answers, and a lock for writing."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

try:
    import fcntl
except ImportError:  # not on Windows: two sessions had better not begin in the same instant there
    fcntl = None  # type: ignore[assignment]

__all__ = ["alone", "is_live"]

CONNECT_S: Final = 1.0


def is_live(url: str) -> bool:
    """Return whether a server listens at a URL."""
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname or "", parts.port or 443), CONNECT_S):
            return True
    except OSError:
        return False


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process at a time is in here for a folder. OSError."""
    if fcntl is None:
        yield
        return
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)
