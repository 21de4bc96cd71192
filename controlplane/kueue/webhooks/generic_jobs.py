"""Defaults and validation of a user's jobs. Follows `pkg/controller/jobframework/base_webhook.go`."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.schema.field_errors import FieldError
from controlplane.kueue.jobs.ancestors import Surroundings
from controlplane.kueue.jobs.generic import GenericJob
from controlplane.kueue.webhooks.defaults import default_local_queue, default_priority_class
from controlplane.kueue.webhooks.job_rules import validate_create, validate_update

__all__ = ["default_generic", "validate_generic"]


def default_generic(cls: type[GenericJob], tree: Tree, around: Surroundings) -> Tree:
    """A new job as it is stored: with a queue and a priority class, suspended when it is managed.

    Raises:
        AncestorError: Its owners or its namespace are not known.
    """
    tree = default_priority_class(default_local_queue(tree, around), around)
    job = cls(around, 0, tree)
    if around.should_be_suspended(tree) and not job.is_suspended():
        return job.suspended(tree)
    return tree


def validate_generic(
    cls: type[GenericJob], tree: Tree, old: Tree | None, around: Surroundings
) -> list[FieldError]:
    """Return the errors of a job; `old` is None for a new one."""
    job = cls(around, 0, tree)
    if old is None:
        errors = validate_create(tree, cls.kind, around)
    else:
        suspended = (job.is_suspended(), cls(around, 0, old).is_suspended())
        errors = validate_update(tree, old, cls.kind, suspended, around)
    return [*errors, *job.validate(old)]
