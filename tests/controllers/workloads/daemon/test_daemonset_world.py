"""DaemonSets in a whole cluster: the scheduler places their pods."""

from __future__ import annotations

from typing import Any

import pytest

from actors import RandomWalk
from controlplane.client.resources import DAEMON_SETS, NODES, PODS
from controlplane.cluster_config import CONTROLLER_MANAGER
from controlplane.controllers.common.pods import is_ready
from tests.controllers.worlds import Small, template, workload

LABELS = {"app": "agent"}
ALL = ("daemonset",)


def daemon_set(*, image: str = "app:1", spec: dict[str, Any] | None = None, **more: Any) -> Any:
    pods = template(LABELS, image=image, spec=spec or {}, annotations=more.pop("annotations", {}))
    given = {"selector": {"matchLabels": LABELS}, "template": pods, **more}
    return workload(DAEMON_SETS, "DaemonSet", "agent", given)


def patch(spec: dict[str, Any]) -> Any:
    async def step(client, _ctx):
        await client.patch(DAEMON_SETS, "default", "agent", {"spec": spec})

    return step


def patch_node(name: str, body: dict[str, Any]) -> Any:
    async def step(client, _ctx):
        await client.patch(NODES, "", name, body)

    return step


def image(name: str) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}


def pods(small: Small) -> list[Any]:
    return [obj.view for obj in small.objects("pods")]


def where(small: Small) -> list[str]:
    return sorted(pod.spec.node_name for pod in pods(small))


def test_every_node_has_one_pod_placed_by_the_scheduler():
    small = Small(ALL, daemon_set(), nodes=3).run()
    assert where(small) == ["node-1", "node-2", "node-3"]
    status = small.one("daemonsets").status
    assert (status.desired_number_scheduled, status.number_available) == (3, 3)
    assert small.reasons("Pod").count("Scheduled") == 3
    (revision,) = small.objects("controllerrevisions")
    digest = revision.view.labels["controller-revision-hash"]
    assert {pod.labels["controller-revision-hash"] for pod in pods(small)} == {digest}


def test_pods_follow_the_labels_of_nodes():
    chosen = daemon_set(spec={"nodeSelector": {"disk": "ssd"}})
    on = patch_node("node-1", {"metadata": {"labels": {"disk": "ssd"}}})
    other = patch_node("node-2", {"metadata": {"labels": {"disk": "ssd"}}})
    off = patch_node("node-1", {"metadata": {"labels": {"disk": None}}})
    assert where(Small(ALL, chosen).run()) == []
    assert where(Small(ALL, chosen, 5, on, other, 30).run()) == ["node-1", "node-2"]
    assert where(Small(ALL, chosen, 5, on, other, 30, off, 60).run()) == ["node-2"]


def test_an_unschedulable_node_still_gets_its_pod():
    cordon = patch_node("node-1", {"spec": {"unschedulable": True}})
    assert where(Small(ALL, 20, cordon, 20, daemon_set(), 60).run()) == ["node-1", "node-2"]


def test_an_untolerated_taint_keeps_pods_off_and_evicting_ones_away():
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    taint = patch_node("node-1", {"spec": {"taints": taints}})
    evict = patch_node("node-1", {"spec": {"taints": [{**taints[0], "effect": "NoExecute"}]}})
    assert where(Small(ALL, 20, taint, daemon_set(), 60).run()) == ["node-2"]
    assert where(Small(ALL, daemon_set(), 30, taint, 60).run()) == ["node-1", "node-2"]
    assert where(Small(ALL, daemon_set(), 30, evict, 120).run()) == ["node-2"]


@pytest.mark.parametrize("surge", [False, True])
def test_a_rolling_update_replaces_one_node_after_the_other(surge):
    def watch(seconds: int) -> Any:
        async def step(client, ctx):
            for _ in range(seconds):
                await ctx.sleep(10**9)
                found = [obj.view for obj in (await client.list(PODS, "default")).items]
                serving.append(len({pod.spec.node_name for pod in found if is_ready(pod)}))

        return step

    serving: list[int] = []
    limits = {"maxSurge": 1, "maxUnavailable": 0} if surge else {"maxUnavailable": 1}
    strategy = {"type": "RollingUpdate", "rollingUpdate": limits}
    roll = [patch(image("app:2")), watch(60)]
    small = Small(ALL, daemon_set(updateStrategy=strategy), 30, *roll, nodes=3).run()
    assert [pod.spec.containers[0].image for pod in pods(small)] == ["app:2"] * 3
    assert where(small) == ["node-1", "node-2", "node-3"]
    # The status would show less: while the old pod of a node ends, it is the one that is counted.
    assert min(serving) == (3 if surge else 2)
    assert len(small.objects("controllerrevisions")) == 2


def test_on_delete_waits_for_the_deletion():
    async def delete(client, _ctx):
        for pod in (await client.list(PODS, "default")).items:
            if pod.view.spec.node_name == "node-1":
                await client.delete(PODS, "default", pod.name)

    steps = [daemon_set(updateStrategy={"type": "OnDelete"}), 30, patch(image("app:2")), 30]
    small = Small(ALL, *steps, delete, 60).run()
    images = {pod.spec.node_name: pod.spec.containers[0].image for pod in pods(small)}
    assert images == {"node-1": "app:2", "node-2": "app:1"}


def test_a_failed_pod_is_replaced_after_a_delay_that_grows():
    async def fail(client, ctx):
        for _ in range(3):
            (pod,) = (await client.list(PODS, "default")).items
            status = {**pod.tree["status"], "phase": "Failed"}
            await client.update(PODS, {**pod.tree, "status": status}, "status")
            started = ctx.now
            while pod.uid in {each.uid for each in (await client.list(PODS, "default")).items}:
                await ctx.sleep(10**8)
            took.append((ctx.now - started) // 10**9)
            await ctx.sleep(3 * 10**9)

    took: list[int] = []
    small = Small(ALL, daemon_set(), 30, fail, 60, nodes=1).run()
    assert small.reasons("DaemonSet").count("FailedDaemonPod") == 3
    assert where(small) == ["node-1"]


@pytest.mark.parametrize("seed", range(6))
def test_there_is_one_pod_a_node_though_the_manager_crashes(seed):
    async def crash(_client, ctx):
        for _ in range(4):
            await ctx.sleep(ctx.choose("when", 8) * 10**9)
            ctx.faults.crash(CONTROLLER_MANAGER)
            ctx.faults.restart(CONTROLLER_MANAGER)

    steps = [daemon_set(), crash, patch(image("app:2")), crash]
    small = Small(ALL, *steps, nodes=3, strategy=RandomWalk(seed)).run()
    assert where(small) == ["node-1", "node-2", "node-3"]
    assert [pod.spec.containers[0].image for pod in pods(small)] == ["app:2"] * 3
