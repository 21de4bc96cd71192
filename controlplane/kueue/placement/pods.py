"""Pods that topology aware placement put where they are.

Follows `pkg/util/tas` and `pkg/controller/tas/pods.go`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.kueue.names import TOPOLOGY_GATE, WORKLOAD

if TYPE_CHECKING:
    from controlplane.api.tree import Tree
    from controlplane.kueue.controllers.effects import Reader

SLICE_NAME: Final = "kueue.x-k8s.io/workload-slice-name"
_ANNOTATIONS: Final = (
    "kueue.x-k8s.io/podset-preferred-topology",
    "kueue.x-k8s.io/podset-required-topology",
    "kueue.x-k8s.io/podset-slice-required-topology",
    "kueue.x-k8s.io/podset-slice-required-topology-constraints",
    "kueue.x-k8s.io/podset-unconstrained-topology",
)


def annotations_of(tree: Tree) -> Tree:
    """The annotations of an object."""
    return tree["metadata"].get("annotations") or {}


def is_placed(pod: Tree) -> bool:
    """Return whether a pod takes part in topology aware placement."""
    return any(name in annotations_of(pod) for name in _ANNOTATIONS)


def is_over(pod: Tree) -> bool:
    """Return whether a pod has succeeded or failed."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def waits_for_domain(pod: Tree) -> bool:
    """Return whether a pod has not been let go to its domain."""
    gates = (pod.get("spec") or {}).get("schedulingGates") or ()
    return any(each.get("name") == TOPOLOGY_GATE for each in gates)


def workload_of(pod: Tree) -> str | None:
    """The name of the Workload that a pod belongs to."""
    found = annotations_of(pod).get(WORKLOAD)
    return None if found is None else str(found)


def node_named_by(pod: Tree) -> str:
    """The node that a placed pod's node selector names, empty if it names none."""
    selector = (pod.get("spec") or {}).get("nodeSelector") or {}
    return str(selector.get("kubernetes.io/hostname") or "") if is_placed(pod) else ""


def slice_name(workload: Tree) -> str:
    """The name under which the pods of a Workload, and of those that it replaced, are known."""
    return str(annotations_of(workload).get(SLICE_NAME) or workload["metadata"]["name"])


def pods_of(reader: Reader, workload: Tree) -> list[Tree]:
    """The pods of a Workload."""
    wanted = slice_name(workload)
    return [
        pod
        for pod in reader.list("Pod", workload["metadata"].get("namespace", ""))
        if annotations_of(pod).get(SLICE_NAME, workload_of(pod)) == wanted
    ]


def is_admitted_to_domains(workload: Tree) -> bool:
    """Return whether a Workload is admitted, with topology domains."""
    status = workload.get("status") or {}
    admitted = any(
        each["type"] == "Admitted" and each["status"] == "True"
        for each in status.get("conditions") or ()
    )
    assignments = (status.get("admission") or {}).get("podSetAssignments") or ()
    return admitted and any(each.get("topologyAssignment") is not None for each in assignments)
