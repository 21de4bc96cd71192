"""Labels and annotations of a job. Follows `pkg/controller/jobframework/utils.go`, `workload_names.go`."""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.api.validation import NAME_BYTES, parse_int64
from controlplane.kueue.gates import Gates
from controlplane.kueue.names import (
    ELASTIC_JOB,
    GROUP_NAME,
    MAX_EXECUTION_TIME,
    PREBUILT_WORKLOAD,
    PRIORITY_CLASS,
    QUEUE,
)

__all__ = [
    "Kind",
    "annotations_of",
    "is_elastic",
    "labels_of",
    "max_execution_time",
    "pod_group_name",
    "prebuilt_workload",
    "priority_class",
    "queue_name",
    "workload_name",
]

LONGEST_NAME: Final = 253
HASH_LENGTH: Final = 5
_LARGEST: Final = (1 << 31) - 1


class Kind(NamedTuple):
    """Group, version and kind of an object."""

    group: str
    version: str
    kind: str

    @property
    def api_version(self) -> str:
        """As in an object's apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def __str__(self) -> str:
        return f"{self.group}/{self.version}, Kind={self.kind}"


def labels_of(tree: Tree) -> Tree:
    """The labels, empty when absent."""
    return tree["metadata"].get("labels") or EMPTY_MAP


def annotations_of(tree: Tree) -> Tree:
    """The annotations, empty when absent."""
    return tree["metadata"].get("annotations") or EMPTY_MAP


def queue_name(job: Tree) -> str:
    """The local queue of a job, empty when it names none."""
    name: str = labels_of(job).get(QUEUE, "")
    return name


def priority_class(job: Tree) -> str:
    """The WorkloadPriorityClass of a job, empty when it names none."""
    name: str = labels_of(job).get(PRIORITY_CLASS, "")
    return name


def max_execution_time(job: Tree) -> int | None:
    """The limit of seconds that a job may run, None when there is no valid one."""
    seconds = parse_int64(labels_of(job).get(MAX_EXECUTION_TIME, ""))
    return seconds if seconds is not None and 0 < seconds <= _LARGEST else None


def prebuilt_workload(job: Tree, gates: Gates) -> str:
    """The name of the Workload that a user made for a job, empty when there is none."""
    annotation: str = annotations_of(job).get(PREBUILT_WORKLOAD, "")
    label: str = labels_of(job).get(PREBUILT_WORKLOAD, "")
    if gates.enabled("WorkloadIdentifierAnnotations"):
        return annotation or label
    return label or (annotation if len(annotation) > NAME_BYTES else "")


def pod_group_name(pod: Tree, gates: Gates) -> str:
    """The group of a pod, empty when it belongs to none."""
    annotation: str = annotations_of(pod).get(GROUP_NAME, "")
    if annotation and gates.enabled("WorkloadIdentifierAnnotations"):
        return annotation
    label: str = labels_of(pod).get(GROUP_NAME, "")
    return label


def is_elastic(job: Tree, gates: Gates) -> bool:
    """Return whether a job asks for workload slices."""
    asked = annotations_of(job).get(ELASTIC_JOB) == "true"
    return asked and gates.enabled("ElasticJobsViaWorkloadSlices")


def workload_name(kind: Kind, name: str, uid: str, gates: Gates, extra: str = "") -> str:
    """The name of the Workload of an owner: kind, name, and five digits of a hash that holds the uid, and `extra`."""
    longest = NAME_BYTES if gates.enabled("ShortWorkloadNames") else LONGEST_NAME
    text = "\n".join((kind.kind, kind.group, name, uid, *((extra,) if extra else ())))
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    prefix = f"{kind.kind.lower()}-{name}"[: longest - 1 - HASH_LENGTH]
    return f"{prefix}-{digest[:HASH_LENGTH]}"
