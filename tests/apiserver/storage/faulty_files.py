"""A file layer for SQLite that writes down every call, and fails at the one it is told to.

It is a VFS (https://www.sqlite.org/vfs.html) over the one of the operating system: the same system calls
are made, each noted before the next. From the notes the disk can be made again as a power loss leaves it:
what was synced is there, of what was written since then any sectors may be, or not.
"""

from __future__ import annotations

import _sqlite3
import ctypes
import random
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512
FULL, IOERR_WRITE, IOERR_FSYNC, IOERR_TRUNCATE = 13, 10 | 3 << 8, 10 | 4 << 8, 10 | 6 << 8
NAME = "faulty"

Plain = CFUNCTYPE(c_int, c_void_p)
Write = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
Truncate = CFUNCTYPE(c_int, c_void_p, c_int64)
Sync = CFUNCTYPE(c_int, c_void_p, c_int)
Open = CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p, c_int, c_void_p)
Delete = CFUNCTYPE(c_int, c_void_p, c_char_p, c_int)


class Methods(ctypes.Structure):
    _fields_ = [
        ("version", c_int),
        ("close", c_void_p),
        ("read", c_void_p),
        ("write", c_void_p),
        ("truncate", c_void_p),
        ("sync", c_void_p),
        ("rest", c_void_p * 13),
    ]


class File(ctypes.Structure):
    _fields_ = [("methods", POINTER(Methods))]


class Vfs(ctypes.Structure):
    _fields_ = [
        ("version", c_int),
        ("size", c_int),
        ("longest", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("rest", c_void_p * 14),
    ]


@dataclass
class Call:
    """One change of a file; `kind` is write, truncate, sync or delete, or "told" for what was acknowledged."""

    kind: str
    path: str = ""
    offset: int = 0
    data: bytes = b""
    what: object = None


@dataclass
class Layer:
    """What happened, and what is to fail: the call with this number, counted from 1, and for how long."""

    calls: list[Call] = field(default_factory=list)
    fails_at: int = 0
    lasts: int = 1 << 60
    with_code: int = 0
    number: int = 0
    failed: int = 0

    def begin(self, fails_at: int = 0, *, lasts: int = 1 << 60, with_code: int = 0) -> None:
        """Forget what happened; fail from a call on, for so many, with this code (0: the call's own)."""
        self.calls = []
        self.fails_at, self.lasts, self.with_code = fails_at, lasts, with_code
        self.number = self.failed = 0

    def told(self, what: object) -> None:
        """Something was acknowledged."""
        self.calls.append(Call("told", what=what))

    def fails(self, code: int) -> int:
        """Whether this call fails, and how."""
        self.number += 1
        if self.fails_at and self.fails_at <= self.number < self.fails_at + self.lasts:
            self.failed += 1
            return self.with_code or code
        return 0


LAYER = Layer()
_kept: list[object] = []
_names: dict[int, str] = {}
_originals: dict[int, Methods] = {}


def register() -> str:
    """Make the layer known to SQLite, once; its name."""
    if _kept:
        return NAME
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = POINTER(Vfs)
    library.sqlite3_vfs_find.argtypes = [c_char_p]
    library.sqlite3_vfs_register.argtypes = [POINTER(Vfs), c_int]
    below = library.sqlite3_vfs_find(None).contents
    made = Vfs.from_buffer_copy(below)
    made.name = NAME.encode()
    made.next = None
    open_below, delete_below = Open(below.open), Delete(below.delete)
    tables: dict[int, Methods] = {}

    def shimmed(table: Methods, address: int) -> Methods:
        found = tables.get(address)
        if found is None:
            found = tables[address] = _shim(Methods.from_buffer_copy(table))
        return found

    @Open
    def opened(vfs, name, file, flags, out):  # type: ignore[no-untyped-def]
        result: int = open_below(vfs, name, file, flags, out)
        given = ctypes.cast(file, POINTER(File)).contents
        if result == 0 and name is not None and given.methods:
            address = ctypes.addressof(given.methods.contents)
            _names[file] = name.decode()
            given.methods = ctypes.pointer(shimmed(given.methods.contents, address))
        return result

    @Delete
    def deleted(vfs, name, sync):  # type: ignore[no-untyped-def]
        result: int = delete_below(vfs, name, sync)
        if result == 0:
            LAYER.calls.append(Call("delete", name.decode(), what=bool(sync)))
        return result

    made.open = ctypes.cast(opened, c_void_p)
    made.delete = ctypes.cast(deleted, c_void_p)
    _kept.extend((made, opened, deleted, tables, open_below, delete_below))
    assert library.sqlite3_vfs_register(ctypes.byref(made), 0) == 0
    return NAME


def _shim(table: Methods) -> Methods:
    write_below, truncate_below = Write(table.write), Truncate(table.truncate)
    sync_below, close_below = Sync(table.sync), Plain(table.close)

    @Write
    def write(file, data, size, offset):  # type: ignore[no-untyped-def]
        failed = LAYER.fails(IOERR_WRITE)
        if failed:
            return failed
        LAYER.calls.append(Call("write", _names[file], offset, ctypes.string_at(data, size)))
        return write_below(file, data, size, offset)

    @Truncate
    def truncate(file, size):  # type: ignore[no-untyped-def]
        failed = LAYER.fails(IOERR_TRUNCATE)
        if failed:
            return failed
        LAYER.calls.append(Call("truncate", _names[file], size))
        return truncate_below(file, size)

    @Sync
    def sync(file, flags):  # type: ignore[no-untyped-def]
        failed = LAYER.fails(IOERR_FSYNC)
        if failed:
            return failed
        LAYER.calls.append(Call("sync", _names[file]))
        return sync_below(file, flags)

    @Plain
    def close(file):  # type: ignore[no-untyped-def]
        _names.pop(file, None)
        return close_below(file)

    made = Methods.from_buffer_copy(table)
    for name, call in (("write", write), ("truncate", truncate), ("sync", sync), ("close", close)):
        setattr(made, name, ctypes.cast(call, c_void_p))
    _kept.append(
        (write, truncate, sync, close, write_below, truncate_below, sync_below, close_below)
    )
    return made


def after_power_loss(calls: list[Call], folder: Path, draw: random.Random) -> list[object]:
    """Make the files in `folder` what they are when power fails after these calls; what had been acknowledged."""
    synced: dict[str, bytes] = {}
    pending: dict[str, list[Call]] = {}
    told = []
    for call in calls:
        if call.kind == "told":
            told.append(call.what)
        elif call.kind == "delete":
            if call.what or draw.random() < 0.5:  # whether the folder was synced
                pending.pop(call.path, None)
                synced.pop(call.path, None)
        elif call.kind == "sync":
            content = bytearray(synced.get(call.path, b""))
            for each in pending.pop(call.path, ()):
                _apply(content, each, None)
            synced[call.path] = bytes(content)
        else:
            pending.setdefault(call.path, []).append(call)
    for path in dict.fromkeys((*synced, *pending)):
        content = bytearray(synced.get(path, b""))
        for each in pending.get(path, ()):
            _apply(content, each, draw)
        (folder / Path(path).name).write_bytes(content)
    return told


def _apply(content: bytearray, call: Call, draw: random.Random | None) -> None:
    """Do a call; with `draw` only some sectors of it come through."""
    if call.kind == "truncate":
        if draw is None or draw.random() < 0.5:
            del content[call.offset :]
        return
    fate = 1.0 if draw is None else draw.random()
    for at in range(0, len(call.data), SECTOR):
        if draw is not None and (fate < 0.3 or (fate < 0.7 and draw.random() < 0.5)):
            continue
        piece, start = call.data[at : at + SECTOR], call.offset + at
        if len(content) < start:
            content.extend(bytes(start - len(content)))
        content[start : start + len(piece)] = piece
