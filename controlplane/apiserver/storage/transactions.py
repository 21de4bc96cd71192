"""Operations on the store and their answers: values, so that they can travel as messages.

Handling of a request is a decision (see `controlplane.decisions`) that yields operations and is resumed with
their outcomes:

    found = yield Get(prefix, key)

`AtHand` carries them out at once, for a server that has its store to itself; the loops of a server send them as
messages, or let others come in before each. No operation contains a function of the caller: a transaction is
completely described by its fields.

Upstream: etcd's Txn (compare, then, else) and Range; apiserver pkg/storage/etcd3/store.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, final

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.storage.store import (
    CompactedError,
    Entry,
    FutureRevisionError,
    Keyspace,
    Store,
)
from controlplane.decisions import Decision
from controlplane.sharing.compact import compact

__all__ = [
    "AtHand",
    "Compact",
    "Delete",
    "Done",
    "Found",
    "Get",
    "Items",
    "Live",
    "Operation",
    "Outcome",
    "Put",
    "Range",
    "Review",
    "Reviewed",
    "Steps",
    "Transaction",
    "TooNew",
    "TooOld",
    "UNVERSIONED",
    "Unchanged",
    "perform",
]

T = TypeVar("T")

UNVERSIONED = "0"
"""The placeholder of the resource version in an object that is not stored yet; the store sets it."""


@final
class Get(NamedTuple):
    """The live value of a key; answered by `Found` or None."""

    prefix: str
    key: str


@final
class Range(NamedTuple):
    """Keys below `prefix` that begin with `start`, now or as of `revision`: from `since` on, `most` of them (0: all).

    Answered by `Items`, or by `TooOld` or `TooNew`.
    """

    prefix: str
    start: str = ""
    revision: int = 0
    since: str = ""
    most: int = 0


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


@final
class Transaction(NamedTuple):
    """Make the changes if every key of `expected` has that modification revision (0: absent).

    `unchanged` names prefixes and revisions: nothing that lives there was written later.
    Answered by `Done`. What is `rehearsed`, for a dry run, is converted as for a write and never
    reaches the store, see `requests/conversions.py`.
    """

    expected: tuple[tuple[str, str, int], ...]
    changes: tuple[Put | Delete, ...]
    unchanged: tuple[tuple[str, int], ...] = ()
    rehearsed: bool = False


class Compact(NamedTuple):
    """One round of compaction: a compactor with the number of the last round may drop history before `revision`.

    Answered by `Done` whose `revision` is the store's, and whose `turn` is the number of rounds.
    Upstream: apiserver pkg/storage/etcd3/compact.go.
    """

    turn: int
    revision: int


class Found(NamedTuple):
    """A live key's value, and whether it was ever written again after its creation.

    `migrates`: it is stored in another version than the one that a write would store it in.
    """

    object: Object
    rewritten: bool
    migrates: bool = False


class Items(NamedTuple):
    """Keys and values in key order, the revision at which they are so, and the number of keys that follow."""

    items: tuple[tuple[str, Object], ...]
    revision: int
    left: int = 0


class TooOld(NamedTuple):
    """The revision asked for is compacted away."""

    compacted: int


class TooNew(NamedTuple):
    """The revision asked for has not happened yet."""

    current: int


class Done(NamedTuple):
    """The outcome of a transaction.

    If it was made, `objects` are the objects that its changes wrote (of a deletion: the deleted one), as
    stored. If not, they are the live values of the expected keys (None: absent).
    """

    made: bool
    revision: int
    objects: tuple[Object | None, ...] = ()
    turn: int = 0


@final
class Review(NamedTuple):
    """A call of a webhook in the course of handling; answered by `Reviewed`.

    It is not an operation on the store, but travels as one does. `to` is the actor that is called, or
    several equal ones, one of which is, `url` its name in
    messages, `ca` the certificates (PEM in base64) that verify it.
    """

    to: str | tuple[str, ...]
    url: str
    body: Tree
    timeout_ns: int
    ca: str = ""
    label: str = "review"


class Reviewed(NamedTuple):
    """The answer to a `Review`, or why there is none; `plain`: said without the address that was asked."""

    body: Any
    error: str = ""
    plain: bool = False


Operation = Get | Range | Transaction | Compact | Review
Outcome = Found | Items | TooOld | TooNew | Done | Reviewed | None
Steps = Decision[Operation, T]
"""Handling that asks the store in between: yields operations, is sent outcomes, returns the result."""


Live = Found | Entry
"""A live key's value, as it travels or as it is stored: see `Found`."""
Unchanged = tuple[tuple[str, int], ...]
"""Prefixes and revisions: nothing that lives there was written later."""


class AtHand:
    """A store of the caller's own, which only the caller writes to while a request is handled.

    `wrote` is called after each write.
    """

    __slots__ = ("_store", "_wrote", "written")

    def __init__(self, store: Store, wrote: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._wrote = wrote
        self.written: int | None = None
        """The revision of the last write; to get that of one request, the caller sets it to None before."""

    def run(self, steps: Steps[T]) -> T:
        """Return the result of handling.

        This is `at_once` with reads inlined, since every request of a component comes by here. A read is answered
        with the stored entry itself: nothing travels, so no `Found` is made.
        """
        spaces = self._store.keyspaces
        outcome: Outcome | Entry
        try:
            operation = next(steps)
            while True:
                if type(operation) is Get:
                    space = spaces.get(operation.prefix)
                    outcome = None if space is None else space.entries.get(operation.key)
                else:
                    outcome = self._perform(operation)
                operation = steps.send(outcome)
        except StopIteration as end:
            result: T = end.value
            return result

    def _perform(self, operation: Operation) -> Outcome:
        outcome = perform(self._store, operation)
        if type(outcome) is Done and outcome.made:
            self.written = outcome.revision
            self._wrote()
        return outcome


def perform(store: Store, operation: Operation) -> Outcome:
    """Return the store's answer to an operation."""
    if type(operation) is Transaction:
        return _transaction(store, operation)
    if type(operation) is Get:
        entry = store.keyspace(operation.prefix).entries.get(operation.key)
        return None if entry is None else Found(entry.object, entry.rewritten)
    if type(operation) is Range:
        return _range(store, operation)
    if type(operation) is Review:
        return Reviewed(None, "no webhook can be called inside a store transaction")
    assert type(operation) is Compact
    return _compact(store, operation)


def _range(store: Store, wanted: Range) -> Outcome:
    space = store.keyspace(wanted.prefix)
    try:
        found, left = space.page(wanted.start, wanted.since, wanted.most, wanted.revision)
    except CompactedError as error:
        return TooOld(error.compacted)
    except FutureRevisionError as error:
        return TooNew(error.current)
    return Items(tuple(found), wanted.revision or store.revision, left)


def _transaction(store: Store, asked: Transaction) -> Done:
    assert not asked.rehearsed
    spaces = store.keyspaces
    for prefix, key, revision in asked.expected:
        space = spaces.get(prefix)
        entry = None if space is None else space.entries.get(key)
        if (0 if entry is None else entry.mod_revision) != revision:
            return _refused(store, asked)
    if asked.unchanged and not _still(store, asked.unchanged):
        return _refused(store, asked)
    written = tuple([_changed(store, each) for each in asked.changes])
    return Done(True, store.revision, written)


def _changed(store: Store, change: Put | Delete) -> Object | None:
    """Make a change; return the object as it was stored, or the one that is gone."""
    space = store.keyspaces.get(change.prefix) or store.keyspace(change.prefix)
    if type(change) is Put:
        _, key, tree, before, lease_ends = change
        return _put(store, space, key, tree, before, lease_ends)
    entry = space.entries.get(change.key)
    space.delete(change.key)
    return None if entry is None else entry.object


def _still(store: Store, unchanged: Unchanged) -> bool:
    """Return whether no live object there was written later."""
    for prefix, revision in unchanged:
        space = store.keyspace(prefix)
        if space.latest > revision and any(
            entry.mod_revision > revision for entry in space.entries.values()
        ):
            return False
    return True


def _put(
    store: Store, space: Keyspace, key: str, tree: Tree, before: Object | None, lease_ends: int
) -> Object:
    """Write an object with the version that it gets thereby."""
    revision = store.revision + 1
    meta = {**tree["metadata"], "resourceVersion": str(revision)}
    whole = {**tree, "metadata": meta}
    if not space.rests:
        whole["metadata"] = compact(meta)
        whole = compact(whole)
    obj = Object(whole, before)
    if lease_ends:
        store.expire_at(space, key, revision, lease_ends)
    space.put(key, obj)
    return obj


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
