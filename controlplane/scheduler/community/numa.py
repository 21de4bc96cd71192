"""The content of a NodeResourceTopology: the policy of a node and what is available in each NUMA zone.

Upstream: pkg/noderesourcetopology/nodeconfig, pluginhelpers.go, numaresources.go, resourcerequests, and pkg/util.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from controlplane.api.pod_resources import compute_qos
from controlplane.api.quantity import Quantity, parse
from controlplane.scheduler.framework.custom import Tree
from controlplane.scheduler.framework.panic import PanicError
from controlplane.scheduler.state.resources import is_native_resource

if TYPE_CHECKING:
    from controlplane.api.containers import Container
    from controlplane.api.pod import Pod

__all__ = [
    "ZERO",
    "Manager",
    "Topology",
    "Zone",
    "asks_for_devices",
    "attribute",
    "effective_request",
    "exclusive",
    "is_affine",
    "quality",
    "read_topology",
    "same_manager",
]

ZERO: Final = parse("0")
_MOST_ID: Final = 64
_MOST_ZONES: Final = 1024
_SCOPES: Final = ("container", "pod")
_POLICIES: Final = ("none", "best-effort", "restricted", "single-numa-node")
_OLD_POLICIES: Final[Mapping[str, tuple[str, str]]] = {
    f"{old}{level}Level": (new, level.lower())
    for old, new in (
        ("SingleNUMANode", "single-numa-node"),
        ("BestEffort", "best-effort"),
        ("Restricted", "restricted"),
    )
    for level in ("Pod", "Container")
}
_WHOLE: Final = re.compile(r"[+-]?[0-9]+\Z", re.ASCII)

Amounts = dict[str, Quantity]


@attrs.frozen
class Manager:
    """The configuration of a node's topology manager."""

    scope: str = "container"
    policy: str = "none"
    most_zones: int = 8


@attrs.frozen
class Zone:
    """A NUMA zone: its number, what is available in it, and the distance to zones by their numbers."""

    id: int
    available: Amounts
    costs: Mapping[int, int]


@attrs.frozen
class Topology:
    """A node's topology as the plugin reads it."""

    manager: Manager
    zones: tuple[Zone, ...]

    def copy_zones(self) -> list[Zone]:
        """Return zones whose amounts can be changed."""
        return [attrs.evolve(zone, available=dict(zone.available)) for zone in self.zones]

    def less(self, requests: Iterable[Mapping[str, Quantity]]) -> Topology:
        """Return the topology with each request taken out of every zone, as nothing tells which one has it."""
        zones = self.copy_zones()
        for request in requests:
            for zone in zones:
                for name, there in zone.available.items():
                    amount = request.get(name)
                    if amount is not None:
                        zone.available[name] = there - amount if there >= amount else ZERO
        return attrs.evolve(self, zones=tuple(zones))


def attribute(tree: Tree, name: str) -> str | None:
    """Return the value of the first attribute of a name."""
    for each in tree.get("attributes") or ():
        if each.get("name") == name:
            return str(each.get("value") or "")
    return None


def _number(text: str) -> int | None:
    return int(text) if _WHOLE.match(text) else None


def _zone_id(name: str) -> int | None:
    prefix, _, rest = name.partition("-")
    number = _number(rest) if prefix == "node" else None
    return None if number is None or number > _MOST_ID else number


def same_manager(one: Tree, other: Tree) -> bool:
    """Return whether two objects configure the topology manager alike."""
    return _manager(one) == _manager(other)


def _manager(tree: Tree) -> Manager:
    old = tree.get("topologyPolicies") or [""]
    policy, scope = _OLD_POLICIES.get(old[0], ("none", "container"))
    most = 8
    for each in tree.get("attributes") or ():
        name, value = each.get("name"), str(each.get("value") or "")
        if name == "topologyManagerScope" and value in _SCOPES:
            scope = value
        elif name == "topologyManagerPolicy" and value in _POLICIES:
            policy = value
        elif name == "topologyManagerMaxNUMANodes":
            number = _number(value)
            if number is not None and number > 1:
                most = min(number, _MOST_ZONES)
    return Manager(scope, policy, most)


def read_topology(tree: Tree) -> Topology:
    """Return what an object says. Raises PanicError for a zone with the number 64 or one below 0."""
    found: list[tuple[int, Amounts]] = []
    costs: dict[int, Mapping[int, int]] = {}
    for zone in tree.get("zones") or ():
        number = _zone_id(zone.get("name") or "")
        if zone.get("type") != "Node" or number is None:
            continue
        if not 0 <= number < _MOST_ID:
            length = f" with length {_MOST_ID}" if number >= 0 else ""
            raise PanicError(f"runtime error: index out of range [{number}]{length}")
        amounts = {
            each["name"]: parse(str(each.get("available") or "0"))
            for each in zone.get("resources") or ()
        }
        found.append((number, amounts))
        costs[number] = _costs(zone)
    zones = tuple(Zone(number, amounts, costs[number]) for number, amounts in found)
    return Topology(_manager(tree), zones)


def _costs(zone: Tree) -> Mapping[int, int]:
    costs = {}
    for each in zone.get("costs") or ():
        number = _zone_id(each.get("name") or "")
        if number is not None:
            costs[number] = int(each.get("value") or 0)
    return costs


# -- pods ------------------------------------------------------------------------------------------


def quality(pod: Pod) -> str:
    """Return the quality of service that the status tells, else the one of the spec."""
    told = (pod.tree.get("status") or {}).get("qosClass")
    return str(told) if told else compute_qos(pod)


def is_affine(name: str) -> bool:
    """Return whether a resource belongs to NUMA zones for certain."""
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def asks_for_devices(pod: Pod) -> bool:
    """Return whether a container requests something that is not Kubernetes' own."""
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    return any(not is_native_resource(name) for c in containers for name in c.resources.requests)


def effective_request(pod: Pod) -> Amounts:
    """Return what a pod requests as a whole: its containers together or the largest init one, and its overhead."""
    total: Amounts = {}
    for container in pod.spec.containers:
        _add(total, container.resources.requests)
    for container in pod.spec.init_containers:
        for name, amount in container.resources.requests.items():
            if name not in total or amount > total[name]:
                total[name] = amount
    _add(total, pod.spec.overhead)
    return total


def _add(total: Amounts, amounts: Mapping[str, Quantity]) -> None:
    for name, amount in amounts.items():
        total[name] = amount + total[name] if name in total else amount


def exclusive(pod: Pod, names: Mapping[str, None]) -> bool:
    """Return whether a pod holds something for itself alone while it runs.

    `names` are the resources that the node's zones have.
    """
    qos = quality(pod)
    sidecars = (c for c in pod.spec.init_containers if c.restart_policy == "Always")
    return any(_exclusive(qos, each, names) for each in (*sidecars, *pod.spec.containers))


def _exclusive(qos: str, container: Container, names: Mapping[str, None]) -> bool:
    for name, amount in container.resources.requests.items():
        if not is_native_resource(name):
            if name in names:
                return True
        elif qos == "Guaranteed" and is_affine(name) and amount.value() > 0:
            whole = amount.value() * 1000 == amount.milli_value()
            if name != "cpu" or whole:
                return True
    return False
