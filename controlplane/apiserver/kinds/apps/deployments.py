"""Deployments. Upstream: pkg/registry/apps/deployment, pkg/apis/apps."""

from __future__ import annotations

from typing import Any

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.apps.workloads import (
    Workload,
    validate_collisions,
    validate_counts,
    validate_replica_template,
    validate_selected,
)
from controlplane.apiserver.kinds.cells import (
    age_of,
    name_of,
    part_of,
    selector_text,
    template_cells,
)
from controlplane.apiserver.kinds.checks import (
    at_most_full,
    immutable,
    int_or_percent,
    non_negative,
    non_negative_field,
    scaled,
    when,
)
from controlplane.apiserver.kinds.core.pods.defaults import templated
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import selector_of, selector_shown
from controlplane.apiserver.kinds.strategy import same
from controlplane.apiserver.kinds.trees import filled, with_spec
from controlplane.apiserver.schema.field_errors import FieldError, forbidden, invalid, not_supported

__all__ = ["KIND"]

_QUARTER = {"maxUnavailable": "25%", "maxSurge": "25%"}


def default_deployment(tree: Tree) -> Tree:
    """Replicas, strategy, history and deadline of a deployment."""

    def spec(spec: Tree) -> Tree:
        spec = filled(
            templated(spec),
            {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600},
        )
        strategy = spec.get("strategy") or {}
        new = strategy if strategy.get("type") else {**strategy, "type": "RollingUpdate"}
        if new["type"] == "RollingUpdate":
            new = {**new, "rollingUpdate": filled(new.get("rollingUpdate") or {}, _QUARTER)}
        return spec if new == strategy else {**spec, "strategy": new}

    return with_spec(tree, spec)


def validate_deployment(tree: Tree) -> list[FieldError]:
    """Return the errors of a deployment."""
    spec, path = tree.get("spec") or {}, "spec"
    errors = non_negative_field(spec, "replicas", path)
    errors += validate_selected(spec, path, "deployment")
    selector = selector_of(spec.get("selector"))
    if selector is None:
        text = "invalid label selector"
        errors.append(invalid("spec.selector", selector_shown(spec.get("selector")), text))
    else:
        errors += validate_replica_template(spec, selector, "spec.template")
    errors += _deployment_strategy(spec.get("strategy") or {}, "spec.strategy")
    for key in ("minReadySeconds", "revisionHistoryLimit"):
        errors += non_negative_field(spec, key, path)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None:
        errors += non_negative(deadline, "spec.progressDeadlineSeconds")
        errors += when(
            deadline <= spec.get("minReadySeconds", 0),
            invalid,
            "spec.progressDeadlineSeconds",
            deadline,
            "must be greater than minReadySeconds",
        )
    return errors


def _deployment_strategy(strategy: Tree, path: str) -> list[FieldError]:
    kind = strategy.get("type", "")
    rolling = strategy.get("rollingUpdate")
    if kind == "Recreate":
        if rolling is not None:
            text = "may not be specified when strategy `type` is 'Recreate'"
            return [forbidden(f"{path}.rollingUpdate", text)]
        return []
    if kind != "RollingUpdate":
        shown = {
            "Type": kind,
            "RollingUpdate": None
            if rolling is None
            else {
                "MaxUnavailable": rolling.get("maxUnavailable", 0),
                "MaxSurge": rolling.get("maxSurge", 0),
            },
        }
        return [not_supported(path, shown, ("Recreate", "RollingUpdate"))]
    rolling = rolling or {}
    place = f"{path}.rollingUpdate"
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    errors = int_or_percent(unavailable, f"{place}.maxUnavailable")
    errors += int_or_percent(surge, f"{place}.maxSurge")
    errors += when(
        not scaled(unavailable) and not scaled(surge),
        invalid,
        f"{place}.maxUnavailable",
        unavailable,
        "may not be 0 when `maxSurge` is 0",
    )
    return errors + at_most_full(unavailable, f"{place}.maxUnavailable")


def validate_deployment_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed deployment; its selector stays."""
    if new.get("spec") is old.get("spec"):
        return []
    errors = validate_deployment(new)
    return errors + immutable(
        selector_shown((new.get("spec") or {}).get("selector")),
        selector_shown((old.get("spec") or {}).get("selector")),
        "spec.selector",
    )


def validate_deployment_status(new: Tree, old: Tree) -> list[FieldError]:
    """Counts of a deployment's status."""
    status, was = new.get("status") or {}, old.get("status") or {}
    errors: list[FieldError] = []
    for key in (
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ):
        errors += non_negative_field(status, key, "status")
    errors += validate_counts(
        status,
        [
            ("updatedReplicas", "replicas"),
            ("readyReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ],
    )
    return errors + validate_collisions(status, was)


class DeploymentStrategy(Workload):
    """Deployments; their annotations count for the generation too."""

    def spec_changed(self, new: Tree, old: Tree) -> bool:
        """Return whether an update of this kind increments the generation."""
        return not same(new, old, "spec") or not same(
            new["metadata"], old["metadata"], "annotations"
        )

    def reset_fields(self, sub: str) -> tuple[tuple[str, ...], ...]:
        """Field paths that a write cannot set; a status keeps the labels."""
        reset = super().reset_fields(sub)
        return (*reset, ("f:metadata", "f:labels")) if sub == "status" else reset


def _row(tree: Tree, now: int) -> list[Any]:
    spec, state = part_of(tree, "spec"), part_of(tree, "status")
    return [
        name_of(tree),
        f"{state.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        state.get("updatedReplicas", 0),
        state.get("availableReplicas", 0),
        age_of(tree, now),
        *template_cells(tree),
        selector_text(spec.get("selector")),
    ]


KIND = Kind(
    strategy=DeploymentStrategy(
        default=default_deployment,
        rule=validate_deployment,
        update_rule=validate_deployment_update,
        status_rule=validate_deployment_status,
        generation=True,
        named_pods=True,
        status_keeps_labels=True,
    ),
    row=_row,
)
