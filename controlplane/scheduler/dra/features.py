"""Features of the allocator, and the implementation that upstream would choose for them.

Upstream has three copies of its allocator; of those that support the features, the most stable one runs. The code here
is one, and asks `channel` where the copies differ.
Upstream: structured/allocator.go and structured/internal/types.go.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

__all__ = ["EXPERIMENTAL", "INCUBATING", "STABLE", "Features", "channel"]

STABLE: Final = "stable"
INCUBATING: Final = "incubating"
EXPERIMENTAL: Final = "experimental"


@frozen
class Features:
    """Switches of the allocator, each named as its feature gate without `DRA`.

    `device_binding_and_status` stands for DRADeviceBindingConditions with DRAResourceClaimDeviceStatus.
    """

    admin_access: bool = False
    consumable_capacity: bool = False
    device_binding_and_status: bool = False
    device_taints: bool = False
    list_type_attributes: bool = False
    partitionable_devices: bool = False
    prioritized_list: bool = False


def channel(features: Features) -> str:
    """Return the name of the implementation that upstream chooses."""
    if features.list_type_attributes:
        return EXPERIMENTAL
    if features.consumable_capacity or features.device_binding_and_status:
        return INCUBATING
    return STABLE
