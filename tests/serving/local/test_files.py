"""Log files are read when they are asked for: tails, rotations, and what is no file."""

from __future__ import annotations

import os

import pytest
import trio

from controlplane.api.host_access import LogFile, LogOptions
from controlplane.serving.local.files import BLOCK, LONGEST_LINE, copy_log
from controlplane.serving.local.log_text import LogError


def line(text, stream="stdout"):
    return f"2026-01-01T00:00:01Z {stream} F {text}\n".encode()


async def read(path, **options):
    found = []

    async def write(_stream, data):
        found.append(data)

    with trio.fail_after(60):
        await copy_log(LogFile(str(path), LogOptions(**options)), write)
    return b"".join(found).decode().splitlines()


async def test_a_tail_is_found_from_the_end(tmp_path):
    path = tmp_path / "log"
    lines = [line(f"{n} {'x' * 70}") for n in range(3 * BLOCK // 70)]
    path.write_bytes(b"".join(lines))
    for tail in (1, 3, len(lines), 2 * len(lines)):
        found = await read(path, tail=tail)
        assert [each.split()[0] for each in found] == [
            str(n) for n in range(max(0, len(lines) - tail), len(lines))
        ]
    assert await read(path, tail=0) == []
    assert len(await read(path)) == len(lines)


async def test_a_last_line_without_an_end_is_sent(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(line("a") + line("b").rstrip())
    assert await read(path) == ["a", "b"]


async def follow(path, steps, wanted):
    """Follow a file while steps change it, each after so many pieces; return the first `wanted` ones."""
    found = []
    scope = trio.CancelScope()

    async def write(_stream, data):
        if data:
            found.append(data.decode().rstrip())
        if len(found) == wanted:
            scope.cancel()

    async def change():
        for count, step in steps:
            while len(found) < count:
                await trio.sleep(0.01)
            step()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change)
            with scope:
                await copy_log(LogFile(str(path), LogOptions(follow=True)), write)
            nursery.cancel_scope.cancel()
    return found


async def test_a_followed_file_goes_on_with_what_is_appended(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(line("a"))

    def append(data):
        with path.open("ab") as file:
            file.write(data)

    half = line("b")
    steps = [(1, lambda: append(half[:20])), (1, lambda: append(half[20:] + line("c")))]
    assert await follow(path, steps, 3) == ["a", "b", "c"]


async def test_a_followed_file_that_is_replaced_is_read_from_its_beginning(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(line("a"))

    def rotate():
        path.rename(tmp_path / "log.1")
        path.write_bytes(line("new"))

    assert await follow(path, [(1, rotate)], 2) == ["a", "new"]


async def test_what_is_no_log_file_is_an_error_and_holds_up_nothing(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "long").write_bytes(b"2" * (LONGEST_LINE + BLOCK))
    for name, told in (
        ("none", r"failed to try resolving symlinks in path .*: lstat .*no such file or directory"),
        ("pipe", r"failed to open log file .*: not a regular file"),
        ("", r"failed to read log file .*: is a directory"),
        ("long", r"failed to read log file .*: a line is too long"),
    ):
        with pytest.raises(LogError, match=told):
            await read(tmp_path / name, tail=5 if not name else None)
    with pytest.raises(LogError, match=r'failed to read log file ".": read .: is a directory'):
        await read("")
