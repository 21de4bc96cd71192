"""The store in a file: acknowledged writes survive the end of the process at any moment.

Every write is a row of one SQLite table, appended before memory changes; the table is the history
and, below the compacted revision, the last value of every live key, as in etcd's own file. Opening
the file reads it back: revision, keys, history since the last compaction, leases. Values stay as they
are stored until they are read.

Every row has a checksum of all of it; rows above the compacted revision have no gaps, and of those below
it their number and the sum of their checksums are kept, so that none can be missing either. What SQLite
keeps beside them is compared (the tables' definitions), checked by itself (its pages), or in its log
(`storage.wal`). A file that is older than what was acknowledged, whose log was cut short or deleted, say, is
refused (`storage.acknowledged`).

By default every write is a transaction of its own. A `grouped` store leaves the transaction open
until `commit`: every part that sends data out of the process (an answer, a watch event) commits before.

The file is written within the step of the world that writes the store, deliberately: were it written
at the HTTP boundary, memory would have to be undone after a failed write, after others have read it. Nothing
is read back, so a run does the same with a file and without, unless the file fails. Where the disk is
full, a write changes nothing and is answered as etcd's is that has no space left, and the next one is
tried again; after any other failure (an fsync that failed, say: what it was about may be on the disk or
not) the store takes no more until it is opened again. See docs/interleavings-apiserver.md.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from controlplane.api.object import Object
from controlplane.api.stored import Stored
from controlplane.apiserver.storage import old_format, wal
from controlplane.apiserver.storage.acknowledged import SUFFIX, Record, recorded
from controlplane.apiserver.storage.sorted_keys import SortedKeys
from controlplane.apiserver.storage.store import (
    Entry,
    Event,
    FutureRevisionError,
    Keyspace,
    Store,
    StoreFailedError,
    StoreFullError,
)
from controlplane.errors import UsageError

__all__ = ["DurableStore", "StoreFailedError", "StoreFullError", "open_store"]

APPLICATION: Final = 0x6B637031
"""Marks our files among SQLite's; see `PRAGMA application_id`."""
FORMAT: Final = 2
FILE_MODE: Final = 0o600
GROUP_LIMIT: Final = 512
"""The number of writes after which a grouped store commits by itself."""
LOG_KEPT: Final = 16 << 20
"""The limit, in bytes, of the write-ahead log's file after a long transaction."""
SPACE_EXCEEDED: Final = "etcdserver: mvcc: database space exceeded"
"""etcd's ErrNoSpace, which an API server passes on as it is."""
HISTORY_LIMIT: Final = 50_000
HISTORY_BYTES: Final = 64 << 20
"""The size, in bytes of JSON, of a store's history: as objects in memory it is several times as large."""
TABLES: Final = {
    "facts": (
        "CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL,"
        " checksum INTEGER NOT NULL) WITHOUT ROWID"
    ),
    "log": (
        "CREATE TABLE log (revision INTEGER PRIMARY KEY, prefix TEXT NOT NULL, key TEXT NOT NULL,"
        " created INTEGER NOT NULL, version INTEGER NOT NULL, previous INTEGER NOT NULL,"
        " deadline INTEGER NOT NULL, checksum INTEGER NOT NULL, value BLOB)"
    ),
}
"""`deadline` is when the lease ends that the key is attached to, 0 for none. The checksum stands before the
value, so that it is read without it.
"""
FACTS: Final = ("start", "compacted", "incarnation", "kept", "kept_sum")
"""The first revision, the compacted one, the number of times the file was opened, the number of rows up to the
compacted revision, and the sum of their checksums.
"""
_APPEND: Final = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_IN_SPAN: Final = "FROM log WHERE revision > ? AND revision <= ?"
_DELETED: Final = f"{_IN_SPAN} AND value IS NULL"
_REPLACED: Final = (
    "FROM log WHERE revision IN (SELECT previous FROM log WHERE revision > ? AND revision <= ?)"
)
_SUM: Final = "SELECT count(*), coalesce(sum(checksum), 0) "
_FACT: Final = "INSERT OR REPLACE INTO facts VALUES (?, ?, ?)"


def open_store(spec: str) -> Store:
    """The store that `memory` or `sqlite:FILE` names. Raises UsageError for anything else."""
    if spec == "memory":
        return Store()
    scheme, _, path = spec.partition(":")
    if scheme != "sqlite" or not path:
        raise UsageError(f'store "{spec}": expected memory or sqlite:FILE')
    return DurableStore.open(path)


def _keep_private(path: Path) -> None:
    """Make the file for its owner alone, before SQLite does, whose other files get its mode; or take others' rights.

    What fails here fails again when SQLite opens it, and is reported then.
    """
    with suppress(OSError):
        try:
            path.touch(mode=FILE_MODE, exist_ok=False)
            path.chmod(FILE_MODE)  # a umask may have taken even the owner's rights
        except FileExistsError:
            for each in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
                with suppress(FileNotFoundError):
                    if each.is_file() and each.stat().st_mode & 0o077:
                        each.chmod(FILE_MODE)


class DurableStore(Store):
    """A store that continues a file. Make one with `open`, end it with `close`.

    Its history is limited by what was written as well: when that is more than `history_bytes`, the older half
    is compacted.
    """

    def __init__(
        self, path: Path, base: sqlite3.Connection, revision: int, history_limit: int
    ) -> None:
        super().__init__(revision, history_limit)
        self.path = path
        self._base = base
        self._grouped = False
        self._waiting = 0
        self._failed = ""
        self._full = False
        self._ahead = False
        """The file already contains the change that memory is about to make."""
        self._lease: tuple[str, str, int, int] | None = None
        """Prefix, key, revision and deadline of the lease that the next write is attached to."""
        self._kept = (0, 0)
        self._history_bytes = HISTORY_BYTES
        self._sizes: deque[tuple[int, int]] = deque()
        """Of what is remembered: revisions and the lengths of what was written then."""
        self._size = 0
        """The size of the current write."""
        self._remembered = 0
        self._inserted = revision
        """The last revision that was written to the file's transaction."""
        self._record: Record | None = None
        self.opened: dict[str, int] = {}
        """The facts of the file when it was opened, and the revision that it had."""

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        revision: int = 1,
        history_limit: int = HISTORY_LIMIT,
        history_bytes: int = HISTORY_BYTES,
        grouped: bool = False,
        vfs: str = "",
    ) -> DurableStore:
        """Open or make the file. `revision` is where a new one starts, `vfs` names a file layer of SQLite's.

        Raises UsageError when the file cannot be used: no place for it, in use by another process,
        not ours, damaged, or older than what was acknowledged.
        """
        path = Path(path)
        try:
            acknowledged = recorded(path) if path.exists() else 0
        except OSError as error:  # a folder that may not be searched
            raise UsageError(f"{path}: cannot open the store: {error.strerror}") from error
        _keep_private(path)
        try:
            name = f"{path.absolute().as_uri()}?vfs={vfs}" if vfs else path
            base = sqlite3.connect(
                name,
                timeout=0,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=32,
                uri=bool(vfs),
            )
        except sqlite3.Error as error:
            raise UsageError(f"{path}: cannot open the store: {error}") from error
        try:
            _check_log(path)  # closing would take it for whole
            _prepare(base, path, revision)
            facts = _facts(base, path)
            store = cls(path, base, facts["start"], history_limit)
            store._history_bytes = history_bytes
            store._take_in(facts)
            if store.revision < acknowledged:
                raise _older(path, store.revision, acknowledged)
            base.execute(_FACT, _fact("incarnation", store.incarnation))
        except (sqlite3.Error, ValueError, TypeError) as error:
            base.close()
            raise _unusable(path, error) from error
        except UsageError:
            base.close()
            raise
        store._grouped = grouped
        store._inserted = store.revision
        store._record = Record(path, store.revision)
        return store

    @classmethod
    def in_memory(cls, facts: dict[str, int], rows: Iterable[tuple[Any, ...]]) -> DurableStore:
        """A store over a file in memory, which has what another file had when it was opened.

        Args:
            facts: `opened` of the other store.
            rows: what its `rows_when_opened` gave.

        Raises UsageError for what is no such content.
        """
        path = Path("recorded store")
        base = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        try:
            _make_tables(base)
            base.executemany(_FACT, [_fact(name, facts[name]) for name in FACTS])
            base.executemany(_APPEND, rows)
            store = cls(path, base, facts["start"], HISTORY_LIMIT)
            store._take_in(facts)
        except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
            base.close()
            raise _unusable(path, error) from error
        store._inserted = store.revision
        return store

    def _take_in(self, facts: dict[str, int]) -> None:
        """Read all rows back. Raises UsageError and what a damaged file leads to."""
        self.compacted = facts["compacted"]
        self._kept = facts["kept"], facts["kept_sum"]
        self._load(facts["start"])
        self.incarnation = facts["incarnation"] + 1
        self.opened = {**facts, "revision": self.revision}

    def rows_when_opened(self) -> list[tuple[Any, ...]] | None:
        """Return the rows that the file had when it was opened; None where some of them are compacted by now."""
        if self.compacted != self.opened["compacted"]:
            return None
        self.commit()
        revision = (self.opened["revision"],)
        text = "SELECT * FROM log WHERE revision <= ? ORDER BY revision"
        return self._run(text, revision).fetchall()

    def close(self) -> None:
        """Commit and let go of the file. The store takes no writes any more."""
        if not self._failed:
            self.commit()
            self._failed = "it is closed"
        self._base.close()
        if self._record is not None:
            self._record.close()

    # -- reading the file back -------------------------------------------------------------------

    def _load(self, start: int) -> None:
        reached = max(start, self.compacted)
        kept, kept_sum = 0, 0
        leases: list[tuple[int, int, str, str]] = []
        with closing(self._base.execute("SELECT * FROM log ORDER BY revision")) as rows:
            for (
                revision,
                prefix,
                key,
                created,
                version,
                previous,
                deadline,
                checksum,
                value,
            ) in rows:
                row = (revision, prefix, key, created, version, previous, deadline)
                if checksum != _checksum(row, value):
                    raise _damaged(self.path, f"revision {revision} does not match its checksum")
                space = self.keyspace(prefix)
                before = space.entries.get(key)
                if revision > self.compacted:
                    reached += 1
                    if revision != reached:
                        raise _damaged(self.path, f"revision {reached} is missing")
                    if previous != (before.mod_revision if before else 0):
                        raise _damaged(self.path, f"revision {revision} follows none that is there")
                else:
                    kept += 1
                    kept_sum += checksum
                old = before.object if before else None
                new = None
                if value is None:
                    space.entries.pop(key, None)
                else:
                    new = Stored(value)
                    entry = space.entries[key] = Entry(new, revision)
                    entry.create_revision = created
                    entry.version = version
                    if deadline:
                        leases.append((deadline, revision, prefix, key))
                if revision > self.compacted:
                    self._size = len(value or b"")
                    space.remember(Event(revision, key, new, old))
        if (kept, kept_sum) != self._kept:
            raise _damaged(self.path, "a revision up to the compacted one is missing")
        self.revision = reached
        for prefix in self.prefixes():
            space = self.keyspace(prefix)
            space._keys = SortedKeys(space.entries)
            space.forgotten = self.compacted
            space.latest = max((self.compacted, *space._revisions[-1:]))
        for deadline, revision, prefix, key in sorted(leases):
            leased = self.keyspace(prefix).get(key)
            if leased is not None and leased.mod_revision == revision:
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
        count, total = self._kept
        span = (self.compacted, revision)
        with self._batch():
            more, added = self._sum(_IN_SPAN, span)
            less, taken = self._sum(_REPLACED, span)
            self._run(f"DELETE {_REPLACED}", span)
            fewer, dropped = self._sum(_DELETED, span)
            self._run(f"DELETE {_DELETED}", span)
            kept = count + more - less - fewer, total + added - taken - dropped
            for fact in (("kept", kept[0]), ("kept_sum", kept[1]), ("compacted", revision)):
                self._run(_FACT, _fact(*fact))
        self._kept = kept
        super().compact(revision)
        while self._sizes and self._sizes[0][0] <= revision:
            self._remembered -= self._sizes.popleft()[1]

    def remembered(self, event: Event) -> None:
        """Count one kept event, and how long it is."""
        super().remembered(event)
        self._sizes.append((event.revision, self._size))
        self._remembered += self._size

    def recorded(self) -> None:
        """As in memory, and by length; where the file has no space to forget in, a later write does it."""
        with suppress(StoreFullError):
            super().recorded()
            if self._remembered > self._history_bytes:
                self.compact(self._half())

    def _half(self) -> int:
        """Up to which revision the older half of what is remembered was written."""
        left = self._remembered
        for revision, size in self._sizes:
            left -= size
            if left <= self._history_bytes // 2:
                return revision
        return self.revision

    def expire_at(self, space: Keyspace, key: str, revision: int, deadline: int) -> None:
        """Attach the key to a lease, which becomes durable together with the write of `revision`."""
        if revision > self.revision:
            self._lease = (space.prefix, key, revision, deadline)
        else:
            self._attach(space.prefix, key, revision, deadline)
        super().expire_at(space, key, revision, deadline)

    def _attach(self, prefix: str, key: str, revision: int, deadline: int) -> None:
        """Let a key that is written already have a lease."""
        found = self._run("SELECT * FROM log WHERE revision = ?", (revision,)).fetchone()
        row = (*found[:6], deadline)
        self._begin()
        self._run(
            "UPDATE log SET deadline = ?, checksum = ? WHERE revision = ?",
            (deadline, _checksum(row, found[8]), revision),
        )
        if revision <= self.compacted:
            count, total = self._kept
            self._kept = count, total + _checksum(row, found[8]) - found[7]
            self._run(_FACT, _fact("kept_sum", self._kept[1]))
        self._written()

    def expire(self, now: int) -> int:
        """Delete the keys whose leases have ended, in one transaction; answers how many."""
        due = self.next_expiry()
        if due is None or due > now:
            return 0
        revision = self.revision
        with self._batch():
            for prefix, key, ended in self.ended(now):
                revision += 1
                self._insert(revision, prefix, key, None, ended)
        self._ahead = True
        try:
            return super().expire(now)
        finally:
            self._ahead = False

    def trouble(self) -> str:
        """Return why writes are refused, "" if they are not: a full disk is tried again."""
        if self._full and not self._failed:
            with suppress(StoreFailedError):
                self._run(_FACT, _fact("incarnation", self.incarnation))
                self._full = False
        return self._failed or (SPACE_EXCEEDED if self._full else "")

    # -- writing to the file ---------------------------------------------------------------------

    def append(self, prefix: str, key: str, obj: Object | None, entry: Entry | None) -> None:
        """Write the next revision: `obj` (None: deletion) for a key that is `entry` so far."""
        if self._ahead:
            return
        if self._grouped:
            self._begin()
        self._insert(self.revision + 1, prefix, key, obj, entry)
        self._written()

    def _insert(
        self, revision: int, prefix: str, key: str, obj: Object | None, entry: Entry | None
    ) -> None:
        value = obj.json if obj is not None else None
        self._size = len(value or b"")
        created, version, previous, deadline = revision, 1, 0, 0
        if entry is not None:
            created, version = entry.create_revision, entry.version + 1
            previous = entry.mod_revision
        lease, self._lease = self._lease, None
        if lease is not None and lease[:3] == (prefix, key, revision):
            deadline = lease[3]
        row = (revision, prefix, key, created, version, previous, deadline)
        self._run(_APPEND, (*row, _checksum(row, value), value))
        self._inserted = revision

    def commit(self) -> None:
        """Make everything written so far durable; what depends on it may then leave the process."""
        self._waiting = 0
        if self._base.in_transaction:
            self._run("COMMIT")
        if self._record is not None:
            self._record.write(self._inserted)

    def _begin(self) -> None:
        if not self._base.in_transaction:
            self._run("BEGIN IMMEDIATE")

    def _written(self) -> None:
        """One more write is in the file's transaction, which may end here."""
        self._waiting += 1
        if not self._grouped or self._waiting >= GROUP_LIMIT:
            self.commit()

    @contextmanager
    def _batch(self) -> Iterator[None]:
        """Writes inside are one transaction, which is durable or has not been once this ends; memory follows later."""
        self.commit()
        self._begin()
        try:
            yield
            self.commit()
        except BaseException:
            self._roll_back()
            raise

    def _roll_back(self) -> None:
        """Undo what was written since the last commit; memory does not have it yet."""
        self._inserted = self.revision
        with suppress(sqlite3.Error):
            self._base.rollback()

    def _sum(self, rows: str, values: tuple[object, ...]) -> tuple[int, int]:
        """Return the number of rows, and the sum of their checksums."""
        found: tuple[int, int] = self._run(_SUM + rows, values).fetchone()
        return found

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        if self._failed:
            raise StoreFailedError(f"{self.path}: the store takes no writes: {self._failed}")
        grouped = self._grouped and self._waiting
        try:
            done = self._base.execute(statement, values)
        except sqlite3.Error as error:
            full = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL
            if not full or grouped or (self._grouped and statement == "COMMIT"):
                # Memory may hold what the file does not, or the content of the file is unknown.
                self._failed = str(error)
                raise StoreFailedError(f"{self.path}: cannot write: {error}") from error
            self._full = True
            self._roll_back()
            raise StoreFullError(SPACE_EXCEEDED) from error
        if self._full and not self._base.in_transaction:
            self._full = False
        return done


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
    # While there is no write-ahead log yet: a journal that came back after a power loss would undo all.
    base.execute("PRAGMA synchronous = EXTRA")
    base.execute("BEGIN IMMEDIATE")
    (application,) = base.execute("PRAGMA application_id").fetchone()
    (version,) = base.execute("PRAGMA user_version").fetchone()
    (tables,) = base.execute("SELECT count(*) FROM sqlite_master").fetchone()
    base.execute("COMMIT")
    if application != APPLICATION and (application or tables):
        raise UsageError(f"{path}: not a store of ours: an SQLite file of another program")
    if tables and version not in (old_format.FORMAT, FORMAT):
        raise UsageError(f"{path}: store format {version}, expected {FORMAT}")
    (mode,) = base.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise UsageError(f"{path}: cannot keep a write-ahead log at this place")
    base.execute("PRAGMA synchronous = FULL")
    base.execute(f"PRAGMA journal_size_limit = {LOG_KEPT}")
    if tables:
        (found,) = base.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok" or base.execute("PRAGMA auto_vacuum").fetchone() != (0,):
            raise _damaged(path, " ".join(f"its pages do not fit: {found}".split()))
        if version == old_format.FORMAT:
            old_format.upgrade(base, path, _rewrite)
        if dict(base.execute("SELECT name, sql FROM sqlite_master")) != TABLES:
            raise _damaged(path, "its tables are not those of a store")
        return
    base.execute("BEGIN IMMEDIATE")
    base.execute(f"PRAGMA application_id = {APPLICATION}")
    _make_tables(base)
    facts = {**dict.fromkeys(FACTS, 0), "start": revision}
    base.executemany(_FACT, [_fact(*each) for each in facts.items()])
    base.execute("COMMIT")


def _make_tables(base: sqlite3.Connection) -> None:
    base.execute(f"PRAGMA user_version = {FORMAT}")
    for statement in TABLES.values():
        base.execute(statement)


def _rewrite(
    base: sqlite3.Connection, rows: Iterator[old_format.Row], facts: dict[str, int]
) -> None:
    """Make tables of today's format of what an older one held, in the transaction that is open."""
    _make_tables(base)
    kept, kept_sum = 0, 0
    for *row, value in rows:
        checksum = _checksum(tuple(row), value)
        base.execute(_APPEND, (*row, checksum, value))
        if row[0] <= facts["compacted"]:
            kept, kept_sum = kept + 1, kept_sum + checksum
    facts = {**facts, "kept": kept, "kept_sum": kept_sum}
    base.executemany(_FACT, [_fact(name, facts[name]) for name in FACTS])


def _check_log(path: Path) -> None:
    """Refuse a write-ahead log that was damaged after it was written. Raises UsageError."""
    file = path.with_name(f"{path.name}-wal")
    try:
        log = file.read_bytes()
        found = wal.damage(log)
        if found and file.read_bytes() == log:  # else it is being written: in use
            raise _damaged(path, found)
    except OSError:
        return  # there is none, or opening the store reports the error


def _facts(base: sqlite3.Connection, path: Path) -> dict[str, int]:
    found = {}
    for name, value, checksum in base.execute("SELECT * FROM facts"):
        if checksum != _fact(name, value)[2]:
            raise _damaged(path, f"the fact {name!r} does not match its checksum")
        found[name] = value
    if sorted(found) != sorted(FACTS):
        raise _damaged(path, "a table is incomplete")
    return found


def _fact(name: str, value: int) -> tuple[str, int, int]:
    return name, value, zlib.crc32(f"{name} {value}".encode("utf-8", "surrogatepass"))


def _checksum(row: tuple[object, ...], value: bytes | None) -> int:
    """CRC-32 of a row: all before the checksum, and the value; a deletion differs from an empty value."""
    head = f"{row} {'-' if value is None else '+'}".encode("utf-8", "surrogatepass")
    return zlib.crc32(value or b"", zlib.crc32(head))


def _damaged(path: Path, text: str) -> UsageError:
    return UsageError(f"{path}: the store is damaged: {text}")


def _older(path: Path, revision: int, acknowledged: int) -> UsageError:
    return UsageError(
        f"{path}: the store is at revision {revision}, but {acknowledged} was acknowledged: its write-ahead log was"
        f" cut short or lost, or the file is an older copy; remove {path}{SUFFIX} to go on from there"
    )


def _unusable(path: Path, error: Exception) -> UsageError:
    code = getattr(error, "sqlite_errorname", "")
    if code.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return UsageError(f"{path}: the store is in use by another process")
    if code.startswith("SQLITE_FULL"):
        return UsageError(f"{path}: cannot open the store: the disk is full")
    if code == "SQLITE_NOTADB":
        return UsageError(f"{path}: not a store of ours: not an SQLite file")
    if code.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_IOERR")):
        return UsageError(f"{path}: cannot open the store: {error}")
    if isinstance(error, sqlite3.Error):
        return _damaged(path, " ".join(str(error).split()))
    return _damaged(path, "a row is malformed")
