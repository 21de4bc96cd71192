"""The nodes of a DaemonSet's pods, and the affinity that names the node.

Upstream: pkg/controller/daemon/util/daemonset_util.go, NodeShouldRunDaemonPod of daemon_controller.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from controlplane.api.labels import SelectorError
from controlplane.api.node_selector import RequiredNodeAffinity
from controlplane.api.pod import Pod
from controlplane.api.taints import NO_EXECUTE, NO_SCHEDULE, untolerated

if TYPE_CHECKING:
    from controlplane.api.apps import DaemonSet
    from controlplane.api.node import Node
    from controlplane.api.tree import Tree

REVISION_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
NODE_FIELD = "metadata.name"
_PREFIX = "node.kubernetes.io/"
_TOLERATED = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
_ON_HOST_NETWORK = ("network-unavailable", NO_SCHEDULE)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_SAME = ("key", "effect", "operator", "value")


class NoTargetNode(ValueError):
    """A pod does not say which node it is for."""


class Fit(NamedTuple):
    """The decisions that a pod should run on a node, and that a running one may continue."""

    should_run: bool
    should_continue: bool


def with_tolerations(spec: Tree) -> Tree:
    """The pod spec with the tolerations that keep daemon pods on troubled nodes.

    One that is equal in key, effect, operator and value is replaced, whatever its seconds are.
    """
    wanted = [*_TOLERATED, *([_ON_HOST_NETWORK] if spec.get("hostNetwork") else [])]
    tolerations: list[Tree] = list(spec.get("tolerations") or ())
    for name, effect in wanted:
        added: Tree = {"key": f"{_PREFIX}{name}", "operator": "Exists", "effect": effect}
        same = [_means(each, added) for each in tolerations]
        if any(same):
            tolerations = [
                added if match else each for each, match in zip(tolerations, same, strict=True)
            ]
        else:
            tolerations.append(added)
    return {**spec, "tolerations": tolerations}


def _means(one: Tree, other: Tree) -> bool:
    return all((one.get(key) or "") == (other.get(key) or "") for key in _SAME)


def pod_template(template: Tree, generation: int | None, digest: str) -> Tree:
    """The template with tolerations and with the labels by which an update is seen."""
    metadata = template.get("metadata") or {}
    labels = dict(metadata.get("labels") or {})
    if generation is not None:
        labels[GENERATION_LABEL] = str(generation)
    if digest:
        labels[REVISION_LABEL] = digest
    return {
        **template,
        "metadata": {**metadata, "labels": labels} if labels else metadata,
        "spec": with_tolerations(template.get("spec") or {}),
    }


def for_node(template: Tree, node: str) -> Tree:
    """The template with a required node affinity that only this node has; other terms are replaced."""
    field = {"key": NODE_FIELD, "operator": "In", "values": [node]}
    spec = template["spec"]
    affinity = spec.get("affinity") or {}
    by_node = affinity.get("nodeAffinity") or {}
    required = {**(by_node.get(_REQUIRED) or {}), "nodeSelectorTerms": [{"matchFields": [field]}]}
    affinity = {**affinity, "nodeAffinity": {**by_node, _REQUIRED: required}}
    return {**template, "spec": {**spec, "affinity": affinity}}


def target_node(pod: Pod) -> str:
    """The node that a pod is on, or is for. Raises NoTargetNode."""
    if pod.spec.node_name:
        return pod.spec.node_name
    by_node = pod.spec.affinity.node_affinity if pod.spec.affinity is not None else None
    required = (
        by_node.required_during_scheduling_ignored_during_execution if by_node is not None else None
    )
    if required is None:
        raise NoTargetNode(f"no spec.affinity.nodeAffinity.{_REQUIRED} for pod {pod.key}")
    if not required.node_selector_terms:
        raise NoTargetNode(f"no nodeSelectorTerms in {_REQUIRED} of pod {pod.key}")
    for term in required.node_selector_terms:
        for field in term.match_fields:
            if (field.key, field.operator) == (NODE_FIELD, "In"):
                if len(field.values) != 1:
                    said = (
                        f"the matchFields value of '{NODE_FIELD}' is not unique for pod {pod.key}"
                    )
                    raise NoTargetNode(said)
                return field.values[0]
    raise NoTargetNode(f"no node name found for pod {pod.key}")


def fit(found: DaemonSet, node: Node) -> Fit:
    """Return whether the set's pod belongs on the node."""
    template = found.tree["spec"].get("template") or {}
    named = found.spec.template.spec.node_name
    if named and named != node.name:
        return Fit(False, False)
    spec = with_tolerations(template.get("spec") or {})
    pod = Pod.from_tree({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": spec})
    try:
        matches = RequiredNodeAffinity(pod).match(node)
    except SelectorError:
        matches = False
    if not matches:
        return Fit(False, False)
    taints, tolerations = node.spec.taints, pod.spec.tolerations
    if untolerated(taints, tolerations) is None:
        return Fit(True, True)
    evicting = untolerated(taints, tolerations, lambda taint: taint.effect == NO_EXECUTE)
    return Fit(False, evicting is None)
