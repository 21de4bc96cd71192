"""Serving custom resources: names are accepted, resources appear and go.

What upstream spreads over the naming, establishing and finalizing controllers happens here, when
the server settles. Of several servers each does it; what another one has written already
is left as it is.
"""

from __future__ import annotations

from controlplane.api.object import Object
from controlplane.api.tree import Tree
from controlplane.apiserver.requests.caches import Caches
from controlplane.apiserver.requests.lookup import resource_named
from controlplane.apiserver.requests.registries import Registries
from controlplane.apiserver.schema.resources import ResourceTable
from controlplane.apiserver.storage.transactions import (
    Delete,
    Done,
    Items,
    Put,
    Range,
    Steps,
    Transaction,
)

__all__ = ["Definitions"]


class Definitions:
    """The definitions of one server and what they make it serve."""

    def __init__(self, table: ResourceTable, registries: Registries, caches: Caches) -> None:
        self._table = table
        self._registries = registries
        self._caches = caches
        self._prefix = resource_named(
            "apiextensions.k8s.io", "customresourcedefinitions"
        ).storage_prefix
        self._served: dict[str, Object] = {}

    def settle(self, now: int) -> Steps[None]:
        """Bring what is served in line with the stored definitions."""
        listed: Items = yield Range(self._prefix)
        stored = dict(listed.items)
        if self._versions(stored) == self._versions(self._served):
            return
        for key, served in list(self._served.items()):
            if key not in stored and served.resource_version <= listed.revision:
                self._caches.forget(self._withdraw(self._served.pop(key).tree))
        for key, crd in stored.items():
            known = self._served.get(key)
            if known is not None and known.resource_version == crd.resource_version:
                continue
            if "deletionTimestamp" in crd.metadata:
                yield from self._remove(key, crd)
            else:
                self._served[key] = yield from self._serve(key, crd, now)

    def _versions(self, crds: dict[str, Object]) -> dict[str, int]:
        return {key: crd.resource_version for key, crd in crds.items()}

    def _serve(self, key: str, crd: Object, now: int) -> Steps[Object]:
        """Accept the names, as far as they are not taken, and serve the resource."""
        while True:
            state = crd.tree.get("status") or {}
            accepted = _accepted(state, crd.tree["spec"]["names"], now)
            if accepted is state:
                break
            put = Put(self._prefix, key, {**crd.tree, "status": accepted}, crd)
            done: Done = yield Transaction(((self._prefix, key, crd.resource_version),), (put,))
            stored = done.objects[0]
            if stored is None:  # deleted meanwhile
                return crd
            crd = stored
        from controlplane.apiserver.kinds.custom.resources import resource_of

        prefix = self._withdraw(crd.tree)
        known = self._served.get(key)
        if known is not None and _differs(known.tree, crd.tree):
            self._caches.end_watches(prefix)
        for version in crd.tree["spec"]["versions"]:
            if version["served"]:
                self._table.add(resource_of(crd.tree, version))
        return crd

    def _withdraw(self, crd: Tree) -> str:
        """Serve none of the definition's resources; answers their storage prefix."""
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        for info in self._table:
            if info.custom is not None and info.group == group and info.resource == plural:
                self._table.remove(info)
        prefix = f"/registry/{group}/{plural}/"
        self._registries.forget(prefix)
        return prefix

    def _remove(self, key: str, crd: Object) -> Steps[None]:
        """Delete all instances and then the definition."""
        prefix = self._withdraw(crd.tree)
        instances: Items = yield Range(prefix)
        for name, obj in instances.items:
            yield Transaction(((prefix, name, obj.resource_version),), (Delete(prefix, name),))
        yield Transaction(
            ((self._prefix, key, crd.resource_version),), (Delete(self._prefix, key),)
        )
        self._served.pop(key, None)
        self._registries.forget(prefix)
        self._caches.forget(prefix)


def _differs(old: Tree, new: Tree) -> bool:
    """Return whether the resource that a definition has served must be removed first."""
    names = [(each.get("status") or {}).get("acceptedNames") for each in (old, new)]
    return bool(old["spec"] != new["spec"] or names[0] != names[1])


def _accepted(state: Tree, names: Tree, now: int) -> Tree:
    """The status of a definition whose names are accepted; the same one if they were already."""
    from controlplane.apiserver.kinds.custom.definitions import condition, with_condition

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
    return changed
