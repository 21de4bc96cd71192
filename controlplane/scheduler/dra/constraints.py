"""Constraints among the devices of a claim: attributes that must match, or must differ.

Upstream: structured/internal/experimental/{allocator_experimental,constraint}.go. The other two implementations know no
lists, and the stable one no `distinctAttribute`.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from controlplane.api.tree import Tree
from controlplane.scheduler.dra.devices import DeviceID

__all__ = ["Constraint", "DistinctAttribute", "MatchAttribute", "lookup"]

_SCALARS: Final = ("string", "int", "bool", "version")
_KINDS: Final = (("ints", "int"), ("bools", "bool"), ("strings", "string"), ("versions", "version"))
_Value = tuple[str, frozenset[Any]]
"""The type of an attribute, and its value or values."""


class Constraint(Protocol):
    """A condition on the devices that were chosen so far."""

    def add(self, request: str, sub: str, device: Tree, device_id: DeviceID) -> bool:
        """Add a device chosen for a request (and one of its alternatives, or ""); return whether it is allowed."""

    def remove(self, request: str, sub: str) -> None:
        """Take back a device that was added for a request."""


def lookup(device: Tree, device_id: DeviceID, name: str) -> Tree | None:
    """Return the attribute of a fully qualified name; that of the driver's domain may be named without it."""
    attributes = device.get("attributes") or {}
    if name in attributes:
        return attributes[name]  # type: ignore[no-any-return]
    domain, slash, rest = name.partition("/")
    return attributes.get(rest) if slash and domain == device_id.driver else None


def _value(attribute: Tree, *, lists: bool) -> _Value | None:
    """Return the values of an attribute; None where its type is unknown."""
    if lists:
        for key, kind in _KINDS:
            if attribute.get(key):
                return kind, frozenset(attribute[key])
    for kind in _SCALARS:
        if attribute.get(kind) is not None:
            return kind, frozenset((attribute[kind],))
    return None


class _OfRequests:
    """The requests that a constraint applies to: all where it names none."""

    def __init__(self, constraint: Tree, attribute: str, *, lists: bool) -> None:
        self.requests = frozenset(constraint.get("requests") or ())
        self.attribute = attribute
        self.lists = lists
        self.count = 0

    def applies(self, request: str, sub: str) -> bool:
        if not self.requests or request in self.requests:
            return True
        return bool(sub) and f"{request}/{sub}" in self.requests


class MatchAttribute(_OfRequests):
    """All devices have the same value of an attribute, or lists with a value in common.

    The values in common are not widened again when a device is taken back (as upstream).
    """

    def __init__(self, constraint: Tree, *, lists: bool) -> None:
        super().__init__(constraint, constraint["matchAttribute"], lists=lists)
        self.first: _Value | None = None

    def add(self, request: str, sub: str, device: Tree, device_id: DeviceID) -> bool:
        """See `Constraint`."""
        if not self.applies(request, sub):
            return True
        attribute = lookup(device, device_id, self.attribute)
        if attribute is None:
            return False
        value = _value(attribute, lists=self.lists)
        if self.count == 0:
            # Without lists a first device may even have a value of no known type.
            self.first = value
            if value is None and self.lists:
                return False
            self.count = 1
            return True
        if value is None or self.first is None or value[0] != self.first[0]:
            return False
        common = value[1] & self.first[1]
        if not common:
            return False
        self.first = (value[0], common)
        self.count += 1
        return True

    def remove(self, request: str, sub: str) -> None:
        """See `Constraint`."""
        if self.applies(request, sub):
            self.count -= 1


class DistinctAttribute(_OfRequests):
    """The devices of different requests have no value of an attribute in common.

    Only the last device of each request is remembered (as upstream).
    """

    def __init__(self, constraint: Tree, *, lists: bool) -> None:
        super().__init__(constraint, constraint["distinctAttribute"], lists=lists)
        self.known: dict[str, _Value | None] = {}

    def add(self, request: str, sub: str, device: Tree, device_id: DeviceID) -> bool:
        """See `Constraint`."""
        if not self.applies(request, sub):
            return True
        attribute = lookup(device, device_id, self.attribute)
        if attribute is None:
            return False
        value = _value(attribute, lists=self.lists)
        if self.count and not self._differs(value):
            return False
        self.known[request] = value
        self.count += 1
        return True

    def _differs(self, value: _Value | None) -> bool:
        if value is None:
            return not self.known and not self.lists
        return not any(
            other is not None and other[0] == value[0] and other[1] & value[1]
            for other in self.known.values()
        )

    def remove(self, request: str, sub: str) -> None:
        """See `Constraint`."""
        if self.applies(request, sub):
            self.known.pop(request, None)
            self.count -= 1
