"""Addresses and ports as subsets: every set of addresses once, with all its ports. Upstream: pkg/api/v1/endpoints."""

from __future__ import annotations

import math
from hashlib import md5
from typing import TYPE_CHECKING, Final, NamedTuple

from controlplane.controllers.common.template_hash import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from controlplane.api.tree import Tree

CAPACITY: Final = 1000

_Address = tuple[str, str]


class Entry(NamedTuple):
    """One address with one port, None if the service has none."""

    address: Tree
    port: Tree | None
    ready: bool


def _identity(address: Tree) -> _Address:
    return address["ip"], (address.get("targetRef") or {}).get("uid", "")


def pack(entries: Iterable[Entry]) -> list[Tree]:
    """Ports that are offered by the same addresses, ready alike, share a subset. The order is upstream's, of hashes.

    An address that is not ready for one entry of a port is not ready for that port.
    """
    addresses: dict[_Address, Tree] = {}
    offered: dict[tuple[object, ...], tuple[Tree | None, dict[_Address, bool]]] = {}
    for address, port, ready in entries:
        who = _identity(address)
        addresses.setdefault(who, address)
        key = tuple(sorted(port.items())) if port is not None else ()
        _, by = offered.setdefault(key, (port, {}))
        by[who] = ready and by.get(who, True)
    groups: dict[tuple[tuple[_Address, bool], ...], list[Tree]] = {}
    for port, by in offered.values():
        ports = groups.setdefault(tuple(sorted(by.items())), [])
        if port is not None:
            ports.append(port)
    found = []
    for members, ports in groups.items():
        parts = {
            "addresses": [addresses[who] for who, ready in members if ready],
            "notReadyAddresses": [addresses[who] for who, ready in members if not ready],
            "ports": sorted(ports, key=lambda port: _digest("v1.EndpointPort", port)),
        }
        found.append({name: part for name, part in parts.items() if part})
    if len(found) < 2:  # hashing all ports of the only subset costs a third of this
        return found
    return sorted(found, key=lambda subset: _digest("v1.EndpointSubset", subset))


def _digest(kind: str, value: Tree) -> bytes:
    return md5(dump(kind, value).encode(), usedforsecurity=False).digest()


def count(subsets: Iterable[Tree], *names: str) -> int:
    """Return the number of addresses that the subsets have under these names."""
    return sum(len(subset.get(name) or ()) for subset in subsets for name in names)


def truncate(subsets: Sequence[Tree]) -> list[Tree] | None:
    """At most 1000 addresses, ready ones first, each subset by its part of the whole; None if they are not more."""
    ready = count(subsets, "addresses")
    waiting = count(subsets, "notReadyAddresses")
    if ready + waiting <= CAPACITY:
        return None
    cut, total, room = (
        ("addresses", ready, CAPACITY)
        if ready > CAPACITY
        else ("notReadyAddresses", waiting, CAPACITY - ready)
    )
    left = room
    found: list[Tree] = []
    for subset in subsets:
        there = subset.get(cut) or ()
        kept = there[: min(left, math.ceil(len(there) / total * room))]
        left -= len(kept)
        changed = {**subset, cut: kept}
        if cut == "addresses":
            changed["notReadyAddresses"] = []
        found.append({name: part for name, part in changed.items() if part})
    return found


def equal(one: Iterable[Tree], other: Iterable[Tree]) -> bool:
    """Return whether two lists of subsets agree in all but the resource versions of pods."""
    return [_shown(each) for each in one] == [_shown(each) for each in other]


def _shown(subset: Tree) -> Tree:
    found: Tree = {"ports": subset.get("ports") or []}
    for name in ("addresses", "notReadyAddresses"):
        found[name] = [
            {**each, "targetRef": {**(each.get("targetRef") or {}), "resourceVersion": ""}}
            for each in subset.get(name) or ()
        ]
    return found
