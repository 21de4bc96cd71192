"""Validation of jobs and cron jobs. Upstream: pkg/apis/batch/validation."""

from __future__ import annotations

import re
from typing import Any

from controlplane.api.times import parse_time
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.metadata import meta_step
from controlplane.apiserver.kinds.validation.pods import validate_template
from controlplane.apiserver.kinds.validation.schedules import known_zone, schedule_problem
from controlplane.apiserver.kinds.validation.selectors import (
    label_name,
    selector_of,
    selector_shown,
    template_mismatch,
    validate_label_selector,
)
from controlplane.apiserver.kinds.validation.shared import immutable, non_negative_field, redacted
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
)
from controlplane.apiserver.schema.field_order import in_order
from controlplane.apiserver.schema.internal_form import internal

__all__ = ["validate_cron_job", "validate_job", "validate_job_status", "validate_job_update"]

_MODES = ("NonIndexed", "Indexed")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_DOMAIN_PATH = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
)


def validate_job(tree: Tree) -> list[FieldError]:
    """A job."""
    spec = tree.get("spec") or {}
    return _generated(tree, spec) + _whole_spec(spec)


def _whole_spec(spec: Tree) -> list[FieldError]:
    errors = _job_spec(spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += validate_label_selector(selector, "spec.selector")
    chosen = selector_of(selector)
    if chosen is not None:
        errors += template_mismatch(chosen, spec.get("template") or {}, "spec.template")
    return errors


def _generated(tree: Tree, spec: Tree) -> list[FieldError]:
    """A generated selector holds exactly the job's own uid."""
    if spec.get("manualSelector"):
        return []
    uid, name = tree["metadata"].get("uid", ""), tree["metadata"].get("name", "")
    selector = spec.get("selector")
    if selector is None:
        return []
    errors: list[FieldError] = []
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    for key, value in (
        ("controller-uid", uid), ("job-name", name),
        ("batch.kubernetes.io/controller-uid", uid), ("batch.kubernetes.io/job-name", name),
    ):  # fmt: skip
        given = labels.get(key)
        path = f"spec.template.metadata.labels[{key}]"
        if given is None:
            errors.append(required(path, f"must be '{value}'"))
        elif given != value:
            errors.append(invalid(path, labels, f"must be '{value}'"))
    if selector_of(selector) is None:  # which is said elsewhere
        return errors
    matched = selector.get("matchLabels") or {}
    keys = ("batch.kubernetes.io/controller-uid", "controller-uid")
    if len(matched) != 1 or selector.get("matchExpressions") or not any(
        matched.get(key) == uid for key in keys
    ):  # fmt: skip
        errors.append(
            invalid("spec.selector", selector_shown(selector), "`selector` not auto-generated")
        )
    return errors


def _job_spec(spec: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for key in ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
                "ttlSecondsAfterFinished", "backoffLimitPerIndex"):  # fmt: skip
        errors += non_negative_field(spec, key, path)
    per_index = spec.get("backoffLimitPerIndex")
    failed = spec.get("maxFailedIndexes")
    if failed is not None:
        errors += non_negative_field(spec, "maxFailedIndexes", path)
        if per_index is None:
            errors.append(required(f"{path}.backoffLimitPerIndex",
                                   "when maxFailedIndexes is specified"))  # fmt: skip
    manager = spec.get("managedBy")
    if manager is not None:
        if not _DOMAIN_PATH.fullmatch(manager):
            errors.append(invalid(f"{path}.managedBy", manager,
                                  'must be a domain-prefixed path (such as "acme.io/foo")'
                                  ))  # fmt: skip
        elif len(manager) > 63:
            errors.append(too_long(f"{path}.managedBy", 63))
    mode = spec.get("completionMode")
    indexed = mode == "Indexed"
    if mode is not None:
        if mode not in _MODES:
            errors.append(not_supported(f"{path}.completionMode", mode, _MODES, sort=False))
        if indexed:
            errors += _indexed(spec, path)
    if mode is None or mode == "NonIndexed":
        for key, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)):
            if value is not None:
                errors.append(invalid(f"{path}.{key}", value, "requires indexed completion mode"))
    if spec.get("podFailurePolicy") is not None:
        errors += _failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        errors += _success_policy(spec, f"{path}.successPolicy", indexed=indexed)
    errors += _replacement(spec, path)
    template = spec.get("template") or {}
    errors += validate_template(template, f"{path}.template")
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy in {"Always", ""}:
        errors.append(required(f"{path}.template.spec.restartPolicy",
                               'valid values: "OnFailure", "Never"'))  # fmt: skip
    elif policy not in ("OnFailure", "Never"):
        errors.append(not_supported(f"{path}.template.spec.restartPolicy", policy,
                                    ("OnFailure", "Never"), sort=False))  # fmt: skip
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errors.append(invalid(f"{path}.template.spec.restartPolicy", policy,
                              'only "Never" is supported when podFailurePolicy is specified'
                              ))  # fmt: skip
    return errors


def _indexed(spec: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    completions = spec.get("completions")
    if completions is None:
        errors.append(required(f"{path}.completions", "when completion mode is Indexed"))
    parallelism = spec.get("parallelism")
    if parallelism is not None and parallelism > 100_000:
        errors.append(invalid(f"{path}.parallelism", parallelism, (
            "must be less than or equal to 100000 when completion mode is Indexed"
        )))  # fmt: skip
    return errors


def _replacement(spec: Tree, path: str) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    if spec.get("podFailurePolicy") is not None:
        if policy != "Failed":
            return [not_supported(f"{path}.podReplacementPolicy", policy, ("Failed",))]
    elif policy not in ("Failed", "TerminatingOrFailed"):
        return [not_supported(f"{path}.podReplacementPolicy", policy,
                              ("Failed", "TerminatingOrFailed"))]  # fmt: skip
    return []


def _failure_policy(spec: Tree, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > 20:
        errors.append(too_many(f"{path}.rules", len(rules), 20))
    template = (spec.get("template") or {}).get("spec") or {}
    containers = [c.get("name", "") for key in ("containers", "initContainers")
                  for c in template.get(key) or ()]  # fmt: skip
    for index, rule in enumerate(rules):
        errors += _failure_rule(spec, rule, containers, f"{path}.rules[{index}]")
    return errors


def _failure_rule(spec: Tree, rule: Tree, containers: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    action = rule.get("action", "")
    if not action:
        errors.append(required(f"{path}.action", 'valid values: ["Count" "FailIndex" "FailJob" '
                                                 '"Ignore"]'))  # fmt: skip
    elif action == "FailIndex":
        if spec.get("backoffLimitPerIndex") is None:
            errors.append(invalid(f"{path}.action", action,
                                  "requires the backoffLimitPerIndex to be set"))  # fmt: skip
    elif action not in _ACTIONS:
        errors.append(not_supported(f"{path}.action", action, _ACTIONS))
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if codes is not None:
        errors += _exit_codes(codes, containers, f"{path}.onExitCodes")
    for index, pattern in enumerate(conditions or ()):
        place = f"{path}.onPodConditions[{index}]"
        errors += label_name(pattern.get("type", ""), f"{place}.type")
        state = pattern.get("status", "")
        choices = ("False", "True", "Unknown")
        if state not in choices:
            errors.append(not_supported(f"{place}.status", state, choices))
    if conditions and len(conditions) > 20:
        errors.append(too_many(f"{path}.onPodConditions", len(conditions), 20))
    if codes is not None and conditions:
        errors.append(redacted(path, (
            "specifying both OnExitCodes and OnPodConditions is not supported"
        )))  # fmt: skip
    if codes is None and not conditions:
        errors.append(
            redacted(path, "specifying one of OnExitCodes and OnPodConditions is required")
        )
    return errors


def _exit_codes(codes: Tree, containers: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        errors.append(required(f"{path}.operator", 'valid values: ["In" "NotIn"]'))
    elif operator not in ("In", "NotIn"):
        errors.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in containers:
        errors.append(invalid(f"{path}.containerName", name, (
            "must be one of the container or initContainer names in the pod template"
        )))  # fmt: skip
    if not values:
        errors.append(invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > 255:
        errors.append(too_many(f"{path}.values", len(values), 255))
    seen: dict[int, None] = {}
    ordered = True
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(f"{path}.values[{index}]", value,
                                  "must not be 0 for the In operator"))  # fmt: skip
        if value in seen:
            errors.append(duplicate(f"{path}.values[{index}]", value))
        else:
            seen[value] = None
        if index and values[index - 1] > value:
            ordered = False
    if not ordered:
        errors.append(invalid(f"{path}.values", values, "must be ordered"))
    return errors


def _success_policy(spec: Tree, path: str, *, indexed: bool) -> list[FieldError]:
    policy = spec["successPolicy"]
    rules = policy.get("rules") or []
    if not indexed:
        shown = {
            **internal("SuccessPolicy", policy),
            **({"Rules": []} if policy.get("rules") == [] else {}),
        }
        return [invalid(path, shown, "requires indexed completion mode")]
    errors: list[FieldError] = []
    if not rules:
        errors.append(required(f"{path}.rules", "at least one rules must be specified when the "
                                                "successPolicy is specified"))  # fmt: skip
    if len(rules) > 20:
        errors.append(too_many(f"{path}.rules", len(rules), 20))
    for index, rule in enumerate(rules):
        place = f"{path}.rules[{index}]"
        if rule.get("succeededCount") is None and rule.get("succeededIndexes") is None:
            errors.append(required(place, "at least one of succeededCount or succeededIndexes "
                                          "must be specified"))  # fmt: skip
        errors += non_negative_field(rule, "succeededCount", place)
    return errors


_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _template_form(template: Tree) -> Tree:
    meta = in_order(_META, template.get("metadata") or {})
    return {**meta, "Spec": internal("PodSpec", template.get("spec") or {})}


def validate_job_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed job; most of its spec stays."""
    same_uid = new["metadata"].get("uid") == old["metadata"].get("uid")
    meta = meta_step(new["metadata"], old["metadata"], names.dns_subdomain, "U", namespaced=True)
    if new.get("spec") is old.get("spec") and same_uid:
        return meta
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    errors = validate_job(new) + meta + _whole_spec(spec)  # upstream looks at the spec twice
    if spec.get("completions") != was.get("completions") and not (
        spec.get("completionMode") == "Indexed"
        and spec.get("completions") == spec.get("parallelism")
    ):
        errors.append(invalid("spec.completions", spec.get("completions"), "field is immutable"))
    errors += immutable(
        selector_shown(spec.get("selector")), selector_shown(was.get("selector")), "spec.selector"
    )
    if spec.get("template") != was.get("template"):
        suspended = was.get("suspend") and "startTime" not in (old.get("status") or {})
        if not suspended or _fixed_part(spec) != _fixed_part(was):
            errors.append(invalid("spec.template", _template_form(spec.get("template") or {}),
                                  "field is immutable"))  # fmt: skip
    for key in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy",
                "successPolicy"):  # fmt: skip
        errors += immutable(_shown(spec, key), _shown(was, key), f"spec.{key}")
    return errors


def _shown(spec: Tree, key: str) -> Any:
    """A field as messages quote it."""
    value, kind = spec.get(key), _INTERNAL.get(key)
    return value if value is None or kind is None else internal(kind, value)


_INTERNAL = {"podFailurePolicy": "FailurePolicy", "successPolicy": "SuccessPolicy"}


_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _fixed_part(spec: Tree) -> Tree:
    """What of a suspended job's template may not change: all but the scheduling directives."""
    template = spec.get("template") or {}
    meta = {k: v for k, v in (template.get("metadata") or {}).items()
            if k not in ("labels", "annotations")}  # fmt: skip
    pod = {k: v for k, v in (template.get("spec") or {}).items() if k not in _SCHEDULING}
    return {"metadata": meta, "spec": pod}


def _is_true(status: Tree, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True"
               for c in status.get("conditions") or ())  # fmt: skip


def validate_job_status(new: Tree, old: Tree) -> list[FieldError]:
    """Counters, times and conditions of a job's status."""
    status, was = new.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    for key in ("active", "succeeded", "failed", "ready", "terminating"):
        errors += non_negative_field(status, key, "status")
    complete, failed = _is_true(status, "Complete"), _is_true(status, "Failed")
    finished = complete or failed
    start, completion = status.get("startTime"), status.get("completionTime")
    if completion is not None:
        if not complete:
            errors.append(invalid("status.completionTime", completion,
                                  "cannot set completionTime when there is no Complete=True "
                                  "condition"))  # fmt: skip
        if start is not None and parse_time(completion) < parse_time(start):
            errors.append(invalid("status.completionTime", completion,
                                  "must be equal to or after `startTime`"))  # fmt: skip
    elif complete:
        errors.append(required("status.completionTime", "completionTime is required for Complete "
                                                        "jobs"))  # fmt: skip
    if finished and status.get("active", 0) > 0:
        errors.append(invalid("status.active", status["active"],
                              "active>0 is invalid for finished job"))  # fmt: skip
    if complete and failed:
        errors.append(redacted("status.conditions",
                               "cannot set Complete=True and Failed=true conditions"))  # fmt: skip
    errors += _index_errors(new.get("spec") or {}, status, was)
    was_complete, was_failed = _is_true(was, "Complete"), _is_true(was, "Failed")
    if start != was.get("startTime") and was.get("startTime") is not None:
        if not (new.get("spec") or {}).get("suspend"):
            errors.append(invalid("status.startTime", start,
                                  "field is immutable for unsuspended job once set"
                                  ))  # fmt: skip
    if was_complete and not complete:
        errors.append(redacted("status.conditions",
                               "cannot disable the terminal Complete=True condition"))  # fmt: skip
    if was_failed and not failed:
        errors.append(redacted("status.conditions",
                               "cannot disable the terminal Failed=True condition"))  # fmt: skip
    if status.get("ready", 0) > status.get("active", 0):
        errors.append(invalid("status.ready", status["ready"],
                              "cannot set more ready pods than active"))  # fmt: skip
    for key in ("failed", "succeeded"):
        if status.get(key, 0) < was.get(key, 0):
            errors.append(invalid(f"status.{key}", status.get(key, 0),
                                  f"cannot decrease the {key} counter"))  # fmt: skip
    for kind in ("FailureTarget", "SuccessCriteriaMet"):
        if _is_true(was, kind) and not _is_true(status, kind):
            errors.append(redacted("status.conditions",
                                   f"cannot disable the {kind}=True condition"))  # fmt: skip
    return errors


def _index_errors(spec: Tree, status: Tree, was: Tree) -> list[FieldError]:
    """Indexes that a status names anew must be numbers, and the job must have such indexes."""
    errors: list[FieldError] = []
    done, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    limited = spec.get("backoffLimitPerIndex") is not None
    if done != was.get("completedIndexes", ""):
        if done and spec.get("completions") is not None:
            errors += _unreadable_index("completedIndexes", done)
        if done and spec.get("completionMode") != "Indexed":
            text = "cannot set non-empty completedIndexes when non-indexed completion mode"
            errors.append(invalid("status.completedIndexes", done, text))
    if failed is not None and failed != was.get("failedIndexes"):
        if limited and spec.get("completions") is not None:
            errors += _unreadable_index("failedIndexes", failed)
        if not limited:
            text = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
            errors.append(invalid("status.failedIndexes", failed, text))
    return errors


def _unreadable_index(key: str, text: str) -> list[FieldError]:
    for part in (number for interval in text.split(",") for number in interval.split("-")[:2]):
        if not (part.isascii() and part.isdigit()):
            problem = f'cannot convert string to integer for index: "{part}"'
            return [invalid(f"status.{key}", text, f"error parsing {key}: {problem}")]
    return []


_CONCURRENCY = ("Allow", "Forbid", "Replace")


def validate_cron_job(tree: Tree, *, update: bool = False) -> list[FieldError]:
    """A cron job."""
    spec = tree.get("spec") or {}
    errors: list[FieldError] = []
    schedule = spec.get("schedule", "")
    if not schedule:
        errors.append(required("spec.schedule"))
    else:
        problem = (
            "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            if "TZ" in schedule else schedule_problem(schedule)
        )  # fmt: skip
        if problem:
            errors.append(invalid("spec.schedule", schedule, problem))
    errors += non_negative_field(spec, "startingDeadlineSeconds", "spec")
    zone = spec.get("timeZone")
    if zone is not None:
        if not zone:
            errors.append(
                invalid("spec.timeZone", zone, "timeZone must be nil or non-empty string")
            )
        elif zone == "Local":
            errors.append(invalid("spec.timeZone", zone, "timeZone must be an explicit time zone as "
                                                         "defined in https://www.iana.org/time-zones"
                                  ))  # fmt: skip
        elif not known_zone(zone):
            errors.append(invalid("spec.timeZone", zone, f"unknown time zone {zone}"))
    policy = spec.get("concurrencyPolicy", "")
    if policy not in _CONCURRENCY:
        errors.append(
            not_supported("spec.concurrencyPolicy", policy, _CONCURRENCY)
            if policy else required("spec.concurrencyPolicy")
        )  # fmt: skip
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += _job_spec(job, "spec.jobTemplate.spec")
    if job.get("selector") is not None:
        shown = selector_shown(job["selector"])
        text = "`selector` will be auto-generated"
        errors.append(invalid("spec.jobTemplate.spec.selector", shown, text))
    if job.get("manualSelector"):
        errors.append(not_supported("spec.jobTemplate.spec.manualSelector", True,
                                    ("nil", "false"), sort=False))  # fmt: skip
    for key in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += non_negative_field(spec, key, "spec")
    name = tree["metadata"].get("name", "")
    if not update and len(name) > 52:
        errors.append(invalid("metadata.name", name, "must be no more than 52 characters"))
    return errors
