"""Autoscalers in a whole cluster; pods are annotated with what they use."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RandomWalk
from controlplane.api.times import SECOND
from controlplane.client.resources import AUTOSCALERS, DEPLOYMENTS, PODS, Resource
from tests.controllers.worlds import Small, template, workload

ALL = ("horizontalpodautoscaling",)
CPU = {"type": "Resource", "resource": {"name": "cpu"}}


def web(usage: str, replicas: int = 1) -> Any:
    """A deployment whose pods request 100m."""
    labels = {"app": "web"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": template(
            labels,
            annotations={"cpu-usage": usage},
            container={"resources": {"requests": {"cpu": "100m"}}},
        ),
    }
    return workload(DEPLOYMENTS, "Deployment", "web", spec)


def autoscaler(target: int = 50, **more: Any) -> Any:
    share = {"target": {"type": "Utilization", "averageUtilization": target}}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 1,
        "maxReplicas": 4,
        "metrics": [{**CPU, "resource": {"name": "cpu", **share}}],
        **more,
    }
    return workload(AUTOSCALERS, "HorizontalPodAutoscaler", "web", spec)


def conditions(small: Small) -> dict[str, tuple[str, str]]:
    found = small.one("horizontalpodautoscalers").status.conditions
    return {each.type: (each.status, each.reason) for each in found}


def test_busy_pods_get_company_up_to_the_maximum():
    small = Small(ALL, web("100m"), autoscaler(), 150).run()
    assert small.one("deployments").spec.replicas == 4
    assert len(small.objects("pods")) == 4
    status = small.one("horizontalpodautoscalers").status
    assert (status.current_replicas, status.desired_replicas) == (4, 4)
    assert conditions(small)["ScalingLimited"] == ("True", "TooManyReplicas")
    assert "SuccessfulRescale" in small.reasons("HorizontalPodAutoscaler")


def test_a_run_ends_at_the_fixed_point_of_an_autoscaler():
    small = Small(ALL, web("100m", 2), autoscaler(maxReplicas=10)).run()
    assert small.one("deployments").spec.replicas == 10
    assert small.one("deployments").status.ready_replicas == 10


def test_a_run_ends_after_the_longest_window_of_an_autoscaler():
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 900}}
    small = Small(ALL, web("5m", 4), autoscaler(behavior=behavior)).run()
    assert small.one("deployments").spec.replicas == 1
    assert 900 * SECOND < small.cluster.world.now < 2000 * SECOND


def test_a_change_of_pods_after_the_rest_is_followed_before_the_run_ends():
    async def busy(client: Any, _ctx: Any) -> None:
        loud = {"metadata": {"annotations": {"emulate.controlplane/cpu-usage": "100m"}}}
        for pod in (await client.list(PODS, "default")).items:
            await client.patch(PODS, "default", pod.name, loud)

    small = Small(ALL, web("50m", 2), autoscaler(), 1000, busy).run()
    assert small.one("deployments").spec.replicas > 2


@pytest.mark.parametrize(("window", "replicas"), [(0, 1), (300, 4)])
def test_idle_pods_go_when_the_rules_allow_it(window, replicas):
    behavior = {"scaleDown": {"stabilizationWindowSeconds": window}}
    small = Small(ALL, web("5m", 4), autoscaler(behavior=behavior)).run(until_ns=120 * SECOND)
    assert small.one("deployments").spec.replicas == replicas


def test_what_pods_use_is_looked_at_every_time():
    async def calm(client: Any, _ctx: Any) -> None:
        quiet = {"metadata": {"annotations": {"emulate.controlplane/cpu-usage": "50m"}}}
        for pod in (await client.list(PODS, "default")).items:
            await client.patch(PODS, "default", pod.name, quiet)

    small = Small(ALL, web("100m"), autoscaler(maxReplicas=50), 50, calm, 60).run()
    assert small.one("deployments").spec.replicas == 2
    assert conditions(small)["AbleToScale"] == ("True", "ReadyForNewScale")


@pytest.mark.parametrize(
    ("metric", "replicas"),
    [
        ({"type": "Pods", "pods": {"metric": {"name": "qps"},
          "target": {"type": "AverageValue", "averageValue": "10"}}}, 4),
        ({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main",
          "target": {"type": "AverageValue", "averageValue": "50m"}}}, 2),
        ({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "other",
          "target": {"type": "AverageValue", "averageValue": "50m"}}}, 1),
    ],
)  # fmt: skip
def test_custom_metrics_and_those_of_containers(metric, replicas):
    resource, tree = web("100m")
    tree["spec"]["template"]["metadata"]["annotations"]["emulate.controlplane/metric-qps"] = "30"
    small = Small(ALL, (resource, tree), autoscaler(metrics=[metric])).run(until_ns=55 * SECOND)
    assert small.one("deployments").spec.replicas == replicas


def test_without_metrics_the_reason_is_told_and_nothing_scaled():
    bare = workload(
        DEPLOYMENTS, "Deployment", "web",
        {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "web"}},
            "template": template({"app": "web"}),
        },
    )  # fmt: skip
    small = Small(ALL, bare, autoscaler(), 60).run()
    assert small.one("deployments").spec.replicas == 2
    assert conditions(small)["ScalingActive"] == ("False", "FailedGetResourceMetric")
    assert "FailedComputeMetricsReplicas" in small.reasons("HorizontalPodAutoscaler")


def test_a_missing_target_is_told():
    small = Small(ALL, autoscaler(), 30).run()
    assert conditions(small)["AbleToScale"] == ("False", "FailedGetScale")
    assert small.reasons("HorizontalPodAutoscaler") == ["FailedGetScale"]


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_events_comes_to_the_same(seed):
    small = Small(ALL, web("100m"), autoscaler(), 150, strategy=RandomWalk(seed)).run()
    assert small.one("deployments").spec.replicas == 4
    assert len(small.objects("pods")) == 4


def test_the_autoscaler_reads_what_the_metrics_api_serves():
    served: list[dict[str, Any]] = []

    async def look(client, _ctx):
        metrics = Resource("metrics.k8s.io", "v1beta1", "pods")
        listed = await client.list(metrics, "default")
        served.extend(obj.tree for obj in listed.items)

    small = Small(ALL, web("70m", 2), autoscaler(70), 60, look).run()
    assert [each["containers"] for each in served] == [
        [{"name": "main", "usage": {"cpu": "70m", "memory": "0"}}] for _ in range(2)
    ]
    (scaler,) = small.objects("horizontalpodautoscalers")
    (current,) = scaler.tree["status"]["currentMetrics"]
    assert current["resource"]["current"] == {"averageUtilization": 70, "averageValue": "70m"}
