"""Changes of a manager's assignments: pod uid -> container -> CPUs or memory. Each makes new mappings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

V = TypeVar("V")

Assigned = Mapping[str, Mapping[str, V]]


def with_container(
    assigned: Assigned[V], pod_uid: str, container: str, value: V
) -> dict[str, Mapping[str, V]]:
    """Return the assignments with this one of a container."""
    return {**assigned, pod_uid: {**assigned.get(pod_uid, {}), container: value}}


def without_container(
    assigned: Assigned[V], pod_uid: str, container: str
) -> dict[str, Mapping[str, V]]:
    """Return the assignments without that of a container; its pod goes with its last one."""
    changed = dict(assigned)
    left = {name: each for name, each in changed.pop(pod_uid, {}).items() if name != container}
    if left:
        changed[pod_uid] = left
    return changed


def without_pod(pods: Mapping[str, V] | None, pod_uid: str) -> dict[str, V]:
    """Return the assignments of pods as a whole without that of one."""
    return {uid: each for uid, each in (pods or {}).items() if uid != pod_uid}
