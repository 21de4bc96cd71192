"""PriorityClasses. Upstream: pkg/registry/scheduling/priorityclass, pkg/apis/scheduling."""

from __future__ import annotations

from controlplane.api.tree import Tree
from controlplane.apiserver.kinds.cells import age_of, name_of
from controlplane.apiserver.kinds.checks import immutable, when
from controlplane.apiserver.kinds.kind import Kind
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.kinds.trees import filled
from controlplane.apiserver.schema.field_errors import (
    FieldError,
    forbidden,
    not_supported,
    required,
)

__all__ = ["KIND"]


def default_priority_class(tree: Tree) -> Tree:
    """Pods of the class may preempt."""
    return filled(tree, {"preemptionPolicy": "PreemptLowerPriority"})


_SYSTEM = {"system-node-critical": 2000001000, "system-cluster-critical": 2000000000}
_HIGHEST = 1_000_000_000


def validate_priority_class(tree: Tree) -> list[FieldError]:
    """Return the errors of a priority class."""
    errors: list[FieldError] = []
    name, value = tree["metadata"].get("name", ""), tree.get("value", 0)
    if name.startswith("system-"):
        known = _SYSTEM.get(name)
        if known is None:
            problem = f"{name} is not a known system priority class"
        elif known != value:
            problem = f"value of {name} PriorityClass must be {known}"
        else:
            problem = ""
        errors += when(
            problem,
            forbidden,
            "metadata.name",
            "priority class names with 'system-' prefix are reserved for system use only. "
            f"error: {problem}",
        )
    elif value > _HIGHEST:
        text = f"maximum allowed value of a user defined priority is {_HIGHEST}"
        errors.append(forbidden("value", text))
    policy = tree.get("preemptionPolicy")
    choices = ("PreemptLowerPriority", "Never")
    if policy is not None and policy not in choices:
        errors.append(
            not_supported("preemptionPolicy", policy, choices, sort=False)
            if policy
            else required("preemptionPolicy")
        )
    return errors


def validate_priority_class_update(new: Tree, old: Tree) -> list[FieldError]:
    """Return the errors of a changed priority class; its value stays."""
    errors = when(
        new.get("value", 0) != old.get("value", 0),
        forbidden,
        "value",
        "may not be changed in an update.",
    )
    return errors + immutable(
        new.get("preemptionPolicy"), old.get("preemptionPolicy"), "preemptionPolicy"
    )


KIND = Kind(
    strategy=Strategy(
        default=default_priority_class,
        rule=validate_priority_class,
        update_rule=validate_priority_class_update,
        has_status=False,
        generation=True,
    ),
    row=lambda tree, now: [
        name_of(tree),
        tree.get("value", 0),
        bool(tree.get("globalDefault")),
        age_of(tree, now),
        tree.get("preemptionPolicy", ""),
    ],
)
