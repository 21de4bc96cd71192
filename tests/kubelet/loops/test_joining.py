"""Nodes that clients create: each gets a kubelet, which ends with it."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context, EventLog
from actors.testing import assert_deterministic
from controlplane.api.times import SECOND
from controlplane.client.loops.clientset import LEASES, NODES, PODS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.cluster_config import PROVIDER
from controlplane.gates import LATEST
from controlplane.kubelet.node.node_status import KUBELET, has_kubelet
from controlplane.scenarios.engine.kubelets import equipment

UNINITIALIZED = {
    "key": "node.cloudprovider.kubernetes.io/uninitialized",
    "value": "true",
    "effect": "NoSchedule",
}
SIZE = {"cpu": "2", "memory": "4Gi", "pods": "10", "example.com/cards": "1"}


def node(name: str, *, annotations: Any = None, status: Any = None, **spec: Any) -> Any:
    """A Node as an operator writes it."""
    labels = {"team": "a", "kubernetes.io/arch": "arm64"}
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata,
        "spec": spec,
        "status": status or {},
    }


def pod(name: str, **spec: Any) -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}
            ],
            "terminationGracePeriodSeconds": 1,
            **spec,
        },
    }


def cluster(user: Any, *, nodes: tuple[Any, ...] = (), strategy: Any = None) -> Cluster:
    config = ClusterConfig(nodes=nodes, joining_nodes=True)
    made = Cluster(config, strategy=strategy, log=EventLog())
    made.user("user", user)
    return made


def stored(made: Cluster, prefix: str) -> dict[str, Any]:
    return {obj.name: obj.tree for obj in made.objects(prefix)}


def condition(tree: Any, kind: str = "Ready") -> str:
    found = {each["type"]: each["status"] for each in tree["status"].get("conditions", ())}
    return found.get(kind, "")


def ran(made: Cluster, driver: str = "bare") -> Cluster:
    result = made.world.run(driver)
    assert result.verdict == "quiescent", result.reason
    return made


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_a_node_that_a_client_made_becomes_ready_and_runs_pods(driver):
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(NODES, node("made", status={"capacity": SIZE, "allocatable": SIZE}))
        await client.create(PODS, pod("web"))
        await ctx.sleep(60 * SECOND)

    made = ran(cluster(user), driver)
    tree = stored(made, "/registry/minions/")["made"]
    assert condition(tree) == "True"
    assert tree["spec"].get("taints") is None  # not-ready is taken away
    assert tree["status"]["allocatable"] == SIZE
    labels = tree["metadata"]["labels"]
    assert (labels["team"], labels["kubernetes.io/arch"]) == ("a", "arm64")
    assert labels["kubernetes.io/hostname"] == "made"
    assert tree["status"]["nodeInfo"]["kubeletVersion"]
    web = stored(made, "/registry/pods/")["web"]
    assert (web["spec"]["nodeName"], web["status"]["phase"]) == ("made", "Running")
    lease = stored(made, "/registry/leases/")["made"]
    assert lease["spec"]["renewTime"] > lease["metadata"]["creationTimestamp"]


def test_without_a_status_the_node_has_the_default_size():
    async def user(ctx: Context) -> None:
        await Client(ctx).create(NODES, node("made"))
        await ctx.sleep(10 * SECOND)

    tree = stored(ran(cluster(user)), "/registry/minions/")["made"]
    assert tree["status"]["capacity"]["cpu"] == "8"
    assert tree["status"]["allocatable"]["pods"] == "110"


def test_a_node_that_joins_is_equipped_as_the_options_say():
    async def user(ctx: Context) -> None:
        await Client(ctx).create(NODES, node("made"))
        await ctx.sleep(10 * SECOND)

    made = Cluster(ClusterConfig(joining_nodes=True, equip=equipment(None, "cores=3", LATEST)))
    made.user("user", user)
    tree = stored(ran(made), "/registry/minions/")["made"]
    assert tree["status"]["capacity"]["cpu"] == "3"


def test_a_node_that_no_machine_is_like_joins_as_its_client_wrote_it():
    size = {**SIZE, "cpu": "1000000000"}

    async def user(ctx: Context) -> None:
        await Client(ctx).create(NODES, node("made", status={"capacity": size}))
        await ctx.sleep(10 * SECOND)

    made = Cluster(ClusterConfig(joining_nodes=True, equip=equipment(None, None, LATEST)))
    made.user("user", user)
    tree = stored(ran(made), "/registry/minions/")["made"]
    assert (tree["status"]["capacity"]["cpu"], condition(tree)) == ("1G", "True")


def test_taints_of_a_client_stay_until_a_client_removes_them():
    seen: list[Any] = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(NODES, node("made", taints=[UNINITIALIZED]))
        await client.create(PODS, pod("web"))
        await ctx.sleep(30 * SECOND)
        seen.append(stored(made, "/registry/minions/")["made"]["spec"]["taints"])
        seen.append(stored(made, "/registry/pods/")["web"]["status"]["phase"])
        await client.patch(NODES, "", "made", {"spec": {"taints": None}})
        await ctx.sleep(30 * SECOND)
        seen.append(stored(made, "/registry/pods/")["web"]["status"]["phase"])

    made = cluster(user)
    ran(made)
    assert seen == [[UNINITIALIZED], "Pending", "Running"]


def test_deleting_the_node_ends_its_kubelet_and_a_new_node_of_that_name_has_a_new_one():
    seen: list[Any] = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(NODES, node("made"))
        await client.create(PODS, pod("web", nodeName="made"))
        await ctx.sleep(20 * SECOND)
        seen.append((made.world.alive("made"), sorted(made.machines)))
        await client.delete(NODES, "", "made")
        await ctx.sleep(20 * SECOND)
        seen.append((made.world.alive("made"), sorted(made.machines)))
        await client.create(NODES, node("made"))
        await ctx.sleep(20 * SECOND)
        seen.append((made.world.alive("made:1"), made.components()[-1]))
        seen.append(condition(stored(made, "/registry/minions/")["made"]))

    made = cluster(user)
    ran(made)
    assert seen == [(True, ["made"]), (False, []), (True, "made:1"), "True"]
    assert [event.event for event in made.world.log if event.event.startswith("machine.")] == [
        "machine.started", "machine.ended", "machine.started",
    ]  # fmt: skip
    assert not [event for event in made.world.log if event.event == "fault"]


def test_a_node_that_asks_for_none_gets_no_kubelet_until_it_does():
    seen: list[Any] = []

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(NODES, node("bare", annotations={KUBELET: "false"}))
        await ctx.sleep(30 * SECOND)
        seen.append(condition(stored(made, "/registry/minions/")["bare"]))
        await client.patch(NODES, "", "bare", {"metadata": {"annotations": {KUBELET: None}}})
        await ctx.sleep(30 * SECOND)
        seen.append(condition(stored(made, "/registry/minions/")["bare"]))
        notes = {"metadata": {"annotations": {KUBELET: "false"}}}
        await client.patch(NODES, "", "bare", notes)
        await ctx.sleep(120 * SECOND)
        seen.append(condition(stored(made, "/registry/minions/")["bare"]))

    given = node_tree("given")
    given["metadata"]["annotations"] = {KUBELET: "false"}
    made = cluster(user, nodes=(given,))
    ran(made)
    assert seen == ["", "True", "Unknown"]
    assert "given" not in made.machines
    assert condition(stored(made, "/registry/minions/")["given"]) != "True"


def test_the_annotation_says_false_in_any_case_and_kwoks_own_changes_nothing():
    for value, expected in (("false", False), ("False", False), ("true", True), ("", True)):
        assert has_kubelet(node("n", annotations={KUBELET: value})) is expected
    assert has_kubelet(node("n", annotations={"kwok.x-k8s.io/node": "fake"}))
    assert has_kubelet({"metadata": {"name": "n"}})


def test_a_node_may_have_the_name_of_another_process():
    async def user(ctx: Context) -> None:
        await Client(ctx).create(NODES, node("apiserver"))
        await ctx.sleep(20 * SECOND)

    made = ran(cluster(user))
    assert condition(stored(made, "/registry/minions/")["apiserver"]) == "True"
    assert "apiserver:1" in made.components()


def test_machines_outlive_their_provider_and_are_found_again():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        for name in ("stays", "goes"):
            await client.create(NODES, node(name))
        await ctx.sleep(20 * SECOND)
        ctx.faults.crash(PROVIDER)
        await client.delete(NODES, "", "goes")
        await client.create(NODES, node("comes"))
        await ctx.sleep(20 * SECOND)
        ctx.faults.restart(PROVIDER)
        await ctx.sleep(20 * SECOND)
        seen.extend(made.world.alive(name) for name in ("stays", "goes", "comes"))

    seen: list[bool] = []
    made = cluster(user)
    ran(made)
    assert sorted(made.machines) == ["comes", "stays"]
    assert seen == [True, False, True]


def test_nodes_with_a_kubelet_of_their_own_get_no_second_one():
    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await ctx.sleep(20 * SECOND)
        await client.delete(NODES, "", "given")
        await ctx.sleep(10 * SECOND)
        await client.create(NODES, node("given"))
        await ctx.sleep(60 * SECOND)
        assert made.world.alive("given")

    made = cluster(user, nodes=(node_tree("given"),))
    ran(made)
    assert not made.world.has_actor("given:1")
    assert condition(stored(made, "/registry/minions/")["given"]) == "True"


def test_joining_is_deterministic():
    def world() -> Any:
        async def user(ctx: Context) -> None:
            client = Client(ctx)
            for name in ("a", "b"):
                await client.create(NODES, node(name))
            await client.create(PODS, pod("web"))
            await ctx.sleep(20 * SECOND)
            await client.delete(NODES, "", "a")
            await client.get(LEASES, "kube-node-lease", "b")
            await ctx.sleep(20 * SECOND)

        return cluster(user).world

    assert_deterministic(world)
