"""Log files of the machine, read when a client asks: opened without waiting, to their end or on and on.

Upstream: ReadLogs of cri-client pkg/logs. Only regular files are read: a pipe or a device has no end to begin from.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import trio

from controlplane.api.host_access import LogFile
from controlplane.api.validation import quote
from controlplane.serving.local.log_text import LogError, LogText

__all__ = ["copy_log"]

BLOCK: Final = 64 * 1024
LONGEST_LINE: Final = 4 << 20
"""Bytes of the longest line that is read."""
LOOK_S: Final = 0.1
"""Real seconds between two looks at a file that is followed."""

Write = Callable[[str, bytes], Awaitable[None]]
"""Sends a piece of a stream; no bytes tell that the log begins, and that more may come later."""


async def copy_log(file: LogFile, write: Write) -> None:
    """Send what is asked for of a log, until it ends or, of one that is followed, until cancelled. Raises LogError."""
    path = await _resolved(file.path)
    text = LogText(file.options)
    opened = await _opened(path)
    try:
        await trio.to_thread.run_sync(_seek_tail, opened, file.options.tail)
        rest = b""
        while not text.done:
            data = await trio.to_thread.run_sync(_read, opened, path)
            if not data:
                if not file.options.follow:
                    await _send(text, rest, write)
                    return
                await write("", b"")
                await trio.sleep(LOOK_S)
                if await trio.to_thread.run_sync(_is_another, opened, path):
                    os.close(opened)
                    opened = -1
                    opened, rest = await _opened(path), b""
                continue
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > LONGEST_LINE:
                raise LogError(f"failed to read log file {quote(path)}: a line is too long")
            for line in lines:
                await _send(text, line + b"\n", write)
    finally:
        if opened >= 0:
            os.close(opened)


async def _send(text: LogText, line: bytes, write: Write) -> None:
    if not line or text.done:
        return
    found = text.of(line)
    if found is not None:
        await write(*found)


async def _resolved(given: str) -> str:
    def resolve() -> str:
        try:
            path = Path(given).expanduser() if given else Path()
            # Upstream reads "." where no file is named, and fails as for any directory.
            return str(path.absolute().resolve(strict=True)) if given else "."
        except (OSError, RuntimeError) as error:
            shown = os.path.abspath(given)  # noqa: PTH100 - without a look at the file system
            why = _reason("lstat", str(getattr(error, "filename", None) or shown), error)
            raise LogError(
                f"failed to try resolving symlinks in path {quote(shown)}: {why}"
            ) from None

    return await trio.to_thread.run_sync(resolve)


async def _opened(path: str) -> int:
    """Return the descriptor of a file, which is opened without waiting for another end."""

    def open_it() -> int:
        descriptor = -1
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
            mode = os.fstat(descriptor).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                os.close(descriptor)
                raise LogError(f"failed to open log file {quote(path)}: not a regular file")
        except OSError as error:
            why = _reason("open", path, error)
            raise LogError(f"failed to open log file {quote(path)}: {why}") from None
        return descriptor

    return await trio.to_thread.run_sync(open_it)


def _read(descriptor: int, path: str) -> bytes:
    try:
        return os.read(descriptor, BLOCK)
    except OSError as error:
        why = _reason("read", path, error)
        raise LogError(f"failed to read log file {quote(path)}: {why}") from None


def _seek_tail(descriptor: int, lines: int | None) -> None:
    """Go to the beginning of the last lines; a line without an end counts to the one before."""
    if lines is None:
        return
    try:
        right = os.lseek(descriptor, 0, os.SEEK_END)
    except OSError:
        return  # of a directory: reading it fails
    count = 0
    while right > 0:
        left = max(0, right - BLOCK)
        os.lseek(descriptor, left, os.SEEK_SET)
        try:
            block = os.read(descriptor, right - left)
        except IsADirectoryError:
            break
        at = len(block)
        while (at := block.rfind(b"\n", 0, at)) >= 0:
            count += 1
            if count > lines:
                os.lseek(descriptor, left + at + 1, os.SEEK_SET)
                return
        right = left
    os.lseek(descriptor, 0, os.SEEK_SET)


def _is_another(descriptor: int, path: str) -> bool:
    """Return whether the path has another file now, as after a rotation."""
    try:
        there, held = os.stat(path), os.fstat(descriptor)  # noqa: PTH116 - compared with a descriptor
    except OSError:
        return False
    return (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino)


def _reason(doing: str, path: str, error: Exception) -> str:
    """Return an error as Go tells it."""
    number = getattr(error, "errno", None)
    text = os.strerror(number or errno.EIO)
    return f"{doing} {path}: {text[:1].lower()}{text[1:]}"
