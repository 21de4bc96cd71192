"""Updates of a job's status. Upstream: pkg/apis/batch/validation and pkg/registry/batch/job.

Most rules are asked only when what they look at has changed, so that a status that broke one before
does not stop other updates.
"""

from __future__ import annotations

from collections.abc import Callable

from controlplane.api.times import parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.batch.job_indexes import (
    IndexesError,
    count_indexes,
    overlap_problem,
)
from controlplane.apiserver.kinds.checks import entries, non_negative_field, redacted, when
from controlplane.apiserver.schema.field_errors import FieldError, duplicate, invalid, required

__all__ = ["validate_job_status"]

_CONDITIONS = "status.conditions"
_TERMINAL = ("Failed", "Complete", "FailureTarget")
_INDEXED = "Indexed"


def _is(status: Tree, kind: str, value: str = "True") -> bool:
    return any(
        c.get("type") == kind and c.get("status") == value for c in status.get("conditions") or ()
    )


def _finished(status: Tree) -> bool:
    return _is(status, "Complete") or _is(status, "Failed")


def _changed(status: Tree, was: Tree, look: Callable[[Tree], object]) -> bool:
    return look(status) != look(was)


def validate_job_status(new: Tree, old: Tree) -> list[FieldError]:
    """Counters, times, indexes and conditions of a job's status."""
    spec, status, was = new.get("spec") or {}, new.get("status") or {}, old.get("status") or {}
    errors = _counters(status)
    errors += _conditions(status, was)
    errors += _times(status, was)
    errors += _ends(spec, status, was)
    errors += _indexes(spec, status, was)
    errors += _pods(status, was)
    met = _is(status, "SuccessCriteriaMet")
    for kind in ("Failed", "FailureTarget"):
        if met and _is(status, kind):
            errors.append(_together("SuccessCriteriaMet", kind))
    if spec.get("successPolicy") is not None and not met and _is(status, "Complete"):
        text = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(redacted(_CONDITIONS, text))
    return errors + _kept(spec, status, was)


def _counters(status: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("active", "succeeded", "failed", "ready", "terminating"):
        errors += non_negative_field(status, key, "status")
    seen: set[str] = set()
    uncounted = status.get("uncountedTerminatedPods") or {}
    for key in ("succeeded", "failed"):
        for uid, path in entries(uncounted, key, "status.uncountedTerminatedPods"):
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, uid))
            seen.add(uid)
    return errors


def _together(one: str, other: str) -> FieldError:
    return redacted(_CONDITIONS, f"cannot set {one}=True and {other}=true conditions")


def _conditions(status: Tree, was: Tree) -> list[FieldError]:
    """Return the errors of conditions that exclude a complete job."""
    if not _is(status, "Complete"):
        return []
    return [
        _together("Complete", kind)
        for kind in ("Failed", "FailureTarget")
        if _is(status, kind) and not (_is(was, "Complete") and _is(was, kind))
    ]


def _times(status: Tree, was: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    start, end = status.get("startTime"), status.get("completionTime")
    complete = _is(status, "Complete")
    place = "status.completionTime"
    if complete != _is(was, "Complete") or end != was.get("completionTime"):
        if end is not None and not complete:
            text = "cannot set completionTime when there is no Complete=True condition"
            errors.append(invalid(place, end, text))
        problem = "completionTime is required for Complete jobs"
        errors += when(end is None and complete, required, place, problem)
    moved = start != was.get("startTime") or end != was.get("completionTime")
    errors += when(
        moved and start is not None and end is not None and parse_time(end) < parse_time(start),
        invalid,
        place,
        end,
        "must be equal to or after `startTime`",
    )
    return errors


def _ends(spec: Tree, status: Tree, was: Tree) -> list[FieldError]:
    """Return the errors of the status of a job that has ended."""
    errors: list[FieldError] = []
    failed, complete, finished = _is(status, "Failed"), _is(status, "Complete"), _finished(status)
    ended = finished != _finished(was)
    indexes = status.get("failedIndexes") != was.get("failedIndexes")
    if failed and not _is(status, "FailureTarget") and (indexes or not _is(was, "Failed")):
        text = "cannot set Failed=True condition without the FailureTarget=true condition"
        errors.append(redacted(_CONDITIONS, text))
    met = _changed(status, was, lambda each: _is(each, "SuccessCriteriaMet"))
    if complete and not _is(status, "SuccessCriteriaMet") and (met or not _is(was, "Complete")):
        text = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(redacted(_CONDITIONS, text))
    if not finished:
        return errors
    active = status.get("active", 0)
    errors += when(
        active > 0 and (ended or active != was.get("active", 0)),
        invalid,
        "status.active",
        active,
        "active>0 is invalid for finished job",
    )
    empty = bool(spec.get("suspend")) and spec.get("completions") == 0
    begun = status.get("startTime") is not None
    errors += when(
        not begun and not empty and (ended or was.get("startTime") is not None),
        required,
        "status.startTime",
        "startTime is required for finished job",
    )
    uncounted = status.get("uncountedTerminatedPods") or {}
    if (uncounted.get("succeeded") or uncounted.get("failed")) and (
        ended or uncounted != was.get("uncountedTerminatedPods")
    ):
        shown = {key: uncounted.get(key.lower()) or None for key in ("Succeeded", "Failed")}
        text = "must be empty for finished job"
        errors.append(invalid("status.uncountedTerminatedPods", shown, text))
    return errors


def _indexes(spec: Tree, status: Tree, was: Tree) -> list[FieldError]:
    """Indexes that a status names anew are read, and the job must have such indexes."""
    errors: list[FieldError] = []
    done, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    count, limited = spec.get("completions"), spec.get("backoffLimitPerIndex") is not None
    new_done = done != was.get("completedIndexes", "")
    new_failed = failed != was.get("failedIndexes")
    if new_done and count is not None:
        errors += _unreadable("completedIndexes", done, count)
    if new_failed and count is not None and limited and failed is not None:
        errors += _unreadable("failedIndexes", failed, count)
    if new_done and done and spec.get("completionMode") != _INDEXED:
        text = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid("status.completedIndexes", done, text))
    if new_failed and not limited and failed is not None:
        text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid("status.failedIndexes", failed, text))
    if (new_done or new_failed) and count is not None and failed is not None:
        text = overlap_problem(done, failed, count)
        errors += when(text, invalid, "status.failedIndexes", failed, text)
    return errors


def _unreadable(key: str, text: str, completions: int) -> list[FieldError]:
    try:
        count_indexes(text, completions)
    except IndexesError as problem:
        return [invalid(f"status.{key}", text, f"error parsing {key}: {problem}")]
    return []


def _pods(status: Tree, was: Tree) -> list[FieldError]:
    errors: list[FieldError] = []
    terminating, ready = status.get("terminating"), status.get("ready")
    ended = _finished(status) != _finished(was)
    if (
        (terminating or 0) > 0
        and _finished(status)
        and (ended or terminating != was.get("terminating"))
    ):
        text = "terminating>0 is invalid for finished job"
        errors.append(invalid("status.terminating", terminating, text))
    active = status.get("active", 0)
    errors += when(
        ready is not None
        and ready > active
        and (ready != was.get("ready") or active != was.get("active", 0)),
        invalid,
        "status.ready",
        ready,
        "cannot set more ready pods than active",
    )
    return errors


def _kept(spec: Tree, status: Tree, was: Tree) -> list[FieldError]:
    """Return the errors of an update that reverts final parts of the status."""
    errors = [
        redacted(_CONDITIONS, f"cannot disable the terminal {kind}=True condition")
        for kind in _TERMINAL
        if _is(was, kind) and not _is(status, kind)
    ]
    elastic = spec.get("completionMode") == _INDEXED and spec.get("completions") == spec.get(
        "parallelism"
    )
    for key in ("failed",) if elastic else ("failed", "succeeded"):
        if status.get(key, 0) < was.get(key, 0):
            text = f"cannot decrease the {key} counter"
            errors.append(invalid(f"status.{key}", status.get(key, 0), text))
    end, ended = status.get("completionTime"), was.get("completionTime")
    errors += when(
        end is not None and ended is not None and parse_time(end) != parse_time(ended),
        invalid,
        "status.completionTime",
        end,
        "field is immutable",
    )
    start, begun = status.get("startTime"), was.get("startTime")
    resumed = _is(was, "Suspended") and _is(status, "Suspended", "False")
    if begun is not None and start != begun and not spec.get("suspend") and not resumed:
        text = "field is immutable for unsuspended job once set"
        errors.append(invalid("status.startTime", start, text))
    met, had = _is(status, "SuccessCriteriaMet"), _is(was, "SuccessCriteriaMet")
    problem = "cannot disable the SuccessCriteriaMet=True condition"
    errors += when(had and not met, redacted, _CONDITIONS, problem)
    if _is(was, "Complete") and met and not had:
        text = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        errors.append(redacted(_CONDITIONS, text))
    return errors
