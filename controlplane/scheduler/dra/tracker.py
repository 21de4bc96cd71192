"""Claims for the scheduler: what is allocated, what is being allocated, and the devices of both.

Claims stand in the assume cache; an allocation of Reserve stands among the allocations in flight until PreBind has
written it; the devices of allocated claims are counted from the notifications of the assume cache. Each has a lock of
its own, so the state is read again when it changed meanwhile.

Points: `scheduler.claims.gather` between the parts of a reading.

Upstream: claimTracker in plugins/dynamicresources/dra_manager.go, allocateddevices.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from attrs import define, evolve, frozen

from controlplane.api.quantity import Quantity, parse
from controlplane.api.tree import Tree
from controlplane.api.view import View
from controlplane.decisions import Point, Steps
from controlplane.scheduler.dra.assume_cache import AssumeCache
from controlplane.scheduler.dra.capacity import Allocating
from controlplane.scheduler.dra.devices import AllocatedState, DeviceID
from controlplane.scheduler.dra.extended import find_claim, owners_of_extended

__all__ = ["AllocatedDevices", "ClaimTracker", "InFlight", "allocation_of"]

_GATHER: Final = Point("scheduler.claims.gather")


def allocation_of(claim: Tree) -> Tree | None:
    """Return the allocation in a claim's status, None if it has none."""
    found: Tree | None = (claim.get("status") or {}).get("allocation")
    return found


class _Held(NamedTuple):
    """A device that a claim holds: as a whole, or the share of this name with what it consumes."""

    device: DeviceID
    share: str | None
    consumed: dict[str, Quantity] | None


def _held(claim: Tree, *, shares: bool) -> list[_Held]:
    """Return the devices of an allocated claim; those of admin access count for none."""
    found = []
    allocation = allocation_of(claim) or {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        if result.get("adminAccess"):
            continue
        name = DeviceID(result.get("driver", ""), result.get("pool", ""), result.get("device", ""))
        share = result.get("shareID") if shares else None
        consumed = None if share is None else result.get("consumedCapacity")
        amounts = None
        if consumed is not None:
            amounts = {key: parse(str(amount)) for key, amount in consumed.items()}
        found.append(_Held(name, share, amounts))
    return found


class _Devices:
    """Devices that claims hold. A device of two claims is in it once, as upstream's set has it."""

    def __init__(self) -> None:
        self.whole: dict[DeviceID, None] = {}
        self.shares: dict[tuple[DeviceID, str], None] = {}
        self.capacity = Allocating()

    def add(self, held: list[_Held]) -> None:
        for each in held:
            if each.share is None:
                self.whole[each.device] = None
                continue
            self.shares[each.device, each.share] = None
            if each.consumed is not None:
                self.capacity.insert(each.device, each.consumed)

    def remove(self, held: list[_Held]) -> None:
        for each in held:
            if each.share is None:
                self.whole.pop(each.device, None)
                continue
            self.shares.pop((each.device, each.share), None)
            if each.consumed is not None:
                self.capacity.remove(each.device, each.consumed)


class AllocatedDevices:
    """The devices of allocated claims, with a revision that every change raises."""

    def __init__(self, *, shares: bool) -> None:
        self._shares = shares
        self._found = _Devices()
        self.revision = 0

    def notice(self, old: View | None, new: View | None) -> None:
        """A claim changed. Only the beginning and the end of an allocation count: it is immutable in between."""
        before = None if old is None else allocation_of(old.tree)
        after = None if new is None else allocation_of(new.tree)
        if before is None and after is not None:
            assert new is not None
            held = _held(new.tree, shares=self._shares)
            if held:
                self.revision += 1
                self._found.add(held)
        elif before is not None and after is None:
            assert old is not None
            held = _held(old.tree, shares=self._shares)
            if held:
                self.revision += 1
                self._found.remove(held)

    def whole(self) -> dict[DeviceID, None]:
        """Return a copy of the devices that belong to one claim."""
        return dict(self._found.whole)

    def shared(self) -> dict[tuple[DeviceID, str], None]:
        """Return a copy of the shares of devices."""
        return dict(self._found.shares)

    def capacity(self) -> Allocating:
        """Return a copy of the consumed capacity."""
        return Allocating(
            {name: dict(all_) for name, all_ in self._found.capacity.by_device.items()}
        )


@frozen(eq=False)
class InFlight:
    """A claim with an allocation that is not written yet, and the number of pods that share it."""

    claim: Tree
    sharers: int = 1


@define(eq=False)
class Gathered:
    """Devices in use, each share by itself."""

    whole: dict[DeviceID, None]
    shares: dict[tuple[DeviceID, str], None]
    capacity: Allocating

    def add(self, held: list[_Held]) -> None:
        """Count what a claim in flight holds."""
        devices = _Devices()
        devices.whole, devices.shares, devices.capacity = self.whole, self.shares, self.capacity
        devices.add(held)

    @property
    def state(self) -> AllocatedState:
        """The same for the allocator."""
        shared = frozenset(device for device, _ in self.shares)
        return AllocatedState(frozenset(self.whole), shared, self.capacity.by_device)


class ClaimTracker:
    """Claims, allocations in flight, and devices in use."""

    def __init__(self, *, shares: bool) -> None:
        """`shares`: devices can be shared (feature DRAConsumableCapacity)."""
        self._shares = shares
        self.cache = AssumeCache(lambda claim: owners_of_extended(claim.tree))
        self.devices = AllocatedDevices(shares=shares)
        self.in_flight: dict[str, InFlight] = {}
        self.cache.handlers.append(self._notice)

    def _notice(self, old: View | None, new: View | None) -> Steps[None]:
        self.devices.notice(old, new)
        return
        yield

    def find(self, namespace: str, name: str) -> Tree | None:
        """Return a claim, None if there is none."""
        found = self.cache.get(f"{namespace}/{name}")
        return None if found is None else found.tree

    def list(self) -> Iterator[Tree]:
        """Iterate over all claims."""
        return (each.tree for each in self.cache.list())

    def extended_of(self, pod: Tree) -> Tree | None:
        """Return the claim that was written for the extended resources of a pod, None if there is none."""
        keys = self.cache.keys_of(pod["metadata"].get("uid", ""))
        if len(keys) > 1:  # the first in the order of the cache, as upstream looks through all
            return find_claim(pod, self.list())
        views = [self.cache.get(key) for key in keys]
        return find_claim(pod, [view.tree for view in views if view is not None])

    # -- allocations in flight -----------------------------------------------------------------

    def pending(self, uid: str) -> Tree | None:
        """Return the allocation in flight of a claim."""
        found = self.in_flight.get(uid)
        return None if found is None else allocation_of(found.claim)

    def signal(self, uid: str, claim: Tree) -> None:
        """A claim was allocated and is going to be written; one more pod shares it if it was there."""
        found = self.in_flight.get(uid)
        shared = InFlight(claim) if found is None else evolve(found, sharers=found.sharers + 1)
        self.in_flight[uid] = shared

    def release(self, uid: str, *, force: bool = False) -> bool:
        """A pod needs an allocation in flight no more; return whether it is gone (with the last pod, or by force)."""
        found = self.in_flight.get(uid)
        if found is None:
            return False
        if force or found.sharers == 1:
            del self.in_flight[uid]
            return True
        self.in_flight[uid] = evolve(found, sharers=found.sharers - 1)
        return False

    # -- devices in use ------------------------------------------------------------------------

    def gather(self) -> Steps[Gathered]:
        """Return the devices in use. A reading during which they changed is repeated."""
        while True:
            found = yield from self._read()
            if found is not None:
                return found
            yield _GATHER

    def _read(self) -> Steps[Gathered | None]:
        devices = self.devices
        revision, whole = devices.revision, devices.whole()
        shares: dict[tuple[DeviceID, str], None] = {}
        capacity = Allocating()
        if self._shares:
            yield _GATHER
            second, shares = devices.revision, devices.shared()
            yield _GATHER
            third, capacity = devices.revision, devices.capacity()
            if revision != second or second != third:
                return None
        found = Gathered(whole, shares, capacity)
        yield _GATHER
        for flying in self.in_flight.values():
            found.add(_held(flying.claim, shares=self._shares))
        yield _GATHER
        return found if revision == devices.revision else None
