"""Network costs between regions, zones and segments, from measurements between nodes.

A cost is that of the cheapest way over measured links; where there is no way it is 0, as upstream.
Follows `pkg/controller/networktopology.go` of diktyo-io/networktopology-controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Final

from attrs import frozen

from controlplane.api.quantity import Quantity
from controlplane.api.tree import Tree

__all__ = ["MEASURED", "Place", "measured_weights", "place_of"]

MEASURED: Final = "NetperfCosts"
USER_DEFINED: Final = "UserDefined"
REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
SEGMENT: Final = "topology.kubernetes.io/segment"
_KEY: Final = "netperf.p90.latency.milliseconds.origin.{}.destination.{}"
_CAPACITY: Final = "1G"
Links = dict[str, list[tuple[str, int]]]


@frozen
class Place:
    """A node with its labels of place; "" for what it has none of."""

    name: str
    region: str = ""
    zone: str = ""
    segment: str = ""


def place_of(node: Tree) -> Place:
    """Return the place of a node."""
    labels = node["metadata"].get("labels") or {}
    return Place(
        node["metadata"]["name"], *(labels.get(key, "") for key in (REGION, ZONE, SEGMENT))
    )


def measured_weights(
    spec: Tree, places: Sequence[Place], measurements: Mapping[str, str]
) -> list[Tree]:
    """Return `spec.weights` of a NetworkTopology: those that users defined, and those that were measured."""
    given: list[Tree] = next(
        (
            each["topologyList"]
            for each in spec.get("weights") or ()
            if each["name"] == USER_DEFINED
        ),
        [],
    )
    regions, zones, segments = Links(), Links(), Links()
    near: set[tuple[str, str]] = set()
    for one in places:
        for two in places:
            if one.name == two.name:
                continue
            cost = _cost(measurements.get(_KEY.format(one.name, two.name), ""))
            _link(segments, one.segment, two.segment, cost)
            if one.region != two.region:
                _link(regions, one.region, two.region, cost)
            elif one.zone != two.zone:
                near.add((one.zone, two.zone))
                _link(zones, one.zone, two.zone, cost)
    made = [
        (REGION, _origins((each.region for each in places), regions, None)),
        (ZONE, _origins((each.zone for each in places), zones, near)),
        (SEGMENT, _origins((each.segment for each in places), segments, None)),
    ]
    listed = [
        {"topologyKey": key, "originList": _with_capacities(origins, given, key)}
        for key, origins in made
    ]
    return [
        {"name": USER_DEFINED, "topologyList": given},
        {"name": MEASURED, "topologyList": listed},
    ]


def _cost(text: str) -> int:
    """Return a measured cost; 0 for one that is missing or no whole number."""
    try:
        return int(text)
    except ValueError:
        return 0


def _link(links: Links, one: str, two: str, cost: int) -> None:
    links.setdefault(one, []).append((two, cost))
    links.setdefault(two, []).append((one, cost))


def _distance(links: Links, start: str, end: str) -> int:
    """Return the cost of the cheapest way; 0 where there is none."""
    heap, seen = [(0, start)], set[str]()
    while heap:
        cost, at = heappop(heap)
        if at == end:
            return cost
        if at in seen:
            continue
        seen.add(at)
        for other, more in links.get(at, ()):
            if other not in seen:
                heappush(heap, (cost + more, other))
    return 0


def _origins(
    names: Iterable[str], links: Links, allowed: set[tuple[str, str]] | None
) -> list[Tree]:
    """Return the costs of each place to all others, or to the allowed ones; sorted, as the plugin searches them."""
    found = sorted(set(names))
    return [
        {
            "origin": one,
            "costList": [
                {"destination": two, "networkCost": _distance(links, one, two)}
                for two in found
                if one != two and (allowed is None or (one, two) in allowed)
            ],
        }
        for one in found
    ]


def _with_capacities(origins: list[Tree], given: Sequence[Any], key: str) -> list[Tree]:
    """Return origins with the bandwidth that users gave for a link, 1G by default."""
    known = {
        (origin["origin"], each["destination"]): each.get("bandwidthCapacity")
        for listed in given
        if listed["topologyKey"] == key
        for origin in listed["originList"]
        for each in origin.get("costList") or ()
    }

    def capacity(one: str, two: str) -> str:
        text = known.get((one, two))
        return _CAPACITY if text is None or Quantity.parse(str(text)).value() == 0 else str(text)

    return [
        {
            **origin,
            "costList": [
                {
                    **each,
                    "bandwidthCapacity": capacity(origin["origin"], each["destination"]),
                    "bandwidthAllocated": "0",
                }
                for each in origin["costList"]
            ],
        }
        for origin in origins
    ]
