"""The table of ClusterQueues: nominal quota, what is reserved and borrowed, and the sums of cohorts."""

from __future__ import annotations

from typing import Any

from controlplane.scenarios.engine.queue_table import queue_rows


def groups(**nominal: str) -> list[dict[str, Any]]:
    resources = [{"name": name, "nominalQuota": quota} for name, quota in nominal.items()]
    return [{"coveredResources": [*nominal], "flavors": [{"name": "spot", "resources": resources}]}]


def queue(name: str, cohort: str = "", *, used: dict[str, tuple[str, str]], **nominal: str) -> Any:
    reserved = [
        {"name": resource, "total": total, "borrowed": borrowed}
        for resource, (total, borrowed) in used.items()
    ]
    return {
        "metadata": {"name": name},
        "spec": {"resourceGroups": groups(**nominal), **({"cohortName": cohort} if cohort else {})},
        "status": {
            "pendingWorkloads": 2,
            "admittedWorkloads": 1,
            "flavorsReservation": [{"name": "spot", "resources": reserved}],
        },
    }


def test_each_resource_has_a_row_and_the_first_counts_the_workloads() -> None:
    rows = queue_rows([queue("a", cpu="4", memory="1Gi", used={"cpu": ("500m", "0")})])
    assert rows == [
        ("a", "", "spot", "cpu", "4", "500m", "0", "2", "1"),
        ("a", "", "spot", "memory", "1Gi", "0", "0", "", ""),
    ]


def test_a_cohort_has_the_sums_of_its_queues_and_its_own_quota() -> None:
    queues = [
        queue("b", "all", cpu="1", used={"cpu": ("3", "2")}),
        queue("a", "all", cpu="2", used={"cpu": ("0", "0")}),
    ]
    cohort = {"metadata": {"name": "all"}, "spec": {"resourceGroups": groups(cpu="5")}}
    assert [row[:2] for row in queue_rows(queues)] == [("a", "all"), ("b", "all"), ("", "all")]
    assert queue_rows(queues)[-1][2:] == ("spot", "cpu", "3", "3", "2", "", "")
    assert queue_rows(queues, [cohort])[-1][2:] == ("spot", "cpu", "8", "3", "2", "", "")


def test_a_queue_without_quota_has_no_row() -> None:
    assert queue_rows([{"metadata": {"name": "a"}}]) == []
