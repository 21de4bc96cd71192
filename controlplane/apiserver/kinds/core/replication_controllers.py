"""ReplicationControllers. Upstream: pkg/registry/core/replicationcontroller, pkg/apis/core/validation."""

from __future__ import annotations

from typing import Any

from controlplane.api import labels
from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.apps.workloads import (
    Workload,
    labels_from_template,
    replica_row,
    validate_always_running,
    validate_replica_status,
)
from controlplane.apiserver.kinds.cells import labels_text
from controlplane.apiserver.kinds.checks import non_negative_field, when
from controlplane.apiserver.kinds.core.pods.defaults import templated
from controlplane.apiserver.kinds.core.pods.validation import validate_template
from controlplane.apiserver.kinds.kind import META, Kind
from controlplane.apiserver.kinds.selectors import template_mismatch
from controlplane.apiserver.kinds.trees import filled, with_spec
from controlplane.apiserver.schema.field_errors import FieldError, required

__all__ = ["KIND"]


def default_replication_controller(tree: Tree) -> Tree:
    """Selector and labels follow the template."""

    def spec(spec: Tree) -> Tree:
        spec = filled(templated(spec), {"replicas": 1})
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
        if labels and not spec.get("selector"):
            spec = {**spec, "selector": labels}
        return spec

    tree = with_spec(tree, spec)
    return labels_from_template(tree)


def validate_replication_controller(tree: Tree) -> list[FieldError]:
    """Return the errors of a replication controller."""
    spec = tree.get("spec") or {}
    errors = non_negative_field(spec, "minReadySeconds", "spec")
    selector = spec.get("selector") or {}
    errors += when(not selector, required, "spec.selector")
    errors += when("replicas" not in spec, required, "spec.replicas")
    errors += non_negative_field(spec, "replicas", "spec")
    template = spec.get("template")
    if template is None:
        errors.append(required("spec.template"))
        return errors
    chosen = labels.from_set(selector)
    if not chosen.empty():
        errors += template_mismatch(chosen, template, "spec.template")
    errors += validate_template(template, "spec.template")
    return errors + validate_always_running(
        template.get("spec") or {}, "spec.template.spec", "ReplicationController"
    )


def _row(tree: Tree, now: int) -> list[Any]:
    row = replica_row({**tree, "spec": {**tree["spec"], "selector": None}}, now)
    return [*row[:-1], labels_text(tree["spec"].get("selector"))]


KIND = Kind(
    strategy=Workload(
        default=default_replication_controller,
        rule=validate_replication_controller,
        checks_prefix=False,
        status_rule=validate_replica_status,
        generation=True,
        named_pods=True,
        orphan_by_default=True,
        empty_status={"replicas": 0},
    ),
    row=_row,
    selectable={**META, "status.replicas": "0"},
)
