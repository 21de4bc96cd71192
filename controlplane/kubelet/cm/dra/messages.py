"""Calls between a kubelet and the drivers on its node. Upstream: staging/src/k8s.io/kubelet/pkg/apis/dra/v1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

__all__ = [
    "CALL_TIMEOUT_NS",
    "PREPARE",
    "UNPREPARE",
    "ClaimRef",
    "Device",
    "DriverCall",
    "DriverFailed",
    "Prepared",
    "Registration",
    "Response",
]

CALL_TIMEOUT_NS: Final = 45_000_000_000
"""The longest time that a kubelet waits for a driver (defaultClientCallTimeout)."""
PREPARE: Final = "NodePrepareResources"
UNPREPARE: Final = "NodeUnprepareResources"


@frozen
class ClaimRef:
    """A claim, as a driver is told of it."""

    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}/{self.uid}"


@frozen
class Device:
    """A prepared device, for the requests that are named (none: for all)."""

    pool: str
    name: str
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share_id: str | None = None


@frozen
class DriverCall:
    """A call of a driver; `method` is PREPARE or UNPREPARE. Its effect is a `Response`, or DriverFailed is thrown."""

    driver: str
    method: str
    claims: tuple[ClaimRef, ...]


@frozen
class Prepared:
    """The outcome for one claim: its devices, or why it failed."""

    devices: tuple[Device, ...] = ()
    error: str = ""


@frozen
class Response:
    """The outcomes by uid of the claim."""

    claims: Mapping[str, Prepared]


class DriverFailed(Exception):
    """A call failed as a whole; the text is that of the gRPC error."""


@frozen
class Registration:
    """A driver tells its node's kubelet that it serves, at the actor `address`, or with "" that it ends."""

    driver: str
    address: str
