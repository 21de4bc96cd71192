"""Defaults of workload kinds. Upstream: pkg/apis/{apps,batch,autoscaling,core}/v1/defaults.go."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.defaulting.pods import (
    default_template,
    each,
    filled,
    inside,
    resources,
)

__all__ = [
    "default_autoscaler", "default_cron_job", "default_daemon_set", "default_deployment",
    "default_job", "default_replica_set", "default_replication_controller",
    "default_stateful_set",
]  # fmt: skip

_QUARTER = {"maxUnavailable": "25%", "maxSurge": "25%"}
_MAX_INT32 = 2**31 - 1


def _spec(tree: Tree, change: Any) -> Tree:
    spec = tree.get("spec")
    if spec is None:
        spec = {}
    new = change(spec)
    return tree if new is spec and "spec" in tree else {**tree, "spec": new}


def _templated(spec: Tree) -> Tree:
    return inside(spec, "template", default_template)


def default_deployment(tree: Tree) -> Tree:
    """Replicas, strategy, history and deadline of a deployment."""

    def spec(spec: Tree) -> Tree:
        spec = filled(
            _templated(spec),
            {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
        )
        strategy = spec.get("strategy") or {}
        new = strategy if strategy.get("type") else {**strategy, "type": "RollingUpdate"}
        if new["type"] == "RollingUpdate":
            new = {**new, "rollingUpdate": filled(new.get("rollingUpdate") or {}, _QUARTER)}
        return spec if new == strategy else {**spec, "strategy": new}

    return _spec(tree, spec)


def default_replica_set(tree: Tree) -> Tree:
    """Replicas of a replica set."""
    return _spec(tree, lambda spec: filled(_templated(spec), {"replicas": 1}))


def default_stateful_set(tree: Tree) -> Tree:
    """Policies of a stateful set."""

    def claim(claim: Tree) -> Tree:
        claim = inside(claim, "spec", lambda s: inside(
            filled(s, {"volumeMode": "Filesystem"}), "resources", resources))  # fmt: skip
        named = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
        if any(claim.get(key) != text for key, text in named.items()):
            claim = {**claim, **named}
        status = claim.get("status") or {}
        if "phase" not in status:
            claim = {**claim, "status": {**status, "phase": "Pending"}}
        return claim

    def spec(spec: Tree) -> Tree:
        spec = filled(
            _templated(spec),
            {"replicas": 1, "revisionHistoryLimit": 10, "podManagementPolicy": "OrderedReady"},
        )
        strategy = spec.get("updateStrategy") or {}
        new = strategy if strategy.get("type") else {**strategy, "type": "RollingUpdate"}
        if new["type"] == "RollingUpdate":
            new = {**new, "rollingUpdate": filled(new.get("rollingUpdate") or {}, {"partition": 0})}
        if new != strategy:
            spec = {**spec, "updateStrategy": new}
        retention = filled(
            spec.get("persistentVolumeClaimRetentionPolicy") or {},
            {"whenDeleted": "Retain", "whenScaled": "Retain"},
        )
        if retention != spec.get("persistentVolumeClaimRetentionPolicy"):
            spec = {**spec, "persistentVolumeClaimRetentionPolicy": retention}
        return each(spec, "volumeClaimTemplates", claim)

    return _spec(tree, spec)


def default_daemon_set(tree: Tree) -> Tree:
    """Update strategy of a daemon set."""

    def spec(spec: Tree) -> Tree:
        spec = filled(_templated(spec), {"revisionHistoryLimit": 10})
        strategy = spec.get("updateStrategy") or {}
        new = strategy if strategy.get("type") else {**strategy, "type": "RollingUpdate"}
        if new["type"] == "RollingUpdate":
            rolling = filled(new.get("rollingUpdate") or {}, {"maxUnavailable": 1, "maxSurge": 0})
            new = {**new, "rollingUpdate": rolling}
        return spec if new == strategy else {**spec, "updateStrategy": new}

    return _spec(tree, spec)


def default_replication_controller(tree: Tree) -> Tree:
    """Selector and labels follow the template."""

    def spec(spec: Tree) -> Tree:
        spec = filled(_templated(spec), {"replicas": 1})
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels and not spec.get("selector"):
            spec = {**spec, "selector": labels}
        return spec

    tree = _spec(tree, spec)
    return labels_from_template(tree)


def labels_from_template(tree: Tree) -> Tree:
    """An object without labels takes those of its pod template."""
    template = tree["spec"].get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    meta = tree.get("metadata") or {}
    if labels and not meta.get("labels"):
        return {**tree, "metadata": {**meta, "labels": labels}}
    return tree


def default_job_spec(spec: Tree) -> Tree:
    """Defaults of a job's spec."""
    spec = _templated(spec)
    defaults: Tree = {"parallelism": 1, "completionMode": "NonIndexed", "suspend": False,
                      "manualSelector": False}  # fmt: skip
    if "completions" not in spec and "parallelism" not in spec:
        defaults["completions"] = 1
    defaults["backoffLimit"] = _MAX_INT32 if "backoffLimitPerIndex" in spec else 6
    failure = spec.get("podFailurePolicy")
    defaults["podReplacementPolicy"] = "Failed" if failure else "TerminatingOrFailed"
    spec = filled(spec, defaults)
    return _with_pod_conditions(spec)


def _with_pod_conditions(spec: Tree) -> Tree:
    def pattern(entry: Tree) -> Tree:
        return entry if entry.get("status") else {**entry, "status": "True"}

    return inside(spec, "podFailurePolicy", lambda policy: each(
        policy, "rules", lambda rule: each(rule, "onPodConditions", pattern)))  # fmt: skip


def default_job(tree: Tree) -> Tree:
    """Defaults of a job."""
    return labels_from_template(_spec(tree, default_job_spec))


def default_cron_job(tree: Tree) -> Tree:
    """Defaults of a cron job; of its template only pods and their conditions have any."""

    def job(spec: Tree) -> Tree:
        return _with_pod_conditions(_templated(spec))

    def spec(spec: Tree) -> Tree:
        spec = filled(spec, {"concurrencyPolicy": "Allow", "suspend": False,
                             "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1})  # fmt: skip
        return inside(spec, "jobTemplate", lambda made: inside(made, "spec", job))

    return _spec(tree, spec)


_SCALE_UP = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_SCALE_DOWN = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_CPU = {"type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization",
                                               "averageUtilization": 80}}}  # fmt: skip


def default_autoscaler(tree: Tree) -> Tree:
    """Minimum, metrics and behaviour of a horizontal pod autoscaler."""

    def rules(given: Tree | None, defaults: Tree) -> Tree:
        given = given or {}
        merged = filled(given, defaults)
        return {**merged, "policies": defaults["policies"]} if not given.get("policies") else merged

    def behavior(given: Tree) -> Tree:
        return {**given, "scaleUp": rules(given.get("scaleUp"), _SCALE_UP),
                "scaleDown": rules(given.get("scaleDown"), _SCALE_DOWN)}  # fmt: skip

    def spec(spec: Tree) -> Tree:
        spec = filled(spec, {"minReplicas": 1})
        if not spec.get("metrics"):
            spec = {**spec, "metrics": [_CPU]}
        return inside(spec, "behavior", behavior)

    return _spec(tree, spec)
