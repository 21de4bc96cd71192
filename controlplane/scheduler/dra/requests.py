"""Requests of claims, and what is known of each before a search.

Upstream: requestAccessor, requestData and validateDeviceRequest in
structured/internal/incubating/allocator_incubating.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from attrs import define, field, frozen

from controlplane.api.tree import Tree
from controlplane.scheduler.dra.devices import DeviceID
from controlplane.scheduler.dra.pools import Pool, Slice

__all__ = [
    "ALL",
    "EXACT_COUNT",
    "Candidate",
    "Request",
    "RequestData",
    "RequestKey",
    "claim_name",
    "keeps_off",
    "requests_of",
    "tolerates",
]

ALL: Final = "All"
EXACT_COUNT: Final = "ExactCount"


class RequestKey(NamedTuple):
    """The place of a request: its claim, its number there, and the number of the alternative."""

    claim: int
    request: int
    sub: int = 0


@frozen(eq=False)
class Request:
    """A request, or one alternative of a prioritized list."""

    name: str
    parent: str | None
    spec: Tree

    @property
    def full_name(self) -> str:
        """The name as results have it: an alternative follows the name of its request."""
        return self.name if self.parent is None else f"{self.parent}/{self.name}"

    @property
    def mode(self) -> str:
        """The allocation mode."""
        return str(self.spec.get("allocationMode", ""))

    @property
    def admin_access(self) -> bool:
        """The request also gets devices that are in use. No alternative may ask for that."""
        return self.parent is None and bool(self.spec.get("adminAccess"))

    @property
    def names_admin_access(self) -> bool:
        """The field for admin access is set, be it to false."""
        return self.parent is None and self.spec.get("adminAccess") is not None

    @property
    def selectors(self) -> Sequence[Tree]:
        """The selectors of devices."""
        return self.spec.get("selectors") or ()

    @property
    def tolerations(self) -> Sequence[Tree]:
        """The tolerations of taints of devices."""
        return self.spec.get("tolerations") or ()

    @property
    def capacity(self) -> Tree:
        """The requested quantities by the names of capacities."""
        return (self.spec.get("capacity") or {}).get("requests") or {}


@frozen(eq=False)
class Candidate:
    """A device that may be chosen."""

    id: DeviceID
    device: Tree
    slice: Slice
    pool: Pool


@define(eq=False)
class RequestData:
    """A request of a claim, with its class, its number of devices and its choice among alternatives.

    Attributes:
        request: the request.
        device_class: the DeviceClass that it names.
        count: devices to be chosen.
        all_devices: for the mode All, the devices.
        selected: in the data of the first alternative, the number of the one that was taken.
    """

    request: Request
    device_class: Tree
    count: int = 0
    all_devices: list[Candidate] = field(factory=list)
    selected: int = 0


def requests_of(claim: Tree) -> Sequence[Tree]:
    """Return the requests of a claim."""
    return ((claim.get("spec") or {}).get("devices") or {}).get("requests") or ()


def claim_name(claim: Tree) -> str:
    """Return the namespace and name of a claim as messages have them."""
    meta = claim.get("metadata") or {}
    namespace, name = meta.get("namespace", ""), meta.get("name", "")
    return f"{namespace}/{name}" if namespace else name


def keeps_off(taint: Tree, tolerations: Iterable[Tree]) -> bool:
    """Return whether the taint of a device keeps off a request with these tolerations."""
    return taint.get("effect") in ("NoSchedule", "NoExecute") and not any(
        tolerates(toleration, taint) for toleration in tolerations
    )


def tolerates(toleration: Tree, taint: Tree) -> bool:
    """Return whether a toleration of a request covers a taint of a device.

    Upstream: resourceclaim/devicetoleration.go.
    """
    for key in ("effect", "key"):
        if toleration.get(key) and toleration[key] != taint.get(key, ""):
            return False
    operator = toleration.get("operator", "")
    if operator in ("", "Equal"):
        return bool(toleration.get("value", "") == taint.get("value", ""))
    return bool(operator == "Exists")
