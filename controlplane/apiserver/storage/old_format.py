"""Files of the format before: checksums of revision, prefix, key and value alone, leases in a table of their own."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from controlplane.errors import UsageError

__all__ = ["FORMAT", "Row", "upgrade"]

FORMAT: Final = 1
Row = tuple[Any, ...]
"""Revision, prefix, key, created, version, previous, deadline, value."""
Rewrite = Callable[[sqlite3.Connection, Iterator[Row], dict[str, int]], None]


def upgrade(base: sqlite3.Connection, path: Path, rewrite: Rewrite) -> None:
    """Bring a file up to date in one transaction. Raises UsageError where it is damaged."""
    base.execute("BEGIN IMMEDIATE")
    facts = dict(base.execute("SELECT name, value FROM facts"))
    if not {"start", "compacted", "incarnation"} <= facts.keys():
        raise UsageError(f"{path}: the store is damaged: a table is incomplete")
    for table in ("log", "leases", "facts"):
        base.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    rewrite(base, _rows(base, path), facts)
    for table in ("log", "leases", "facts"):
        base.execute(f"DROP TABLE old_{table}")
    base.execute("COMMIT")


def _rows(base: sqlite3.Connection, path: Path) -> Iterator[Row]:
    deadlines = dict(base.execute("SELECT revision, deadline FROM old_leases"))
    with closing(base.execute("SELECT * FROM old_log ORDER BY revision")) as found:
        for *row, value, checksum in found:
            revision, prefix, key, *_ = row
            head = f"{revision} {prefix} {key} {'-' if value is None else '+'}"
            if checksum != zlib.crc32(
                value or b"", zlib.crc32(head.encode("utf-8", "surrogatepass"))
            ):
                text = f"revision {revision} does not match its checksum"
                raise UsageError(f"{path}: the store is damaged: {text}")
            yield (*row, deadlines.get(revision, 0), value)
