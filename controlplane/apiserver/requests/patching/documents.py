"""A JSON document that is taken apart only where a patch looks at it.

Upstream keeps what no patch touched as the text that it was, and writes what it took apart with the
keys sorted; answers that quote a patched document show which is which.
Upstream: evanphx/json-patch, lazyNode.
"""

from __future__ import annotations

import re
from typing import Any

from controlplane.apiserver.schema.work import spend

__all__ = ["DocumentError", "Node", "node_of"]

_DIGITS = 18
_INDEX = re.compile(r"[+-]?\d+")


class DocumentError(ValueError):
    """The document has no such place, or is of another form there."""


class Node:
    """One value that is not null: as it was, or taken apart into members or items."""

    __slots__ = ("items", "members", "raw")

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.members: dict[str, Node | None] | None = None
        self.items: list[Node | None] | None = None

    def is_map(self) -> bool:
        """Take a map apart; False if it is none."""
        if self.members is None and self.items is None and isinstance(self.raw, dict):
            spend(len(self.raw))
            self.members = {key: node_of(value) for key, value in self.raw.items()}
        return self.members is not None

    def is_list(self) -> bool:
        """Take a list apart; False if it is none."""
        if self.members is None and self.items is None and isinstance(self.raw, list):
            spend(len(self.raw))
            self.items = [node_of(value) for value in self.raw]
        return self.items is not None

    def plain(self) -> Any:
        """The value, with sorted keys where it was taken apart."""
        if self.members is not None:
            members = self.members
            spend(len(members))
            return {key: _plain(members[key]) for key in sorted(members)}
        if self.items is not None:
            spend(len(self.items))
            return [_plain(item) for item in self.items]
        return self.raw

    # -- places inside -------------------------------------------------------------------------

    def child(self, key: str) -> Node | None:
        """Return the node at a key or index; None for null and for a missing key."""
        if self.members is not None:
            return self.members.get(key)
        items, index = self._place(key, 0)
        return items[index]

    def put(self, key: str, value: Node | None) -> None:
        """Set a member, or an item that is there."""
        if self.members is not None:
            self.members[key] = value
            return
        items, index = self._place(key, 0)
        items[index] = value

    def add(self, key: str, value: Node | None) -> None:
        """Set a member, or insert an item before the index ("-": at the end)."""
        if self.members is not None:
            self.members[key] = value
        elif key == "-" and self.items is not None:
            self.items.append(value)
        else:
            items, index = self._place(key, 1)
            items.insert(index, value)

    def remove(self, key: str) -> None:
        """Take a member or item out."""
        if self.members is not None:
            if key not in self.members:
                raise DocumentError(f"no key {key}")
            del self.members[key]
        else:
            items, index = self._place(key, 0)
            del items[index]

    def _place(self, key: str, more: int) -> tuple[list[Node | None], int]:
        items = self.items
        if items is None or not _INDEX.fullmatch(key):
            raise DocumentError(f"no index {key}")
        size = len(items) + more
        spend(size >> 8)  # items behind it move
        if len(key) > _DIGITS:
            raise DocumentError(f"index {key} out of range")
        index = int(key)
        if index < 0:
            index += size
        if not 0 <= index < size:
            raise DocumentError(f"index {key} out of range")
        return items, index


def node_of(value: Any) -> Node | None:
    """A value as a node; null is none."""
    return None if value is None else Node(value)


def _plain(node: Node | None) -> Any:
    return None if node is None else node.plain()
