"""The store in a file: what was acknowledged survives the end of the process at any moment.

Every write is a row of one SQLite table, appended before memory changes; the table is the history
and, below the compacted revision, the last value of every live key, as in etcd's own file. Opening
the file reads it back: revision, keys, history since the last compaction, leases.

By default every write is a transaction of its own. A `grouped` store leaves the transaction open
until `commit`: whoever lets something out of the process (an answer, a watch event) commits before.

The file is written within the step of the world that writes the store, deliberately: were it written
at the rim, memory would have to be undone where the file refuses, after others have read it. Nothing
is read back, so a run does the same with a file and without, unless the file fails; then the store
takes no more, and requests are answered 500. See docs/interleavings-apiserver.md.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from controlplane.api.object import Object
from controlplane.apiserver.storage.store import Entry, Event, FutureRevisionError, Keyspace, Store
from controlplane.errors import UsageError

__all__ = ["DurableStore", "StoreFailedError", "open_store"]

APPLICATION: Final = 0x6B637031
"""Marks our files among SQLite's; see `PRAGMA application_id`."""
FORMAT: Final = 1
GROUP_LIMIT: Final = 512
"""A grouped store commits by itself after so many writes."""
_TABLES: Final = (
    "CREATE TABLE log (revision INTEGER PRIMARY KEY, prefix TEXT NOT NULL, key TEXT NOT NULL,"
    " created INTEGER NOT NULL, version INTEGER NOT NULL, previous INTEGER NOT NULL,"
    " value BLOB, checksum INTEGER NOT NULL)",
    "CREATE TABLE leases (revision INTEGER PRIMARY KEY, prefix TEXT NOT NULL, key TEXT NOT NULL,"
    " deadline INTEGER NOT NULL)",
    "CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
)
_APPEND: Final = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_LEASE: Final = "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)"
_FACT: Final = "INSERT OR REPLACE INTO facts VALUES (?, ?)"


class StoreFailedError(RuntimeError):
    """A write could not be made durable. Nothing more is accepted until the file is reopened."""


def open_store(spec: str) -> Store:
    """The store that `memory` or `sqlite:FILE` names. Raises UsageError for anything else."""
    if spec == "memory":
        return Store()
    scheme, _, path = spec.partition(":")
    if scheme != "sqlite" or not path:
        raise UsageError(f'store "{spec}": expected memory or sqlite:FILE')
    return DurableStore.open(path)


class DurableStore(Store):
    """A store that continues a file. Make one with `open`, end it with `close`."""

    def __init__(
        self, path: Path, base: sqlite3.Connection, revision: int, history_limit: int
    ) -> None:
        super().__init__(revision, history_limit)
        self.path = path
        self._base = base
        self._grouped = False
        self._batches = 0
        self._waiting = 0
        self._failed = ""

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        revision: int = 1,
        history_limit: int = 50_000,
        grouped: bool = False,
    ) -> DurableStore:
        """Open or make the file. `revision` is where a new one starts.

        Raises UsageError when the file cannot be used: no place for it, in use by another process,
        not ours, or damaged.
        """
        path = Path(path)
        try:
            base = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=32
            )
        except sqlite3.Error as error:
            raise UsageError(f"{path}: cannot open the store: {error}") from error
        try:
            _prepare(base, path, revision)
            facts = dict(base.execute("SELECT name, value FROM facts"))
            if not {"start", "compacted", "incarnation"} <= facts.keys():
                raise _damaged(path, "a table is incomplete")
            store = cls(path, base, facts["start"], history_limit)
            store.compacted = facts["compacted"]
            store._load(facts["start"])
            store.incarnation = facts["incarnation"] + 1
            base.execute(_FACT, ("incarnation", store.incarnation))
        except (sqlite3.Error, ValueError, TypeError) as error:
            base.close()
            raise _unusable(path, error) from error
        except UsageError:
            base.close()
            raise
        store._grouped = grouped
        return store

    def close(self) -> None:
        """Commit and let go of the file. The store takes no writes any more."""
        if not self._failed:
            self.commit()
            self._failed = "it is closed"
        self._base.close()

    # -- reading the file back -------------------------------------------------------------------

    def _load(self, start: int) -> None:
        reached = max(start, self.compacted)
        rows = self._base.execute("SELECT * FROM log ORDER BY revision")
        for revision, prefix, key, created, version, previous, value, checksum in rows:
            if checksum != _checksum(revision, prefix, key, value):
                raise _damaged(self.path, f"revision {revision} does not match its checksum")
            space = self.keyspace(prefix)
            before = space.entries.get(key)
            if revision > self.compacted:
                reached += 1
                if revision != reached:
                    raise _damaged(self.path, f"revision {reached} is missing")
                if previous != (before.mod_revision if before else 0):
                    raise _damaged(self.path, f"revision {revision} follows none that is there")
            old = before.object if before else None
            new = None
            if value is None:
                space.entries.pop(key, None)
            else:
                new = Object(json.loads(value.decode("utf-8", "surrogatepass")))
                entry = space.entries[key] = Entry(new, revision)
                entry.create_revision = created
                entry.version = version
            if revision > self.compacted:
                space._revisions.append(revision)
                space._events.append(Event(revision, key, new, old))
                self._events += 1
        self.revision = reached
        for prefix in self.prefixes():
            space = self.keyspace(prefix)
            space._sorted = sorted(space.entries)
        self._load_leases()

    def _load_leases(self) -> None:
        leases = self._base.execute("SELECT * FROM leases ORDER BY deadline, revision").fetchall()
        for revision, prefix, key, deadline in leases:
            entry = self.keyspace(prefix).get(key)
            if entry is not None and entry.mod_revision == revision:
                super().expire_at(self.keyspace(prefix), key, revision, deadline)

    # -- the store -------------------------------------------------------------------------------

    def keyspace(self, prefix: str) -> Keyspace:
        """The keyspace of `prefix`; its writes go to the file first."""
        found = self.keyspaces.get(prefix)
        if found is None:
            found = self.keyspaces[prefix] = DurableKeyspace(self, prefix)
        return found

    def watches_since(self) -> int:
        """All that is remembered: clients go on with the watches of the process before."""
        return self.compacted

    def compact(self, revision: int) -> None:
        """Forget, in the file too, how things were before `revision`.

        Of every key the last row up to `revision` stays, unless it is a deletion.
        """
        if revision > self.revision:
            raise FutureRevisionError(self.revision)
        if revision <= self.compacted:
            return
        span = (self.compacted, revision)
        with self._batch():
            self._run(
                "DELETE FROM log WHERE revision IN"
                " (SELECT previous FROM log WHERE revision > ? AND revision <= ?)",
                span,
            )
            self._run(
                "DELETE FROM log WHERE revision > ? AND revision <= ? AND value IS NULL", span
            )
            self._run(_FACT, ("compacted", revision))
        super().compact(revision)

    def expire_at(self, space: Keyspace, key: str, revision: int, deadline: int) -> None:
        """Attach the key to a lease, which becomes durable together with the write of `revision`."""
        self._begin()
        self._run(_LEASE, (revision, space.prefix, key, deadline))
        super().expire_at(space, key, revision, deadline)
        if revision <= self.revision:
            self._written()

    def expire(self, now: int) -> int:
        """Delete the keys whose leases have ended, in one transaction; answers how many."""
        due = self.next_expiry()
        if due is None or due > now:
            return 0
        with self._batch():
            count = super().expire(now)
            self._run("DELETE FROM leases WHERE deadline <= ?", (now,))
        return count

    # -- writing to the file ---------------------------------------------------------------------

    def append(self, prefix: str, key: str, obj: Object | None, entry: Entry | None) -> None:
        """Write the next revision: `obj` (None: deletion) for a key that is `entry` so far."""
        revision = self.revision + 1
        value = obj.json if obj is not None else None
        created, version, previous = revision, 1, 0
        if entry is not None:
            created, version = entry.create_revision, entry.version + 1
            previous = entry.mod_revision
        checksum = _checksum(revision, prefix, key, value)
        if self._grouped:
            self._begin()
        self._run(_APPEND, (revision, prefix, key, created, version, previous, value, checksum))
        self._written()

    def commit(self) -> None:
        """Make everything written so far durable; what depends on it may then leave the process."""
        self._waiting = 0
        if self._base.in_transaction:
            self._run("COMMIT")

    def _begin(self) -> None:
        if not self._base.in_transaction:
            self._run("BEGIN IMMEDIATE")

    def _written(self) -> None:
        """One more write is in the file's transaction, which may end here."""
        if self._batches:
            return
        self._waiting += 1
        if not self._grouped or self._waiting >= GROUP_LIMIT:
            self.commit()

    @contextmanager
    def _batch(self) -> Iterator[None]:
        """Writes inside share a transaction."""
        self._begin()
        self._batches += 1
        try:
            yield
        except BaseException:
            # Memory may hold part of it: neither side may go on.
            self._failed = self._failed or "a batch of writes was interrupted"
            raise
        finally:
            self._batches -= 1
        self._written()

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> None:
        if self._failed:
            raise StoreFailedError(f"{self.path}: the store takes no writes: {self._failed}")
        try:
            self._base.execute(statement, values)
        except sqlite3.Error as error:
            self._failed = str(error)
            raise StoreFailedError(f"{self.path}: cannot write: {error}") from error


class DurableKeyspace(Keyspace):
    """A keyspace whose writes go to the file before they go to memory."""

    __slots__ = ("_file",)

    def __init__(self, store: DurableStore, prefix: str) -> None:
        super().__init__(store, prefix)
        self._file = store

    def put(self, key: str, obj: Object, expected: int | None = None) -> int | None:
        """As in memory. Raises StoreFailedError, and changes nothing, if the file cannot take it."""
        entry = self.entries.get(key)
        if expected is not None and (entry.mod_revision if entry else 0) != expected:
            return None
        self._file.append(self.prefix, key, obj, entry)
        return super().put(key, obj)

    def delete(self, key: str, expected: int | None = None) -> int | None:
        """As in memory. Raises StoreFailedError, and changes nothing, if the file cannot take it."""
        entry = self.entries.get(key)
        if entry is None or (expected is not None and entry.mod_revision != expected):
            return None
        self._file.append(self.prefix, key, None, entry)
        return super().delete(key)


def _prepare(base: sqlite3.Connection, path: Path, revision: int) -> None:
    """Lock the file, check whose it is, and make the tables of a new one."""
    base.execute("PRAGMA locking_mode = EXCLUSIVE")
    base.execute("BEGIN IMMEDIATE")
    (application,) = base.execute("PRAGMA application_id").fetchone()
    (version,) = base.execute("PRAGMA user_version").fetchone()
    (tables,) = base.execute("SELECT count(*) FROM sqlite_master").fetchone()
    base.execute("COMMIT")
    if application != APPLICATION and (application or tables):
        raise UsageError(f"{path}: not a store of ours: an SQLite file of another program")
    if tables and version != FORMAT:
        raise UsageError(f"{path}: store format {version}, expected {FORMAT}")
    (mode,) = base.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise UsageError(f"{path}: cannot keep a write-ahead log at this place")
    base.execute("PRAGMA synchronous = FULL")
    if tables:
        return
    base.execute("BEGIN IMMEDIATE")
    base.execute(f"PRAGMA application_id = {APPLICATION}")
    base.execute(f"PRAGMA user_version = {FORMAT}")
    for statement in _TABLES:
        base.execute(statement)
    facts = (("start", revision), ("compacted", 0), ("incarnation", 0))
    base.executemany(_FACT, facts)
    base.execute("COMMIT")


def _checksum(revision: int, prefix: str, key: str, value: bytes | None) -> int:
    """CRC-32 of a row; a deletion differs from an empty value."""
    head = f"{revision} {prefix} {key} {'-' if value is None else '+'}"
    return zlib.crc32(value or b"", zlib.crc32(head.encode("utf-8", "surrogatepass")))


def _damaged(path: Path, text: str) -> UsageError:
    return UsageError(f"{path}: the store is damaged: {text}")


def _unusable(path: Path, error: Exception) -> UsageError:
    code = getattr(error, "sqlite_errorname", "")
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return UsageError(f"{path}: the store is in use by another process")
    if code == "SQLITE_NOTADB":
        return UsageError(f"{path}: not a store of ours: not an SQLite file")
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR")):
        return UsageError(f"{path}: cannot open the store: {error}")
    if isinstance(error, sqlite3.Error):
        return _damaged(path, " ".join(str(error).split()))
    return _damaged(path, "a row is malformed")
