"""Rules and permitted changes of jobs. Upstream: pkg/apis/batch/validation."""

from __future__ import annotations

import re
from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.batch.job_indexes import IndexesError, count_indexes
from controlplane.apiserver.kinds.checks import (
    at_most,
    immutable,
    no_longer,
    non_negative_field,
    one_of,
    redacted,
    when,
)
from controlplane.apiserver.kinds.core.pods.validation import validate_template
from controlplane.apiserver.kinds.metadata import meta_step
from controlplane.apiserver.kinds.selectors import (
    label_name,
    selector_of,
    selector_shown,
    template_mismatch,
    validate_label_selector,
)
from controlplane.apiserver.kinds.strategy import with_status
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from controlplane.apiserver.schema.field_order import in_order
from controlplane.apiserver.schema.internal_form import internal

__all__ = [
    "FEW_AT_ONCE",
    "MANY_COMPLETIONS",
    "domain_path",
    "validate_job",
    "validate_job_spec",
    "validate_job_update",
]

_MODES = ("NonIndexed", "Indexed")
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_PATH_FORM = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"
_PATH = re.compile(_PATH_FORM)
MANY_COMPLETIONS = 100_000
FEW_AT_ONCE = 10_000
"""The limit of parallel pods, and of failed indexes, of a job of many completions."""
MAX_INDEXES_TEXT = 64 * 1024


def validate_job(tree: Tree) -> list[FieldError]:
    """Return the errors of a job."""
    return _job(tree, prefixed=True)


def _job(tree: Tree, *, prefixed: bool) -> list[FieldError]:
    spec = tree.get("spec") or {}
    errors = _generated(tree, spec, prefixed=prefixed) + _whole_spec(spec)
    count = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and count > 0:
        name = tree["metadata"].get("name", "")
        longest = f"{name}-{count - 1}"
        if names.dns_label(longest):
            text = f"will not able to create pod with invalid DNS label: {longest}"
            errors.append(invalid("metadata.name", name, text))
    return errors


def _whole_spec(spec: Tree) -> list[FieldError]:
    errors = validate_job_spec(spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        errors.append(required("spec.selector"))
    else:
        errors += validate_label_selector(selector, "spec.selector")
    chosen = selector_of(selector)
    if chosen is not None:
        errors += template_mismatch(chosen, spec.get("template") or {}, "spec.template")
    return errors


_UID, _NAME = "controller-uid", "job-name"


_PREFIX = "batch.kubernetes.io/"


def _generated(tree: Tree, spec: Tree, *, prefixed: bool) -> list[FieldError]:
    """A generated selector chooses pods with the labels that are generated, `prefixed` ones as well."""
    if spec.get("manualSelector"):
        return []
    uid, name = tree["metadata"].get("uid", ""), tree["metadata"].get("name", "")
    selector = spec.get("selector")
    if selector is None:
        return []
    errors = [] if uid else [required("metadata.uid")]
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    expected = {_UID: uid, _NAME: name}
    if prefixed:
        expected |= {_PREFIX + _UID: uid, _PREFIX + _NAME: name}
    for key, value in expected.items():
        given = labels.get(key)
        path = f"spec.template.metadata.labels[{key}]"
        if given is None:
            errors.append(required(path, f"must be '{value}'"))
        elif given != value:
            errors.append(invalid(path, labels, f"must be '{value}'"))
    chosen = selector_of(selector)  # a malformed one is spoken of elsewhere
    if chosen is not None and not chosen.matches(expected):
        text = "`selector` not auto-generated"
        errors.append(invalid("spec.selector", selector_shown(selector), text))
    return errors


def validate_job_spec(spec: Tree, path: str) -> list[FieldError]:
    """Return the errors of the spec of a job or of a template of jobs."""
    errors: list[FieldError] = []
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
    ):
        errors += non_negative_field(spec, key, path)
    per_index = spec.get("backoffLimitPerIndex")
    failed = spec.get("maxFailedIndexes")
    if failed is not None:
        errors += non_negative_field(spec, "maxFailedIndexes", path)
        text = "when maxFailedIndexes is specified"
        errors += when(per_index is None, required, f"{path}.backoffLimitPerIndex", text)
    manager = spec.get("managedBy")
    if manager is not None:
        errors += domain_path(manager, f"{path}.managedBy")
        errors += no_longer(manager, f"{path}.managedBy", 63)
    mode = spec.get("completionMode")
    indexed = mode == "Indexed"
    if mode is not None:
        errors += one_of(mode, f"{path}.completionMode", _MODES, sort=False)
        if indexed:
            errors += _indexed(spec, path)
    if mode is None or mode == "NonIndexed":
        for key, value in (("backoffLimitPerIndex", per_index), ("maxFailedIndexes", failed)):
            text = "requires indexed completion mode"
            errors += when(value is not None, invalid, f"{path}.{key}", value, text)
    if spec.get("podFailurePolicy") is not None:
        errors += _failure_policy(spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        errors += _success_policy(spec, f"{path}.successPolicy", indexed=indexed)
    errors += _replacement(spec, path)
    template = spec.get("template") or {}
    errors += validate_template(template, f"{path}.template")
    policy = (template.get("spec") or {}).get("restartPolicy", "")
    if policy in {"Always", ""}:
        text = 'valid values: "OnFailure", "Never"'
        errors.append(required(f"{path}.template.spec.restartPolicy", text))
    elif policy not in ("OnFailure", "Never"):
        errors.append(
            not_supported(
                f"{path}.template.spec.restartPolicy", policy, ("OnFailure", "Never"), sort=False
            )
        )
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        text = 'only "Never" is supported when podFailurePolicy is specified'
        errors.append(invalid(f"{path}.template.spec.restartPolicy", policy, text))
    return errors


def domain_path(text: str, path: str) -> list[FieldError]:
    """A path with a domain before it. Upstream: IsDomainPrefixedPath of apimachinery."""
    if not text:
        return [required(path)]
    domain, _, rest = text.partition("/")
    if not domain or not rest:
        return [invalid(path, text, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [invalid(path, domain, problem) for problem in names.dns_subdomain(domain)]
    if not _PATH.fullmatch(rest):
        detail = f"Invalid path (regex used for validation is '{_PATH_FORM}')"
        errors.append(invalid(path, rest, detail))
    return errors


def _indexed(spec: Tree, path: str) -> list[FieldError]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism")
    failed, place = spec.get("maxFailedIndexes"), f"{path}.maxFailedIndexes"
    errors = when(
        completions is None, required, f"{path}.completions", "when completion mode is Indexed"
    )
    errors += when(
        parallelism is not None and parallelism > MANY_COMPLETIONS,
        invalid,
        f"{path}.parallelism",
        parallelism,
        f"must be less than or equal to {MANY_COMPLETIONS} when completion mode is Indexed",
    )
    errors += when(
        completions is not None and failed is not None and failed > completions,
        invalid,
        place,
        failed,
        "must be less than or equal to completions",
    )
    problem = f"must be less than or equal to {MANY_COMPLETIONS}"
    errors += when(
        failed is not None and failed > MANY_COMPLETIONS, invalid, place, failed, problem
    )
    if (completions or 0) <= MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return errors
    if failed is None:
        text = f"must be specified when completions is above {MANY_COMPLETIONS}"
        errors.append(required(place, text))
    for key, value in (("parallelism", parallelism), ("maxFailedIndexes", failed)):
        errors += when(
            value is not None and value > FEW_AT_ONCE,
            invalid,
            f"{path}.{key}",
            value,
            f"must be less than or equal to {FEW_AT_ONCE} when completions are above "
            f"{MANY_COMPLETIONS} and used with backoff limit per index",
        )
    return errors


def _replacement(spec: Tree, path: str) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    if spec.get("podFailurePolicy") is not None:
        if policy != "Failed":
            return [not_supported(f"{path}.podReplacementPolicy", policy, ("Failed",))]
    elif policy not in ("Failed", "TerminatingOrFailed"):
        return [
            not_supported(f"{path}.podReplacementPolicy", policy, ("Failed", "TerminatingOrFailed"))
        ]
    return []


def _failure_policy(spec: Tree, path: str) -> list[FieldError]:
    rules = spec["podFailurePolicy"].get("rules") or []
    errors = at_most(rules, f"{path}.rules", 20)
    template = (spec.get("template") or {}).get("spec") or {}
    containers = [
        c.get("name", "")
        for key in ("containers", "initContainers")
        for c in template.get(key) or ()
    ]
    for index, rule in enumerate(rules):
        errors += _failure_rule(spec, rule, containers, f"{path}.rules[{index}]")
    return errors


def _failure_rule(spec: Tree, rule: Tree, containers: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    action = rule.get("action", "")
    if not action:
        text = 'valid values: ["Count" "FailIndex" "FailJob" "Ignore"]'
        errors.append(required(f"{path}.action", text))
    elif action == "FailIndex":
        text = "requires the backoffLimitPerIndex to be set"
        errors += when(
            spec.get("backoffLimitPerIndex") is None, invalid, f"{path}.action", action, text
        )
    elif action not in _ACTIONS:
        errors.append(not_supported(f"{path}.action", action, _ACTIONS))
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions")
    if codes is not None:
        errors += _exit_codes(codes, containers, f"{path}.onExitCodes")
    errors += at_most(conditions, f"{path}.onPodConditions", 20)
    for index, pattern in enumerate(conditions or ()):
        place = f"{path}.onPodConditions[{index}]"
        errors += label_name(pattern.get("type", ""), f"{place}.type")
        state = pattern.get("status", "")
        choices = ("False", "True", "Unknown")
        errors += one_of(state, f"{place}.status", choices)
    text = "specifying both OnExitCodes and OnPodConditions is not supported"
    errors += when(codes is not None and conditions, redacted, path, text)
    text = "specifying one of OnExitCodes and OnPodConditions is required"
    errors += when(codes is None and not conditions, redacted, path, text)
    return errors


def _exit_codes(codes: Tree, containers: list[str], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator, values = codes.get("operator", ""), codes.get("values") or []
    if not operator:
        errors.append(required(f"{path}.operator", 'valid values: ["In" "NotIn"]'))
    elif operator not in ("In", "NotIn"):
        errors.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    text = "must be one of the container or initContainer names in the pod template"
    errors += when(
        name is not None and name not in containers, invalid, f"{path}.containerName", name, text
    )
    if not values:
        errors.append(invalid(f"{path}.values", values, "at least one value is required"))
    elif len(values) > 255:
        errors.append(too_many(f"{path}.values", len(values), 255))
    seen: dict[int, None] = {}
    ordered = True
    for index, value in enumerate(values):
        text = "must not be 0 for the In operator"
        errors += when(
            operator == "In" and value == 0, invalid, f"{path}.values[{index}]", value, text
        )
        if value in seen:
            errors.append(duplicate(f"{path}.values[{index}]", value))
        else:
            seen[value] = None
        if index and values[index - 1] > value:
            ordered = False
    return errors + when(not ordered, invalid, f"{path}.values", values, "must be ordered")


def _success_policy(spec: Tree, path: str, *, indexed: bool) -> list[FieldError]:
    policy = spec["successPolicy"]
    rules = policy.get("rules") or []
    if not indexed:
        shown = {
            **internal("SuccessPolicy", policy),
            **({"Rules": []} if policy.get("rules") == [] else {}),
        }
        return [invalid(path, shown, "requires indexed completion mode")]
    errors = when(
        not rules,
        required,
        f"{path}.rules",
        "at least one rules must be specified when the successPolicy is specified",
    )
    errors += at_most(rules, f"{path}.rules", 20)
    for index, rule in enumerate(rules):
        place = f"{path}.rules[{index}]"
        errors += when(
            rule.get("succeededCount") is None and rule.get("succeededIndexes") is None,
            required,
            place,
            "at least one of succeededCount or succeededIndexes must be specified",
        )
        errors += _succeeded(rule, spec.get("completions") or 0, place)
    return errors


def _succeeded(rule: Tree, completions: int, path: str) -> list[FieldError]:
    """The indexes that must succeed, and how many of them."""
    errors: list[FieldError] = []
    indexes, count, named = rule.get("succeededIndexes"), rule.get("succeededCount"), 0
    if indexes is not None:
        place = f"{path}.succeededIndexes"
        errors += no_longer(indexes, place, MAX_INDEXES_TEXT)
        try:
            named = count_indexes(indexes, completions)
        except IndexesError as problem:
            errors.append(invalid(place, indexes, f"error parsing succeededIndexes: {problem}"))
    if count is None:
        return errors
    place = f"{path}.succeededCount"
    errors += non_negative_field(rule, "succeededCount", path)
    if count > completions:
        text = f"must be less than or equal to {completions} (the number of specified completions)"
        errors.append(invalid(place, count, text))
    errors += when(
        indexes is not None and count > named,
        invalid,
        place,
        count,
        f"must be less than or equal to {named} (the number of indexes in the specified "
        "succeededIndexes field)",
    )
    return errors


_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def _template_form(template: Tree, written: Any) -> Tree:
    meta = in_order(_META, template.get("metadata") or {})
    return {**meta, "Spec": internal("PodSpec", template.get("spec") or {}, written)}


def validate_job_update(new: Tree, old: Tree, written: Any = None) -> list[FieldError]:
    """Return the errors of a changed job; most of its spec stays. `written` is the spec as it was written."""
    given: Tree = written if isinstance(written, dict) else {}
    same_uid = new["metadata"].get("uid") == old["metadata"].get("uid")
    meta = meta_step(new["metadata"], old["metadata"], names.dns_subdomain, "U", namespaced=True)
    if new.get("spec") is old.get("spec") and same_uid:
        return meta
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    had = ((was.get("template") or {}).get("metadata") or {}).get("labels") or {}
    prefixed = _PREFIX + _NAME in had and _PREFIX + _UID in had
    # Upstream looks at the spec twice.
    errors = _job(new, prefixed=prefixed) + meta + _whole_spec(spec)
    errors += _completions(spec, was)
    errors += immutable(
        selector_shown(spec.get("selector")), selector_shown(was.get("selector")), "spec.selector"
    )
    errors += _template_kept(spec, was, old.get("status") or {}, given.get("template"))
    for key in (
        "completionMode",
        "podFailurePolicy",
        "backoffLimitPerIndex",
        "managedBy",
        "successPolicy",
    ):
        errors += immutable(_shown(spec, key, given), _shown(was, key, {}), f"spec.{key}")
    return errors


def _shown(spec: Tree, key: str, written: Tree) -> Any:
    """A field as messages quote it."""
    value, kind = spec.get(key), _INTERNAL.get(key)
    return value if value is None or kind is None else internal(kind, value, written.get(key))


_INTERNAL = {"podFailurePolicy": "FailurePolicy", "successPolicy": "SuccessPolicy"}


def _completions(spec: Tree, was: Tree) -> list[FieldError]:
    count, before = spec.get("completions"), was.get("completions")
    if spec.get("completionMode") != "Indexed":
        return immutable(count, before, "spec.completions")
    if count is None or count == before or count == spec.get("parallelism"):
        return []
    text = "can only be modified in tandem with spec.parallelism"
    return [invalid("spec.completions", count, text)]


_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")


def _template_kept(spec: Tree, was: Tree, state: Tree, written: Any) -> list[FieldError]:
    """The template stays, but for where the pods of a suspended job may run and what they ask for.

    Gates MutablePodResourcesForSuspendedJobs and MutableSchedulingDirectivesForSuspendedJobs.
    """
    template, old = spec.get("template") or {}, was.get("template") or {}
    if template == old:
        return []
    given = written.get("spec") if isinstance(written, dict) else None
    suspended = bool(was.get("suspend"))
    pod, before = template.get("spec") or {}, old.get("spec") or {}
    if suspended and "startTime" not in state:
        before = _rescheduled(before, pod)
    if suspended and not state.get("active"):
        for key in ("containers", "initContainers"):
            before = _resized(before, pod, key)
        if pod == before:
            return []
        shown = internal("PodSpec", pod, given)
        return [invalid("spec.template.spec", shown, "field is immutable")]
    return [invalid("spec.template", _template_form(template, given), "field is immutable")]


def _rescheduled(old: Tree, new: Tree) -> Tree:
    """The old pod with the new one's directives of scheduling."""
    taken = {key: new[key] for key in _SCHEDULING if key in new}
    affinity = {k: v for k, v in (old.get("affinity") or {}).items() if k != "nodeAffinity"}
    wished = new.get("affinity")
    if wished is not None and "nodeAffinity" in wished:
        affinity["nodeAffinity"] = wished["nodeAffinity"]
    if affinity or wished is not None:
        taken["affinity"] = affinity
    return {k: v for k, v in old.items() if k not in (*_SCHEDULING, "affinity")} | taken


def _resized(old: Tree, new: Tree, key: str) -> Tree:
    """The old pod with what the new one's containers ask for."""
    mine, theirs = old.get(key) or [], new.get(key) or []
    if not mine or len(mine) != len(theirs):
        return old
    taken = [
        with_status(own, other, "resources") if own.get("name") == other.get("name") else own
        for own, other in zip(mine, theirs, strict=True)
    ]
    return {**old, key: taken}
