"""Groups are followed through scale-ups that end, fail or come late."""

from __future__ import annotations

from dataclasses import replace

from controlplane.autoscaler.backoff import Backoff, Failure
from controlplane.autoscaler.groups import Cloud, Instance, NodeGroup
from controlplane.autoscaler.options import MINUTE, Options
from controlplane.autoscaler.state import ClusterState
from controlplane.decisions import at_once, immediate

GROUP = NodeGroup("g", 0, 9, 2)


def test_nodes_that_do_not_come_lower_the_target_and_back_the_group_off() -> None:
    lowered: list[tuple[str, int]] = []

    def decrease(group: str, size: int) -> str:
        lowered.append((group, size))
        return "refused"

    state = ClusterState(Options(), Backoff(), immediate(decrease))
    state.scale_up(GROUP, 2, 0)
    at_once(state.update(Cloud((GROUP,)), [], MINUTE))
    assert state.scaling_up("g")
    assert state.upcoming(MINUTE) == {"g": 2}
    at_once(state.update(Cloud((GROUP,)), [], 16 * MINUTE))
    assert lowered == [("g", 2)]
    assert state.failure_of("g", 17 * MINUTE) is not None
    assert [each.reason for each in state.events] == ["ScaleUpTimedOut", "FailedToRevertScaleUp"]


def test_a_failed_creation_counts_once() -> None:
    failed = Instance("i", "Creating", "OutOfResources", "STOCKOUT", "none left")
    group = replace(GROUP, instances=(failed,))
    state = ClusterState(Options(), Backoff())
    state.scale_up(group, 2, 0)
    at_once(state.update(Cloud((group,)), [], MINUTE))
    at_once(state.update(Cloud((group,)), [], 2 * MINUTE))
    assert [each.message for each in state.events] == [
        "Failed adding 1 nodes to group g due to OutOfResources.STOCKOUT; source errors: none left"
    ]
    assert state.created_with_errors() == {"g": ["i"]}
    request = state.requested("g")
    assert request is not None
    assert request.increase == 1


def test_the_backoff_doubles_after_its_end() -> None:
    backoff = Backoff()
    assert backoff.fail("g", Failure(), 0) == 5 * MINUTE
    assert backoff.fail("g", Failure(), MINUTE) == 6 * MINUTE
    assert backoff.fail("g", Failure(), 7 * MINUTE) == 17 * MINUTE
