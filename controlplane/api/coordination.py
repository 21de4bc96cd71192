"""Leases."""

from __future__ import annotations

from typing import ClassVar

import attrs

from controlplane.api.times import Time
from controlplane.api.view import View


@attrs.frozen
class LeaseSpec:
    """Holder and times of a lease; `acquire_time` and `renew_time` are in nanoseconds."""

    acquire_time: Time | None = None
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    preferred_holder: str = ""
    renew_time: Time | None = None
    strategy: str = ""


@attrs.frozen(eq=False)
class Lease(View):
    """A lease: a node heartbeat or a leader election record."""

    API_VERSION: ClassVar[str] = "coordination.k8s.io/v1"
    KIND: ClassVar[str] = "Lease"

    spec: LeaseSpec = attrs.field(factory=LeaseSpec)
