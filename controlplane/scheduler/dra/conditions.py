"""Binding conditions: what a driver has to say of an allocated device before its pod is bound.

Upstream: isClaimReadyForBinding and isClaimTimeout of plugins/dynamicresources/dynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.api.times import parse_time
from controlplane.api.tree import Tree
from controlplane.api.validation import quote
from controlplane.scheduler.dra.tracker import allocation_of

__all__ = ["BindingFailed", "has_conditions", "is_overdue", "is_ready"]


class BindingFailed(Exception):
    """A device cannot be made ready. The text is upstream's."""


def _results(claim: Tree) -> Iterable[Tree]:
    allocation = allocation_of(claim) or {}
    return (allocation.get("devices") or {}).get("results") or ()


def has_conditions(claims: Iterable[Tree]) -> bool:
    """Return whether a device of the claims has binding conditions."""
    return any(result.get("bindingConditions") for claim in claims for result in _results(claim))


def is_ready(claim: Tree) -> bool:
    """Return whether all binding conditions of an allocated claim hold. BindingFailed."""
    if allocation_of(claim) is None:
        return False
    for result in _results(claim):
        wanted = result.get("bindingConditions") or ()
        if not wanted:
            continue
        status = _device_status(claim, result)
        if status is None:
            return False
        conditions = status.get("conditions") or ()
        for name in result.get("bindingFailureConditions") or ():
            failed = _condition(conditions, name)
            if failed is not None and failed.get("status") == "True":
                reason, message = failed.get("reason", ""), quote(failed.get("message", ""))
                raise BindingFailed(
                    f"device binding failed: claim={claim['metadata'].get('name', '')},"
                    f" reason={reason}, message={message}"
                )
        for name in wanted:
            found = _condition(conditions, name)
            if found is None or found.get("status") != "True":
                return False
    return True


def _condition(conditions: Iterable[Tree], name: str) -> Tree | None:
    return next((each for each in conditions if each.get("type") == name), None)


def _device_status(claim: Tree, result: Tree) -> Tree | None:
    for device in (claim.get("status") or {}).get("devices") or ():
        if all(device.get(key) == result.get(key) for key in ("driver", "pool", "device")):
            found: Tree = device
            return found
    return None


def is_overdue(claim: Tree, timeout: int, now: int) -> bool:
    """Return whether a claim with binding conditions was allocated longer ago than `timeout`, nanoseconds."""
    stamp = (allocation_of(claim) or {}).get("allocationTimestamp")
    if not stamp:
        return False
    waits = any(result.get("bindingConditions") is not None for result in _results(claim))
    return waits and parse_time(stamp) + timeout < now
