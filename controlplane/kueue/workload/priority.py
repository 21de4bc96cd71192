"""The priority of a workload. Follows `pkg/util/priority`."""

from __future__ import annotations

from typing import Final

from controlplane.api.tree import Tree, metadata_of
from controlplane.api.validation import parse_int64
from controlplane.kueue.gates import Gates

BOOST: Final = "kueue.x-k8s.io/priority-boost"


def base_priority(workload: Tree) -> int:
    """The priority that the specification gives, 0 if none."""
    return int((workload.get("spec") or {}).get("priority") or 0)


def priority_boost(workload: Tree, gates: Gates) -> int:
    """The increment of the annotation (gate PriorityBoost); 0 for text that is no 32-bit number."""
    if not gates.enabled("PriorityBoost"):
        return 0
    text = (metadata_of(workload).get("annotations") or {}).get(BOOST) or ""
    boost = parse_int64(text)
    return boost if boost is not None and -(1 << 31) <= boost < 1 << 31 else 0


def effective_priority(workload: Tree, gates: Gates) -> int:
    """Base priority plus boost."""
    return base_priority(workload) + priority_boost(workload, gates)
