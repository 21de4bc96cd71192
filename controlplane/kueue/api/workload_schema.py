"""The schema of Workloads. Follows `apis/kueue/v1beta2/workload_types.go`.

The specification in a pod template is kept as it is: its own rules are those of pods, when they are made.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.custom_schemas import (
    BOOLEAN,
    COUNT,
    INT32,
    POD_SET_NAME,
    POSITIVE,
    QUANTITY,
    STRING,
    SUBDOMAIN,
    SUBDOMAIN_FORM,
    TIME,
    choice,
    conditions,
    integer,
    items,
    keyed,
    mapping,
    record,
    rule,
    text,
)
from controlplane.api.tree import Tree
from controlplane.kueue.api.quota_schemas import TOLERATIONS

__all__ = ["RULES", "WAS_RESERVED", "WORKLOAD_SCHEMA"]

MOST_POD_SETS: Final = 18
MOST_DOMAINS: Final = 100_000
_ONE_OF: Final = "exactly one of the fields in [universal individual] must be set"


def _is_true(which: str, condition: str) -> str:
    """CEL: the object has the condition."""
    found = f"c, c.type == '{condition}' && c.status == 'True'"
    return f"(has({which}.status) && has({which}.status.conditions) && {which}.status.conditions.exists({found}))"


_RESERVED: Final = _is_true("self", "QuotaReserved")
WAS_RESERVED: Final = _is_true("oldSelf", "QuotaReserved")
_BOTH_CLASSES: Final = "has(oldSelf.spec.priorityClassRef) && has(self.spec.priorityClassRef)"


def _same_class(field: str, *, only_pod_class: bool = False) -> str:
    given = f"{WAS_RESERVED} && {_BOTH_CLASSES}"
    if only_pod_class:
        given += " && self.spec.priorityClassRef.kind == 'PriorityClass'"
    equal = f"oldSelf.spec.priorityClassRef.{field} == self.spec.priorityClassRef.{field}"
    return f"!({given}) || {equal}"


def _unchanged(field: str) -> str:
    presence = f"has(oldSelf.spec.{field}) == has(self.spec.{field})"
    equal = f"!has(oldSelf.spec.{field}) || oldSelf.spec.{field} == self.spec.{field}"
    return f"({presence} && ({equal}))"


RULES: Final = (
    rule(
        f"!({_RESERVED} && has(self.status.admission)) || "
        "size(self.spec.podSets) == size(self.status.admission.podSetAssignments)",
        "podSetAssignments must have the same number of podSets as the spec",
    ),
    rule(
        f"!{WAS_RESERVED} || has(oldSelf.spec.priorityClassRef) == has(self.spec.priorityClassRef)",
        "priorityClassRef is immutable while workload quota reserved",
    ),
    rule(_same_class("group"), "priorityClassRef.group is immutable while workload quota reserved"),
    rule(_same_class("kind"), "priorityClassRef.kind is immutable while workload quota reserved"),
    rule(
        _same_class("name", only_pod_class=True),
        "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota"
        " reserved",
    ),
    rule(
        f"!({WAS_RESERVED} && {_RESERVED}) || {_unchanged('queueName')}",
        "queueName is immutable while workload quota reserved",
    ),
    rule(
        f"!({_is_true('oldSelf', 'Admitted')} && {_is_true('self', 'Admitted')}) || "
        f"{_unchanged('maximumExecutionTimeSeconds')}",
        "maximumExecutionTimeSeconds is immutable while workload quota reserved",
    ),
)


def _template() -> Tree:
    metadata = record(
        {
            "annotations": mapping(STRING),
            "labels": mapping(STRING),
            "finalizers": {"type": "array", "items": STRING},
            "name": STRING,
            "namespace": STRING,
        }
    )
    spec: Tree = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return record({"metadata": metadata, "spec": spec})


def _topology_request() -> Tree:
    layer = record({"topology": text(63, 1), "size": POSITIVE}, ("size", "topology"))
    return record(
        {
            "required": text(63),
            "preferred": text(63),
            "unconstrained": BOOLEAN,
            "podIndexLabel": text(317),
            "subGroupIndexLabel": text(317),
            "subGroupCount": COUNT,
            "podSetGroupName": text(256),
            "podSetSliceRequiredTopology": text(63),
            "podSetSliceSize": POSITIVE,
            "podsetSliceRequiredTopologyConstraints": items(layer, 3),
        }
    )


def _spec() -> Tree:
    pod_set = record(
        {
            "name": {**POD_SET_NAME, "default": "main"},
            "template": _template(),
            "count": integer(0, 1),
            "minCount": POSITIVE,
            "topologyRequest": _topology_request(),
        },
        ("template",),
        (
            rule(
                "!has(self.minCount) || self.minCount <= self.count",
                "minCount should be positive and less or equal to count",
            ),
        ),
    )
    priority_class = record(
        {
            "group": choice("kueue.x-k8s.io", "scheduling.k8s.io"),
            "kind": choice("WorkloadPriorityClass", "PriorityClass"),
            "name": text(253, 1, SUBDOMAIN_FORM),
        },
        ("group", "kind", "name"),
        (
            rule(
                "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
                "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
            ),
            rule(
                "self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
                "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
            ),
        ),
    )
    return record(
        {
            "podSets": keyed(pod_set, ("name",), MOST_POD_SETS, 1),
            "queueName": SUBDOMAIN,
            "priorityClassRef": priority_class,
            "priority": INT32,
            "active": {**BOOLEAN, "default": True},
            "maximumExecutionTimeSeconds": POSITIVE,
            "preemptionGates": keyed(record({"name": text(63, 1)}, ("name",)), ("name",), 8),
        },
        rules=(
            rule(
                "!has(self.priorityClassRef) || has(self.priority)",
                "priority should not be nil when priorityClassRef is set",
            ),
        ),
    )


def _topology_assignment() -> Tree:
    roots = items(text(63), MOST_DOMAINS, 1)
    individual = record({"prefix": text(63), "suffix": text(63), "roots": roots}, ("roots",))
    exactly_one = rule("has(self.universal) != has(self.individual)", _ONE_OF)
    values = record({"universal": text(63), "individual": individual}, rules=(exactly_one,))
    counts = record(
        {"universal": POSITIVE, "individual": items(POSITIVE, MOST_DOMAINS, 1)},
        rules=(exactly_one,),
    )
    piece = record(
        {
            "domainCount": POSITIVE,
            "valuesPerLevel": items(values, 16, 1),
            "podCounts": counts,
        },
        ("domainCount", "podCounts", "valuesPerLevel"),
        (
            rule(
                "!has(self.podCounts.individual) ||"
                " size(self.podCounts.individual) == self.domainCount",
                "podCounts.individual must have length equal to domainCount",
            ),
            rule(
                "self.valuesPerLevel.all(v, !has(v.individual) ||"
                " size(v.individual.roots) == self.domainCount)",
                "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of"
                " this TopologyAssignmentSlice",
            ),
        ),
    )
    return record(
        {"levels": items(text(317), 16, 1), "slices": items(piece, 1000)},
        ("levels", "slices"),
        (
            rule(
                "self.slices.all(s, size(s.valuesPerLevel) == size(self.levels))",
                "valuesPerLevel must have the same length as the number of levels in this"
                " TopologyAssignment",
            ),
        ),
    )


def _admission() -> Tree:
    assignment = record(
        {
            "name": {**POD_SET_NAME, "default": "main"},
            "flavors": mapping(SUBDOMAIN),
            "resourceUsage": mapping(QUANTITY),
            "count": COUNT,
            "topologyAssignment": _topology_assignment(),
            "delayedTopologyRequest": {**choice("Pending", "Ready"), "maxLength": 7},
        }
    )
    return record(
        {
            "clusterQueue": SUBDOMAIN,
            "podSetAssignments": keyed(assignment, ("name",), MOST_POD_SETS),
        }
    )


def _admission_checks() -> Tree:
    update = record(
        {
            "name": POD_SET_NAME,
            "labels": mapping(STRING),
            "annotations": mapping(STRING),
            "nodeSelector": mapping(STRING),
            "tolerations": TOLERATIONS,
        },
        ("name",),
    )
    check = record(
        {
            "name": text(316, 1),
            "state": choice("Pending", "Ready", "Retry", "Rejected"),
            "lastTransitionTime": TIME,
            "message": text(32768),
            "requeueAfterSeconds": COUNT,
            "retryCount": COUNT,
            "podSetUpdates": items(update, MOST_POD_SETS),
        },
        ("lastTransitionTime", "message", "name", "state"),
    )
    return keyed(check, ("name",), 8)


def _status() -> Tree:
    eviction = record(
        {"reason": text(316), "underlyingCause": text(316), "count": COUNT},
        ("count", "reason", "underlyingCause"),
    )
    gate = record(
        {
            "name": text(63, 1),
            "position": choice("Closed", "Open"),
            "lastTransitionTime": TIME,
        },
        ("lastTransitionTime", "name", "position"),
    )
    reclaimable = record({"name": POD_SET_NAME, "count": COUNT}, ("count", "name"))
    request = record({"name": POD_SET_NAME, "resources": mapping(QUANTITY)}, ("name",))
    return record(
        {
            "conditions": conditions(),
            "admission": _admission(),
            "requeueState": record({"count": COUNT, "requeueAt": TIME}),
            "reclaimablePods": keyed(reclaimable, ("name",), MOST_POD_SETS),
            "admissionChecks": _admission_checks(),
            "resourceRequests": keyed(request, ("name",), MOST_POD_SETS),
            "accumulatedPastExecutionTimeSeconds": INT32,
            "schedulingStats": record(
                {"evictions": keyed(eviction, ("reason", "underlyingCause"), 256)}
            ),
            "nominatedClusterNames": items(text(256), 20),
            "clusterName": text(256),
            "unhealthyNodes": keyed(record({"name": text(63)}, ("name",)), ("name",), 8),
            "preemptionGates": keyed(gate, ("name",), 8),
        },
        rules=(
            rule(
                "!has(oldSelf.clusterName) || !has(self.clusterName) ||"
                " oldSelf.clusterName == self.clusterName",
                "clusterName is immutable once set",
            ),
            rule(
                "!has(self.clusterName) || !has(self.nominatedClusterNames) ||"
                " size(self.nominatedClusterNames) == 0",
                "clusterName and nominatedClusterNames are mutually exclusive",
            ),
        ),
    )


WORKLOAD_SCHEMA: Final[Tree] = record({"spec": _spec(), "status": _status()}, rules=RULES)
"""Without apiVersion, kind and metadata."""
