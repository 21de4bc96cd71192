"""ReplicaSets. Upstream: pkg/registry/apps/replicaset, pkg/apis/apps."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.apps.workloads import (
    Workload,
    replica_row,
    validate_replica_status,
    validate_replica_template,
    validate_selected,
)
from controlplane.apiserver.kinds.checks import immutable, non_negative_field
from controlplane.apiserver.kinds.core.pods.defaults import templated
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.selectors import selector_of, selector_shown
from controlplane.apiserver.kinds.trees import filled, with_spec
from controlplane.apiserver.schema.field_errors import FieldError, invalid

__all__ = ["KIND"]


def default_replica_set(tree: Tree) -> Tree:
    """Replicas of a replica set."""
    return with_spec(tree, lambda spec: filled(templated(spec), {"replicas": 1}))


def validate_replica_set(tree: Tree) -> list[FieldError]:
    """Return the errors of a replica set."""
    spec = tree.get("spec") or {}
    errors = non_negative_field(spec, "replicas", "spec")
    errors += non_negative_field(spec, "minReadySeconds", "spec")
    errors += validate_selected(spec, "spec", "deployment")
    selector = selector_of(spec.get("selector"))
    if selector is None:
        text = "invalid label selector"
        errors.append(invalid("spec.selector", selector_shown(spec.get("selector")), text))
    else:
        errors += validate_replica_template(spec, selector, "spec.template")
    return errors


def validate_replica_set_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed replica set; its selector stays."""
    if new.get("spec") is old.get("spec"):
        return []
    errors = validate_replica_set(new)
    return errors + immutable(
        selector_shown((new.get("spec") or {}).get("selector")),
        selector_shown((old.get("spec") or {}).get("selector")),
        "spec.selector",
    )


KIND = Kind(
    strategy=Workload(
        default=default_replica_set,
        rule=validate_replica_set,
        update_rule=validate_replica_set_update,
        status_rule=validate_replica_status,
        generation=True,
        named_pods=True,
        empty_status={"replicas": 0},
    ),
    row=replica_row,
)
