"""Metrics of the claim controller. Upstream: pkg/controller/resourceclaim/metrics/metrics.go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controlplane.api.resource_claims import CLAIM_ANNOTATION, EXTENDED_ANNOTATION
from controlplane.metrics.family import Series

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from controlplane.api.tree import Tree
    from controlplane.metrics.family import Family

__all__ = ["FAILURE", "SUCCESS", "ClaimMetrics"]

SUCCESS: Final = "success"
FAILURE: Final = "failure"
_CREATES: Final = Series(
    "resourceclaim_controller_creates_total",
    "counter",
    "Requests to create ResourceClaims, by their outcome and by admin access.",
    ("status", "admin_access"),
)
_CLAIMS: Final = Series(
    "resourceclaim_controller_resource_claims",
    "gauge",
    "ResourceClaims, by allocation, admin access, and source (a template, extended resources, or none).",
    ("allocated", "admin_access", "source"),
)


def _admin_access(claim: Tree) -> str:
    """Return "true" if a request has admin access; alternatives of a prioritized list have none."""
    devices = (claim.get("spec") or {}).get("devices") or {}
    exact = ((request.get("exactly") or {}) for request in devices.get("requests") or ())
    return "true" if any(each.get("adminAccess") for each in exact) else "false"


def _source(claim: Tree) -> str:
    notes = claim["metadata"].get("annotations") or {}
    if notes.get(EXTENDED_ANNOTATION) == "true":
        return "extended_resource"
    return "resource_claim_template" if notes.get(CLAIM_ANNOTATION) else ""


class ClaimMetrics:
    """Counts of requests; claims are counted when asked for."""

    def __init__(self) -> None:
        self._creates: dict[tuple[str, ...], int] = {}

    def created(self, claim: Tree, status: str) -> None:
        """Count a request to create a claim that ended with `SUCCESS` or `FAILURE`."""
        key = status, _admin_access(claim)
        self._creates[key] = self._creates.get(key, 0) + 1

    def families(self, claims: Iterable[Tree]) -> Iterator[Family]:
        """Return a snapshot, with all claims of the cache."""
        counts: dict[tuple[str, ...], int] = {}
        for claim in claims:
            allocated = bool((claim.get("status") or {}).get("allocation"))
            key = "true" if allocated else "false", _admin_access(claim), _source(claim)
            counts[key] = counts.get(key, 0) + 1
        yield _CREATES.family(self._creates)
        yield _CLAIMS.family(counts)
