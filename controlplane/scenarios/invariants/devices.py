"""Invariants of devices and of the claims that hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from controlplane.api.quantity import Quantity, parse
from controlplane.scenarios.engine.scenario import Invariant

if TYPE_CHECKING:
    from controlplane.scenarios.engine.run import Run

__all__ = ["AT_REST_NOTHING_IS_IN_FLIGHT", "COUNTERS_SUFFICE", "NO_DEVICE_IS_GIVEN_TWICE"]

CLAIMS = "/registry/resourceclaims/"
SLICES = "/registry/resourceslices/"
Tree = Mapping[str, Any]
Name = tuple[str, str, str]


def _revision(run: Run) -> object:
    """Return what changes when a claim or a slice does."""
    return [obj.resource_version for path in (CLAIMS, SLICES) for obj in run.objects(path)]


def _results(run: Run) -> Iterator[tuple[str, Name, Tree]]:
    """Iterate over allocated devices: the claim, the device, the entry; those of admin access count for none."""
    for obj in run.objects(CLAIMS):
        allocation = (obj.tree.get("status") or {}).get("allocation") or {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            if not result.get("adminAccess"):
                yield obj.name, (result["driver"], result["pool"], result["device"]), result


def _devices(run: Run) -> dict[Name, Tree]:
    """The devices of the newest generation of each pool."""
    newest: dict[tuple[str, str], int] = {}
    specs = [obj.tree["spec"] for obj in run.objects(SLICES)]
    for spec in specs:
        pool = spec["driver"], spec["pool"]["name"]
        newest[pool] = max(newest.get(pool, 0), spec["pool"]["generation"])
    return {
        (spec["driver"], spec["pool"]["name"], device["name"]): device
        for spec in specs
        if spec["pool"]["generation"] == newest[spec["driver"], spec["pool"]["name"]]
        for device in spec.get("devices") or ()
    }


def _given_twice(run: Run) -> str | None:
    owners: dict[Name, str] = {}
    shares: dict[Name, list[str]] = {}
    used: dict[tuple[Name, str], Quantity] = {}
    for claim, name, result in _results(run):
        shown = "/".join(name)
        if result.get("shareID") is None:
            if name in owners or name in shares:
                other = owners.get(name) or shares[name][0]
                return f"{shown} belongs to the claims {other} and {claim}"
            owners[name] = claim
            continue
        if name in owners:
            return f"{shown} belongs to the claim {owners[name]}, and {claim} has a share of it"
        shares.setdefault(name, []).append(claim)
        for key, amount in (result.get("consumedCapacity") or {}).items():
            before = used.get((name, key))
            used[name, key] = parse(amount) if before is None else before + parse(amount)
    there = _devices(run)
    for (name, key), amount in used.items():
        offered = (there.get(name, {}).get("capacity") or {}).get(key)
        if offered is not None and amount > parse(str(offered["value"])):
            return f"{'/'.join(name)} gives {amount} of {key}, and has {offered['value']}"
    return None


def _overdrawn(run: Run) -> str | None:
    left: dict[tuple[str, str, str, str], Quantity] = {}
    for obj in run.objects(SLICES):
        spec = obj.tree["spec"]
        for counters in spec.get("sharedCounters") or ():
            for key, value in counters["counters"].items():
                place = spec["driver"], spec["pool"]["name"], counters["name"], key
                left[place] = parse(str(value["value"]))
    if not left:
        return None
    there = _devices(run)
    for name in dict.fromkeys(name for _, name, _ in _results(run)):
        for consumed in there.get(name, {}).get("consumesCounters") or ():
            for key, value in consumed["counters"].items():
                place = name[0], name[1], consumed["counterSet"], key
                if place not in left:
                    continue
                left[place] = left[place] - parse(str(value["value"]))
                if left[place].sign() < 0:
                    return (
                        f"counter {key} of {'/'.join(place[1:3])} is overdrawn by {'/'.join(name)}"
                    )
    return None


def _in_flight(run: Run) -> str | None:
    core = run.cluster.scheduler.core
    if core is None:
        return None
    tracker = core.handle.dra.tracker
    for flying in tracker.in_flight.values():
        return f"the allocation of {flying.claim['metadata']['name']} is in flight for ever"
    held = {name for _, name, _ in _results(run)}
    counted = {*tracker.devices.whole(), *(device for device, _ in tracker.devices.shared())}
    for name in sorted(held ^ {tuple(device) for device in counted}):
        which = "is allocated" if name in held else "is free"
        return f"{'/'.join(name)} {which}, and the scheduler takes it for the opposite"
    return None


NO_DEVICE_IS_GIVEN_TWICE = Invariant(
    "no device is given twice", _given_twice, ("apiserver",), looks_at=_revision
)
COUNTERS_SUFFICE = Invariant(
    "no counter of a pool is overdrawn", _overdrawn, ("apiserver",), looks_at=_revision
)
AT_REST_NOTHING_IS_IN_FLIGHT = Invariant("the scheduler knows which devices are free", _in_flight)
