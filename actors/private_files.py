"""Files that only their owner may read: what a run leaves can hold secrets.

The mode is given when the file is made, never afterwards, and holds whatever the umask is.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

FILE_MODE = 0o600
FOLDER_MODE = 0o700


def create(path: Path) -> int:
    """Make a file anew, and open it for writing; the descriptor. FileExistsError when it is there; OSError."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    made = os.open(path, flags | getattr(os, "O_BINARY", 0), FILE_MODE)
    if hasattr(os, "fchmod"):
        os.fchmod(made, FILE_MODE)  # a umask may have taken even the owner's rights
    return made


def touch(path: Path) -> None:
    """Make an empty file in place of what is there. OSError."""
    with suppress(FileNotFoundError):
        path.unlink()
    os.close(create(path))


def write(path: Path, content: str | bytes) -> None:
    """Write a file whole or not at all. OSError."""
    beside = path.with_name(path.name + ".part")
    touch(beside)
    beside.write_bytes(content.encode() if isinstance(content, str) else content)
    beside.replace(path)


def make_folder(folder: Path) -> None:
    """Make a folder that is not there yet, and those above it; one that is there stays as it is. OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(FOLDER_MODE)
    except FileExistsError:
        if not folder.is_dir():
            raise
        return
    if hasattr(os, "fchmod"):
        folder.chmod(FOLDER_MODE)
