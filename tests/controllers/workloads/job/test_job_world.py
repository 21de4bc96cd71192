"""Jobs in a whole cluster: they settle, however their pods end and whoever is restarted meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RandomWalk
from controlplane.client.resources import JOBS, PODS
from controlplane.cluster_config import CONTROLLER_MANAGER
from tests.controllers.worlds import Small, template, workload


def job(name: str = "work", *, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    pods = template({}, policy=spec.pop("policy", "Never"), annotations=annotations or {})
    return workload(JOBS, "Job", name, {"template": pods, **spec})


def conditions(view: Any) -> dict[str, str]:
    return {each.type: each.reason for each in view.status.conditions if each.status == "True"}


@pytest.mark.parametrize("mode", ["NonIndexed", "Indexed"])
def test_a_job_completes_and_its_pods_lose_their_finalizer(mode):
    small = Small(("job",), job(completions=5, parallelism=2, completionMode=mode)).run()
    done = small.one("jobs")
    assert conditions(done) == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    assert (done.status.succeeded, done.status.failed, done.status.active) == (5, 0, 0)
    assert done.status.completed_indexes == ("0-4" if mode == "Indexed" else "")
    pods = [obj.view for obj in small.objects("pods")]
    assert [pod.status.phase for pod in pods] == ["Succeeded"] * 5
    assert not any(pod.metadata.finalizers for pod in pods)
    assert small.reasons("Job") == ["SuccessfulCreate"] * 5 + ["Completed"]


def test_failed_pods_are_replaced_with_growing_delay_until_the_limit():
    failing = job(backoffLimit=2, annotations={"exit-codes": "1"})
    done = Small(("job",), failing).run().one("jobs")
    assert conditions(done) == {
        "FailureTarget": "BackoffLimitExceeded",
        "Failed": "BackoffLimitExceeded",
    }
    assert (done.status.succeeded, done.status.failed) == (0, 3)
    took = done.status.conditions[-1].last_transition_time - done.status.start_time
    assert took >= (10 + 20) * 1_000_000_000


def test_an_index_that_fails_too_often_does_not_keep_the_others_from_succeeding():
    spec = {"completions": 3, "parallelism": 3, "completionMode": "Indexed"}
    limits = {"backoffLimitPerIndex": 1, "maxFailedIndexes": 3}
    failing = job(**spec, **limits, annotations={"exit-codes": "1"})
    done = Small(("job",), failing).run().one("jobs")
    assert done.status.failed_indexes == "0-2"
    assert done.status.failed == 6
    assert conditions(done)["Failed"] == "FailedIndexes"


def test_a_suspended_job_has_no_pods_until_it_is_resumed():
    async def resume(client, _ctx):
        assert not (await client.list(PODS, "default")).items
        await client.patch(JOBS, "default", "work", {"spec": {"suspend": False}})

    small = Small(("job",), job(completions=1, suspend=True), 30, resume).run()
    assert conditions(small.one("jobs")) == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    assert small.reasons("Job")[:2] == ["Suspended", "SuccessfulCreate"]


def test_a_job_of_another_manager_is_left_alone():
    small = Small(("job",), job(managedBy="example.com/other")).run()
    assert small.objects("pods") == []
    assert small.one("jobs").status.conditions == ()


def test_pods_of_a_deleted_job_are_not_held_by_their_finalizer():
    async def delete(client, _ctx):
        await client.delete(JOBS, "default", "work")
        for pod in (await client.list(PODS, "default")).items:
            await client.delete(PODS, "default", pod.name)

    lasting = job(completions=2, parallelism=2, annotations={"run-seconds": "1000"})
    small = Small(("job",), lasting, 20, delete).run()
    assert small.objects("pods") == []


@pytest.mark.parametrize("seed", range(6))
def test_every_pod_is_counted_once_though_the_manager_restarts(seed):
    async def restart(_client, ctx):
        for _ in range(4):
            await ctx.sleep(2_500_000_000)
            ctx.faults.crash(CONTROLLER_MANAGER)
            ctx.faults.restart(CONTROLLER_MANAGER)

    wanted = job(completions=6, parallelism=3)
    small = Small(("job",), wanted, restart, strategy=RandomWalk(seed)).run()
    done = small.one("jobs")
    succeeded = sum(obj.view.status.phase == "Succeeded" for obj in small.objects("pods"))
    assert done.status.succeeded == succeeded
    assert succeeded >= 6
    assert "Complete" in conditions(done)
