"""Hints by the zones' share of CPU, for services annotated so. Upstream: k8s.io/endpointslice/topologycache.

Upstream takes zones in the order of its maps; here they have that of their names.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.controllers.common.controller import NORMAL, WARNING
from controlplane.controllers.network.endpointslice.endpoints import ZONE
from controlplane.controllers.network.endpointslice.hints import is_ready, remove_hints, set_hints
from controlplane.controllers.network.endpointslice.packing import own

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controlplane.api.node import Node
    from controlplane.api.tree import Tree
    from controlplane.controllers.network.endpointslice.packing import Plan

OVERLOAD: Final = 0.2
EXCLUDED: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
NO_NODE_INFO: Final = (
    "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
)
TOO_FEW: Final = "Insufficient number of endpoints"
OVERLOADED: Final = "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold"
NO_ZONE: Final = "One or more endpoints do not have a zone specified"
NO_HINTS: Final = "No hints allocated for zones"
ENABLED: Final = "Topology Aware Hints has been enabled"
DISABLED: Final = "Topology Aware Hints has been disabled"


class Report(NamedTuple):
    """An event about a service."""

    kind: str
    reason: str
    message: str


class Allocation(NamedTuple):
    """The number of endpoints that a zone should have."""

    maximum: int
    desired: float


class Unsuitable(Exception):
    """The reason why there can be no hints."""


def _disabled(message: str, address_type: str) -> Report:
    text = f"{message}, addressType: {address_type}"
    return Report(WARNING, "TopologyAwareHintsDisabled", text)


class TopologyCache:
    """The zones' shares of CPU, and how many hints each service gave to each zone."""

    def __init__(self) -> None:
        self._shares: dict[str, float] | None = None
        self._given: dict[str, dict[str, dict[str, int]]] = {}
        self._populated: dict[str, None] = {}

    def set_nodes(self, nodes: Iterable[Node]) -> None:
        """Count the CPU of ready nodes by zone. One node without zone or CPU makes the count useless."""
        by_zone: dict[str, int] = {}
        for node in nodes:
            ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
            if any(label in node.labels for label in EXCLUDED):
                continue
            if ready is None or ready.status != "True":
                continue
            cpu = node.status.allocatable.get("cpu")
            zone = node.labels.get(ZONE)
            if not zone or cpu is None or cpu.milli_value() == 0:
                self._shares = None
                return
            by_zone[zone] = by_zone.get(zone, 0) + cpu.milli_value()
        total = sum(by_zone.values())
        if len(by_zone) < 2:
            self._shares = None
        else:
            self._shares = {zone: by_zone[zone] / total for zone in sorted(by_zone)}

    def overloaded(self) -> list[str]:
        """The services of which some zone has too few endpoints for its share."""
        return [
            key
            for key, by_type in self._given.items()
            if any(self._is_overloaded(given) for given in by_type.values())
        ]

    def _is_overloaded(self, given: dict[str, int]) -> bool:
        if not given:
            return False
        if not self._shares:
            return True
        total = sum(given.values())
        return any(
            zone not in given or given[zone] < math.ceil(total * share * (1 / (1 + OVERLOAD)))
            for zone, share in self._shares.items()
        )

    def remove(self, key: str, address_type: str) -> None:
        """A service has no hints of this kind any more."""
        by_type = self._given.get(key)
        if by_type is not None:
            by_type.pop(address_type, None)
            if not by_type:
                del self._given[key]
        self._populated.pop(key, None)

    def drop(self, key: str, address_type: str) -> list[Report]:
        """The annotation does not ask for hints (any more); what is to be said about it."""
        had = key in self._populated
        self.remove(key, address_type)
        return [_disabled(DISABLED, address_type)] if had else []

    def add_hints(
        self, key: str, address_type: str, plan: Plan, existing: Sequence[Tree]
    ) -> list[Report]:
        """Give ready endpoints hints, so that each zone has endpoints by its share; what is to be said."""
        try:
            given = self._allocate(plan, existing)
        except Unsuitable as why:
            self.remove(key, address_type)
            remove_hints(plan, existing)
            return [_disabled(str(why), address_type)]
        fresh = key not in self._populated
        self._given.setdefault(key, {})[address_type] = given
        self._populated[key] = None
        text = f"{ENABLED}, addressType: {address_type}"
        return [Report(NORMAL, "TopologyAwareHintsEnabled", text)] if fresh else []

    def _allocations(self, count: int) -> dict[str, Allocation]:
        if self._shares is None:
            raise Unsuitable(NO_NODE_INFO)
        about = f"({count} endpoints, {len(self._shares)} zones)"
        if len(self._shares) > count:
            raise Unsuitable(f"{TOO_FEW} {about}")
        minimums = {
            zone: math.ceil(share * count * (1 / (1 + OVERLOAD)))
            for zone, share in self._shares.items()
        }
        spare = count - sum(minimums.values())
        if spare < 0:
            raise Unsuitable(f"{OVERLOADED} {about}")
        return {
            zone: Allocation(minimum + spare, max(self._shares[zone] * count, minimum))
            for zone, minimum in minimums.items()
        }

    def _allocate(self, plan: Plan, existing: Sequence[Tree]) -> dict[str, int]:
        unchanged = plan.unchanged(existing)
        everything = (*plan.create, *plan.update, *unchanged)
        ready = sum(is_ready(each) for found in everything for each in found.get("endpoints") or ())
        allocations = self._allocations(ready)
        given: dict[str, int] = {}
        for found in unchanged:
            counted = _hints_by_zone(found, given, allocations)
            if counted is None:
                plan.update.append(own(found))
                continue
            for zone, count in counted.items():
                given[zone] = given.get(zone, 0) + count
        free = [
            endpoint
            for found in (*plan.create, *plan.update)
            for endpoint in found["endpoints"]
            if is_ready(endpoint)
        ]
        for endpoint in free:
            zone = endpoint.get("zone")
            if not zone:
                raise Unsuitable(NO_ZONE)
            given[zone] = given.get(zone, 0) + 1
            set_hints(endpoint, {"forZones": [{"name": zone}]})
        for source, target in _redistribute(free, *_giving_and_receiving(allocations, given)):
            given[source] -= 1
            given[target] = given.get(target, 0) + 1
        if not given:
            raise Unsuitable(NO_HINTS)
        return given


def _hints_by_zone(
    found: Tree, given: dict[str, int], allocations: dict[str, Allocation]
) -> dict[str, int] | None:
    """The hints that a slice gives to each zone; None if it has to be changed."""
    counted: dict[str, int] = {}
    for endpoint in found.get("endpoints") or ():
        if not is_ready(endpoint):
            continue
        zones = (endpoint.get("hints") or {}).get("forZones")
        if not zones:
            return None
        for each in zones:
            if each["name"] not in allocations:
                return None
            counted[each["name"]] = counted.get(each["name"], 0) + 1
    for zone, count in counted.items():
        if count + given.get(zone, 0) > allocations[zone].maximum:
            return None
    return counted


def _giving_and_receiving(
    allocations: dict[str, Allocation], given: dict[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of endpoints that zones should give away, and that others should get."""
    surplus = {zone: given.get(zone, 0) - each.desired for zone, each in allocations.items()}
    giving: dict[str, int] = {}
    receiving: dict[str, int] = {}
    more = {zone: amount for zone, amount in surplus.items() if amount > 0}
    less = {zone: -amount for zone, amount in surplus.items() if amount < 0}
    while True:
        source = max(more, key=lambda zone: more[zone], default=None)
        target = max(less, key=lambda zone: less[zone], default=None)
        if source is None or target is None:
            return giving, receiving
        gives, gets = more[source], less[target]
        if (gives < 1 and gets < 1) or gives < 0.5 or gets < 0.5:
            return giving, receiving
        giving[source] = giving.get(source, 0) + 1
        receiving[target] = receiving.get(target, 0) + 1
        more[source] -= 1
        less[target] -= 1


def _redistribute(
    endpoints: Iterable[Tree], giving: dict[str, int], receiving: dict[str, int]
) -> list[tuple[str, str]]:
    """Point endpoints of zones with too many at zones with too few; the moves made."""
    moves: list[tuple[str, str]] = []
    for endpoint in endpoints:
        zone = endpoint["zone"]
        target = next((each for each, count in receiving.items() if count > 0), None)
        if target is None:
            break
        if giving.get(zone, 0) > 0:
            set_hints(endpoint, {"forZones": [{"name": target}]})
            giving[zone] -= 1
            receiving[target] -= 1
            moves.append((zone, target))
    return moves
