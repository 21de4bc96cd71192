"""One stored revision of an object: its tree, and lazily its typed view and its JSON bytes."""

from __future__ import annotations

from typing import Any, Final, Generic

from controlplane.api import json_text
from controlplane.api.generic import V_co
from controlplane.api.kinds import view
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.view import View

KEPT_JSON: Final = 16_384
"""The size in bytes up to which objects keep their JSON; a longer one would be held in memory twice."""


class Object(Generic[V_co]):
    """A revision that server, watchers and caches share by reference; it is never changed.

    Its parameter is the class of its view: who reads from a cache of pods gets `Object[Pod]`.
    `before` is the revision it was made from: parts of the tree that both share are decoded once.
    """

    __slots__ = ("__weakref__", "_json", "_like", "_view", "packed", "tree")

    def __init__(self, tree: Tree, before: Object[View] | None = None) -> None:
        self.tree = tree
        # The view and not the object is kept, and only until the own view is made: no chain grows.
        self._like: View | None = None if before is None else before._view
        self._view: V_co | None = None
        self._json: bytes | None = None
        self.packed: bytes | None = None
        """Its protobuf message, once a client received it."""

    @property
    def view(self) -> V_co:
        """The typed view, decoded at first use."""
        found = self._view
        if found is not None:
            return found
        decoded: Any = view(self.tree, self._like)
        made: V_co = decoded
        self._view = made
        self._like = None
        return made

    @property
    def json(self) -> bytes:
        """The compact JSON bytes, encoded at first use (of long ones: at every use)."""
        found = self._json
        if found is None:
            found = json_text.stored(self.tree)
            if len(found) <= KEPT_JSON:
                self._json = found
        return found

    @property
    def kept_json(self) -> bytes | None:
        """The JSON bytes as far as they are there without any work, else None."""
        return self._json

    @property
    def metadata(self) -> Tree:
        """The metadata tree."""
        return self.tree.get("metadata") or EMPTY_MAP

    @property
    def kind(self) -> str:
        """Kind as the tree says."""
        return self.tree.get("kind") or ""

    @property
    def api_version(self) -> str:
        """Group and version as the tree says."""
        return self.tree.get("apiVersion") or ""

    @property
    def namespace(self) -> str:
        """metadata.namespace, "" for cluster-scoped objects."""
        return (self.tree.get("metadata") or EMPTY_MAP).get("namespace") or ""

    @property
    def name(self) -> str:
        """metadata.name."""
        return (self.tree.get("metadata") or EMPTY_MAP).get("name") or ""

    @property
    def key(self) -> str:
        """`namespace/name`, or `name` for cluster-scoped objects."""
        metadata = self.tree.get("metadata") or EMPTY_MAP
        namespace, name = metadata.get("namespace"), metadata.get("name") or ""
        return f"{namespace}/{name}" if namespace else name

    @property
    def place(self) -> str:
        """Return its name in the log: `Kind/namespace/name`, or `Kind/name`."""
        return f"{self.kind}/{self.key}"

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return (self.tree.get("metadata") or EMPTY_MAP).get("uid") or ""

    @property
    def resource_version(self) -> int:
        """metadata.resourceVersion as a number, 0 when absent."""
        return int((self.tree.get("metadata") or EMPTY_MAP).get("resourceVersion") or 0)

    def __repr__(self) -> str:
        return f"Object({self.kind} {self.key} @{self.resource_version})"
