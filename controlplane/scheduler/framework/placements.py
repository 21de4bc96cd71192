"""Placements of a pod group: sets of nodes on which it is tried as a whole.

Upstream: kube-scheduler `framework/interface.go` (Placement, PodGroupAssignments, PlacementGeneratePlugin,
PlacementScorePlugin) and `pkg/scheduler/framework/runtime/framework.go` (RunPlacement...).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import attrs

from controlplane.scheduler.framework import interface as fwk
from controlplane.scheduler.framework.interface import Status, StatusError

if TYPE_CHECKING:
    from controlplane.api.pod import Pod
    from controlplane.scheduler.state.node_info import NodeInfo
    from controlplane.scheduler.state.pod_groups import Key


@attrs.frozen(eq=False)
class Placement:
    """Nodes of a domain; the placement of all nodes has no name."""

    nodes: Sequence[NodeInfo]
    name: str = ""


@attrs.frozen(eq=False)
class Assignments:
    """The members that would get a node in a placement."""

    placement: Placement
    pods: Sequence[Pod]


class PlacementGeneratePlugin(fwk.Plugin):
    """Divides the nodes into placements. A profile has one such plugin at most."""

    def generate_placements(self, group: Key, parent: Placement) -> list[Placement]:
        """The placements to try. Raises StatusError."""
        raise NotImplementedError


class PlacementScorePlugin(fwk.Plugin):
    """Rates placements that can hold the group."""

    def score_placement(self, group: Key, assignments: Assignments) -> int:
        """A number; after normalisation it must be in 0..100. Raises StatusError."""
        raise NotImplementedError

    def normalize_placements(self, scores: list[int]) -> Status | None:
        """Change `scores` (one for each placement) in place."""
        return None


def generate(
    plugins: Sequence[PlacementGeneratePlugin], group: Key, nodes: Sequence[NodeInfo]
) -> list[Placement]:
    """The placements of a group; without a plugin all nodes are the only one. Raises StatusError."""
    parent = Placement(nodes)
    if not plugins:
        return [parent]
    plugin = plugins[0]
    try:
        found = plugin.generate_placements(group, parent)
    except StatusError as failed:
        raise StatusError(failed.status.by(plugin.name)) from failed
    if not found:
        status = fwk.unschedulable("no feasible placements found")
        raise StatusError(status.by(plugin.name))
    return found


def total_scores(
    plugins: Sequence[PlacementScorePlugin],
    weights: Mapping[str, int],
    group: Key,
    found: Sequence[Assignments],
) -> list[int]:
    """The weighted score of each placement. Raises StatusError."""
    raw: dict[str, list[int]] = {plugin.name: [] for plugin in plugins}
    for assignments in found:
        for plugin in plugins:
            try:
                raw[plugin.name].append(plugin.score_placement(group, assignments))
            except StatusError as failed:
                raise _failed("running PlacementScore plugins", plugin, failed.status) from failed
    for plugin in plugins:
        status = plugin.normalize_placements(raw[plugin.name])
        if status is not None:
            raise _failed(
                "running NormalizePlacementScore on PlacementScore plugins", plugin, status
            )
    totals = [0] * len(found)
    for plugin in plugins:
        for at, score in enumerate(raw[plugin.name]):
            if not fwk.MIN_NODE_SCORE <= score <= fwk.MAX_NODE_SCORE:
                raise StatusError(
                    fwk.error(
                        f'applying score defaultWeights on PlacementScore plugins: plugin "{plugin.name}" returns '
                        f"an invalid score {score}, it should in the range of "
                        f"[{fwk.MIN_NODE_SCORE}, {fwk.MAX_NODE_SCORE}] after normalizing"
                    )
                )
            totals[at] += score * weights.get(plugin.name, 1)
    return totals


def _failed(what: str, plugin: fwk.Plugin, status: Status) -> StatusError:
    message = f'{what}: plugin "{plugin.name}" failed with: {status.message}'
    return StatusError(fwk.error(message))
