"""Places for all pod sets of a workload, over the flavors that they were assigned.

Follows `FindTopologyAssignmentsForWorkload` of `pkg/cache/scheduler/clusterqueue_snapshot.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from controlplane.api.tree import Tree
from controlplane.kueue.gates import Gates
from controlplane.kueue.topology.requests import PodSetRequest
from controlplane.kueue.topology.snapshot import Assumed, FlavorSnapshot, Placement


def find_for_workload(
    snapshots: Mapping[str, FlavorSnapshot],
    requests: Mapping[str, Sequence[PodSetRequest]],
    gates: Gates,
    workload: Tree | None = None,
    *,
    simulate_empty: bool = False,
) -> dict[str, Placement]:
    """Search flavor by flavor, in the order of their names.

    Args:
        snapshots: The flavors with a topology.
        requests: Pod sets by flavor.
        gates: Kueue's feature gates.
        workload: The Workload; with unhealthy nodes only their pods get another place.
        simulate_empty: Search as if no workload had been admitted.

    Returns:
        A placement by pod set; of a flavor's pod sets those up to the first failure.
    """
    shared: Assumed | None = {} if gates.enabled("TASHandleOverlappingFlavors") else None
    result: dict[str, Placement] = {}
    for flavor in sorted(requests):
        snapshot = snapshots[flavor]
        assumed = shared if snapshot.tree.ends_at_nodes else None
        found = snapshot.find(
            requests[flavor], workload, simulate_empty=simulate_empty, assumed=assumed
        )
        result.update({name: replace(each, flavor=flavor) for name, each in found.items()})
    return result


def first_failure(result: Mapping[str, Placement]) -> tuple[str, Placement] | None:
    """A pod set that found no place, None if all did.

    Upstream takes any of them; here it is the first.
    """
    return next(((name, each) for name, each in result.items() if each.failure), None)
