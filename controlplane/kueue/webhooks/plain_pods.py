"""Validation of managed pods and pod groups. Follows `pkg/controller/jobs/pod/pod_webhook.go`."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.checks import immutable, when
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid, required
from controlplane.kueue.jobs.ancestors import POD, Surroundings
from controlplane.kueue.jobs.objects import (
    annotations_of,
    labels_of,
    pod_group_name,
    prebuilt_workload,
)
from controlplane.kueue.jobs.pods import (
    GroupError,
    group_total_count,
    is_unretriable,
    pod_suspended,
)
from controlplane.kueue.names import (
    GROUP_NAME,
    GROUP_TOTAL_COUNT,
    MANAGED,
    RETRIABLE_IN_GROUP,
    SUSPENDED_BY_PARENT,
)
from controlplane.kueue.webhooks.job_rules import (
    ANNOTATIONS,
    LABELS,
    annotation_as_name,
    label_as_name,
    prebuilt_path,
    validate_create,
    validate_update,
)
from controlplane.kueue.webhooks.topology_rules import validate_topology

__all__ = ["pod_warnings", "validate_pod"]

Errors = list[FieldError]


def validate_pod(pod: Tree, old: Tree | None, around: Surroundings) -> Errors:
    """Return the errors of a pod; `old` is None for a new one."""
    if old is None:
        return validate_create(pod, POD, around) + _common(pod, around)
    suspended = (pod_suspended(pod), pod_suspended(old))
    errors = validate_update(pod, old, POD, suspended, around)
    errors += _common(pod, around)
    group = pod_group_name(pod, around.gates)
    back = bool(group) and is_unretriable(old) and not is_unretriable(pod)
    text = "unretriable pod group can't be converted to retriable"
    errors += when(back, forbidden, f"{ANNOTATIONS}[{RETRIABLE_IN_GROUP}]", text)
    if before := pod_group_name(old, around.gates):
        errors += immutable(group, before, _group_path(pod, around))
    return errors


def pod_warnings(pod: Tree, old: Tree | None, around: Surroundings) -> list[str]:
    """Warnings about a pod: the label of managed pods on one whose owner is managed."""
    if old is not None and SUSPENDED_BY_PARENT in annotations_of(pod):
        return []
    if labels_of(pod).get(MANAGED) != "true" or not around.owner_is_managed(pod):
        return []
    return [
        f"pod owner is managed by kueue, label '{MANAGED}=true' might lead to unexpected behaviour"
    ]


def _common(pod: Tree, around: Surroundings) -> Errors:
    label = labels_of(pod).get(MANAGED)
    wrong = label is not None and label != "true"
    text = "managed label value can only be 'true'"
    errors = when(wrong, forbidden, f"{LABELS}[{MANAGED}]", text)
    errors += _group(pod, around)
    errors += validate_topology(annotations_of(pod), "metadata", around.gates)
    group, prebuilt = pod_group_name(pod, around.gates), prebuilt_workload(pod, around.gates)
    differ = group and prebuilt and group != prebuilt
    text = "prebuilt workload and pod group should be equal"
    return errors + when(differ, invalid, prebuilt_path(pod, around), prebuilt, text)


def _by_annotation(pod: Tree, around: Surroundings) -> bool:
    given = annotations_of(pod).get(GROUP_NAME, "")
    return bool(given) and around.gates.enabled("WorkloadIdentifierAnnotations")


def _group_path(pod: Tree, around: Surroundings) -> str:
    return f"{ANNOTATIONS if _by_annotation(pod, around) else LABELS}[{GROUP_NAME}]"


def _group(pod: Tree, around: Surroundings) -> Errors:
    """A group needs both a name and a count of its pods."""
    count = annotations_of(pod).get(GROUP_TOTAL_COUNT)
    path = f"{ANNOTATIONS}[{GROUP_TOTAL_COUNT}]"
    place = "annotation" if _by_annotation(pod, around) else "label"
    text = f"both the '{GROUP_TOTAL_COUNT}' annotation and the '{GROUP_NAME}' {place} should be set"
    errors: Errors = []
    if not pod_group_name(pod, around.gates):
        if count is not None:
            return [required(_group_path(pod, around), text)]
    else:
        check = annotation_as_name if _by_annotation(pod, around) else label_as_name
        errors += check(pod, GROUP_NAME)
        if count is None:
            return [*errors, required(path, text)]
    if count is not None:
        try:
            group_total_count(pod, around.gates)
        except GroupError as error:
            errors.append(invalid(path, count, str(error)))
    return errors
