"""The examples do what they say."""

from __future__ import annotations

import pytest

from tests.scheduler_plugins.worlds import EXAMPLES, events, executed


@pytest.mark.slow
def test_two_gangs_run_one_after_the_other():
    cluster = executed("gangs.yaml", "coscheduling-config.yaml", nodes=3)
    jobs = {obj.name: obj.tree["status"] for obj in cluster.objects("/registry/jobs/")}
    assert {name: each["succeeded"] for name, each in jobs.items()} == {"red": 3, "blue": 3}
    assert any("gets rejected due to Pod blue-" in t for t in events(cluster, "FailedScheduling"))
    (blue, red) = cluster.objects("/registry/scheduling.x-k8s.io/podgroups/")
    assert blue.tree["status"]["phase"] == red.tree["status"]["phase"] == "Finished"


@pytest.mark.slow
def test_a_team_takes_back_what_it_lent():
    cluster = executed("quotas.yaml", "capacity-config.yaml", until=150.0, nodes=2)
    assert events(cluster, "Preempted")
    used = {
        obj.namespace: obj.tree["status"]["used"]["cpu"]
        for obj in cluster.objects("/registry/scheduling.x-k8s.io/elasticquotas/")
    }
    assert used == {"red": "14", "green": "0"}


MACHINE = {
    "nodes": 2,
    "until": 100.0,
    "machine": "sockets=2 cores=4 memory=8Gi",
    "kubelet_config": str(EXAMPLES / "numa-kubelet.yaml"),
}


def solvers(cluster) -> list[tuple[str, str]]:
    return [
        (
            obj.tree["spec"]["nodeName"],
            obj.tree["status"].get("reason") or obj.tree["status"]["phase"],
        )
        for obj in cluster.objects("/registry/pods/")
        if obj.name.startswith("solver-")
    ]


def test_without_the_plugin_the_kubelet_refuses_what_the_scheduler_placed():
    found = solvers(executed("numa.yaml", "", **MACHINE))
    assert found == [("node-1", "TopologyAffinityError")] * len(found)
    assert len(found) > 1


def test_with_the_plugin_the_pod_goes_where_one_zone_has_its_cpus():
    cluster = executed("numa.yaml", "numa-config.yaml", **MACHINE)
    assert solvers(cluster) == [("node-2", "Succeeded")]
