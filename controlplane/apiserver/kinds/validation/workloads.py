"""Validation of deployments, replica sets, stateful sets, daemon sets and autoscalers.

Upstream: pkg/apis/{apps,autoscaling,core}/validation.
"""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.api import labels
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds import names
from controlplane.apiserver.kinds.metadata import validate_annotations, validate_labels
from controlplane.apiserver.kinds.validation.claims import validate_claim_spec
from controlplane.apiserver.kinds.validation.pods import pod_annotations, validate_template
from controlplane.apiserver.kinds.validation.selectors import (
    selector_of,
    selector_shown,
    template_mismatch,
    validate_label_selector,
)
from controlplane.apiserver.kinds.validation.shared import (
    at_most_full,
    immutable,
    int_or_percent,
    non_negative,
    non_negative_field,
    scaled,
)
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    invalid,
    not_supported,
    required,
)

__all__ = [
    "validate_daemon_set",
    "validate_daemon_set_status",
    "validate_daemon_set_update",
    "validate_deployment",
    "validate_deployment_status",
    "validate_deployment_update",
    "validate_replica_set",
    "validate_replica_set_update",
    "validate_replica_status",
    "validate_replication_controller",
    "validate_stateful_set",
    "validate_stateful_set_status",
    "validate_stateful_set_update",
]


def _always_running(spec: Tree, path: str, kind: str) -> list[FieldError]:
    """Pods of these kinds are restarted and have no deadline."""
    errors: list[FieldError] = []
    policy = spec.get("restartPolicy", "")
    if policy != "Always":
        errors.append(not_supported(f"{path}.restartPolicy", policy, ("Always",)))
    if "activeDeadlineSeconds" in spec:
        errors.append(forbidden(f"{path}.activeDeadlineSeconds",
                                f"activeDeadlineSeconds in {kind} is not Supported"
                                ))  # fmt: skip
    return errors


def _replica_template(spec: Tree, selector: labels.Selector, path: str) -> list[FieldError]:
    template = spec.get("template") or {}
    errors: list[FieldError] = []
    if not selector.empty():
        errors += template_mismatch(selector, template, path)
    errors += validate_template(template, path)
    return errors + _always_running(template.get("spec") or {}, f"{path}.spec", "ReplicaSet")


def _selected(spec: Tree, path: str, kind: str) -> list[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        return [required(f"{path}.selector")]
    errors = validate_label_selector(selector, f"{path}.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid(f"{path}.selector", selector,
                              f"empty selector is invalid for {kind}"))  # fmt: skip
    return errors


def validate_deployment(tree: Tree) -> list[FieldError]:
    """A deployment."""
    spec, path = tree.get("spec") or {}, "spec"
    errors = non_negative_field(spec, "replicas", path)
    errors += _selected(spec, path, "deployment")
    selector = selector_of(spec.get("selector"))
    if selector is None:
        errors.append(
            invalid("spec.selector", selector_shown(spec.get("selector")), "invalid label selector")
        )
    else:
        errors += _replica_template(spec, selector, "spec.template")
    errors += _deployment_strategy(spec.get("strategy") or {}, "spec.strategy")
    for key in ("minReadySeconds", "revisionHistoryLimit"):
        errors += non_negative_field(spec, key, path)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        errors += non_negative(deadline, "spec.progressDeadlineSeconds")
        if deadline <= spec.get("minReadySeconds", 0):
            errors.append(invalid("spec.progressDeadlineSeconds", deadline,
                                  "must be greater than minReadySeconds"))  # fmt: skip
    return errors


def _deployment_strategy(strategy: Tree, path: str) -> list[FieldError]:
    kind = strategy.get("type", "")
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            return [forbidden(f"{path}.rollingUpdate",
                              "may not be specified when strategy `type` is 'Recreate'"
                              )]  # fmt: skip
        return []
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": None if rolling is None else {
            "MaxUnavailable": rolling.get("maxUnavailable", 0),
            "MaxSurge": rolling.get("maxSurge", 0)}}  # fmt: skip
        return [not_supported(path, shown, ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    place = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{place}.maxUnavailable")
    errors += int_or_percent(surge, f"{place}.maxSurge")
    if not scaled(unavailable) and not scaled(surge):
        errors.append(invalid(f"{place}.maxUnavailable", unavailable,
                              "may not be 0 when `maxSurge` is 0"))  # fmt: skip
    return errors + at_most_full(unavailable, f"{place}.maxUnavailable")


def validate_deployment_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed deployment; its selector stays."""
    if new.get("spec") is old.get("spec"):
        return []
    errors = validate_deployment(new)
    return errors + immutable(
        selector_shown((new.get("spec") or {}).get("selector")),
        selector_shown((old.get("spec") or {}).get("selector")),
        "spec.selector",
    )  # fmt: skip


_LESS = "cannot be greater than {}"


def _counts(
    status: Tree, limits: list[tuple[str, str]], prefix: str = "status"
) -> list[FieldError]:
    errors: list[FieldError] = []
    for key, bound in limits:
        value, limit = status.get(key, 0), status.get(bound, 0)
        if value > limit:
            shown = f"{prefix}.{bound}" if bound == "replicas" else bound
            errors.append(invalid(f"status.{key}", value, _LESS.format(shown)))
    return errors


def validate_deployment_status(new: Tree, old: Tree) -> list[FieldError]:
    """Counts of a deployment's status."""
    status, was = new.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    for key in ("observedGeneration", "replicas", "updatedReplicas", "readyReplicas",
                "availableReplicas", "unavailableReplicas", "terminatingReplicas",
                "collisionCount"):  # fmt: skip
        errors += non_negative_field(status, key, "status")
    errors += _counts(status, [
        ("updatedReplicas", "replicas"), ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"), ("availableReplicas", "readyReplicas"),
    ])  # fmt: skip
    return errors + _collisions(status, was)


def _collisions(status: Tree, was: Tree) -> list[FieldError]:
    count, before = status.get("collisionCount"), was.get("collisionCount")
    if before is None:
        return []
    if count is None or count < before:
        return [invalid("status.collisionCount", count or 0, "cannot be decremented")]
    return []


def validate_replica_set(tree: Tree) -> list[FieldError]:
    """A replica set."""
    spec = tree.get("spec") or {}
    errors = non_negative_field(spec, "replicas", "spec")
    errors += non_negative_field(spec, "minReadySeconds", "spec")
    errors += _selected(spec, "spec", "deployment")
    selector = selector_of(spec.get("selector"))
    if selector is None:
        errors.append(
            invalid("spec.selector", selector_shown(spec.get("selector")), "invalid label selector")
        )
    else:
        errors += _replica_template(spec, selector, "spec.template")
    return errors


def validate_replica_set_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed replica set; its selector stays."""
    if new.get("spec") is old.get("spec"):
        return []
    errors = validate_replica_set(new)
    return errors + immutable(
        selector_shown((new.get("spec") or {}).get("selector")),
        selector_shown((old.get("spec") or {}).get("selector")),
        "spec.selector",
    )  # fmt: skip


def validate_replica_status(new: Tree, _old: Tree) -> list[FieldError]:
    """Counts of a replica set's or replication controller's status."""
    status = new.get("status") or {}
    errors: list[FieldError] = []
    for key in ("replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas",
                "observedGeneration", "terminatingReplicas"):  # fmt: skip
        errors += non_negative_field(status, key, "status")
    return errors + _counts(status, [
        ("fullyLabeledReplicas", "replicas"), ("readyReplicas", "replicas"),
        ("availableReplicas", "replicas"), ("availableReplicas", "readyReplicas"),
    ])  # fmt: skip


def validate_replication_controller(tree: Tree) -> list[FieldError]:
    """A replication controller."""
    spec = tree.get("spec") or {}
    errors = non_negative_field(spec, "minReadySeconds", "spec")
    selector = spec.get("selector") or {}
    if not selector:
        errors.append(required("spec.selector"))
    if "replicas" not in spec:
        errors.append(required("spec.replicas"))
    errors += non_negative_field(spec, "replicas", "spec")
    template = spec.get("template")
    if template is None:
        errors.append(required("spec.template"))
        return errors
    chosen = labels.from_set(selector)
    if not chosen.empty():
        errors += template_mismatch(chosen, template, "spec.template")
    errors += validate_template(template, "spec.template")
    return errors + _always_running(
        template.get("spec") or {}, "spec.template.spec", "ReplicationController"
    )


_RETENTION = ("Retain", "Delete")


def validate_stateful_set(tree: Tree, *, new: bool = True) -> list[FieldError]:
    """A stateful set. The claim templates of one that is there are not looked at again."""
    meta, spec = tree["metadata"], tree.get("spec") or {}
    errors = [
        invalid("metadata.name", meta.get("name", ""), problem)
        for problem in names.dns_label(meta.get("name", ""))
        if meta.get("name") and not names.dns_subdomain(meta["name"])
    ]
    policy = spec.get("podManagementPolicy", "")
    if not policy:
        errors.append(required("spec.podManagementPolicy"))
    elif policy not in ("OrderedReady", "Parallel"):
        errors.append(invalid("spec.podManagementPolicy", policy,
                              "must be 'OrderedReady' or 'Parallel'"))  # fmt: skip
    errors += _set_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for key in ("whenDeleted", "whenScaled"):
        value = retention.get(key, "")
        if value not in _RETENTION:
            errors.append(not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{key}", value,
                                        _RETENTION, sort=False))  # fmt: skip
    errors += non_negative_field(spec, "replicas", "spec")
    errors += non_negative_field(spec, "minReadySeconds", "spec")
    errors += non_negative_field(spec.get("ordinals") or {}, "start", "spec.ordinals")
    service = spec.get("serviceName", "")
    if service and new:
        errors += [invalid("spec.serviceName", service, p) for p in names.dns_label(service)]
    claims = spec.get("volumeClaimTemplates") or ()
    for index, claim in enumerate(claims if new else ()):
        place = f"spec.volumeClaimTemplates[{index}].spec"
        errors += validate_claim_spec(claim.get("spec") or {}, place)
    errors += _selected(spec, "spec", "statefulset")
    selector = selector_of(spec.get("selector"))
    template = spec.get("template") or {}
    if selector is None:
        errors.append(invalid("spec.selector", selector_shown(spec.get("selector")), ""))
    else:
        if not selector.empty():
            errors += template_mismatch(selector, template, "spec.template")
        errors += _set_template(_with_claims(template, claims), "spec.template")
    return errors + _always_running(template.get("spec") or {}, "spec.template.spec", "StatefulSet")


def _with_claims(template: Tree, claims: Iterable[Tree]) -> Tree:
    """The template as its pods have it: a claim template is a volume, whatever else has its name."""
    names_of = dict.fromkeys((claim.get("metadata") or {}).get("name", "") for claim in claims)
    if not names_of:
        return template
    spec = template.get("spec") or {}
    volumes = [each for each in spec.get("volumes") or () if each.get("name") not in names_of]
    made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names_of]
    return {**template, "spec": {**spec, "volumes": [*volumes, *made]}}


def _set_template(template: Tree, path: str) -> list[FieldError]:
    """Labels and annotations are looked at twice, as upstream does."""
    meta = template.get("metadata") or {}
    errors = validate_labels(meta.get("labels") or {}, f"{path}.labels")
    annotations = meta.get("annotations") or {}
    if annotations:
        errors += validate_annotations(annotations, f"{path}.annotations")
        errors += pod_annotations(annotations, template.get("spec") or {}, f"{path}.annotations")
    return errors + validate_template(template, path)


def _set_strategy(strategy: Tree, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    shown_rolling = None if rolling is None else {
        "Partition": rolling.get("partition", 0),
        "MaxUnavailable": rolling.get("maxUnavailable"),
    }  # fmt: skip
    if not kind:
        return [required(path)]
    if kind == "OnDelete":
        if rolling is not None:
            return [invalid(f"{path}.rollingUpdate", shown_rolling,
                            "only allowed for updateStrategy 'RollingUpdate'")]  # fmt: skip
        return []
    if kind == "RollingUpdate":
        return non_negative_field(rolling or {}, "partition", f"{path}.rollingUpdate")
    return [invalid(path, {"Type": kind, "RollingUpdate": shown_rolling},
                    "must be 'RollingUpdate' or 'OnDelete'")]  # fmt: skip


_SET_MUTABLE = ("replicas", "ordinals", "template", "updateStrategy", "minReadySeconds",
                "persistentVolumeClaimRetentionPolicy", "revisionHistoryLimit")  # fmt: skip


def validate_stateful_set_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed stateful set; most of its spec stays."""
    if new.get("spec") is old.get("spec"):
        return []
    errors = validate_stateful_set(new, new=False)
    spec, was = new.get("spec") or {}, old.get("spec") or {}
    fixed = {key: value for key, value in spec.items() if key not in _SET_MUTABLE}
    before = {key: value for key, value in was.items() if key not in _SET_MUTABLE}
    if fixed != before:
        errors.append(forbidden("spec", (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', "
            "'template', 'updateStrategy', 'revisionHistoryLimit', "
            "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )))  # fmt: skip
    return errors


def validate_stateful_set_status(new: Tree, old: Tree) -> list[FieldError]:
    """Counts of a stateful set's status."""
    status, was = new.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    for key in ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas",
                "availableReplicas", "observedGeneration", "collisionCount"):  # fmt: skip
        errors += non_negative_field(status, key, "status")
    errors += _counts(status, [
        ("readyReplicas", "replicas"), ("currentReplicas", "replicas"),
        ("updatedReplicas", "replicas"), ("availableReplicas", "replicas"),
        ("availableReplicas", "readyReplicas"),
    ])  # fmt: skip
    return errors + _collisions(status, was)


def validate_daemon_set(tree: Tree) -> list[FieldError]:
    """A daemon set."""
    spec = tree.get("spec") or {}
    template = spec.get("template") or {}
    given = spec.get("selector")
    errors = validate_label_selector(given, "spec.selector")
    selector = selector_of(given)
    if selector is not None:
        errors += template_mismatch(selector, template, "spec.template")
    if given is not None and not given.get("matchLabels") and not given.get("matchExpressions"):
        errors.append(invalid("spec.selector", given, "empty selector is invalid for daemonset"))
    errors += validate_template(template, "spec.template")
    errors += _always_running(template.get("spec") or {}, "spec.template.spec", "DaemonSet")
    errors += non_negative_field(spec, "minReadySeconds", "spec")
    errors += _daemon_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    return errors + non_negative_field(spec, "revisionHistoryLimit", "spec")


def _daemon_strategy(strategy: Tree, path: str) -> list[FieldError]:
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = {"Type": kind, "RollingUpdate": None if rolling is None else {
            "MaxUnavailable": rolling.get("maxUnavailable", 0),
            "MaxSurge": rolling.get("maxSurge", 0)}}  # fmt: skip
        return [not_supported(path, shown, ("RollingUpdate", "OnDelete"), sort=False)]
    if rolling is None:
        return [required(f"{path}.rollingUpdate")]
    place = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{place}.maxUnavailable")
    errors += int_or_percent(surge, f"{place}.maxSurge")
    errors += at_most_full(unavailable, f"{place}.maxUnavailable")
    errors += at_most_full(surge, f"{place}.maxSurge")
    if scaled(unavailable) and scaled(surge):
        errors.append(invalid(f"{place}.maxSurge", surge,
                              "may not be set when maxUnavailable is non-zero"))  # fmt: skip
    elif not scaled(unavailable) and not scaled(surge):
        errors.append(required(f"{place}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return errors


def validate_daemon_set_update(new: Tree, old: Tree) -> list[FieldError]:
    """A changed daemon set; its selector stays."""
    if new.get("spec") is old.get("spec"):
        return []
    errors = validate_daemon_set(new)
    return immutable(
        selector_shown((new.get("spec") or {}).get("selector")),
        selector_shown((old.get("spec") or {}).get("selector")),
        "spec.selector",
    ) + errors  # fmt: skip


def validate_daemon_set_status(new: Tree, old: Tree) -> list[FieldError]:
    """Counts of a daemon set's status."""
    status, was = new.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    for key in ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled",
                "numberReady", "observedGeneration", "updatedNumberScheduled", "numberAvailable",
                "numberUnavailable", "collisionCount"):  # fmt: skip
        errors += non_negative_field(status, key, "status")
    return errors + _collisions(status, was)
