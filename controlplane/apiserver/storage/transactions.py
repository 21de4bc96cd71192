"""What is asked of the store, and what it answers: values, so that they can travel as messages.

A request is handled as a generator that yields operations and is resumed with their outcomes, so
the same code runs over a store of the caller's own (`run`) and over one that is a message away.
Nothing here is a function of the caller: what a transaction does is all in its fields.

Upstream: etcd's Txn (compare, then, else) and Range; apiserver pkg/storage/etcd3/store.go.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple, TypeVar

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.storage.store import CompactedError, FutureRevisionError, Store

__all__ = [
    "Compact", "Delete", "Done", "Found", "Get", "Items", "Operation", "Outcome", "Put", "Range",
    "Steps", "Transaction", "TooNew", "TooOld", "UNVERSIONED", "perform", "run",
]  # fmt: skip

T = TypeVar("T")

UNVERSIONED = "0"
"""What stands for the resource version in an object that is not stored yet; the store sets it."""


class Get(NamedTuple):
    """The live value of a key; answered by `Found` or None."""

    prefix: str
    key: str


class Range(NamedTuple):
    """Keys below `prefix` that begin with `start`, now or as of `revision`.

    Answered by `Items`, or by `TooOld` or `TooNew`.
    """

    prefix: str
    start: str = ""
    revision: int = 0


class Put(NamedTuple):
    """Write an object. The store sets its resource version, in the place of `UNVERSIONED`.

    `before` is the revision it was made from: its typed view shares what is unchanged. With
    `lease_ends` (wall time, ns) the key goes then, unless it was written again.
    """

    prefix: str
    key: str
    tree: Tree
    before: Object | None = None
    lease_ends: int = 0


class Delete(NamedTuple):
    """Remove a key."""

    prefix: str
    key: str


class Transaction(NamedTuple):
    """Make the changes if every key of `expected` has that modification revision (0: absent).

    `unchanged` names prefixes and revisions: nothing that lives there was written later.
    Answered by `Done`.
    """

    expected: tuple[tuple[str, str, int], ...]
    changes: tuple[Put | Delete, ...]
    unchanged: tuple[tuple[str, int], ...] = ()


class Compact(NamedTuple):
    """One turn of the compactors: whoever knows the last turn may forget what is older than `revision`.

    Answered by `Done` whose `revision` is the store's, and whose `turn` is the number of turns.
    Upstream: apiserver pkg/storage/etcd3/compact.go.
    """

    turn: int
    revision: int


class Found(NamedTuple):
    """A live key's value, and whether it was ever written again after its creation."""

    object: Object
    rewritten: bool


class Items(NamedTuple):
    """Keys and values in key order, and the revision at which they are so."""

    items: tuple[tuple[str, Object], ...]
    revision: int


class TooOld(NamedTuple):
    """The revision asked for is compacted away."""

    compacted: int


class TooNew(NamedTuple):
    """The revision asked for has not happened yet."""

    current: int


class Done(NamedTuple):
    """How a transaction ended.

    If it was made, `objects` are what its changes wrote (of a deletion: what was deleted), as
    stored. If not, they are the live values of the expected keys (None: absent).
    """

    made: bool
    revision: int
    objects: tuple[Object | None, ...] = ()
    turn: int = 0


Operation = Get | Range | Transaction | Compact
Outcome = Found | Items | TooOld | TooNew | Done | None
Steps = Generator[Operation, Any, T]
"""Handling that asks the store in between: yields operations, is sent outcomes, returns the result."""


def perform(store: Store, operation: Operation) -> Outcome:
    """What the store answers to an operation."""
    if type(operation) is Transaction:
        return _transaction(store, operation)
    if type(operation) is Get:
        entry = store.keyspace(operation.prefix).entries.get(operation.key)
        if entry is None:
            return None
        return Found(entry.object, entry.mod_revision != entry.create_revision)
    if type(operation) is Range:
        return _range(store, operation)
    assert type(operation) is Compact
    return _compact(store, operation)


def run(store: Store, steps: Steps[T]) -> T:
    """The result of handling whose store nobody else touches meanwhile."""
    try:
        operation = next(steps)
        while True:
            operation = steps.send(perform(store, operation))
    except StopIteration as end:
        result: T = end.value
        return result


def _range(store: Store, wanted: Range) -> Outcome:
    space = store.keyspace(wanted.prefix)
    if not wanted.revision:
        return Items(tuple(space.items(wanted.start)), store.revision)
    try:
        return Items(tuple(space.at(wanted.revision, wanted.start)), wanted.revision)
    except CompactedError as error:
        return TooOld(error.compacted)
    except FutureRevisionError as error:
        return TooNew(error.current)


def _transaction(store: Store, asked: Transaction) -> Done:
    for prefix, key, revision in asked.expected:
        entry = store.keyspace(prefix).entries.get(key)
        if (entry.mod_revision if entry is not None else 0) != revision:
            return _refused(store, asked)
    for prefix, revision in asked.unchanged:
        if store.keyspace(prefix).latest > revision and any(
            e.mod_revision > revision for e in store.keyspace(prefix).entries.values()
        ):
            return _refused(store, asked)
    written: list[Object | None] = []
    for change in asked.changes:
        space = store.keyspace(change.prefix)
        if type(change) is Put:
            _, key, tree, before, lease_ends = change
            revision = store.revision + 1
            meta = {**tree["metadata"], "resourceVersion": str(revision)}
            obj = Object({**tree, "metadata": meta}, before)
            if lease_ends:
                store.expire_at(space, key, revision, lease_ends)
            space.put(key, obj)
            written.append(obj)
        else:
            entry = space.entries.get(change.key)
            space.delete(change.key)
            written.append(None if entry is None else entry.object)
    return Done(True, store.revision, tuple(written))


def _refused(store: Store, asked: Transaction) -> Done:
    entries = [store.keyspace(prefix).entries.get(key) for prefix, key, _ in asked.expected]
    current = tuple(None if entry is None else entry.object for entry in entries)
    return Done(False, store.revision, current)


def _compact(store: Store, asked: Compact) -> Done:
    if store.compactions != asked.turn:
        return Done(False, store.revision, turn=store.compactions)
    store.compactions += 1
    revision = store.advance_revision()
    if asked.revision:
        store.compact(asked.revision)
    return Done(True, revision, turn=store.compactions)
