"""Words of the ProvisioningRequest API (autoscaling.x-k8s.io/v1): classes, annotations, conditions.

The cluster autoscaler answers such requests, and Kueue makes them. Follows
`cluster-autoscaler/apis/provisioningrequest/autoscaling.x-k8s.io/v1`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.api.tree import Tree

CHECK_CAPACITY: Final = "check-capacity.autoscaling.x-k8s.io"
ATOMIC: Final = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
"""Annotation of pods: the request whose capacity they are for."""
CLASS_NAME: Final = "autoscaling.x-k8s.io/provisioning-class-name"
"""Annotation of pods: the class of that request."""

ACCEPTED: Final = "Accepted"
PROVISIONED: Final = "Provisioned"
FAILED: Final = "Failed"
BOOKING_EXPIRED: Final = "BookingExpired"
CAPACITY_REVOKED: Final = "CapacityRevoked"


def condition(request: Tree, kind: str) -> Mapping[str, Any] | None:
    """Return a condition of a request."""
    found = (request.get("status") or {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), None)


def is_true(request: Tree, kind: str) -> bool:
    """Return whether a condition of a request is true."""
    found = condition(request, kind)
    return found is not None and found["status"] == "True"
