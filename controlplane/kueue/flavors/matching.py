"""Conditions for pods on a flavor: topology, taints, node labels.

Follows `checkFlavorForPodSets` of `pkg/scheduler/flavorassigner`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.api.constraints import Taint
from controlplane.api.labels import SelectorError
from controlplane.api.node import Node
from controlplane.api.node_selector import RequiredNodeAffinity
from controlplane.api.pod import Pod
from controlplane.api.taints import untolerated
from controlplane.api.times import go_time
from controlplane.api.tree import Tree
from controlplane.api.validation import aggregate
from controlplane.kueue.cache.quota import ResourceGroup
from controlplane.kueue.cache.snapshot import ClusterQueueSnapshot
from controlplane.kueue.flavors.assignment import Status
from controlplane.kueue.gates import Gates
from controlplane.kueue.topology.requests import asks_for_topology
from controlplane.kueue.workload.requests import pod_spec_requests

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def check_flavor(
    name: str,
    flavors: Mapping[str, Tree],
    pod_sets: Iterable[Tree],
    queue: ClusterQueueSnapshot,
    group: ResourceGroup,
    gates: Gates,
) -> Status:
    """Return why pod sets cannot run on a flavor; a fitting status if nothing speaks against it."""
    flavor = flavors.get(name)
    if flavor is None:
        return Status([f"flavor {name} not found"])
    for pod_set in pod_sets:
        if gates.enabled("TopologyAwareScheduling"):
            text = _topology_mismatch(queue, pod_set, flavor, group)
            if text:
                return Status([text])
        spec = (pod_set.get("template") or {}).get("spec") or {}
        status = _mismatch(name, flavor.get("spec") or {}, spec)
        if not status.fits():
            return status
    return Status()


def topology_implied(pod_set: Tree, queue: ClusterQueueSnapshot) -> bool:
    """Return whether the queue has only flavors with a topology and the pod set asks for none."""
    return queue.topology_only and not asks_for_topology(pod_set)


def topology_requested(pod_set: Tree, queue: ClusterQueueSnapshot) -> bool:
    """Return whether the pod set is placed on topology domains."""
    return queue.topology_only or asks_for_topology(pod_set)


def _topology_mismatch(
    queue: ClusterQueueSnapshot, pod_set: Tree, flavor: Tree, group: ResourceGroup
) -> str:
    name = flavor["metadata"]["name"]
    topology = (flavor.get("spec") or {}).get("topologyName")
    if not topology_requested(pod_set, queue):
        only = f'Flavor "{name}" supports only TopologyAwareScheduling'
        return "" if topology is None else only
    if topology_implied(pod_set, queue):
        return ""
    if topology is None:
        asked = pod_spec_requests((pod_set.get("template") or {}).get("spec") or {})
        if not any(resource in group.resources for resource in asked):
            return ""
        return f'Flavor "{name}" does not support TopologyAwareScheduling'
    snapshot = queue.topologies.get(name)
    if snapshot is None:
        return f'Flavor "{name}" information missing in TAS cache'
    if not snapshot.has_level(pod_set.get("topologyRequest")):
        return f'Flavor "{name}" does not contain the requested level'
    return ""


def _mismatch(name: str, flavor: Tree, spec: Tree) -> Status:
    taints = flavor.get("nodeTaints") or []
    labels = flavor.get("nodeLabels") or {}
    if taints:
        known = Node.from_tree({"spec": {"taints": taints}}).spec.taints
        tolerations = [*(spec.get("tolerations") or ()), *(flavor.get("tolerations") or ())]
        pod = Pod.from_tree({"spec": {"tolerations": tolerations}})
        taint = untolerated(known, pod.spec.tolerations, comparison=True)
        if taint is not None:
            return Status([f"untolerated taint {taint_text(taint)} in flavor {name}"])
    kept = _kept_selectors(spec, labels)
    if kept:
        node = Node.from_tree({"metadata": {"name": "", "labels": labels}})
        try:
            matches = RequiredNodeAffinity(Pod.from_tree({"spec": kept})).match(node)
        except SelectorError as error:
            return Status(error=aggregate(str(each) for each in error.args))
        if not matches:
            return Status([f"flavor {name} doesn't match node affinity"])
    return Status()


def taint_text(taint: Taint) -> str:
    """A taint as Go prints the struct."""
    added = "<nil>" if taint.time_added is None else go_time(taint.time_added)
    return f"{{{taint.key} {taint.value} {taint.effect} {added}}}"


def _kept_selectors(spec: Tree, labels: Mapping[str, str]) -> Tree:
    """The parts of selector and required affinity about labels that the flavor has."""
    kept: dict[str, Any] = {}
    selector = {k: v for k, v in (spec.get("nodeSelector") or {}).items() if k in labels}
    if selector:
        kept["nodeSelector"] = selector
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get(_REQUIRED)
    terms: list[Tree] = []
    for term in (required or {}).get("nodeSelectorTerms") or ():
        known = [each for each in term.get("matchExpressions") or () if each.get("key") in labels]
        if not known:  # the term says nothing about this flavor: the pods may run anywhere on it
            terms = []
            break
        terms.append({"matchExpressions": known})
    if terms:
        kept["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    return kept
