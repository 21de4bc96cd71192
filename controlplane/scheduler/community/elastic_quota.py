"""Guarantees and limits of namespaces by ElasticQuotas, and the usage of their pods.

Upstream: pkg/capacityscheduling/elasticquota.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from controlplane.api.quantity import parse
from controlplane.scheduler.framework.custom import Tree
from controlplane.scheduler.framework.cycle_state import Clonable
from controlplane.scheduler.state.resources import Resource, is_scalar_resource

if TYPE_CHECKING:
    from controlplane.api.pod import Pod

__all__ = ["Quota", "Quotas", "over", "plus", "pod_request"]

UNBOUNDED: Final = (1 << 63) - 1


def plus(one: Resource, other: Resource, sign: int = 1) -> Resource:
    """Return the sum, or the difference, of two amounts; scalars stay listed at 0."""
    scalars = dict(one.scalars)
    for name, amount in other.scalars.items():
        scalars[name] = scalars.get(name, 0) + sign * amount
    return Resource(
        one.milli_cpu + sign * other.milli_cpu,
        one.memory + sign * other.memory,
        one.ephemeral_storage + sign * other.ephemeral_storage,
        one.allowed_pod_number + sign * other.allowed_pod_number,
        scalars,
    )


def over(asked: Resource, used: Resource, bound: Resource, missing: int) -> bool:
    """Return whether what is asked for and used exceeds a bound; of scalars only those asked for count."""
    if (
        asked.milli_cpu + used.milli_cpu > bound.milli_cpu
        or asked.memory + used.memory > bound.memory
        or asked.ephemeral_storage + used.ephemeral_storage > bound.ephemeral_storage
        or asked.allowed_pod_number + used.allowed_pod_number > bound.allowed_pod_number
    ):
        return True
    return any(
        amount + used.scalars.get(name, 0) > bound.scalars.get(name, missing)
        for name, amount in asked.scalars.items()
    )


def pod_request(pod: Pod) -> Resource:
    """Return a pod's request: its containers together, at least each init container, and its overhead."""
    total = Resource()
    for container in pod.spec.containers:
        total = plus(total, Resource.from_requests(container.resources.requests))
    for container in pod.spec.init_containers:
        one = Resource.from_requests(container.resources.requests)
        total.milli_cpu = max(total.milli_cpu, one.milli_cpu)
        total.memory = max(total.memory, one.memory)
        total.ephemeral_storage = max(total.ephemeral_storage, one.ephemeral_storage)
        for name, amount in one.scalars.items():
            if is_scalar_resource(name) and amount > total.scalars.get(name, 0):
                total.scalars[name] = amount
    return plus(total, Resource.from_requests(pod.spec.overhead))


def _bound(given: Mapping[str, Any] | None, missing: int) -> Resource:
    if given is None:
        return Resource(missing, missing, missing)
    return Resource.from_requests({name: parse(str(each)) for name, each in given.items()})


class Quota:
    """The quota of a namespace. Amounts are replaced, never changed."""

    def __init__(self, tree: Tree) -> None:
        spec = tree.get("spec") or {}
        self.least = _bound(spec.get("min"), 0)
        self.most = _bound(spec.get("max"), UNBOUNDED)
        self.used = Resource()
        self.pods: dict[str, None] = {}

    def clone(self) -> Quota:
        """Return a copy."""
        copy = Quota.__new__(Quota)
        copy.least, copy.most, copy.used = self.least, self.most, self.used
        copy.pods = dict(self.pods)
        return copy

    def add(self, pod: Pod) -> None:
        """Count a pod unless it is counted."""
        if pod.uid not in self.pods:
            self.pods[pod.uid] = None
            self.used = plus(self.used, pod_request(pod))

    def remove(self, pod: Pod) -> None:
        """Count a pod no longer."""
        if pod.uid in self.pods:
            del self.pods[pod.uid]
            self.used = plus(self.used, pod_request(pod), -1)

    def over_least(self, asked: Resource | None = None) -> bool:
        """Return whether the namespace uses, or would use, more than it is guaranteed."""
        if asked is None:
            return over(self.used, Resource(), self.least, 0)
        return over(asked, self.used, self.least, 0)

    def over_most(self, asked: Resource) -> bool:
        """Return whether the namespace would use more than it is allowed."""
        return over(asked, self.used, self.most, UNBOUNDED)


class Quotas(Clonable):
    """The quotas by namespace."""

    def __init__(self, quotas: Mapping[str, Quota] | None = None) -> None:
        self.by_namespace: dict[str, Quota] = dict(quotas or {})

    def clone(self) -> Self:
        """Return a deep copy."""
        return type(self)({name: each.clone() for name, each in self.by_namespace.items()})

    def get(self, namespace: str) -> Quota | None:
        """Return the quota of a namespace."""
        return self.by_namespace.get(namespace)

    def over_all(self, asked: Resource) -> bool:
        """Return whether all namespaces with quotas would use more than all are guaranteed."""
        used, least = Resource(), Resource()
        for each in self.by_namespace.values():
            used, least = plus(used, each.used), plus(least, each.least)
        return over(plus(used, asked), Resource(), least, 0)
