"""Calls of strategies of pod groups and workloads with gates."""

from __future__ import annotations

from typing import Any

from controlplane.apiserver.kinds.registry import kind_of
from controlplane.apiserver.kinds.strategy import Context, Strategy

__all__ = ["ALL", "context", "created", "strategy", "texts", "updated"]

ALL = frozenset(
    (
        "GenericWorkload",
        "GangScheduling",
        "TopologyAwareWorkloadScheduling",
        "WorkloadAwarePreemption",
        "DRAWorkloadResourceClaims",
    )
)


def strategy(resource: str) -> Strategy:
    """Return the rules of a resource of the group."""
    return kind_of("scheduling.k8s.io", resource).strategy


def context(gates: frozenset[str]) -> Context:
    """Return a context that has nothing but gates."""
    found = Context.__new__(Context)
    found.gates = gates
    return found


def created(resource: str, spec: Any, gates: frozenset[str] = ALL) -> tuple[Any, list[str]]:
    """Return the spec that a new object would have, and the errors."""
    rules, ctx = strategy(resource), context(gates)
    tree = rules.prepare_create(ctx, {"metadata": {}, "spec": spec})
    return tree["spec"], texts(rules.validate(ctx, tree))


def updated(
    resource: str, spec: Any, old: Any, gates: frozenset[str] = ALL
) -> tuple[Any, list[str]]:
    """Return the spec of an updated object, and the errors."""
    rules, ctx = strategy(resource), context(gates)
    was = {"metadata": {}, "spec": old}
    tree = rules.prepare_update(ctx, {"metadata": {}, "spec": spec}, was)
    return tree["spec"], texts(rules.validate_update(ctx, tree, was))


def texts(errors: Any) -> list[str]:
    """Return errors as clients see them."""
    return [str(error) for error in errors]
