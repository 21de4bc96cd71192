"""The examples do what they say."""

from __future__ import annotations

from tests.scheduler_plugins.worlds import events, executed


def test_two_gangs_run_one_after_the_other():
    cluster = executed("gangs.yaml", "coscheduling-config.yaml", nodes=3)
    jobs = {obj.name: obj.tree["status"] for obj in cluster.objects("/registry/jobs/")}
    assert {name: each["succeeded"] for name, each in jobs.items()} == {"red": 3, "blue": 3}
    assert any("gets rejected due to Pod blue-" in t for t in events(cluster, "FailedScheduling"))
    (blue, red) = cluster.objects("/registry/scheduling.x-k8s.io/podgroups/")
    assert blue.tree["status"]["phase"] == red.tree["status"]["phase"] == "Finished"


def test_a_team_takes_back_what_it_lent():
    cluster = executed("quotas.yaml", "capacity-config.yaml", until=150.0, nodes=2)
    assert events(cluster, "Preempted")
    used = {
        obj.namespace: obj.tree["status"]["used"]["cpu"]
        for obj in cluster.objects("/registry/scheduling.x-k8s.io/elasticquotas/")
    }
    assert used == {"red": "14", "green": "0"}
