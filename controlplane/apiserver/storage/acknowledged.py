"""The record of how far a durable store had come, in a small file beside it, to notice a file that went back.

A write-ahead log that is cut short looks like one whose last write never ended: SQLite opens the state before
it. So after each commit, before anything that depends on it is acknowledged, the revision is written here too.
A store that comes back with less has lost what was acknowledged.

The record is not synced with each commit, which would double a write's cost: it is exact whatever ends the process,
and after a power loss it may be older than the store, never newer, for it follows the commit's own sync.
"""

from __future__ import annotations

import re
import zlib
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Final

__all__ = ["SUFFIX", "Record", "recorded"]

SUFFIX: Final = "-acknowledged"
FILE_MODE: Final = 0o600
_TEXT: Final = re.compile(rb"revision (\d{20}) checksum ([0-9a-f]{8})\n")


def _text(revision: int) -> bytes:
    """The content of the file; its length is always the same, so that it is overwritten in place."""
    head = b"revision %020d" % revision
    return b"%s checksum %08x\n" % (head, zlib.crc32(head))


def recorded(store: Path) -> int:
    """Read the last revision that was recorded beside a store; 0 where there is no record, or a damaged one."""
    try:
        with _place(store).open("rb") as file:
            found = file.read(len(_text(0)) + 1)
    except OSError:
        return 0
    match = _TEXT.fullmatch(found)
    revision = int(match[1]) if match else 0
    return revision if _text(revision) == found else 0


def _place(store: Path) -> Path:
    return store.with_name(f"{store.name}{SUFFIX}")


class Record:
    """The open record of one store. What cannot be written is left out: an older record notices less, no worse."""

    def __init__(self, store: Path, revision: int) -> None:
        """Begin the record of a store that has this revision, in place of one that was there."""
        self._file: FileIO | None = None
        self._revision = revision
        place = _place(store)
        with suppress(OSError):
            place.unlink(missing_ok=True)
            place.touch(FILE_MODE, exist_ok=False)
            place.chmod(FILE_MODE)  # a umask may have taken even the owner's rights
            self._file = place.open("r+b", buffering=0)
            self._overwrite(revision)

    def write(self, revision: int) -> None:
        """Record a revision that is durable."""
        if revision > self._revision:
            self._revision = revision
            self._overwrite(revision)

    def _overwrite(self, revision: int) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.seek(0)
                self._file.write(_text(revision))

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None
