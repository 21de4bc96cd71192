"""Validation of Workloads. Follows `pkg/webhooks/workload_webhook.go`."""

from __future__ import annotations

from typing import Any, Final

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.validation import parse_int64
from controlplane.apiserver.kinds.checks import entries, when
from controlplane.apiserver.kinds.conditions import validate_conditions
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from controlplane.kueue.amounts import PODS, requests_of_texts
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import ELASTIC_JOB, PRIORITY_BOOST
from controlplane.kueue.values import ordered, ordered_pod_set, ordered_pod_sets, same
from controlplane.kueue.webhooks.flavors import tolerations
from controlplane.kueue.webhooks.gated_by import validate_gated_by
from controlplane.kueue.webhooks.quotas import quantity
from controlplane.kueue.workload.status import has_quota_reservation, status_of

__all__ = ["is_elastic", "validate_workload"]

Errors = list[FieldError]

IMMUTABLE: Final = "field is immutable"
REPLACEMENT_FOR: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
_BOOST_PATH: Final = f"metadata.annotations[{PRIORITY_BOOST}]"


def is_elastic(tree: Tree, gates: Gates) -> bool:
    """Return whether an object asks for elastic jobs by workload slices."""
    annotations = tree["metadata"].get("annotations") or EMPTY_MAP
    asked = annotations.get(ELASTIC_JOB) == "true"
    return asked and gates.enabled("ElasticJobsViaWorkloadSlices")


def validate_workload(workload: Tree, old: Tree | None, gates: Gates) -> Errors:
    """Return the errors of a Workload; `old` is None for a new one."""
    errors = _spec(workload, gates)
    errors += _status(workload, old, gates)
    if gates.enabled("PriorityBoost"):
        errors += _boost(workload)
    if old is not None:
        errors += _update(workload, old, gates)
    if gates.enabled("AdmissionGatedBy"):
        # An update looks at the form of the annotation twice: as that of any Workload, and as that of a new value.
        if old is not None:
            errors += validate_gated_by(workload, None)
        errors += validate_gated_by(workload, old)
    return errors


# -- the specification -----------------------------------------------------------------------------


def _spec(workload: Tree, gates: Gates) -> Errors:
    errors: Errors = []
    spec = workload.get("spec") or EMPTY_MAP
    for pod_set, path in entries(spec, "podSets", "spec"):
        errors += _pod_set(pod_set, path, gates)
    variable = sum(each.get("minCount") is not None for each in spec.get("podSets") or ())
    path = "spec.podSets"
    errors += when(variable > 1, invalid, path, variable, "at most one podSet can use minCount")
    both = variable > 0 and is_elastic(workload, gates)
    text = "partial admission and elastic job cannot be used together"
    return errors + when(both, invalid, path, variable, text)


def _pod_set(pod_set: Tree, path: str, gates: Gates) -> Errors:
    template = pod_set.get("template") or EMPTY_MAP
    metadata, spec = template.get("metadata") or EMPTY_MAP, template.get("spec") or EMPTY_MAP
    errors: Errors = []
    if gates.enabled("WorkloadValidationForPodSetMetadata"):
        at = f"{path}.template.metadata"
        errors += validate_labels(metadata.get("labels") or {}, f"{at}.labels")
        errors += validate_annotations(metadata.get("annotations") or {}, f"{at}.annotations")
    for name in ("initContainers", "containers"):
        for container, at in entries(spec, name, f"{path}.template.spec"):
            errors += _resources(container.get("resources"), f"{at}.resources", gates)
    errors += _resources(spec.get("resources"), f"{path}.template.spec.resources", gates)
    if gates.enabled("TASValidateWorkloadSliceSize"):
        errors += _slices(pod_set.get("topologyRequest"), f"{path}.topologyRequest")
    return errors


def _resources(resources: Tree | None, path: str, gates: Gates) -> Errors:
    errors: Errors = []
    for kind in ("requests", "limits"):
        for name, amount in sorted(((resources or EMPTY_MAP).get(kind) or EMPTY_MAP).items()):
            at = f"{path}.{kind}[{name}]"
            text = "the key is reserved for internal kueue use"
            errors += when(name == PODS, invalid, at, PODS, text)
            if gates.enabled("WorkloadValidateResourcesAreNonNegative"):
                errors += quantity(amount, at)
    return errors


def _slices(request: Tree | None, path: str) -> Errors:
    """Slices of a topology request have a positive size."""
    given = request or EMPTY_MAP
    topology, size = given.get("podSetSliceRequiredTopology"), given.get("podSetSliceSize")
    at, text = f"{path}.podSetSliceSize", "must be greater than 0"
    errors: Errors = []
    if topology is not None:
        if size is None:
            missing = "must be set when podSetSliceRequiredTopology is specified"
            errors.append(required(at, missing))
        elif size <= 0:
            errors.append(invalid(at, size, text))
    elif size is not None:
        alone = "may not be set when podSetSliceRequiredTopology is not specified"
        errors.append(forbidden(at, alone))
    for layer, place in entries(given, "podsetSliceRequiredTopologyConstraints", path):
        size = layer.get("size") or 0
        errors += when(size <= 0, invalid, f"{place}.size", size, text)
    return errors


def _boost(workload: Tree) -> Errors:
    value = (workload["metadata"].get("annotations") or EMPTY_MAP).get(PRIORITY_BOOST)
    if value is None:
        return []
    text = "must be a valid signed integer"
    if not value:
        text = f'{text}; use "0" explicitly, empty string is not allowed'
        return [invalid(_BOOST_PATH, value, text)]
    number = parse_int64(value)
    wrong = number is None or not -(1 << 31) <= number < 1 << 31
    return when(wrong, invalid, _BOOST_PATH, value, text)


# -- the status ------------------------------------------------------------------------------------


def _status(workload: Tree, old: Tree | None, gates: Gates) -> Errors:
    status = status_of(workload)
    errors: Errors = []
    if has_quota_reservation(workload):
        errors += _admission(workload, old)
    errors += validate_conditions(status.get("conditions"), "status.conditions")
    errors += _reclaimable(workload, old, gates)
    names = _pod_set_names(workload)
    for check, path in entries(status, "admissionChecks", "status"):
        for update, at in entries(check, "podSetUpdates", path):
            errors += _pod_set_update(update, names, at)
    return errors


def _pod_set_names(workload: Tree) -> list[str]:
    return [each.get("name", "") for each in workload["spec"].get("podSets") or ()]


def _without_admission(workload: Tree | None) -> bool:
    return (
        workload is not None
        and has_quota_reservation(workload)
        and status_of(workload).get("admission") is None
    )


def _admission(workload: Tree, old: Tree | None) -> Errors:
    admission, path = status_of(workload).get("admission"), "status.admission"
    if admission is None:
        text = "must be set while the QuotaReserved condition is true"
        return [] if _without_admission(old) else [required(path, text)]
    names = _pod_set_names(workload)
    errors: Errors = []
    for assignment, at in entries(admission, "podSetAssignments", path):
        name, count = assignment.get("name", ""), assignment.get("count") or 0
        errors += when(name not in names, not_found, f"{at}.name", name)
        if count > 0:
            errors += _multiples(
                assignment.get("resourceUsage") or {}, count, f"{at}.resourceUsage"
            )
    return errors


def _multiples(usage: Tree, count: int, path: str) -> Errors:
    """Usage is a multiple of the count. Upstream prints the address of the count instead of it."""
    text = f"is not a multiple of {count}"
    amounts = requests_of_texts(usage)
    return [
        invalid(f"{path}[{name}]", str(usage[name]), text)
        for name in sorted(amounts)
        if amounts[name] % count
    ]


def _reclaimable(workload: Tree, old: Tree | None, gates: Gates) -> Errors:
    pods = status_of(workload).get("reclaimablePods") or []
    counts = {
        each.get("name", ""): each.get("count") or 0
        for each in workload["spec"].get("podSets") or ()
    }
    stale: list[tuple[str, int]] = []
    if old is not None and is_elastic(workload, gates):
        stale = [_named(each) for each in status_of(old).get("reclaimablePods") or ()]
    errors: Errors = []
    for each in pods:
        name, count = _named(each)
        path = f"status.reclaimablePods[{name}]"
        if name not in counts:
            errors.append(not_supported(f"{path}.name", name, [*counts]))
        elif count > counts[name] and (name, count) not in stale:
            text = f"should be less or equal to {counts[name]}"
            errors.append(invalid(f"{path}.count", count, text))
    return errors


def _named(reclaimable: Tree) -> tuple[str, int]:
    return reclaimable.get("name", ""), reclaimable.get("count") or 0


def _pod_set_update(update: Tree, names: list[str], path: str) -> Errors:
    name = update.get("name", "")
    errors = when(name not in names, not_supported, f"{path}.name", name, names)
    errors += tolerations(update, path)
    errors += validate_annotations(update.get("annotations") or {}, f"{path}.annotations")
    for field in ("nodeSelector", "labels"):
        errors += validate_labels(update.get(field) or {}, f"{path}.{field}")
    return errors


# -- updates ---------------------------------------------------------------------------------------


def _update(new: Tree, old: Tree, gates: Gates) -> Errors:
    errors: Errors = []
    if has_quota_reservation(old):
        errors += _same_pod_sets(
            new["spec"].get("podSets") or [], old["spec"].get("podSets") or [], gates
        )
        if has_quota_reservation(new):
            errors += _reclaimable_update(new, old, gates)
    errors += _admission_update(
        status_of(new).get("admission"), status_of(old).get("admission"), gates
    )
    errors += _same_pod_set_updates(new, old)
    return errors + _cluster_name(new, old, gates)


def _same_pod_sets(new: list[Tree], old: list[Tree], gates: Gates) -> Errors:
    """Pod sets do not change while quota is reserved; fewer pods are allowed for elastic jobs."""
    if len(new) != len(old):
        return [invalid("spec.podSets", ordered_pod_sets(new), IMMUTABLE)]
    errors: Errors = []
    for index, (after, before) in enumerate(zip(new, old, strict=True)):
        was = before.get("count") or 0
        if gates.enabled("ElasticJobsViaWorkloadSlices") and (after.get("count") or 0) < was:
            after = {**after, "count": was}
        path = f"spec.podSets.{index}"
        changed = not same(after, before)
        errors += when(changed, invalid, path, ordered_pod_set(after), IMMUTABLE)
    return errors


def _reclaimable_update(new: Tree, old: Tree, gates: Gates) -> Errors:
    """Counts of an admitted Workload do not go down, save for pod sets that were scaled down."""
    before = dict(_named(each) for each in status_of(old).get("reclaimablePods") or ())
    after = dict(_named(each) for each in status_of(new).get("reclaimablePods") or ())
    if before == after or not before:
        return []
    shrunk = _scaled_down(new, gates)
    errors: Errors = []
    for name, count in after.items():
        path = f"status.reclaimablePods[{name}].count"
        less = count < before.get(name, 0) and name not in shrunk
        errors += when(less, invalid, path, count, f"cannot be less than {before.get(name, 0)}")
    for name in before:
        gone = name not in after and name not in shrunk
        errors += when(gone, required, f"status.reclaimablePods[{name}]", "cannot be removed")
    return errors


def _scaled_down(workload: Tree, gates: Gates) -> list[str]:
    admission = status_of(workload).get("admission")
    if admission is None or not is_elastic(workload, gates):
        return []
    counts = {each.get("name", ""): each.get("count") or 0 for each in workload["spec"]["podSets"]}
    return [
        each.get("name", "")
        for each in admission.get("podSetAssignments") or ()
        if each.get("count") is not None and each["count"] > counts.get(each.get("name", ""), 0)
    ]


def _admission_update(new: Tree | None, old: Tree | None, gates: Gates) -> Errors:
    """An admission is set and cleared, not changed; topology assignments may be set."""
    if new is None or old is None:
        return []
    compared: tuple[Any, Any] = (new, old)
    assignments = [each.get("podSetAssignments") or [] for each in (new, old)]
    if gates.enabled("TopologyAwareScheduling") and len(assignments[0]) == len(assignments[1]):
        compared = (_without_topology(new), _without_topology(old))
    changed = not same(*compared)
    return when(changed, invalid, "status.admission", _shown_admission(new), IMMUTABLE)


def _without_topology(admission: Tree) -> Tree:
    dropped = ("topologyAssignment", "delayedTopologyRequest")
    assignments = [
        {name: value for name, value in each.items() if name not in dropped}
        for each in admission.get("podSetAssignments") or ()
    ]
    return {**admission, "podSetAssignments": assignments}


def _shown_admission(admission: Tree) -> Tree:
    shown: Tree = ordered(admission)
    return shown


def _same_pod_set_updates(new: Tree, old: Tree) -> Errors:
    """Check that the pod set updates of a Ready check do not change."""
    after = {each["name"]: each for each in status_of(new).get("admissionChecks") or ()}
    errors: Errors = []
    for check, path in entries(status_of(old), "admissionChecks", "status"):
        now = after.get(check["name"])
        if now is None or check.get("state") != "Ready" or now.get("state") != "Ready":
            continue
        updates = now.get("podSetUpdates")
        changed = not same(updates, check.get("podSetUpdates"))
        errors += when(changed, invalid, f"{path}.podSetUpdates", ordered(updates), IMMUTABLE)
    return errors


def _cluster_name(new: Tree, old: Tree, gates: Gates) -> Errors:
    annotations = new["metadata"].get("annotations") or EMPTY_MAP
    if gates.enabled("ElasticJobsViaWorkloadSlices") and REPLACEMENT_FOR in annotations:
        return []
    name = status_of(new).get("clusterName")
    if name is None or status_of(old).get("clusterName") is not None:
        return []
    nominated = status_of(old).get("nominatedClusterNames") or []
    text = "when setting clusterName it must be one of the nominatedClusterNames"
    return when(name not in nominated, invalid, "status.clusterName", name, text)
