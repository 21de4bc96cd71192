"""Pod sets of a job, and what is added to its pod templates when it starts.

Follows `pkg/podset`, `pkg/util/equality` and `pkg/controller/jobframework/tas.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import evolve, field, frozen

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.validation import dns_label_errors, parse_int64
from controlplane.kubelet.cm.go_text import parse_bool
from controlplane.kueue.controllers.effects import Reader, ReconcileError
from controlplane.kueue.gates import Gates
from controlplane.kueue.jobs.objects import is_elastic
from controlplane.kueue.jobs.topology_annotations import (
    CONSTRAINTS,
    LAYER_COUNT,
    MOST_LAYERS,
    PREFERRED,
    REQUIRED,
    SLICE_SIZE,
    SLICE_TOPOLOGY,
    UNCONSTRAINED,
    constraints_of,
)
from controlplane.kueue.jobs.topology_annotations import GROUP as TOPOLOGY_GROUP
from controlplane.kueue.names import CLUSTER_QUEUE, LOCAL_QUEUE, POD_SET, TOPOLOGY_GATE, WORKLOAD
from controlplane.kueue.values import same
from controlplane.kueue.workload.status import status_of

__all__ = [
    "MAIN",
    "Info",
    "PermanentError",
    "from_assignment",
    "from_pod_set",
    "infos_from_status",
    "merge_into",
    "pod_set",
    "restore",
    "same_pod_sets",
    "topology_request",
]

MAIN: Final = "main"
SLICE_NAME: Final = "kueue.x-k8s.io/workload-slice-name"


class PermanentError(Exception):
    """A job cannot start as it is: trying again is of no use."""


@frozen
class Info:
    """Fields for the pod template of one pod set."""

    name: str = ""
    count: int = 0
    annotations: Tree = field(factory=dict)
    labels: Tree = field(factory=dict)
    node_selector: Tree = field(factory=dict)
    tolerations: Sequence[Tree] = ()
    gates: Sequence[Tree] = ()

    def merged(self, more: Info) -> Info:
        """With the parts of another one added.

        Raises:
            PermanentError: Both name a label, an annotation or a node label with different values.
        """
        return evolve(
            self,
            annotations=_joined("annotations", self.annotations, more.annotations),
            labels=_joined("labels", self.labels, more.labels),
            node_selector=_joined("nodeSelector", self.node_selector, more.node_selector),
            tolerations=_without_repeats(self.tolerations, more.tolerations),
            gates=_without_repeats(self.gates, more.gates),
        )


def _joined(what: str, ours: Tree, theirs: Tree) -> Tree:
    for name in sorted(theirs):
        if name in ours and ours[name] != theirs[name]:
            text = f"conflict for {what}: conflict for key={name}, value1={ours[name]}, value2={theirs[name]}"
            raise PermanentError(f"invalid admission check PodSetUpdate: {text}")
    return {**ours, **theirs}


def _without_repeats(ours: Sequence[Tree], theirs: Sequence[Tree]) -> list[Tree]:
    kept = list(ours)
    for each in theirs:
        if not any(same(each, other) for other in kept):
            kept.append(each)
    return kept


# -- pod sets of a job -----------------------------------------------------------------------------


def topology_request(
    annotations: Tree,
    gates: Gates,
    index_label: str,
    sub_group: tuple[str, int] | None = None,
) -> Tree | None:
    """The topology request of a pod template, None when the gate is off.

    Args:
        annotations: Of the template.
        gates: Feature gates.
        index_label: The label that numbers the pods.
        sub_group: The label that numbers sub-groups, and their count.

    Raises:
        ReconcileError: An annotation is malformed.
    """
    if not gates.enabled("TopologyAwareScheduling"):
        return None
    request: Tree = {}
    chosen = next(
        (name for name in (REQUIRED, PREFERRED, UNCONSTRAINED) if name in annotations), ""
    )
    try:
        if chosen == UNCONSTRAINED:
            request["unconstrained"] = parse_bool(annotations[UNCONSTRAINED])
        elif chosen:
            word = "required" if chosen == REQUIRED else "preferred"
            request[word] = annotations[chosen]
        request |= _slices(annotations, gates)
    except ValueError as error:
        raise ReconcileError(str(error)) from None
    request["podIndexLabel"] = index_label
    if sub_group is not None:
        request["subGroupIndexLabel"], request["subGroupCount"] = sub_group
    if TOPOLOGY_GROUP in annotations and chosen in {REQUIRED, PREFERRED}:
        request["podSetGroupName"] = annotations[TOPOLOGY_GROUP]
    return request


def _slices(annotations: Tree, gates: Gates) -> Tree:
    if CONSTRAINTS in annotations and gates.enabled("TASMultiLayerTopology"):
        try:
            layers = constraints_of(annotations[CONSTRAINTS])
        except ValueError as error:
            text = f"failed to parse multi-layer topology constraints annotation: {error}"
            raise ValueError(text) from None
        if not 1 <= len(layers) <= MOST_LAYERS:
            raise ValueError(f"{LAYER_COUNT}: got {len(layers)}")
        return {"podsetSliceRequiredTopologyConstraints": layers}
    if SLICE_TOPOLOGY in annotations and SLICE_SIZE in annotations:
        size = parse_int64(annotations[SLICE_SIZE])
        if size is None:
            text = f'strconv.ParseInt: parsing "{annotations[SLICE_SIZE]}": invalid syntax'
            raise ValueError(text)
        return {
            "podSetSliceRequiredTopology": annotations[SLICE_TOPOLOGY],
            "podSetSliceSize": size,
        }
    return {}


def pod_set(
    name: str,
    template: Tree,
    count: int,
    topology: Tree | None,
    minimum: int | None = None,
) -> Tree:
    """A pod set; of environment variables named twice the last one stays."""
    made: Tree = {"name": name, "template": _sanitized(template), "count": count}
    if minimum is not None:
        made["minCount"] = minimum
    if topology is not None:
        made["topologyRequest"] = topology
    return made


def _sanitized(template: Tree) -> Tree:
    spec = template.get("spec") or {}
    for kind in ("initContainers", "containers"):
        if any(each.get("env") for each in spec.get(kind) or ()):
            spec = {**spec, kind: [_last_values(each) for each in spec[kind]]}
    return {**template, "spec": spec}


def _last_values(container: Tree) -> Tree:
    if not container.get("env"):
        return container
    last = {each["name"]: each for each in container["env"]}
    return {**container, "env": list(last.values())}


def same_pod_sets(a: Sequence[Tree], b: Sequence[Tree], *, tolerations: bool) -> bool:
    """Return whether pod sets ask for the same, with or without regard to tolerations."""
    return len(a) == len(b) and all(
        _same_pod_set(ours, theirs, tolerations) for ours, theirs in zip(a, b, strict=True)
    )


def _same_pod_set(a: Tree, b: Tree, tolerations: bool) -> bool:
    if (a.get("count") or 0) != (b.get("count") or 0) or a.get("minCount") != b.get("minCount"):
        return False
    specs = [(each.get("template") or EMPTY_MAP).get("spec") or EMPTY_MAP for each in (a, b)]
    names = ("initContainers", "containers", *(("tolerations",) if tolerations else ()))
    return all(same(specs[0].get(name) or [], specs[1].get(name) or []) for name in names)


# -- start and stop --------------------------------------------------------------------------------


def infos_from_status(workload: Tree, reader: Reader, gates: Gates) -> list[Info]:
    """The additions of an admission to each pod set: flavors, queue names, updates of admission checks.

    Raises:
        ReconcileError: A flavor does not exist.
        PermanentError: Updates of checks conflict.
    """
    status = status_of(workload)
    assignments = status["admission"].get("podSetAssignments") or ()
    return [
        _info(workload, assignment, each, reader, gates)
        for assignment, each in zip(assignments, workload["spec"]["podSets"], strict=False)
    ]


def _info(workload: Tree, assignment: Tree, of_spec: Tree, reader: Reader, gates: Gates) -> Info:
    info = from_assignment(assignment, of_spec, reader, gates)
    annotations, labels = dict(info.annotations), dict(info.labels)
    if gates.enabled("TopologyAwareScheduling"):
        annotations[WORKLOAD] = workload["metadata"]["name"]
    if is_elastic(workload, gates):
        own = (workload["metadata"].get("annotations") or EMPTY_MAP).get(SLICE_NAME)
        annotations[SLICE_NAME] = own or workload["metadata"]["name"]
    labels[POD_SET] = info.name
    if gates.enabled("AssignQueueLabelsForPods"):
        labels[LOCAL_QUEUE] = workload["spec"].get("queueName") or ""
        queue = status_of(workload)["admission"].get("clusterQueue", "")
        if not dns_label_errors(queue):
            labels[CLUSTER_QUEUE] = queue
    info = evolve(info, annotations=annotations, labels=labels)
    for check in status_of(workload).get("admissionChecks") or ():
        for update in check.get("podSetUpdates") or ():
            if update.get("name") == info.name:
                info = _updated(info, check["name"], update)
                break
    return info


def _updated(info: Info, check: str, update: Tree) -> Info:
    more = Info(
        annotations=update.get("annotations") or {},
        labels=update.get("labels") or {},
        node_selector=update.get("nodeSelector") or {},
        tolerations=update.get("tolerations") or (),
    )
    try:
        return info.merged(more)
    except PermanentError as error:
        raise PermanentError(f'in admission check "{check}": {error}') from None


def from_assignment(assignment: Tree, of_spec: Tree, reader: Reader, gates: Gates) -> Info:
    """The additions of an admission to one pod set: those of its flavors and of its place in a topology.

    Raises:
        ReconcileError: A flavor does not exist.
    """
    annotations: Tree = {}
    held: list[Tree] = []
    if (
        gates.enabled("TopologyAwareScheduling")
        and assignment.get("topologyAssignment") is not None
    ):
        request = of_spec.get("topologyRequest") or EMPTY_MAP
        if all(request.get(name) is None for name in ("preferred", "required", "unconstrained")):
            annotations[UNCONSTRAINED] = "true"
        held.append({"name": TOPOLOGY_GATE})
    selector: Tree = {}
    tolerations: list[Tree] = []
    chosen = assignment.get("flavors") or EMPTY_MAP
    for name in dict.fromkeys(chosen[resource] for resource in sorted(chosen)):
        flavor = reader.get("ResourceFlavor", "", name)
        if flavor is None:
            raise ReconcileError(f'resourceflavors.kueue.x-k8s.io "{name}" not found')
        spec = flavor.get("spec") or EMPTY_MAP
        selector |= spec.get("nodeLabels") or {}
        tolerations += spec.get("tolerations") or ()
    count = assignment.get("count")
    return Info(
        name=assignment.get("name", ""),
        count=(of_spec.get("count") or 0) if count is None else count,
        annotations=annotations,
        node_selector=selector,
        tolerations=tolerations,
        gates=held,
    )


def from_pod_set(of_spec: Tree) -> Info:
    """The pod template of a job before its start."""
    template = of_spec.get("template") or EMPTY_MAP
    metadata, spec = template.get("metadata") or EMPTY_MAP, template.get("spec") or EMPTY_MAP
    return Info(
        name=of_spec.get("name", ""),
        count=of_spec.get("count") or 0,
        annotations=metadata.get("annotations") or {},
        labels=metadata.get("labels") or {},
        node_selector=spec.get("nodeSelector") or {},
        tolerations=spec.get("tolerations") or (),
        gates=spec.get("schedulingGates") or (),
    )


def merge_into(template: Tree, info: Info, gates: Gates) -> Tree:
    """A pod template (or a pod) with an info added.

    Raises:
        PermanentError: The template has other values already.
    """
    metadata, spec = dict(template.get("metadata") or ()), dict(template.get("spec") or ())
    annotations = dict(metadata.get("annotations") or {})
    if gates.enabled("ElasticJobsViaWorkloadSlices"):
        stale = [SLICE_NAME, *([WORKLOAD] if SLICE_NAME in info.annotations else ())]
        for name in stale:
            if name in info.annotations:
                annotations.pop(name, None)
    now = Info(
        annotations=annotations,
        labels=metadata.get("labels") or {},
        node_selector=spec.get("nodeSelector") or {},
        tolerations=spec.get("tolerations") or (),
        gates=spec.get("schedulingGates") or (),
    )
    return _with_info(template, now.merged(info))


def restore(template: Tree, info: Info) -> Tree:
    """A pod template with exactly the parts of an info."""
    return _with_info(template, info)


def _with_info(template: Tree, info: Info) -> Tree:
    metadata, spec = dict(template.get("metadata") or ()), dict(template.get("spec") or ())
    _put(metadata, "annotations", dict(info.annotations))
    _put(metadata, "labels", dict(info.labels))
    _put(spec, "nodeSelector", dict(info.node_selector))
    _put(spec, "tolerations", list(info.tolerations))
    _put(spec, "schedulingGates", list(info.gates))
    changed = {**template, "metadata": metadata, "spec": spec}
    if not metadata:
        del changed["metadata"]
    return changed


def _put(tree: Tree, name: str, value: Any) -> None:
    """Set a field; an empty value is the same as none."""
    if value:
        tree[name] = value
    else:
        tree.pop(name, None)
