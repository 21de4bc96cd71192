"""Concurrent admission: one job waits as several workloads, each allowed some flavors only.

Follows `pkg/workload/concurrentadmission` (gate ConcurrentAdmission).
"""

from __future__ import annotations

from controlplane.api.tree import Tree, metadata_of
from controlplane.kueue.names import ALLOWED_FLAVORS, API_VERSION


def _parent(workload: Tree) -> Tree | None:
    for owner in metadata_of(workload).get("ownerReferences") or ():
        if owner.get("kind") == "Workload" and owner.get("apiVersion") == API_VERSION:
            found: Tree = owner
            return found
    return None


def is_variant(workload: Tree) -> bool:
    """Return whether a workload is a variant of another."""
    parent = _parent(workload)
    return parent is not None and bool(parent.get("name"))


def parent_uid(workload: Tree) -> str:
    """The uid of the workload that this one is a variant of, empty if it is none."""
    parent = _parent(workload)
    return "" if parent is None else str(parent.get("uid", ""))


def allowed_flavors(workload: Tree) -> list[str] | None:
    """The flavors that a workload may get, None if it may get all."""
    text = (metadata_of(workload).get("annotations") or {}).get(ALLOWED_FLAVORS)
    if text is None:
        return None
    return [each.strip() for each in text.split(",")] if text.strip() else []


def variant_flavor(workload: Tree) -> str:
    """The flavor that a variant is for."""
    return next(iter(allowed_flavors(workload) or ()), "")
