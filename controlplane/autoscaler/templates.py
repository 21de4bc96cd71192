"""The node that a group would add: like one that it has, or else as the provider describes it.

Upstream: `processors/nodeinfosprovider/mixed_nodeinfos_processor.go`, `simulator/node_info_utils.go`,
`utils/{daemonset/daemonset,labels/labels,taints/taints}.go`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controlplane.api.apps import DaemonSet
from controlplane.api.constraints import Taint
from controlplane.api.node import Node
from controlplane.api.pod import Pod
from controlplane.autoscaler.groups import Cloud, Template
from controlplane.autoscaler.nodes import (
    DELETION_CANDIDATE,
    STARTUP_PREFIXES,
    TO_BE_DELETED,
    last_transition,
    marked_for_deletion,
    readiness,
)
from controlplane.autoscaler.options import MINUTE
from controlplane.autoscaler.pods import is_daemon_set_pod, is_mirror_pod
from controlplane.autoscaler.simulation import Placed, Simulation, fresh
from controlplane.controllers.common.ownership import controller_of
from controlplane.controllers.workloads.daemon.placement import fit, with_tolerations
from controlplane.sharing.replacing import replaced

MARK: Final = "cluster-autoscaler.kubernetes.io/template-node"
_STABLE_FOR: Final = MINUTE
_PASSING: Final = (
    TO_BE_DELETED,
    DELETION_CANDIDATE,
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/pid-pressure",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "cloud.google.com/impending-node-termination",
    "NodeWithImpairedVolumes",
)
"""Taints of a node's present state, which a new node does not have."""
_PASSING_PREFIXES: Final = (*STARTUP_PREFIXES, "status-taint.cluster-autoscaler.kubernetes.io/")
_OLD_LABELS: Final = {
    "node.kubernetes.io/instance-type": "beta.kubernetes.io/instance-type",
    "topology.kubernetes.io/region": "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone": "failure-domain.beta.kubernetes.io/zone",
}
_SUFFIX: Final = "0"
"""Upstream draws a number here."""


def from_provider(group: str, described: Template, daemon_sets: Iterable[DaemonSet]) -> Template:
    """Return the template of a group as the provider describes it, with a pod of each DaemonSet that runs there."""
    return _template(group, described, daemon_sets, force=True)


def from_node(group: str, placed: Placed, daemon_sets: Iterable[DaemonSet]) -> Template:
    """Return the template of a group after one of its nodes."""
    return _template(group, Template(placed.node, placed.pods), daemon_sets, force=False)


def _template(
    group: str, example: Template, daemon_sets: Iterable[DaemonSet], *, force: bool
) -> Template:
    name = f"template-node-for-{group}-{_SUFFIX}"
    made = fresh(example, name, _SUFFIX)
    node = _as_new(made.node, old_labels=force)
    pods = [pod for pod in made.pods if pod.metadata.deletion_timestamp is None]
    owners = [
        owner.uid for pod in pods if (owner := controller_of(pod)) and owner.kind == "DaemonSet"
    ]
    kept = [pod for pod in pods if is_mirror_pod(pod) or is_daemon_set_pod(pod)]
    for each in daemon_sets:
        if each.metadata.uid not in owners and fit(each, node).should_run:
            pod = _daemon_pod(each, name)
            if force or _preempts_as_critical(pod):
                kept.append(pod)
    return Template(node, tuple(kept))


def _as_new(node: Node, *, old_labels: bool) -> Node:
    labels = {**node.metadata.labels, MARK: "true"}
    if old_labels:
        labels |= {old: labels[new] for new, old in _OLD_LABELS.items() if new in labels}
    taints = tuple(taint for taint in node.spec.taints if not _passing(taint))
    spec, meta = node.tree.get("spec") or {}, node.tree["metadata"]
    left = [taint for taint in spec.get("taints") or () if not _is_passing(taint["key"])]
    tree = {**node.tree, "metadata": {**meta, "labels": labels}, "spec": {**spec, "taints": left}}
    return replaced(
        node,
        tree=tree,
        metadata=replaced(node.metadata, labels=labels),
        spec=replaced(node.spec, taints=taints),
    )


def _passing(taint: Taint) -> bool:
    return _is_passing(taint.key)


def _is_passing(key: str) -> bool:
    return key in _PASSING or key.startswith(_PASSING_PREFIXES)


def _daemon_pod(found: DaemonSet, node: str) -> Pod:
    template = found.tree["spec"].get("template") or {}
    meta, name = template.get("metadata") or {}, found.metadata.name
    owner = {"kind": "DaemonSet", "name": name, "uid": found.metadata.uid, "controller": True}
    metadata = {
        **meta,
        "name": f"{name}-pod-{node}",
        "namespace": found.metadata.namespace,
        "uid": f"{found.metadata.uid}-{node}",
        "ownerReferences": [owner],
    }
    spec = {**with_tolerations(template.get("spec") or {}), "nodeName": node}
    return Pod.from_tree({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def _preempts_as_critical(pod: Pod) -> bool:
    policy = pod.spec.preemption_policy
    return pod.spec.priority_class_name == "system-node-critical" and policy in (
        None,
        "PreemptLowerPriority",
    )


class Templates:
    """Templates by group; one after a good node is kept for when the group has none."""

    def __init__(self) -> None:
        self._kept: dict[str, Template] = {}

    def update(
        self,
        simulation: Simulation,
        cloud: Cloud,
        nodes: Sequence[Node],
        daemon_sets: Sequence[DaemonSet],
        now: int,
    ) -> Mapping[str, Template]:
        """Return the template of each group: after a good node, as kept, as described, or after any node."""
        found: dict[str, Template] = {}
        good = [node for node in nodes if _good(node, now)]
        self._after(simulation, cloud, good, daemon_sets, found)
        self._kept |= found
        for group in cloud.groups:
            if group.id in found:
                continue
            if group.id in self._kept:
                found[group.id] = self._kept[group.id]
            elif group.template is not None:
                found[group.id] = from_provider(group.id, group.template, daemon_sets)
        known = [group.id for group in cloud.groups]
        self._kept = {name: each for name, each in self._kept.items() if name in known}
        bad = [node for node in nodes if not _good(node, now)]
        self._after(simulation, cloud, bad, daemon_sets, found)
        return found

    def _after(
        self,
        simulation: Simulation,
        cloud: Cloud,
        nodes: Iterable[Node],
        daemon_sets: Sequence[DaemonSet],
        found: dict[str, Template],
    ) -> None:
        for node in nodes:
            group, placed = cloud.group_of(node), simulation.get(node.metadata.name)
            if group is not None and group.id not in found and placed is not None:
                found[group.id] = from_node(group.id, placed, daemon_sets)


def _good(node: Node, now: int) -> bool:
    return (
        readiness(node).ready
        and last_transition(node) + _STABLE_FOR < now
        and not node.spec.unschedulable
        and not marked_for_deletion(node)
    )
