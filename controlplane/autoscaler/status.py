"""The status that the autoscaler writes into its ConfigMap, as a tree.

Upstream: `clusterstate/api/types.go`, `clusterstate/clusterstate.go` (GetStatus), `clusterstate/utils/status.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from controlplane.api.times import format_time
from controlplane.autoscaler.groups import NodeGroup
from controlplane.autoscaler.state import ClusterState, Counts, Range

NAME: Final = "cluster-autoscaler-status"
LAST_UPDATED: Final = "cluster-autoscaler.kubernetes.io/last-updated"
_LONGEST: Final = 500
_CUT: Final = "<truncated>"

Tree = dict[str, Any]


class StatusWriter:
    """Makes the status; a condition keeps the time of its last change as long as it says the same."""

    def __init__(self) -> None:
        self._changed: dict[tuple[str, str], tuple[str, int]] = {}

    def status(
        self, state: ClusterState, candidates: Mapping[str, int], looked: int, now: int
    ) -> Tree:
        """Return the status; `candidates` counts unneeded nodes by group, found at the time `looked`."""
        groups = [self._group(state, each, candidates, looked, now) for each in state.cloud.groups]
        growing = any(each["scaleUp"]["status"] == "InProgress" for each in groups)
        told = "InProgress" if growing else "NoActivity"
        wide = {
            "health": self._condition(
                "", "health", _health(state.healthy), state.updated, nodeCounts=_counts(state.total)
            ),
            "scaleUp": self._condition("", "scaleUp", told, state.updated),
            "scaleDown": self._down("", sum(candidates.values()), looked),
        }
        return {
            "time": format_time(now),
            "autoscalerStatus": "Running",
            "clusterWide": wide,
            "nodeGroups": groups,
        }

    def _group(
        self,
        state: ClusterState,
        group: NodeGroup,
        candidates: Mapping[str, int],
        looked: int,
        now: int,
    ) -> Tree:
        name = group.id
        health = self._condition(
            name,
            "health",
            _health(state.group_healthy(name)),
            state.updated if name in state.by_group else 0,
            nodeCounts=_counts(state.by_group.get(name, Counts())),
            cloudProviderTarget=state.ranges.get(name, Range()).target,
            minSize=group.min_size,
            maxSize=group.max_size,
        )
        told, why = _scale_up(state, name, now)
        return {
            "name": name,
            "health": health,
            "scaleUp": self._condition(name, "scaleUp", told, state.updated, backoffInfo=why),
            "scaleDown": self._down(name, candidates.get(name, 0), looked),
        }

    def _down(self, group: str, candidates: int, looked: int) -> Tree:
        if not candidates:
            return self._condition(group, "scaleDown", "NoCandidates", looked)
        return self._condition(
            group, "scaleDown", "CandidatesPresent", looked, candidates=candidates
        )

    def _condition(self, group: str, part: str, status: str, probed: int, **more: Any) -> Tree:
        known = self._changed.get((group, part))
        if known is None or known[0] != status:
            known = self._changed[(group, part)] = (status, probed)
        times = {"lastProbeTime": _time(probed), "lastTransitionTime": _time(known[1])}
        return {"status": status, **more, **times}


def _time(at: int) -> str | None:
    return format_time(at) if at else None


def _health(healthy: bool) -> str:
    return "Healthy" if healthy else "Unhealthy"


def _scale_up(state: ClusterState, group: str, now: int) -> tuple[str, Tree]:
    safety = state.safety(group, now)
    if state.scaling_up(group):
        return "InProgress", {}
    if not safety.healthy:
        return "Unhealthy", {}
    if safety.failure is None:
        return "NoActivity", {}
    texts = {"errorCode": safety.failure.code, "errorMessage": _short(safety.failure.message)}
    return "Backoff", {name: text for name, text in texts.items() if text}


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - len(_CUT)] + _CUT


def _counts(counts: Counts) -> Tree:
    registered: Tree = {
        "total": len(counts.registered),
        "ready": len(counts.ready),
        "notStarted": len(counts.not_started),
        "suspended": len(counts.suspended),
        "unready": {
            "total": len(counts.unready),
            "resourceUnready": len(counts.resource_unready),
        },
    }
    if counts.deleted:
        registered["beingDeleted"] = len(counts.deleted)
    return {
        "registered": registered,
        "longUnregistered": len(counts.long_unregistered),
        "unregistered": len(counts.unregistered),
    }
