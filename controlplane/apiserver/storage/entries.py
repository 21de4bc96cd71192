"""The parts of a keyspace: live keys with their values, and the writes that led to them."""

from __future__ import annotations

from attrs import frozen

from controlplane.api.object import Object

__all__ = ["Entry", "Event"]


class Entry:
    """One live key: its value and etcd's bookkeeping."""

    __slots__ = ("create_revision", "mod_revision", "object", "version")
    migrates = False
    """See `Found`: an entry is in the version that handling works in."""

    def __init__(self, obj: Object, revision: int) -> None:
        self.object = obj
        self.create_revision = revision
        self.mod_revision = revision
        self.version = 1

    @property
    def rewritten(self) -> bool:
        """The object was written again after its creation."""
        return self.mod_revision != self.create_revision

    def fork(self) -> Entry:
        """An entry of its own for the same value."""
        copy = Entry(self.object, self.create_revision)
        copy.mod_revision = self.mod_revision
        copy.version = self.version
        return copy


@frozen(eq=False)
class Event:
    """One write: `new` is None for a deletion, `old` is None for a creation."""

    revision: int
    key: str
    new: Object | None
    old: Object | None
    """The value before. For a deletion this is the last content, with its own revision."""
