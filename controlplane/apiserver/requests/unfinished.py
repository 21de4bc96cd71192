"""Writes that a killed process had begun, for its successor to finish.

A deletion without grace of an object that could have had some is two writes, as upstream: the object is
marked, and removed. Upstream leaves a pod between the two to its kubelet, or to the collector of pods; here
the server itself removes it when it begins, so that nothing that was to be gone at once stays.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from controlplane.api.request import Request
from controlplane.apiserver.schema import status

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.apiserver.requests.server import ApiServer

__all__ = ["finish_deletions"]

PODS = "/registry/pods/"
WITHOUT_GRACE = b'"deletionGracePeriodSeconds":0'


def finish_deletions(server: ApiServer, now: int) -> int:
    """Remove what was marked to be gone at once; answers how many objects."""
    entries = server.store.keyspace(PODS).entries.values()
    marked = [each.object for each in entries if _is_marked(each.object)]
    for obj in marked:
        asked = Request(
            "delete",
            resource="pods",
            namespace=obj.namespace,
            name=obj.name,
            body={"gracePeriodSeconds": 0, "preconditions": {"uid": obj.uid}},
        )
        with suppress(status.ApiError):
            server.handle(asked, now)
    return len(marked)


def _is_marked(obj: Object) -> bool:
    if WITHOUT_GRACE not in obj.json:  # without parsing what was only read from a file
        return False
    metadata = obj.metadata
    return (
        "deletionTimestamp" in metadata
        and metadata.get("deletionGracePeriodSeconds") == 0
        and not metadata.get("finalizers")
    )
