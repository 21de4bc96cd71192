"""Rules that all managed jobs share. Follows `pkg/controller/jobframework/validation.go`."""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import Tree
from controlplane.api.validation import NAME_BYTES, dns_subdomain_errors
from controlplane.apiserver.kinds.checks import immutable, when
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid
from controlplane.kubelet.cm.go_text import GoTextError, atoi
from controlplane.kueue.jobs.ancestors import Surroundings
from controlplane.kueue.jobs.objects import (
    Kind,
    annotations_of,
    is_elastic,
    labels_of,
    prebuilt_workload,
    priority_class,
    queue_name,
)
from controlplane.kueue.names import (
    ELASTIC_JOB,
    MAX_EXECUTION_TIME,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE,
)
from controlplane.kueue.webhooks.gated_by import validate_gated_by

__all__ = [
    "ANNOTATIONS",
    "LABELS",
    "annotation_as_name",
    "elastic_errors",
    "label_as_name",
    "prebuilt_path",
    "validate_create",
    "validate_priority_class",
    "validate_update",
]

Errors = list[FieldError]

LABELS: Final = "metadata.labels"
ANNOTATIONS: Final = "metadata.annotations"
_ELASTIC: Final = frozenset(
    (
        "batch/v1, Kind=Job",
        "ray.io/v1, Kind=RayCluster",
        "ray.io/v1, Kind=RayJob",
        "ray.io/v1, Kind=RayService",
    )
)
_NOT_PREBUILT: Final = frozenset(("apps/v1, Kind=Deployment", "apps/v1, Kind=StatefulSet"))


def label_as_name(tree: Tree, label: str) -> Errors:
    """Return the errors of a label whose value is the name of an object."""
    return _as_name(labels_of(tree).get(label), f"{LABELS}[{label}]")


def annotation_as_name(tree: Tree, annotation: str) -> Errors:
    """Return the errors of an annotation whose value is the name of an object."""
    return _as_name(annotations_of(tree).get(annotation), f"{ANNOTATIONS}[{annotation}]")


def _as_name(value: str | None, path: str) -> Errors:
    if value is None:
        return []
    texts = dns_subdomain_errors(value)
    return when(texts, invalid, path, value, ",".join(texts))


def _prebuilt_by_annotation(job: Tree, around: Surroundings) -> bool:
    annotation = annotations_of(job).get(PREBUILT_WORKLOAD, "")
    by_annotation = around.gates.enabled("WorkloadIdentifierAnnotations")
    return bool(annotation) and (by_annotation or len(annotation) > NAME_BYTES)


def prebuilt_path(job: Tree, around: Surroundings) -> str:
    """The path of the name of a user's own Workload: annotation or label."""
    place = ANNOTATIONS if _prebuilt_by_annotation(job, around) else LABELS
    return f"{place}[{PREBUILT_WORKLOAD}]"


def _prebuilt(job: Tree, kind: Kind, around: Surroundings) -> Errors:
    if _prebuilt_by_annotation(job, around):
        errors = annotation_as_name(job, PREBUILT_WORKLOAD)
    else:
        errors = label_as_name(job, PREBUILT_WORKLOAD)
    unsupported = prebuilt_workload(job, around.gates) and str(kind) in _NOT_PREBUILT
    text = f'Is not supported for "{kind}"'
    return errors + when(unsupported, forbidden, prebuilt_path(job, around), text)


def validate_create(job: Tree, kind: Kind, around: Surroundings) -> Errors:
    """Return the errors of a new job."""
    errors = label_as_name(job, QUEUE)
    errors += _prebuilt(job, kind, around)
    errors += _execution_time(job)
    errors += elastic_errors(job, kind, around)
    if around.gates.enabled("AdmissionGatedBy"):
        errors += validate_gated_by(job, None)
    return errors


def elastic_errors(job: Tree, kind: Kind, around: Surroundings) -> Errors:
    """Return the errors of the annotation of elastic jobs."""
    unsupported = is_elastic(job, around.gates) and str(kind) not in _ELASTIC
    path = f"{ANNOTATIONS}[{ELASTIC_JOB}]"
    return when(unsupported, forbidden, path, f'elastic job is not supported for "{kind}"')


def _execution_time(job: Tree) -> Errors:
    text = labels_of(job).get(MAX_EXECUTION_TIME)
    if text is None:
        return []
    path = f"{LABELS}[{MAX_EXECUTION_TIME}]"
    try:
        seconds = atoi(text)
    except GoTextError as error:
        return [invalid(path, text, str(error))]
    return when(seconds <= 0, invalid, path, seconds, "should be greater than 0")


def validate_update(
    new: Tree, old: Tree, kind: Kind, suspended: tuple[bool, bool], around: Surroundings
) -> Errors:
    """Return the errors of a change.

    Args:
        new: The job.
        old: The job before.
        kind: Its kind.
        suspended: Whether the new one and the old one are suspended.
        around: Surroundings.
    """
    now, before = suspended
    errors = _queue(new, old, now, around)
    if now or is_elastic(old, around.gates):
        errors += _prebuilt(new, kind, around)
    else:
        errors += immutable(
            prebuilt_workload(new, around.gates),
            prebuilt_workload(old, around.gates),
            prebuilt_path(new, around),
        )
    if not now or not before:
        errors += immutable(
            labels_of(new).get(MAX_EXECUTION_TIME, ""),
            labels_of(old).get(MAX_EXECUTION_TIME, ""),
            f"{LABELS}[{MAX_EXECUTION_TIME}]",
        )
    errors += validate_priority_class(new, old, suspended=now)
    elastic = is_elastic(new, around.gates)
    changed = elastic != is_elastic(old, around.gates)
    path = f"{ANNOTATIONS}[{ELASTIC_JOB}]"
    errors += when(changed, invalid, path, elastic, "field is immutable")
    if around.gates.enabled("AdmissionGatedBy"):
        errors += validate_gated_by(new, old)
    return errors


def _queue(new: Tree, old: Tree, suspended: bool, around: Surroundings) -> Errors:
    path, name, before = f"{LABELS}[{QUEUE}]", queue_name(new), queue_name(old)
    errors = [] if suspended else immutable(name, before, path)
    needed = not name and bool(before)
    if needed and around.default_queue_exists(old["metadata"].get("namespace", "")):
        text = "queue-name must not be empty in namespace with default queue"
        errors.append(invalid(path, "", text))
    return errors


def validate_priority_class(new: Tree, old: Tree, *, suspended: bool) -> Errors:
    """Return the errors of a changed priority class: it may be exchanged, not removed, not added later."""
    name, before = priority_class(new), priority_class(old)
    path = f"{LABELS}[{PRIORITY_CLASS}]"
    if not suspended and not before and name:
        text = "WorkloadPriorityClass cannot be added to a non-suspended workload"
        return [invalid(path, name, text)]
    text = "WorkloadPriorityClass cannot be removed from a workload"
    return when(before and not name, invalid, path, name, text)
