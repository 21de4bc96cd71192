"""Writes of a controller that it has not read back yet. Upstream: pkg/controller/util/consistency (KEP-5647).

Before an owner is reconciled, its caches have to show what the last reconcile wrote for it. Else the
controller would decide on a state older than its own writes, and act twice or count twice. A
restart forgets the record; what is read then is as new as the first list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from controlplane.controllers.common.effects import Retry

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.client.resources import Resource
    from controlplane.controllers.common.controller import Caches


@define
class _Written:
    uid: str
    versions: dict[Resource[Any], int] = field(factory=dict)


class ConsistencyStore:
    """Per owner, the newest version written of each resource. Off, it asks for nothing."""

    def __init__(self, caches: Caches, *, enabled: bool = True) -> None:
        self._caches = caches
        self._enabled = enabled
        self._written: dict[str, _Written] = {}

    def wrote(self, key: str, uid: str, resource: Resource[Any], answer: Object[Any]) -> None:
        """The server answered a write on behalf of the owner `key` with this object."""
        record = self._written.get(key)
        if record is None or record.uid != uid:
            record = self._written[key] = _Written(uid)
        version = answer.resource_version
        record.versions[resource] = max(version, record.versions.get(resource, 0))

    def ensure_ready(self, key: str) -> None:
        """Raises Retry while a cache is older than what was written for this owner."""
        record = self._written.get(key)
        if record is None or not self._enabled:
            return
        for resource, written in record.versions.items():
            store = self._caches.stores.get(resource)
            if store is None:
                continue
            read = int(store.resource_version or 0)
            if read < written:
                name = f"{resource.name}.{resource.group}" if resource.group else resource.name
                raise Retry(
                    f"read version: {read} is not as new as written version: {written} "
                    f"for group resource {name}"
                )
        del self._written[key]

    def forget(self, key: str, uid: str = "") -> None:
        """The owner is gone; with a uid, only if the record is about that one."""
        record = self._written.get(key)
        if record is not None and uid in ("", record.uid):
            del self._written[key]
