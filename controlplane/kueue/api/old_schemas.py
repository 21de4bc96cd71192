"""Schemas of the kinds that look different in v1beta1, made from those of v1beta2. Follows `apis/kueue/v1beta1`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from controlplane.api.custom_schemas import (
    INT32,
    INT64,
    POSITIVE,
    QUANTITY,
    STRING,
    SUBDOMAIN,
    TIME,
    choice,
    items,
    keyed,
    mapping,
    record,
    rule,
    text,
)
from controlplane.api.tree import Tree
from controlplane.kueue.api.conversion import CLASS_SOURCES
from controlplane.kueue.api.quota_schemas import QUOTA_SCHEMAS
from controlplane.kueue.api.workload_schema import (
    RULES,
    WAS_RESERVED,
    WORKLOAD_SCHEMA,
)

__all__ = ["OLD_SCHEMAS"]


def _with(schema: Tree, path: str, change: Callable[[Tree], Tree]) -> Tree:
    """The schema with that of one field changed; the path leads through properties and items."""
    name, _, rest = path.partition(".")
    if not name:
        return change(schema)
    if name == "[]":
        return {**schema, "items": _with(schema["items"], rest, change)}
    properties = schema["properties"]
    return {**schema, "properties": {**properties, name: _with(properties[name], rest, change)}}


def _fields(schema: Tree, gone: tuple[str, ...], **new: Tree) -> Tree:
    kept = {name: each for name, each in schema["properties"].items() if name not in gone}
    return {**schema, "properties": {**kept, **new}}


_CONSUMED: Final = record(
    {"consumedResources": mapping(QUANTITY), "lastUpdate": TIME},
    ("consumedResources", "lastUpdate"),
)
_SHARE: Final = record(
    {"weightedShare": INT64, "admissionFairSharingStatus": _CONSUMED}, ("weightedShare",)
)


def _cluster_queue() -> Tree:
    def spec(schema: Tree) -> Tree:
        new = _fields(
            schema,
            ("cohortName", "concurrentAdmissionPolicy"),
            cohort=SUBDOMAIN,
            admissionChecks=items(text(316)),
        )
        rules = [
            {**each, "rule": each["rule"].replace("self.cohortName", "self.cohort")}
            for each in schema["x-kubernetes-validations"]
        ]
        return {**new, "x-kubernetes-validations": rules}

    def fungibility(schema: Tree) -> Tree:
        words = ("MayStopSearch", "TryNextFlavor")
        return _fields(
            schema,
            (),
            whenCanBorrow=choice(*words, "Borrow", default="MayStopSearch"),
            whenCanPreempt=choice(*words, "Preempt", default="TryNextFlavor"),
        )

    head = record({"name": STRING, "namespace": STRING}, ("name", "namespace"))
    pending = record(
        {"clusterQueuePendingWorkload": items(head), "lastChangeTime": TIME}, ("lastChangeTime",)
    )
    made = _with(QUOTA_SCHEMAS["ClusterQueue"], "spec", spec)
    made = _with(made, "spec.flavorFungibility", fungibility)
    return _with(
        made,
        "status",
        lambda schema: _fields(schema, (), pendingWorkloadsStatus=pending, fairSharing=_SHARE),
    )


def _local_queue() -> Tree:
    def status(schema: Tree) -> Tree:
        taint = record(
            {"key": STRING, "value": STRING, "effect": STRING, "timeAdded": TIME}, ("effect", "key")
        )
        topology = record({"name": SUBDOMAIN, "levels": items(STRING, 16, 1)}, ("levels", "name"))
        flavor = record(
            {
                "name": SUBDOMAIN,
                "resources": items(STRING, 64, kind="set"),
                "nodeLabels": mapping(STRING, 8, atomic=True),
                "nodeTaints": items(taint, 8),
                "topology": topology,
            },
            ("name",),
        )
        usage = schema["properties"]["flavorsUsage"]
        return _fields(
            schema, ("flavorsUsage",), flavorUsage=usage, flavors=keyed(flavor, ("name",), 64)
        )

    return _with(QUOTA_SCHEMAS["LocalQueue"], "status", status)


def _cohort() -> Tree:
    return _with(
        QUOTA_SCHEMAS["Cohort"], "status", lambda schema: _fields(schema, (), fairSharing=_SHARE)
    )


def _workload() -> Tree:
    both = f"{WAS_RESERVED} && has(oldSelf.spec.priorityClassSource) && has(self.spec.priorityClassSource)"
    names = "has(oldSelf.spec.priorityClassName) && has(self.spec.priorityClassName)"
    own = "'kueue.x-k8s.io/workloadpriorityclass'"
    rules = (
        *(each for each in RULES if "priorityClassRef" not in each["message"]),
        rule(
            f"!({both}) || oldSelf.spec.priorityClassSource == self.spec.priorityClassSource",
            "priorityClassSource is immutable while workload quota reserved",
        ),
        rule(
            f"!({both} && self.spec.priorityClassSource != {own} && {names}) ||"
            " oldSelf.spec.priorityClassName == self.spec.priorityClassName",
            "priorityClassName is immutable while workload quota reserved and priorityClassSource is not"
            " equal to kueue.x-k8s.io/workloadpriorityclass",
        ),
    )

    def spec(schema: Tree) -> Tree:
        new = _fields(
            schema,
            ("priorityClassRef", "preemptionGates"),
            priorityClassName=SUBDOMAIN,
            priorityClassSource=choice(*CLASS_SOURCES, "", default=""),
        )
        needed = rule(
            "!has(self.priorityClassName) || has(self.priority)",
            "priority should not be nil when priorityClassName is set",
        )
        return {**new, "x-kubernetes-validations": [needed]}

    domain = record({"values": items(STRING, 16, 1), "count": POSITIVE}, ("count", "values"))
    assignment = record(
        {"levels": items(STRING, 16, 1), "domains": items(domain)}, ("domains", "levels")
    )
    gone = ("accumulatedPastExecutionTimeSeconds", "preemptionGates")
    made = {**WORKLOAD_SCHEMA, "x-kubernetes-validations": list(rules)}
    made = _with(made, "spec", spec)
    made = _with(
        made,
        "spec.podSets.[].topologyRequest",
        lambda schema: _fields(schema, ("podsetSliceRequiredTopologyConstraints",)),
    )
    made = _with(
        made,
        "status",
        lambda schema: _fields(schema, gone, accumulatedPastExexcutionTimeSeconds=INT32),
    )
    return _with(
        made, "status.admission.podSetAssignments.[].topologyAssignment", lambda _: assignment
    )


OLD_SCHEMAS: Final[dict[str, Tree]] = {
    "ClusterQueue": _cluster_queue(),
    "LocalQueue": _local_queue(),
    "Cohort": _cohort(),
    "Workload": _workload(),
}
"""Without apiVersion, kind and metadata."""
