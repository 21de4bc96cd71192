"""Validation of ClusterQueues and Cohorts. Follows `pkg/webhooks/clusterqueue_webhook.go`, `cohort_webhook.go`."""

from __future__ import annotations

from typing import Any, Final

from attrs import frozen

from controlplane.api.quantity import Quantity, parse
from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.apiserver.kinds.checks import entries, problems, when
from controlplane.apiserver.kinds.selectors import label_name, validate_label_selector
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    not_supported,
)
from controlplane.kueue.gates import Gates
from controlplane.kueue.values import ordered, same
from controlplane.kueue.workload.status_checks import all_flavors

__all__ = ["validate_cluster_queue", "validate_cohort"]

Errors = list[FieldError]

NEGATIVE: Final = "must be greater than or equal to 0"
ZERO: Final = Quantity.new(0)
SMALLEST_WEIGHT: Final = parse("1n")
MOST_FLAVORS: Final = 256
MOST_RESOURCES: Final = 256
MOST_PAIRS: Final = 512
MOST_CONCURRENT_FLAVORS: Final = 16
GROUPS: Final = "spec.resourceGroups"
TRY_PREFERRED: Final = "TryPreferredFlavors"


@frozen
class _Rules:
    """How quotas of one kind are checked: `parent` is what limits need, `above` is empty without it."""

    parent: str
    above: str
    lending_up_to_nominal: bool


def validate_cluster_queue(queue: Tree, old: Tree | None, gates: Gates) -> Errors:
    """Return the errors of a ClusterQueue; `old` is None for a new one."""
    spec = queue.get("spec") or EMPTY_MAP
    rules = _Rules("cohort", spec.get("cohortName") or "", True)
    errors = _groups(spec, rules)
    errors += validate_label_selector(spec.get("namespaceSelector"), "spec.namespaceSelector")
    errors += _preemption(spec.get("preemption"))
    errors += _fungibility(spec.get("flavorFungibility"))
    errors += fair_sharing(spec.get("fairSharing"))
    errors += _totals(spec.get("resourceGroups") or [])
    if gates.enabled("ConcurrentAdmission"):
        errors += _concurrent_admission(queue, spec)
    errors += _checks(queue, old, gates)
    if old is not None:
        before = (old.get("spec") or EMPTY_MAP).get("concurrentAdmissionPolicy")
        after = spec.get("concurrentAdmissionPolicy")
        path = "spec.concurrentAdmissionPolicy"
        errors += when(not same(before, after), invalid, path, ordered(after), "field is immutable")
    return errors


def validate_cohort(cohort: Tree) -> Errors:
    """Return the errors of a Cohort."""
    spec = cohort.get("spec") or EMPTY_MAP
    rules = _Rules("parent", spec.get("parentName") or "", False)
    return [*fair_sharing(spec.get("fairSharing")), *_groups(spec, rules)]


def quantity(value: Any, path: str) -> Errors:
    """Return the error of a negative quantity."""
    amount = parse(str(value))
    return when(amount.cmp(ZERO) < 0, invalid, path, str(amount), NEGATIVE)


def fair_sharing(sharing: Tree | None) -> Errors:
    """Return the errors of a fair sharing weight: not negative, and not so small that it counts as 0."""
    weight = (sharing or EMPTY_MAP).get("weight")
    if weight is None:
        return []
    amount, path = parse(str(weight)), "spec.fairSharing"
    tiny = amount.cmp(ZERO) > 0 and amount.cmp(SMALLEST_WEIGHT) <= 0
    text = "When not 0, weight must be > 10e-9"
    return [*quantity(weight, path), *when(tiny, invalid, path, str(amount), text)]


def _groups(spec: Tree, rules: _Rules) -> Errors:
    errors: Errors = []
    resources: dict[str, None] = {}
    flavors: dict[str, None] = {}
    for group, path in entries(spec, "resourceGroups", "spec"):
        for name, at in entries(group, "coveredResources", path):
            errors += label_name(name, at)
            errors += when(name in resources, duplicate, at, name)
            resources[name] = None
        for flavor, at in entries(group, "flavors", path):
            errors += _quotas(flavor, group.get("coveredResources") or [], rules, at)
            name = flavor.get("name", "")
            errors += when(name in flavors, duplicate, f"{at}.name", name)
            flavors[name] = None
    return errors


def _quotas(flavor: Tree, covered: list[str], rules: _Rules, path: str) -> Errors:
    errors: Errors = []
    pairs = zip(entries(flavor, "resources", path), covered, strict=False)
    for (quota, at), resource in pairs:
        name = quota.get("name", "")
        text = "must match the name in coveredResources"
        errors += when(name != resource, invalid, f"{at}.name", name, text)
        errors += quantity(quota.get("nominalQuota", "0"), f"{at}.nominalQuota")
        for limit in ("borrowingLimit", "lendingLimit"):
            if quota.get(limit) is not None:
                errors += _limit(quota[limit], rules, f"{at}.{limit}")
        if rules.lending_up_to_nominal and quota.get("lendingLimit") is not None:
            lending = parse(str(quota["lendingLimit"]))
            above = lending.cmp(parse(str(quota.get("nominalQuota", "0")))) > 0
            text = "must be less than or equal to the nominalQuota"
            errors += when(above, invalid, f"{at}.lendingLimit", str(lending), text)
    return errors


def _limit(value: Any, rules: _Rules, path: str) -> Errors:
    text = f"must be nil when {rules.parent} is empty"
    errors = when(not rules.above, invalid, path, str(parse(str(value))), text)
    return errors + quantity(value, path)


def _preemption(preemption: Tree | None) -> Errors:
    borrow = (preemption or EMPTY_MAP).get("borrowWithinCohort")
    if preemption is None or borrow is None:
        return []
    wrong = (
        preemption.get("reclaimWithinCohort", "") == "Never" and borrow.get("policy", "") != "Never"
    )
    text = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
    return when(wrong, invalid, "spec.preemption", ordered(preemption), text)


def _fungibility(fungibility: Tree | None) -> Errors:
    given = fungibility or EMPTY_MAP
    preference = given.get("preference")
    if preference is None:
        return []
    tried = [given.get(name) == "TryNextFlavor" for name in ("whenCanBorrow", "whenCanPreempt")]
    text = (
        f'preference "{preference}" requires both whenCanBorrow and whenCanPreempt to be'
        " TryNextFlavor"
    )
    return when(not all(tried), invalid, "spec.flavorFungibility.preference", preference, text)


def _totals(groups: list[Tree]) -> Errors:
    flavors = sum(len(group.get("flavors") or ()) for group in groups)
    resources = sum(len(group.get("coveredResources") or ()) for group in groups)
    errors = _too_many(
        GROUPS, flavors, MOST_FLAVORS, "total number of flavors across all resourceGroups"
    )
    errors += _too_many(
        GROUPS,
        resources,
        MOST_RESOURCES,
        "total number of covered resources across all resourceGroups",
    )
    for index, group in enumerate(groups):
        pairs = sum(len(flavor.get("resources") or ()) for flavor in group.get("flavors") or ())
        what = "number of flavor-resource combinations in a resourceGroup"
        errors += _too_many(f"{GROUPS}[{index}]", pairs, MOST_PAIRS, what)
    return errors


def _too_many(path: str, count: int, most: int, what: str) -> Errors:
    return when(count > most, invalid, path, count, f"{what} must be ≤ {most}, got {count}")


def _checks(queue: Tree, old: Tree | None, gates: Gates) -> Errors:
    """Admission checks name flavors of the queue; what was wrong before an update may stay as it was."""
    strategy = (queue.get("spec") or EMPTY_MAP).get("admissionChecksStrategy") or EMPTY_MAP
    flavors = all_flavors(queue)
    kept: dict[str, frozenset[str]] = {}
    if old is not None and not gates.enabled("RejectUpdatesToCQWithInvalidOnFlavors"):
        before = (old.get("spec") or EMPTY_MAP).get("admissionChecksStrategy") or EMPTY_MAP
        if all_flavors(old) == flavors:
            kept = {each["name"]: _on_flavors(each) for each in before.get("admissionChecks") or ()}
    errors: Errors = []
    for check, path in entries(strategy, "admissionChecks", "spec.admissionChecksStrategy"):
        if kept.get(check.get("name", "")) == _on_flavors(check):
            continue
        for flavor, at in entries(check, "onFlavors", path):
            errors += when(flavor not in flavors, not_supported, at, flavor, flavors)
    return errors


def _on_flavors(check: Tree) -> frozenset[str]:
    return frozenset(check.get("onFlavors") or ())


def _concurrent_admission(queue: Tree, spec: Tree) -> Errors:
    policy = spec.get("concurrentAdmissionPolicy")
    if policy is None:
        return []
    groups = spec.get("resourceGroups") or []
    errors: Errors = []
    if len(groups) != 1:
        text = "must have exactly one ResourceGroup when ConcurrentAdmissionPolicy is defined"
        errors.append(invalid(GROUPS, len(groups), text))
    elif (count := len(groups[0].get("flavors") or ())) > MOST_CONCURRENT_FLAVORS:
        text = (
            "cannot have more than 16 resource flavors in the ResourceGroup when"
            " ConcurrentAdmissionPolicy is defined"
        )
        errors.append(invalid(f"{GROUPS}[0].flavors", count, text))
    errors += _constraints(policy.get("migration") or EMPTY_MAP, queue)
    strategy = spec.get("queueingStrategy")
    text = "StrictFIFO queueing strategy cannot be used when ConcurrentAdmissionPolicy is defined"
    return errors + when(strategy == "StrictFIFO", invalid, "spec.queueingStrategy", strategy, text)


def _constraints(migration: Tree, queue: Tree) -> Errors:
    constraints = migration.get("constraints")
    if constraints is None:
        return []
    path = "spec.concurrentAdmissionPolicy.migration.constraints"
    mode = migration.get("mode") or ""
    if mode not in {"", TRY_PREFERRED}:
        text = f'may only be set when migration.mode is "{TRY_PREFERRED}" (got "{mode}")'
        return [forbidden(path, text)]
    last = constraints.get("lastAcceptableFlavorName")
    flavors = all_flavors(queue)
    if last is None or last in flavors:
        return []
    text = f"must be one of the flavors defined in the ClusterQueue: [{' '.join(sorted(flavors))}]"
    return problems(f"{path}.lastAcceptableFlavorName", last, (text,))
