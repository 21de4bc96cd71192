"""StatefulSets in a whole cluster."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RandomWalk
from controlplane.client.resources import PODS, SERVICES, STATEFUL_SETS
from controlplane.cluster_config import CONTROLLER_MANAGER
from tests.controllers.worlds import Small, template, workload

LABELS = {"app": "cassandra"}
ALL = ("statefulset",)


def service() -> Any:
    return workload(
        SERVICES,
        "Service",
        "cassandra",
        {"clusterIP": "None", "selector": LABELS, "ports": [{"port": 9042}]},
    )


def stateful_set(replicas: int = 3, *, image: str = "app:1", **spec: Any) -> Any:
    pods = template(LABELS, image=image)
    given = {
        "serviceName": "cassandra",
        "replicas": replicas,
        "selector": {"matchLabels": LABELS},
        "template": pods,
        **spec,
    }
    return workload(STATEFUL_SETS, "StatefulSet", "cassandra", given)


def patch(spec: dict[str, Any]) -> Any:
    async def step(client, _ctx):
        await client.patch(STATEFUL_SETS, "default", "cassandra", {"spec": spec})

    return step


def image(name: str) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}


def pods(small: Small) -> dict[str, Any]:
    return {obj.name: obj.view for obj in small.objects("pods")}


def when(small: Small, kind: str) -> dict[str, int]:
    """When pods got their condition, in nanoseconds."""
    return {
        name: next(c.last_transition_time for c in pod.status.conditions if c.type == kind)
        for name, pod in pods(small).items()
    }


def test_pods_start_one_after_the_other_with_name_host_and_subdomain():
    small = Small(ALL, service(), stateful_set()).run()
    found = pods(small)
    assert list(found) == ["cassandra-0", "cassandra-1", "cassandra-2"]
    first = found["cassandra-0"]
    assert (first.spec.hostname, first.spec.subdomain) == ("cassandra-0", "cassandra")
    created = [pod.metadata.creation_timestamp for pod in found.values()]
    ready = list(when(small, "Ready").values())
    assert all(later >= earlier for earlier, later in zip(ready, created[1:]))
    status = small.one("statefulsets").status
    assert (status.replicas, status.ready_replicas, status.available_replicas) == (3, 3, 3)
    assert status.current_revision == status.update_revision != ""
    assert small.reasons("StatefulSet") == ["SuccessfulCreate"] * 3


def test_in_parallel_no_pod_waits():
    small = Small(ALL, stateful_set(podManagementPolicy="Parallel")).run()
    created = {pod.metadata.creation_timestamp for pod in pods(small).values()}
    assert len(created) == 1


def test_a_rolling_update_goes_from_the_last_pod_down_to_the_partition():
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    roll = [patch(image("app:2")), 120]
    small = Small(ALL, stateful_set(updateStrategy=strategy), 60, *roll).run()
    images = {name: pod.spec.containers[0].image for name, pod in pods(small).items()}
    assert images == {"cassandra-0": "app:1", "cassandra-1": "app:2", "cassandra-2": "app:2"}
    status = small.one("statefulsets").status
    assert (status.current_replicas, status.updated_replicas) == (1, 2)
    assert status.current_revision != status.update_revision
    made = {name: pod.metadata.creation_timestamp for name, pod in pods(small).items()}
    assert made["cassandra-2"] < made["cassandra-1"]


def test_a_finished_update_moves_the_current_revision_and_history_is_kept():
    rolls = [step for number in (2, 3, 4) for step in (patch(image(f"app:{number}")), 120)]
    small = Small(ALL, stateful_set(2, revisionHistoryLimit=1), 60, *rolls).run()
    status = small.one("statefulsets").status
    assert status.current_revision == status.update_revision
    revisions = sorted(obj.view.revision for obj in small.objects("controllerrevisions"))
    assert revisions == [3, 4]


def test_going_back_takes_the_old_revision_up_again():
    rolls = [patch(image("app:2")), 120, patch(image("app:1")), 120]
    small = Small(ALL, stateful_set(1), 60, *rolls).run()
    numbers = sorted(obj.view.revision for obj in small.objects("controllerrevisions"))
    assert numbers == [2, 3]
    assert pods(small)["cassandra-0"].spec.containers[0].image == "app:1"


def test_scaling_down_deletes_from_the_end_and_claims_stay_unless_told_otherwise():
    claims = [
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ]
    # Nobody provisions volumes here, so the pods stay pending; in parallel they are there all the same.
    wanted = stateful_set(
        3,
        podManagementPolicy="Parallel",
        volumeClaimTemplates=claims,
        persistentVolumeClaimRetentionPolicy={"whenDeleted": "Retain", "whenScaled": "Delete"},
    )
    small = Small(ALL, wanted, 20, patch({"replicas": 1}), 60).run()
    assert list(pods(small)) == ["cassandra-0"]
    owners = {
        obj.name: [owner.kind for owner in obj.view.metadata.owner_references]
        for obj in small.objects("persistentvolumeclaims")
    }
    assert owners == {
        "data-cassandra-0": [],
        "data-cassandra-1": ["Pod"],
        "data-cassandra-2": ["Pod"],
    }


def test_a_failed_pod_is_made_anew_under_its_name():
    async def fail(client, _ctx):
        pod = (await client.get(PODS, "default", "cassandra-0")).tree
        uids.append(pod["metadata"]["uid"])
        status = {**pod["status"], "phase": "Failed"}
        await client.update(PODS, {**pod, "status": status}, "status")

    uids: list[str] = []
    small = Small(ALL, stateful_set(1), 30, fail, 60).run()
    pod = pods(small)["cassandra-0"]
    assert pod.uid != uids[0]
    assert pod.status.phase == "Running"


@pytest.mark.parametrize("seed", range(6))
def test_it_settles_though_the_manager_crashes_in_a_rolling_update(seed):
    async def crash(_client, ctx):
        for _ in range(4):
            await ctx.sleep(ctx.choose("when", 12) * 10**9)
            ctx.faults.crash(CONTROLLER_MANAGER)
            ctx.faults.restart(CONTROLLER_MANAGER)

    steps = [stateful_set(3), 40, patch(image("app:2")), crash]
    small = Small(ALL, *steps, strategy=RandomWalk(seed)).run()
    images = [pod.spec.containers[0].image for pod in pods(small).values()]
    assert images == ["app:2"] * 3
    status = small.one("statefulsets").status
    assert (status.ready_replicas, status.updated_replicas) == (3, 3)
    assert status.current_revision == status.update_revision
