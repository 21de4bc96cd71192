"""For the log: what the claims of a pod that fits nowhere ask for, and how many devices there are of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from controlplane.api.device_selection import DeviceSelectorError
from controlplane.api.tree import Tree
from controlplane.scheduler.dra.capacity import fits
from controlplane.scheduler.dra.devices import DeviceID
from controlplane.scheduler.dra.requests import claim_name, keeps_off, requests_of
from controlplane.scheduler.dra.tracker import allocation_of
from controlplane.scheduler.plugins.claim_cycle import KEY, CycleData

if TYPE_CHECKING:
    from controlplane.scheduler.dra.manager import DRAManager
    from controlplane.scheduler.framework.cycle_state import CycleState

__all__ = ["kept_by_rules", "unmet_claims"]

NAMED_DEVICES: Final = 4
"""Devices that a rule keeps from a request and that the log names."""
MOST_COST: Final = 5_000_000
"""Cost units of selectors beyond which devices are no longer counted."""


class _TooMuch(Exception):
    """Counting would take too long."""


class _Counter:
    """Counts devices of all nodes."""

    def __init__(self, dra: DRAManager, data: CycleData) -> None:
        assert data.allocator is not None
        self._dra = dra
        self._allocated = data.allocator.allocated
        self._left = MOST_COST
        self._devices = [
            (spec.get("driver", ""), (spec.get("pool") or {}).get("name", ""), device)
            for spec in (each.get("spec") or {} for each in dra.slices())
            for device in spec.get("devices") or ()
        ]

    def count(
        self, of_class: Sequence[str], of_request: Sequence[str], capacity: Tree
    ) -> dict[str, int]:
        """Return how many devices the class has, the request selects, and of these have room for it."""
        found = {"class": 0, "selected": 0, "free": 0}
        for driver, pool, device in self._devices:
            if not self.selects(of_class, driver, device):
                continue
            found["class"] += 1
            if not self.selects(of_request, driver, device):
                continue
            found["selected"] += 1
            name = DeviceID(driver, pool, device.get("name", ""))
            if name not in self._allocated.devices and self._has(name, device, capacity):
                found["free"] += 1
        return found

    def _has(self, name: DeviceID, device: Tree, wanted: Tree) -> bool:
        """Return whether what is left of a device suffices."""
        used = self._allocated.capacity.get(name, {})
        return fits(wanted, device.get("capacity") or {}, used, {})

    def selects(self, selectors: Sequence[str], driver: str, device: Tree) -> bool:
        """Return whether all selectors select a device. DeviceSelectorError."""
        for expression in selectors:
            selection = self._dra.select(expression, driver, device)
            self._left -= selection.cost
            if self._left < 0:
                raise _TooMuch
            if not selection.selected:
                return False
        return True


def unmet_claims(state: CycleState, dra: DRAManager) -> list[dict[str, Any]]:
    """Return an entry for each request of the claims that were not allocated."""
    data: CycleData | None = state.read(KEY)
    if data is None or data.allocator is None:
        return []
    counter = _Counter(dra, data)
    found = []
    for index, claim in data.claims.to_allocate():
        if index in data.allocations or data.claims.is_extended(index):
            continue
        for name, request in _requests(claim):
            found.append(_entry(claim_name(claim), name, request, dra, counter))
    for index in sorted(data.unavailable):
        claim = data.claims[index]
        allocation = allocation_of(claim) or {}
        results = (allocation.get("devices") or {}).get("results") or ()
        devices = [f"{r.get('driver')}/{r.get('pool')}/{r.get('device')}" for r in results]
        found.append({"claim": claim_name(claim), "allocated": devices})
    return found


def kept_by_rules(state: CycleState, dra: DRAManager) -> list[str]:
    """Return in words which taints of rules keep devices from the claims that are allocated now."""
    data: CycleData | None = state.read(KEY)
    if data is None or data.allocator is None:
        return []
    counter = _Counter(dra, data)
    found = []
    for index, claim in data.claims.to_allocate():
        for name, request in () if data.claims.is_extended(index) else _requests(claim):
            shown = f"claim {claim_name(claim)}, request {name}: "
            found += [shown + each for each in _kept(request, dra, counter)]
    return found


def _kept(request: Tree, dra: DRAManager, counter: _Counter) -> list[str]:
    """Return in words which taints of rules keep a request from devices that it selects; none where that is unknown."""
    of_class = dra.classes.get(request.get("deviceClassName", ""))
    if of_class is None or dra.patches is None:
        return []
    selectors = [
        *_expressions((of_class.get("spec") or {}).get("selectors")),
        *_expressions(request.get("selectors")),
    ]
    tolerations = request.get("tolerations") or ()
    kept: dict[str, list[str]] = {}
    try:
        for of_slice, device, added in dra.patches.tainted():
            spec = of_slice["spec"]
            if not counter.selects(selectors, spec.get("driver", ""), device):
                continue
            name = DeviceID(spec.get("driver", ""), spec["pool"]["name"], device.get("name", ""))
            for rule, taint in added:
                if keeps_off(taint, tolerations):
                    said = f"{_shown(taint)} of DeviceTaintRule {rule}"
                    kept.setdefault(said, []).append(str(name))
    except (DeviceSelectorError, _TooMuch):
        return []
    return [f"taint {said} keeps it off {_some(devices)}" for said, devices in kept.items()]


def _shown(taint: Tree) -> str:
    """Return a taint as kubectl writes it."""
    value = taint.get("value", "")
    return f"{taint.get('key', '')}{'=' if value else ''}{value}:{taint.get('effect', '')}"


def _some(devices: Sequence[str]) -> str:
    more = len(devices) - NAMED_DEVICES
    return ", ".join(devices[:NAMED_DEVICES]) + (f" and {more} more" if more > 0 else "")


def _requests(claim: Tree) -> Iterator[tuple[str, Tree]]:
    for request in requests_of(claim):
        name = request.get("name", "")
        if request.get("exactly") is not None:
            yield name, request["exactly"]
        for sub in request.get("firstAvailable") or ():
            yield f"{name}/{sub.get('name', '')}", sub


def _entry(
    claim: str, name: str, request: Tree, dra: DRAManager, counter: _Counter
) -> dict[str, Any]:
    wanted = request.get("deviceClassName", "")
    selectors = _expressions(request.get("selectors"))
    entry: dict[str, Any] = {"claim": claim, "request": name, "class": wanted}
    if selectors:
        entry["selectors"] = selectors
    is_all = request.get("allocationMode") == "All"
    entry["wanted"] = "all" if is_all else str(request.get("count", 1))
    of_class = dra.classes.get(wanted)
    if of_class is None:
        return entry
    try:
        entry["devices"] = counter.count(
            _expressions((of_class.get("spec") or {}).get("selectors")),
            selectors,
            (request.get("capacity") or {}).get("requests") or {},
        )
        kept = _kept(request, dra, counter)
        if kept:
            entry["taint_rules"] = kept
    except DeviceSelectorError as failed:
        entry["problem"] = str(failed)
    except _TooMuch:
        entry["problem"] = "not counted: the selectors cost too much"
    return entry


def _expressions(selectors: Sequence[Tree] | None) -> list[str]:
    found = ((each.get("cel") or {}).get("expression", "") for each in selectors or ())
    return [expression for expression in found if expression]
