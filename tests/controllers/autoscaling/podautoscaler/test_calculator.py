"""How many replicas a metric asks for."""

from __future__ import annotations

import pytest

from controlplane.api.pod import Pod
from controlplane.api.times import SECOND, format_time
from controlplane.controllers.autoscaling.podautoscaler import calculator
from controlplane.controllers.autoscaling.podautoscaler.calculator import Proposal, Tolerances
from controlplane.controllers.autoscaling.podautoscaler.metrics import PodMetric
from controlplane.controllers.common.effects import Retry

NOW = 1_767_225_600 * SECOND
PLAIN = Tolerances()


def pod(name: str, *, ready: bool = True, age: int = 3600, phase: str = "Running") -> Pod:
    since = format_time(NOW - age * SECOND)
    return Pod.from_tree(
        {
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100m"}}}]},
            "status": {
                "phase": phase,
                "startTime": since,
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True" if ready else "False",
                        "lastTransitionTime": since,
                    }
                ],
            },
        }
    )


def used(**milli: int) -> dict[str, PodMetric]:
    return {name: PodMetric(value, 30 * SECOND, NOW) for name, value in milli.items()}


def by_utilization(current: int, target: int, metrics, *pods: Pod) -> Proposal:
    return calculator.by_utilization(current, target, "cpu", "", metrics, pods, PLAIN, NOW)


def test_replicas_follow_the_share_of_what_is_requested():
    pods = pod("a"), pod("b")
    assert by_utilization(2, 50, used(a=100, b=100), *pods) == Proposal(4, 100, 100)
    assert by_utilization(2, 50, used(a=52, b=52), *pods) == Proposal(2, 52, 52)


def test_a_pod_without_metrics_speaks_against_a_change():
    pods = pod("a"), pod("b")
    assert by_utilization(2, 50, used(a=80), *pods).replicas == 2
    assert by_utilization(2, 50, used(a=10), *pods).replicas == 2


def test_a_pod_that_is_starting_counts_as_idle_on_the_way_up():
    pods = pod("a"), pod("b", age=10)
    assert by_utilization(2, 50, used(a=200, b=900), *pods).replicas == 4
    assert by_utilization(2, 50, used(a=10, b=900), *pods).replicas == 1


def test_without_usable_pods_there_is_no_answer():
    with pytest.raises(Retry, match="no pods returned by selector"):
        by_utilization(1, 50, {})
    with pytest.raises(Retry, match="did not receive metrics for targeted pods"):
        by_utilization(1, 50, used(a=100), pod("a", phase="Pending"))


def test_every_container_must_request_the_resource():
    bare = Pod.from_tree({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]}})
    with pytest.raises(Retry, match="missing request for memory in container c of Pod a"):
        calculator.requests_of([bare], "", "memory")


@pytest.mark.parametrize(("usage", "replicas"), [(10_000, 5), (2_100, 2), (900, 1)])
def test_a_shared_metric_is_divided_among_the_replicas(usage, replicas):
    assert calculator.by_share(2, 1000 if usage != 10_000 else 2000, usage, PLAIN) == Proposal(
        replicas, usage // 2
    )


def test_a_total_is_met_by_ready_pods_or_from_none_by_as_many_as_the_ratio():
    pods = [pod("a"), pod("b", ready=False)]
    assert calculator.by_total(2, 1000, 3000, pods, PLAIN).replicas == 3
    assert calculator.by_total(0, 1000, 3000, [], PLAIN).replicas == 3
    with pytest.raises(Retry, match="unable to calculate ready pods"):
        calculator.by_total(2, 1000, 3000, [], PLAIN)
