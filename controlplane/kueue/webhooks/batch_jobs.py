"""Validation of batch/Jobs. Follows `pkg/controller/jobs/job/job_webhook.go`."""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.apiserver.kinds.checks import when
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid
from controlplane.kubelet.cm.go_text import GoTextError, atoi, parse_bool
from controlplane.kueue.jobs.ancestors import JOB, Surroundings
from controlplane.kueue.jobs.batch import (
    EQUAL_PARALLELISM,
    MIN_PARALLELISM,
    equal_parallelism,
    is_suspended,
    pods_count,
)
from controlplane.kueue.jobs.objects import annotations_of, is_elastic
from controlplane.kueue.jobs.topology_annotations import PREFERRED, REQUIRED
from controlplane.kueue.webhooks.job_rules import ANNOTATIONS, validate_create, validate_update
from controlplane.kueue.webhooks.topology_rules import validate_slice_bound, validate_topology

__all__ = ["validate_job"]

Errors = list[FieldError]

_MIN_PATH: Final = f"{ANNOTATIONS}[{MIN_PARALLELISM}]"
_EQUAL_PATH: Final = f"{ANNOTATIONS}[{EQUAL_PARALLELISM}]"
_TEMPLATE: Final = "spec.template.metadata"


def validate_job(job: Tree, old: Tree | None, around: Surroundings) -> Errors:
    """Return the errors of a batch/Job; `old` is None for a new one."""
    errors = validate_create(job, JOB, around)
    minimum = annotations_of(job).get(MIN_PARALLELISM)
    if old is None or minimum != annotations_of(old).get(MIN_PARALLELISM):
        errors += _min_parallelism(job, around)
    errors += _equal_parallelism(job)
    if old is not None:
        suspended = (is_suspended(job), is_suspended(old))
        errors += validate_update(job, old, JOB, suspended, around)
        errors += _partial_admission(job, old)
    if around.gates.enabled("TopologyAwareScheduling"):
        errors += _topology(job, around)
    return errors


def _min_parallelism(job: Tree, around: Surroundings) -> Errors:
    text = annotations_of(job).get(MIN_PARALLELISM)
    if text is None:
        return []
    most = pods_count(job) - 1
    try:
        minimum = atoi(text)
    except GoTextError as error:
        errors: Errors = [invalid(_MIN_PATH, text, str(error))]
    else:
        outside = not 0 < minimum <= most
        errors = when(outside, invalid, _MIN_PATH, minimum, f"should be between 0 and {most}")
    both = "partial admission and elastic job cannot be used together"
    return errors + when(is_elastic(job, around.gates), invalid, _MIN_PATH, text, both)


def _equal_parallelism(job: Tree) -> Errors:
    text = annotations_of(job).get(EQUAL_PARALLELISM)
    if text is None:
        return []
    try:
        enabled = parse_bool(text)
    except GoTextError as error:
        return [invalid(_EQUAL_PATH, text, str(error))]
    if not enabled:
        return []
    spec = job["spec"]
    plain = spec.get("completionMode") in {None, "NonIndexed"}
    errors = when(plain, invalid, _EQUAL_PATH, text, "should not be enabled for NonIndexed jobs")
    completions = spec.get("completions")
    counts = [1 if each is None else each for each in (spec.get("parallelism"), completions)]
    said = f"should be equal to parallelism when {EQUAL_PARALLELISM} annotation is true"
    differ = counts[0] != counts[1]
    return errors + when(differ, invalid, "spec.completions", completions, said)


def _partial_admission(new: Tree, old: Tree) -> Errors:
    counts = [_parallelism(each) for each in (new, old)]
    running = not old["spec"].get("suspend")
    partial = MIN_PARALLELISM in annotations_of(old)
    text = "cannot change when partial admission is enabled and the job is not suspended"
    changed = partial and running and counts[0] != counts[1]
    errors = when(changed, forbidden, "spec.parallelism", text)
    both_run = not is_suspended(old) and not is_suspended(new)
    switched = both_run and equal_parallelism(old) != equal_parallelism(new)
    text = "field is immutable while the job is not suspended"
    return errors + when(switched, forbidden, _EQUAL_PATH, text)


def _parallelism(job: Tree) -> int:
    given = job["spec"].get("parallelism")
    return 1 if given is None else int(given)


def _topology(job: Tree, around: Surroundings) -> Errors:
    metadata = (job["spec"].get("template") or EMPTY_MAP).get("metadata") or EMPTY_MAP
    annotations = metadata.get("annotations") or EMPTY_MAP
    errors = validate_topology(annotations, _TEMPLATE, around.gates)
    if errors:
        return errors
    if is_elastic(job, around.gates):
        for name, word in ((REQUIRED, "required"), (PREFERRED, "preferred")):
            if name in annotations:
                text = f"{word} topology is not supported with elastic jobs"
                return [forbidden(f"{_TEMPLATE}.annotations.{name}", text)]
    return validate_slice_bound(annotations, _TEMPLATE, pods_count(job))
