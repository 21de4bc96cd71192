"""The node object, its conditions and its lease, as a kubelet writes them.

Upstream: pkg/kubelet/kubelet_node_status.go, nodestatus/setters.go and component-helpers' lease
controller. Times are nanoseconds; trees come back ready to be sent.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from controlplane.api.quantity import parse
from controlplane.api.times import SECOND, format_micro_time, format_time
from controlplane.api.tree import Tree, is_fake_node

LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
LEASE_RENEW_INTERVAL: Final = 10 * SECOND
"""A quarter of the lease duration."""
STATUS_INTERVAL: Final = 10 * SECOND
"""The status is computed once in this interval; it is sent when it changed or is due."""
STATUS_REPORT_INTERVAL: Final = 300 * SECOND
DEFAULT_PODS: Final = 110
HARD_EVICTION_MEMORY: Final = parse("100Mi")

_HEALTHY: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory",
     "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)  # fmt: skip
_PRESSURE: Final = {
    "MemoryPressure": ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available"),
    "DiskPressure": ("KubeletHasDiskPressure", "kubelet has disk pressure"),
    "PIDPressure": ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
}
PRESSURES: Final = tuple(_PRESSURE)
_PRESSURE_EVENTS: Final = {
    "MemoryPressure": ("NodeHasSufficientMemory", "NodeHasInsufficientMemory"),
    "DiskPressure": ("NodeHasNoDiskPressure", "NodeHasDiskPressure"),
    "PIDPressure": ("NodeHasSufficientPID", "NodeHasInsufficientPID"),
}


def capacity(
    cpu: str = "8", memory: str = "32Gi", pods: int = DEFAULT_PODS, **others: str
) -> dict[str, str]:
    """A capacity map; further resources by name (underscores stand for themselves)."""
    found = {"cpu": cpu, "memory": memory, "ephemeral-storage": "100Gi", "pods": str(pods)}
    return found | others


def registration(
    name: str,
    capacity: Mapping[str, str],
    now: int,
    *,
    labels: Mapping[str, str] | None = None,
    taints: tuple[Tree, ...] = (),
    allocatable: Mapping[str, str] | None = None,
    ip: str = "",
    version: str = "v1.36.2",
    unschedulable: bool = False,
) -> Tree:
    """The Node that a kubelet creates when it starts, ready from the first report on.

    Labels of the machine are added unless given; allocatable equals capacity unless given.
    """
    own = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
    }
    spec: Tree = {}
    if taints:
        spec["taints"] = list(taints)
    if unschedulable:
        spec["unschedulable"] = True
    addresses = [{"type": "InternalIP", "address": ip}] if ip else []
    addresses.append({"type": "Hostname", "address": name})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own | dict(labels or {})},
        "spec": spec,
        "status": {
            "addresses": addresses,
            "allocatable": dict(allocatable if allocatable is not None else capacity),
            "capacity": dict(capacity),
            "conditions": conditions(now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": "",
                "containerRuntimeVersion": "containerd://2.1.0",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "",
                "kubeletVersion": version,
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "emulated",
                "systemUUID": "",
            },
        },
    }


def adopted(tree: Tree, now: int, *, ip: str = "", version: str = "v1.36.2") -> Tree:
    """A registration from a node tree of a manifest or trace: what it says wins."""
    meta, spec, status = (tree.get(part) or {} for part in ("metadata", "spec", "status"))
    given = status.get("capacity") or status.get("allocatable") or capacity()
    own = registration(
        meta["name"],
        given,
        now,
        labels=meta.get("labels"),
        allocatable=status.get("allocatable"),
        ip=ip,
        version=version,
    )
    ours: Tree = own["status"]
    return own | {
        "metadata": dict(meta) | {"labels": own["metadata"]["labels"]},
        "spec": own["spec"] | spec,
        "status": ours | {key: value for key, value in status.items() if key not in ours}
        | {key: status[key] for key in ("capacity", "images", "addresses") if status.get(key)},
    }  # fmt: skip


KUBELET: Final = "emulate.controlplane/kubelet"
"""Annotation of a Node: with the value "false" no kubelet is emulated for it."""


def has_kubelet(tree: Tree, *, stages: bool = False) -> bool:
    """Return whether a kubelet is emulated for a Node; with `stages`, fake nodes are left to the stages of KWOK."""
    notes = tree["metadata"].get("annotations") or {}
    staged = stages and is_fake_node(tree)
    return str(notes.get(KUBELET, "")).lower() != "false" and not staged


def joining(found: Tree, wanted: Tree, now: int) -> tuple[Tree, Tree]:
    """Merge patches of a Node that a client made, and of its status, for a kubelet that starts on it.

    Labels and annotations that the Node has stay. Its status gets what the machine reports, where the client
    wrote nothing else. Upstream: tryRegisterWithAPIServer, which adds labels to a Node that exists.

    Args:
        found: The stored Node.
        wanted: The registration of its kubelet (`adopted`).
        now: Nanoseconds since the Unix epoch.

    Returns:
        The patch of the Node, {} where nothing is missing, and that of its status.
    """
    metadata: Tree = {}
    for part in ("labels", "annotations"):
        known = found["metadata"].get(part) or {}
        missing = {
            key: value
            for key, value in (wanted["metadata"].get(part) or {}).items()
            if key not in known
        }
        if missing:
            metadata[part] = missing
    status = dict(wanted["status"])
    before = (found.get("status") or {}).get("conditions")
    status["conditions"] = conditions(now, before)
    return ({"metadata": metadata} if metadata else {}), {"status": status}


def conditions(
    now: int,
    before: list[Tree] | None = None,
    *,
    not_ready: str = "",
    pressure: Collection[str] = (),
) -> list[Tree]:
    """The node's conditions with a fresh heartbeat; transition times move with the status.

    `not_ready` is a message that makes the node not ready (KubeletNotReady); `pressure` names the
    conditions that the eviction manager has seen.
    """
    known = {item["type"]: item for item in before or ()}
    beat = format_time(now)
    found: list[Tree] = []
    for kind, status, reason, message in _HEALTHY:
        if kind == "Ready" and not_ready:
            status, reason, message = "False", "KubeletNotReady", not_ready
        elif kind in pressure:
            status, (reason, message) = "True", _PRESSURE[kind]
        old = known.pop(kind, None)
        same = old is not None and old.get("status") == status
        found.append(
            {
                "type": kind,
                "status": status,
                "lastHeartbeatTime": beat,
                "lastTransitionTime": old["lastTransitionTime"] if same and old else beat,
                "reason": reason,
                "message": message,
            }
        )
    return [*known.values(), *found]


def reference(name: str) -> Tree:
    """The involvedObject of a kubelet's events about its own node: the name stands for the uid, too."""
    return {"kind": "Node", "name": name, "uid": name}


def pressure_event(kind: str, under: bool) -> str:
    """The reason of the event that tells that a pressure came, or went."""
    return _PRESSURE_EVENTS[kind][under]


def status_due(status: Tree, before: Tree, now: int, reported_at: int) -> bool:
    """Return whether a computed status is to be sent: it changed beyond heartbeats, or it is time."""
    return now - reported_at >= STATUS_REPORT_INTERVAL or _still(status) != _still(before)


def _still(status: Tree) -> Tree:
    """A status without its heartbeats."""
    beats = [
        {key: value for key, value in item.items() if key != "lastHeartbeatTime"}
        for item in status.get("conditions") or ()
    ]
    return status | {"conditions": beats}


def lease(node: str, now: int, *, node_uid: str = "") -> Tree:
    """The lease that a kubelet creates for its node."""
    meta: Tree = {"name": node, "namespace": LEASE_NAMESPACE}
    if node_uid:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": node_uid}
        meta["ownerReferences"] = [owner]
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": meta,
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": format_micro_time(now),
        },
    }


def renewed(tree: Tree, now: int) -> Tree:
    """The same lease with a new renewal time."""
    return tree | {"spec": tree["spec"] | {"renewTime": format_micro_time(now)}}
