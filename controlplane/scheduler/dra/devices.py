"""Names of devices, and the devices that are allocated. Upstream: structured/schedulerapi/types.go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from attrs import field, frozen

from controlplane.api.quantity import Quantity

__all__ = ["AllocatedState", "Amounts", "DeviceID"]

Amounts = Mapping[str, Quantity]
"""Quantities of capacities by their names."""


class DeviceID(NamedTuple):
    """A device in a pool of a driver."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return "/".join(self)


@frozen
class AllocatedState:
    """Devices that are allocated before a search begins.

    Attributes:
        devices: those that belong to one claim.
        shared: those of which several claims may have a share.
        capacity: the consumed capacity of the latter.
    """

    devices: frozenset[DeviceID] = frozenset()
    shared: frozenset[DeviceID] = frozenset()
    capacity: Mapping[DeviceID, Amounts] = field(factory=dict)

    def has(self, device: DeviceID) -> bool:
        """Return whether the device is allocated, as a whole or in part."""
        return device in self.devices or device in self.shared or device in self.capacity
