"""Schemas of queues, cohorts, flavors, topologies, admission checks and priority classes.

Follows `apis/kueue/v1beta2`.
"""

from __future__ import annotations

from typing import Final

from controlplane.api.custom_schemas import (
    INT32,
    INT64,
    LABEL_FORM,
    QUALIFIED_FORM,
    QUANTITY,
    STRING,
    SUBDOMAIN,
    SUBDOMAIN_FORM,
    TIME,
    choice,
    conditions,
    items,
    keyed,
    mapping,
    record,
    rule,
    text,
)
from controlplane.api.tree import Tree

__all__ = ["QUOTA_SCHEMAS", "TOLERATIONS"]

_IMMUTABLE: Final = rule("self == oldSelf", "field is immutable")
_HOSTNAME: Final = "'kubernetes.io/hostname'"
_EFFECTS: Final = "['NoSchedule', 'PreferNoSchedule', 'NoExecute']"
_EFFECTS_TEXT: Final = (
    "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"
)

TOLERATIONS: Final[Tree] = items(
    record(
        {
            "key": STRING,
            "operator": STRING,
            "value": STRING,
            "effect": STRING,
            "tolerationSeconds": INT64,
        }
    ),
    8,
    rules=(
        rule(
            "self.all(t, has(t.key) || t.operator == 'Exists')",
            "operator must be Exists when 'key' is empty, which means 'match all values and all keys'",
        ),
        rule(
            "self.all(t, !has(t.tolerationSeconds) || t.effect == 'NoExecute')",
            "effect must be 'NoExecute' when 'tolerationSeconds' is set",
        ),
        rule(
            "self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])",
            "supported toleration values: 'Equal'(default), 'Exists'",
        ),
        rule(
            "self.all(t, !(has(t.operator) && t.operator == 'Exists') || !has(t.value))",
            "a value must be empty when 'operator' is 'Exists'",
        ),
        rule(f"self.all(t, !has(t.effect) || t.effect in {_EFFECTS})", _EFFECTS_TEXT),
    ),
)
_TAINTS: Final = items(
    record(
        {"key": STRING, "value": STRING, "effect": STRING, "timeAdded": TIME}, ("effect", "key")
    ),
    8,
    rules=(rule(f"self.all(t, t.effect in {_EFFECTS})", _EFFECTS_TEXT),),
)

_FAIR_SHARING: Final = record({"weight": {**QUANTITY, "default": 1}})
_SHARE: Final = record({"weightedShare": INT64}, ("weightedShare",))
_STOP_POLICY: Final = choice("None", "Hold", "HoldAndDrain", default="None")


def _resource_groups() -> Tree:
    quota = record(
        {
            "name": STRING,
            "nominalQuota": QUANTITY,
            "borrowingLimit": QUANTITY,
            "lendingLimit": QUANTITY,
        },
        ("name", "nominalQuota"),
    )
    flavor = record(
        {"name": SUBDOMAIN, "resources": keyed(quota, ("name",), 64, 1)}, ("name", "resources")
    )
    group = record(
        {
            "coveredResources": items(STRING, 64, 1),
            "flavors": keyed(flavor, ("name",), 64, 1),
        },
        ("coveredResources", "flavors"),
        (
            rule(
                "self.flavors.all(f, size(f.resources) == size(self.coveredResources))",
                "flavors must have the same number of resources as the coveredResources",
            ),
        ),
    )
    return items(group, 16)


def _no_borrowing_without(parent: str, word: str) -> Tree:
    flavors = (
        "self.resourceGroups.all(g, g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))"
    )
    return rule(
        f"has(self.{parent}) || !has(self.resourceGroups) || {flavors}",
        f"borrowingLimit must be nil when {word} is empty",
    )


def _usage(*, borrowed: bool) -> Tree:
    fields: Tree = {"name": STRING, "total": QUANTITY}
    if borrowed:
        fields["borrowed"] = QUANTITY
    resources = keyed(record(fields, ("name",)), ("name",), 64)
    return keyed(
        record({"name": SUBDOMAIN, "resources": resources}, ("name", "resources")), ("name",), 64
    )


def _selector() -> Tree:
    requirement = record(
        {"key": STRING, "operator": STRING, "values": items(STRING)}, ("key", "operator")
    )
    made = record({"matchLabels": mapping(STRING), "matchExpressions": items(requirement)})
    return {**made, "x-kubernetes-map-type": "atomic"}


def _counts(*, borrowed: bool) -> Tree:
    return {
        "conditions": conditions(),
        "flavorsReservation": _usage(borrowed=borrowed),
        "flavorsUsage": _usage(borrowed=borrowed),
        "pendingWorkloads": INT32,
        "reservingWorkloads": INT32,
        "admittedWorkloads": INT32,
    }


def _cluster_queue() -> Tree:
    never_but = "self.reclaimWithinCohort == 'Never' && has(self.borrowWithinCohort)"
    both = "self.whenCanBorrow == 'TryNextFlavor' && self.whenCanPreempt == 'TryNextFlavor'"
    words = ("MayStopSearch", "TryNextFlavor")
    check = record({"name": text(316, 1), "onFlavors": items(SUBDOMAIN, 64, kind="set")}, ("name",))
    migration = record(
        {
            "mode": {**choice("TryPreferredFlavors", "RetainFirstAdmission"), "maxLength": 253},
            "constraints": record({"lastAcceptableFlavorName": SUBDOMAIN}),
        },
        ("mode",),
    )
    spec = {
        "resourceGroups": _resource_groups(),
        "cohortName": SUBDOMAIN,
        "queueingStrategy": choice("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
        "namespaceSelector": _selector(),
        "flavorFungibility": record(
            {
                "whenCanBorrow": choice(*words, default="MayStopSearch"),
                "whenCanPreempt": choice(*words, default="TryNextFlavor"),
                "preference": choice("BorrowingOverPreemption", "PreemptionOverBorrowing"),
            },
            rules=(
                rule(
                    f"!has(self.preference) || ({both})",
                    "preference can only be set when both whenCanBorrow and whenCanPreempt are"
                    " TryNextFlavor",
                ),
            ),
            default={},
        ),
        "preemption": record(
            {
                "reclaimWithinCohort": choice("Never", "LowerPriority", "Any", default="Never"),
                "borrowWithinCohort": record(
                    {
                        "policy": choice("Never", "LowerPriority", default="Never"),
                        "maxPriorityThreshold": INT32,
                    },
                    default={},
                ),
                "withinClusterQueue": choice(
                    "Never", "LowerPriority", "LowerOrNewerEqualPriority", default="Never"
                ),
            },
            rules=(
                rule(
                    f"!({never_but} && self.borrowWithinCohort.policy != 'Never')",
                    "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
                ),
            ),
            default={},
        ),
        "admissionChecksStrategy": record(
            {"admissionChecks": keyed(check, ("name",), 64, 1)}, ("admissionChecks",)
        ),
        "stopPolicy": _STOP_POLICY,
        "fairSharing": _FAIR_SHARING,
        "admissionScope": record(
            {"admissionMode": choice("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")},
            ("admissionMode",),
        ),
        "concurrentAdmissionPolicy": record({"migration": migration}, ("migration",)),
    }
    status = {**_counts(borrowed=True), "fairSharing": _SHARE}
    rules = (_no_borrowing_without("cohortName", "cohort"),)
    return record({"spec": record(spec, rules=rules), "status": record(status)})


def _local_queue() -> Tree:
    spec = {
        "clusterQueue": {**SUBDOMAIN, "x-kubernetes-validations": [_IMMUTABLE]},
        "stopPolicy": _STOP_POLICY,
        "fairSharing": _FAIR_SHARING,
    }
    consumed = record(
        {"consumedResources": mapping(QUANTITY), "lastUpdate": TIME},
        ("consumedResources", "lastUpdate"),
    )
    sharing = record(
        {"weightedShare": INT64, "admissionFairSharingStatus": consumed}, ("weightedShare",)
    )
    status = {**_counts(borrowed=False), "fairSharing": sharing}
    return record({"spec": record(spec), "status": record(status)})


def _cohort() -> Tree:
    spec = {
        "parentName": SUBDOMAIN,
        "resourceGroups": _resource_groups(),
        "fairSharing": _FAIR_SHARING,
    }
    return record({"spec": record(spec), "status": record({"fairSharing": _SHARE})})


def _resource_flavor() -> Tree:
    spec = {
        "nodeLabels": mapping(STRING, 8, atomic=True),
        "nodeTaints": _TAINTS,
        "tolerations": TOLERATIONS,
        "topologyName": SUBDOMAIN,
    }
    rules = (
        rule(
            "!has(self.topologyName) || (has(self.nodeLabels) && size(self.nodeLabels) >= 1)",
            "at least one nodeLabel is required when topology is set",
        ),
        rule(
            "!has(oldSelf.topologyName) || (has(self.topologyName) &&"
            " self.topologyName == oldSelf.topologyName)",
            "topologyName is immutable when topologyName is set",
        ),
    )
    return record({"spec": record(spec, rules=rules)})


def _topology() -> Tree:
    level = record({"nodeLabel": text(316, 1, QUALIFIED_FORM)}, ("nodeLabel",))
    lowest = f"{{0}}[size({{0}}) - 1].nodeLabel == {_HOSTNAME}"
    mutable = f"({lowest.format('self')} && {lowest.format('oldSelf')})"
    rules = (
        rule(
            f"self == oldSelf || {mutable}",
            "levels are mutable only when kubernetes.io/hostname is the lowest level both before and"
            " after the change",
        ),
        rule("self.all(a, self.filter(b, b == a).size() == 1)", "must be unique"),
        rule(
            f"!self.exists(l, l.nodeLabel == {_HOSTNAME}) || {lowest.format('self')}",
            "the kubernetes.io/hostname label can only be used at the lowest level of topology",
        ),
    )
    return record({"spec": record({"levels": items(level, 16, 1, rules=rules)}, ("levels",))})


def _admission_check() -> Tree:
    parameters = record(
        {
            "apiGroup": text(253, 1, SUBDOMAIN_FORM),
            "kind": text(63, 1, "^(?i)[a-z]([-a-z0-9]*[a-z0-9])?$"),
            "name": text(63, 1, LABEL_FORM),
        },
        ("apiGroup", "kind", "name"),
    )
    spec = {
        "controllerName": {**text(253, 1), "x-kubernetes-validations": [_IMMUTABLE]},
        "parameters": parameters,
    }
    status = record({"conditions": conditions()})
    return record({"spec": record(spec, ("controllerName",)), "status": status})


def _provisioning_config() -> Tree:
    update = record(
        {
            "key": text(317, 1, QUALIFIED_FORM),
            "valueFromProvisioningClassDetail": text(32768, 1),
        },
        ("key", "valueFromProvisioningClassDetail"),
    )
    retries = {"backoffLimitCount": 3, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800}
    spec = {
        "provisioningClassName": text(253, 1, SUBDOMAIN_FORM),
        "parameters": mapping(text(255), 100),
        "managedResources": items(STRING, 100, kind="set"),
        "retryStrategy": record(
            {name: {**INT32, "default": value} for name, value in retries.items()}, default=retries
        ),
        "podSetUpdates": record({"nodeSelector": keyed(update, ("key",), 8)}),
        "podSetMergePolicy": choice(
            "IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"
        ),
    }
    return record({"spec": record(spec, ("provisioningClassName",))})


QUOTA_SCHEMAS: Final[dict[str, Tree]] = {
    "ClusterQueue": _cluster_queue(),
    "LocalQueue": _local_queue(),
    "Cohort": _cohort(),
    "ResourceFlavor": _resource_flavor(),
    "Topology": _topology(),
    "AdmissionCheck": _admission_check(),
    "ProvisioningRequestConfig": _provisioning_config(),
    "WorkloadPriorityClass": record({"value": INT32, "description": text(2048)}, ("value",)),
}
"""Without apiVersion, kind and metadata."""
