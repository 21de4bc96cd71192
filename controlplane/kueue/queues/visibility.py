"""Pending workloads in queue order, as `visibility.kueue.x-k8s.io` tells of them.

Follows `pkg/visibility/storage`: the positions in the queues, limit and offset, what is not found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.aggregated_groups import AggregatedGroup, AggregatedResource, Refused
from controlplane.api.tree import Tree
from controlplane.api.validation import go_int64, quote
from controlplane.kueue.queues.cluster_queue import local_queue_of
from controlplane.kueue.workload.priority import base_priority

if TYPE_CHECKING:
    from controlplane.kueue.queues.manager import QueueManager
    from controlplane.kueue.workload.info import Info

__all__ = ["GROUP", "group", "pending_workloads"]

GROUP: Final = "visibility.kueue.x-k8s.io"
VERSIONS: Final = ("v1beta2", "v1beta1")
KIND: Final = "PendingWorkloadsSummary"
DEFAULT_LIMIT: Final = 1_000
LARGEST_LIMIT: Final = 100_000


def group(*actors: str) -> AggregatedGroup:
    """Return the group, answered by these equal processes."""
    resources = (
        AggregatedResource("clusterqueues", KIND, namespaced=False),
        AggregatedResource("clusterqueues/pendingworkloads", KIND, False, ("get",)),
        AggregatedResource("localqueues", KIND, namespaced=True),
        AggregatedResource("localqueues/pendingworkloads", KIND, True, ("get",)),
    )
    return AggregatedGroup(GROUP, VERSIONS, actors, resources)


def pending_workloads(manager: QueueManager, request: Tree) -> Tree | Refused:
    """Return the answer to a request for a queue's pending workloads (`controlplane.api.aggregated_groups`)."""
    name, namespace = request["name"], request["namespace"]
    try:
        limit, offset = _bounds(request["query"])
    except ValueError as error:
        return Refused(400, "BadRequest", str(error))
    if request["resource"] == "clusterqueues":
        pending = _in_order(manager, name)
        items = None if pending is None else _of_cluster_queue(pending, limit, offset)
    else:
        local = manager.local_queue(f"{namespace}/{name}")
        pending = [] if local is None else _in_order(manager, local.cluster_queue) or []
        items = None if local is None else _of_local_queue(pending, local.key, limit, offset)
    if items is None:
        kind = request["resource"].removesuffix("s")
        details = {"name": name, "group": GROUP, "kind": kind}
        return Refused(404, "NotFound", f"{kind}.{GROUP} {quote(name)} not found", details)
    return {"kind": KIND, "apiVersion": request["apiVersion"], "metadata": {}, "items": items}


def _bounds(query: dict[str, str]) -> tuple[int, int]:
    """Return limit and offset; ValueError, in Go's words, for what is no number."""
    limit, offset = (go_int64(query.get(each, "0")) for each in ("limit", "offset"))
    return min(max(limit or DEFAULT_LIMIT, 0), LARGEST_LIMIT), max(offset, 0)


def _in_order(manager: QueueManager, name: str) -> list[Info] | None:
    queue = manager.cluster_queue(name)
    return None if queue is None else queue.in_order()


def _of_cluster_queue(infos: list[Info], limit: int, offset: int) -> list[Tree]:
    """Return a page of a ClusterQueue; positions in LocalQueues count those before the page, too."""
    found, positions = [], dict[str, int]()
    for at, info in enumerate(infos[: offset + limit]):
        local = local_queue_of(info.obj)
        positions[local] = positions.get(local, -1) + 1
        if at >= offset:
            found.append(_item(info, positions[local], at))
    return found


def _of_local_queue(infos: list[Info], key: str, limit: int, offset: int) -> list[Tree]:
    mine = [(at, info) for at, info in enumerate(infos) if local_queue_of(info.obj) == key]
    page = mine[offset : offset + limit]
    return [_item(info, offset + place, at) for place, (at, info) in enumerate(page)]


def _item(info: Info, in_local: int, in_cluster: int) -> Tree:
    metadata = info.obj["metadata"]
    about: Tree = {"name": metadata["name"], "namespace": metadata.get("namespace", "")}
    if metadata.get("creationTimestamp"):
        about["creationTimestamp"] = metadata["creationTimestamp"]
    owners = [
        {key: each.get(key, "") for key in ("apiVersion", "kind", "name", "uid")}
        for each in metadata.get("ownerReferences") or ()
    ]
    if owners:
        about["ownerReferences"] = owners
    spec = info.obj.get("spec") or {}
    return {
        "metadata": about,
        "priority": base_priority(info.obj),
        "localQueueName": spec.get("queueName") or "",
        "positionInClusterQueue": in_cluster,
        "positionInLocalQueue": in_local,
    }
