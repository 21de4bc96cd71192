"""Serving custom resources: names are accepted, resources appear and go.

What upstream spreads over the naming, establishing and finalizing controllers happens here in one
step, when the server is told to settle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.api.object import Object
from controlplane.apiserver.kinds.custom.definitions import condition, with_condition
from controlplane.apiserver.kinds.custom.resources import resource_of
from controlplane.apiserver.requests.registry import with_version

if TYPE_CHECKING:
    from controlplane.apiserver.requests.server import ApiServer

__all__ = ["Definitions"]

Tree = dict[str, Any]


class Definitions:
    """The definitions of one server and what they make it serve."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._registry = server.registry_of("apiextensions.k8s.io", "customresourcedefinitions")
        self._served: dict[str, str] = {}

    def settle(self, now: int) -> None:
        """Bring what is served in line with the stored definitions."""
        entries = self._registry.space.entries
        seen = {key: entry.object.metadata["resourceVersion"] for key, entry in entries.items()}
        if seen == self._served:
            return
        for key, entry in list(entries.items()):
            if self._served.get(key) == entry.object.metadata["resourceVersion"]:
                continue
            if "deletionTimestamp" in entry.object.metadata:
                self._remove(key, entry.object, now)
            else:
                self._serve(key, entry.object, now)
        self._served = {
            key: entry.object.metadata["resourceVersion"] for key, entry in entries.items()
        }

    def _serve(self, key: str, crd: Object, now: int) -> None:
        state = crd.tree.get("status") or {}
        names = crd.tree["spec"]["names"]
        conditions = {c["type"]: c["status"] for c in state.get("conditions") or ()}
        changed = state
        if state.get("acceptedNames") != names:
            changed = {**changed, "acceptedNames": names}
        if conditions.get("NamesAccepted") != "True":
            new = condition("NamesAccepted", "True", "NoConflicts", "no conflicts found", now)
            changed = with_condition(changed, new)
        if conditions.get("Established") != "True":
            text = "the initial names have been accepted"
            new = condition("Established", "True", "InitialNamesAccepted", text, now)
            changed = with_condition(changed, new)
        if changed is not state:
            crd = self._store(key, {**crd.tree, "status": changed})
        self._withdraw(crd.tree)
        for version in crd.tree["spec"]["versions"]:
            if version["served"]:
                self._server.table.add(resource_of(crd.tree, version))

    def _store(self, key: str, tree: Tree) -> Object:
        revision = self._server.store.revision + 1
        obj = Object(with_version(tree, str(revision)))
        self._registry.space.put(key, obj)
        return obj

    def _withdraw(self, crd: Tree) -> str:
        """Serve none of the definition's resources; answers their storage prefix."""
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        for info in self._server.table:
            if info.custom is not None and info.group == group and info.resource == plural:
                self._server.table.remove(info)
        prefix = f"/registry/{group}/{plural}/"
        self._server.forget(prefix)
        return prefix

    def _remove(self, key: str, crd: Object, now: int) -> None:
        """Delete all instances and then the definition."""
        prefix = self._withdraw(crd.tree)
        space = self._server.store.keyspace(prefix)
        for name in list(space.entries):
            space.delete(name)
        self._registry.space.delete(key)
