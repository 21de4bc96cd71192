"""The examples do what they say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.engine.summary import summary_of
from controlplane.scenarios.manifest_run import SCENARIO

FOLDER = Path(__file__).parents[3] / "examples" / "kueue"
WORKLOADS = "/registry/kueue.x-k8s.io/workloads/"


def executed(name: str, config: str = ""):
    given = {"kueue_config": str(FOLDER / config)} if config else {}
    files = (str(FOLDER / name),)
    run = Execution(plan_of(SCENARIO, **{"files": files, "with": ("kueue",), **given}))
    run.execute("bare")
    assert summary_of(run).verdict == "quiescent"
    return run.cluster


def events(cluster, reason: str) -> list[tuple[str, str]]:
    """The objects of the events with a reason, and the texts."""
    return [
        (tree["involvedObject"]["name"], tree["message"])
        for tree in (obj.tree for obj in cluster.objects("/registry/events/"))
        if tree["reason"] == reason
    ]


def conditions(cluster) -> dict[str, dict[str, dict]]:
    """The conditions of Workloads, by the name of their owner."""
    return {
        obj.metadata["ownerReferences"][0]["name"]: {
            each["type"]: each for each in obj.tree["status"]["conditions"]
        }
        for obj in cluster.objects(WORKLOADS)
    }


@pytest.mark.slow
def test_a_full_queue_lets_the_third_job_wait():
    found = conditions(executed("one-queue.yaml"))
    at = {name: each["Admitted"]["lastTransitionTime"] for name, each in found.items()}
    assert at["first"] <= at["second"] < at["third"]
    assert at["third"] >= min(
        each["Finished"]["lastTransitionTime"] for name, each in found.items() if name != "third"
    )


@pytest.mark.slow
def test_borrowed_quota_is_reclaimed():
    cluster = executed("jobs.yaml", "config.yaml")
    assert [text for _, text in events(cluster, "Preempted")] != []
    assert all(each["Finished"]["status"] == "True" for each in conditions(cluster).values())


@pytest.mark.slow
def test_three_teams_come_to_equal_shares():
    cluster = executed("fair-sharing.yaml", "fair-sharing-config.yaml")
    preempted = Counter(name.split("-")[1] for name, _ in events(cluster, "Preempted"))
    assert set(preempted) <= {"red"}
    found = conditions(cluster)
    assert len(found) == 15
    assert all(each["Finished"]["status"] == "True" for each in found.values())


@pytest.mark.slow
def test_a_higher_priority_preempts_and_the_other_job_starts_again():
    cluster = executed("preemption.yaml")
    assert [name.rsplit("-", 1)[0] for name, _ in events(cluster, "Preempted")] == ["job-overnight"]
    found = conditions(cluster)
    ended = {name: each["Finished"]["lastTransitionTime"] for name, each in found.items()}
    assert ended["urgent"] < ended["overnight"]


def test_a_job_starts_with_the_pods_for_which_there_is_quota():
    cluster = executed("partial.yaml")
    jobs = {obj.name: obj.tree for obj in cluster.objects("/registry/jobs/")}
    assert jobs["elastic"]["spec"]["parallelism"] == 3
    counts = {
        obj.metadata["ownerReferences"][0]["name"]: obj.tree["status"]["admission"][
            "podSetAssignments"
        ][0]["count"]
        for obj in cluster.objects(WORKLOADS)
    }
    assert counts == {"steady": 2, "elastic": 3}


@pytest.mark.slow
def test_all_pods_of_a_job_are_in_one_rack():
    racks = {"node-1": "a", "node-2": "a", "node-3": "b", "node-4": "b"}
    cluster = executed("topology.yaml")
    used = {
        (obj.name.split("-")[0], racks[obj.tree["spec"]["nodeName"]])
        for obj in cluster.objects("/registry/pods/")
    }
    assert len(used) == 2


@pytest.mark.slow
def test_pods_of_a_deployment_are_admitted_one_by_one_and_those_of_a_stateful_set_together():
    cluster = executed("apps.yaml", "apps-config.yaml")
    owners = Counter(
        obj.metadata["ownerReferences"][0]["kind"] for obj in cluster.objects(WORKLOADS)
    )
    assert owners == {"Pod": 3, "StatefulSet": 1}
    pods = [obj.tree for obj in cluster.objects("/registry/pods/")]
    assert {each["status"]["phase"] for each in pods} == {"Running"}


@pytest.mark.slow
def test_a_group_of_pods_has_one_workload():
    cluster = executed("pods.yaml", "config.yaml")
    sizes = {obj.name: len(obj.metadata["ownerReferences"]) for obj in cluster.objects(WORKLOADS)}
    assert sizes.pop("team") == 3
    assert set(sizes.values()) == {1}
    assert all(each["Finished"]["status"] == "True" for each in conditions(cluster).values())
