"""Defaults and validation of Deployments and StatefulSets: their pods are held back, not they themselves.

Follows `pkg/controller/jobs/deployment/deployment_webhook.go` and
`pkg/controller/jobs/statefulset/statefulset_webhook.go`.
"""

from __future__ import annotations

from typing import Any, Final

from controlplane.api.tree import EMPTY_MAP, Tree
from controlplane.apiserver.kinds.checks import immutable, when
from controlplane.apiserver.schema.field_errors import FieldError, forbidden
from controlplane.kueue.jobs.ancestors import DEPLOYMENT, STATEFUL_SET, Surroundings
from controlplane.kueue.jobs.objects import Kind, priority_class, queue_name
from controlplane.kueue.jobs.stateful_sets import (
    FRAMEWORK,
    find_workload,
    of_another_framework,
    replicas_of,
)
from controlplane.kueue.names import MANAGED, PRIORITY_CLASS, QUEUE, SUSPENDED_BY_PARENT
from controlplane.kueue.webhooks.defaults import (
    default_local_queue,
    default_priority_class,
    with_annotation,
    with_label,
)
from controlplane.kueue.webhooks.gated_by import validate_gated_by
from controlplane.kueue.webhooks.job_rules import (
    LABELS,
    elastic_errors,
    label_as_name,
    validate_priority_class,
)
from controlplane.kueue.workload.shape import spec_shape
from controlplane.kueue.workload.status import is_on_hold

__all__ = [
    "default_deployment",
    "default_stateful_set",
    "validate_deployment",
    "validate_stateful_set",
]

Errors = list[FieldError]

_POD_SPEC: Final = "spec.template.spec"


def default_deployment(tree: Tree, around: Surroundings) -> Tree:
    """A Deployment whose pods bear its queue and its priority class.

    Raises:
        AncestorError: Its owners or its namespace are not known.
    """
    tree = default_priority_class(default_local_queue(tree, around), around)
    if not around.should_be_suspended(tree):
        return tree
    template = _template_of(tree)
    template = with_annotation(template, SUSPENDED_BY_PARENT, "deployment")
    template = with_label(template, MANAGED, "true")
    for label, value in ((QUEUE, queue_name(tree)), (PRIORITY_CLASS, priority_class(tree))):
        if value:
            template = with_label(template, label, value)
    return _with_template(tree, template)


def default_stateful_set(tree: Tree, around: Surroundings) -> Tree:
    """A StatefulSet whose pods tell who holds them back.

    Raises:
        AncestorError: Its owners or its namespace are not known.
    """
    if of_another_framework(tree):
        return tree
    tree = default_priority_class(default_local_queue(tree, around), around)
    if not around.should_be_suspended(tree):
        return tree
    return _with_template(tree, with_annotation(_template_of(tree), SUSPENDED_BY_PARENT, FRAMEWORK))


def _template_of(tree: Tree) -> Tree:
    template: Tree = tree["spec"]["template"]
    return {**template, "metadata": template.get("metadata") or {}}


def _with_template(tree: Tree, template: Tree) -> Tree:
    return {**tree, "spec": {**tree["spec"], "template": template}}


def validate_deployment(tree: Tree, old: Tree | None, around: Surroundings) -> Errors:
    """Return the errors of a Deployment; `old` is None for a new one."""
    return _common(tree, old, DEPLOYMENT, around)


def validate_stateful_set(tree: Tree, old: Tree | None, around: Surroundings) -> Errors:
    """Return the errors of a StatefulSet; `old` is None for a new one.

    Raises:
        AncestorError: Its owners or its namespace are not known.
    """
    if of_another_framework(tree):
        return []
    errors = _common(tree, old, STATEFUL_SET, around)
    if old is not None and around.should_be_suspended(tree):
        new_shape, old_shape = (
            spec_shape(each["spec"]["template"]["spec"]) for each in (tree, old)
        )
        errors += _same_shape(new_shape, old_shape, _POD_SPEC)
        errors += _replicas(tree, old, around)
    return errors


def _common(tree: Tree, old: Tree | None, kind: Kind, around: Surroundings) -> Errors:
    errors = label_as_name(tree, QUEUE) + elastic_errors(tree, kind, around)
    if old is not None:
        suspended = not (old.get("status") or EMPTY_MAP).get("readyReplicas")
        if not suspended or not queue_name(tree):
            errors += immutable(queue_name(tree), queue_name(old), f"{LABELS}[{QUEUE}]")
        errors += validate_priority_class(tree, old, suspended=suspended)
    if around.gates.enabled("AdmissionGatedBy"):
        errors += validate_gated_by(tree, old)
    return errors


def _replicas(tree: Tree, old: Tree, around: Surroundings) -> Errors:
    """Only to nothing and back from nothing, and only when what was there is gone."""
    path, now, before = "spec.replicas", replicas_of(tree), replicas_of(old)
    if now and before:
        return immutable(now, before, path)
    if before or not now:
        return []
    if (tree.get("status") or EMPTY_MAP).get("replicas"):
        return [forbidden(path, "scaling down is still in progress")]
    _, workload = find_workload(old, around)
    kept = workload is not None and not is_on_hold(workload)
    return when(kept, forbidden, path, "workload from previous scale-down is still being deleted")


def _same_shape(new: Any, old: Any, path: str) -> Errors:
    if isinstance(new, dict) and isinstance(old, dict):
        errors: Errors = []
        for name in sorted({*new, *old}):
            errors += _same_shape(new.get(name), old.get(name), f"{path}.{name}")
        return errors
    listed = isinstance(new, list) and isinstance(old, list) and len(new) == len(old)
    if listed and all(isinstance(each, dict) for each in (*new, *old)):
        errors = []
        for at, (mine, theirs) in enumerate(zip(new, old, strict=True)):
            errors += _same_shape(mine, theirs, f"{path}[{at}]")
        return errors
    return immutable(new, old, path)
