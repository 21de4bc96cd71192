"""One spec tree for all pods made from one template.

A new pod's spec is read and defaulted once per content; later pods with the same content get the
same tree, so what is asked of that tree by identity (validation, views, a scheduler's plugins) is
computed once as well, and it stands in memory once.
"""

from __future__ import annotations

from typing import Any, Final

import msgpack

from controlplane.api.tree import Tree
from controlplane.sharing.memory import Memory

__all__ = ["SHARED", "SharedSpecs"]


class SharedSpecs:
    """The specs of one type that were read last."""

    def __init__(self) -> None:
        self._read: Memory[bytes, Tree] = Memory("specs by content")
        self._admitted: Memory[int, tuple[Tree, Tree]] = Memory("specs after admission")

    def key(self, body: Any) -> bytes | None:
        """Return the key of a body's spec, None if it cannot be packed. Other types give other keys: 1 is not true."""
        try:
            packed: bytes = msgpack.packb(body["spec"])
        except (TypeError, ValueError, OverflowError, KeyError, RecursionError):
            return None
        return packed

    def read(self, key: bytes) -> Tree | None:
        """The canonical, defaulted spec of such a body, if it is known."""
        return self._read.known.get(key)

    def keep(self, key: bytes, spec: Tree) -> None:
        """Know the canonical, defaulted spec of such a body from now on."""
        if key not in self._read.known:
            self._read.keep(key, spec)

    def admitted(self, before: Tree, after: Tree) -> Tree:
        """`after`, or an equal spec that admission made of `before` last time."""
        if after is before:
            return after
        last = self._admitted.known.get(id(before))
        if last is not None and last[1] == after:
            return last[1]
        self._admitted.keep(id(before), (before, after))
        return after


SHARED: Final = {"io.k8s.api.core.v1.Pod": SharedSpecs()}
"""By type; what is here depends on content alone, so all servers of the process share it."""
