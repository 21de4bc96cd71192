"""Device plugins in a small cluster: the Node's amounts, admission, health, crashes and restarts."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from actors import Context, EventLog
from controlplane.client.loops.clientset import NODES, PODS, Client
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.kubelet.cm.devicemanager.plugin import plugin_actor
from controlplane.kubelet.cm.devicemanager.pod_devices import FILE, devices_in
from controlplane.kubelet.features import features
from controlplane.kubelet.node.settings import KubeletSettings

SECOND = 1_000_000_000
GPU = "example.com/gpu"
ACTOR = plugin_actor(GPU, "node-1")
User = Callable[["World", Client, Context], Awaitable[None]]


def pod(name: str, count: int, *, init: int = 0, bound: bool = True) -> Any:
    def container(name: str, wanted: int) -> Any:
        return {"name": name, "image": "i", "resources": {"limits": {GPU: str(wanted)}}}

    spec: dict[str, Any] = {"containers": [container("main", count)]}
    if init:
        spec["initContainers"] = [container("first", init)]
    if bound:
        spec["nodeName"] = "node-1"
    meta: dict[str, Any] = {"name": name, "namespace": "default"}
    if init:
        meta["annotations"] = {"emulate.controlplane/run-seconds": "1000"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


class World:
    """Runs `user` beside a node with a device plugin."""

    def __init__(
        self,
        user: User,
        *,
        plugins: str = f"{GPU}=2",
        gates: Mapping[str, bool] | None = None,
        **notes: str,
    ) -> None:
        node = node_tree("node-1")
        node["metadata"]["annotations"] = {"emulate.controlplane/device-plugins": plugins} | {
            f"emulate.controlplane/{key.replace('_', '-')}": text for key, text in notes.items()
        }
        self.cluster = Cluster(
            ClusterConfig(
                nodes=[node], kubelet_settings={"node-1": KubeletSettings(features=features(gates))}
            ),
            log=EventLog(),
        )
        self.user = user
        self.cluster.user("user", self._run)
        result = self.cluster.world.run("bare", until_ns=3600 * SECOND)
        assert result.verdict in ("quiescent", "until"), result.reason

    async def _run(self, ctx: Context) -> None:
        await ctx.sleep(15 * SECOND)
        await self.user(self, Client(ctx), ctx)

    async def amounts(self, client: Client) -> tuple[Any, Any]:
        status = (await client.get(NODES, "", "node-1")).tree["status"]
        return status["capacity"].get(GPU), status["allocatable"].get(GPU)

    async def pod(self, client: Client, name: str) -> tuple[str, str, str]:
        status = (await client.get(PODS, "default", name)).tree["status"]
        return status["phase"], status.get("reason", ""), status.get("message", "")

    @property
    def owned(self) -> dict[str, tuple[str, ...]]:
        containers = self.cluster.machines["node-1"].containers
        assert containers is not None
        assert containers.devices is not None
        return {entry.container: devices_in(ids) for entry, ids in containers.devices.owned.items()}


def test_the_node_shows_devices_and_a_pod_gets_some() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        assert await world.amounts(client) == ("2", "2")
        await client.create(PODS, pod("a", 1, bound=False))
        await ctx.sleep(10 * SECOND)
        assert (await world.pod(client, "a"))[0] == "Running"

    assert World(user).owned == {"main": ("device-0",)}


def test_a_pod_for_which_devices_are_short_is_rejected() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        await client.create(PODS, pod("a", 2))
        await client.create(PODS, pod("b", 1))
        await ctx.sleep(10 * SECOND)
        assert (await world.pod(client, "a"))[0] == "Running"
        phase, reason, message = await world.pod(client, "b")
        assert (phase, reason) == ("Failed", "UnexpectedAdmissionError")
        assert message == (
            "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
            f"{GPU}. Requested: 1, Available: 0, which is unexpected"
        )

    World(user)


def test_devices_of_an_ended_pod_are_given_again() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        for name in ("a", "b"):
            await client.create(PODS, pod(name, 2))
            await ctx.sleep(10 * SECOND)
            assert (await world.pod(client, name))[0] == "Running"
            await client.delete(PODS, "default", name)
            await ctx.sleep(60 * SECOND)

    World(user)


def test_unhealthy_devices_leave_allocatable_only() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        note = {"emulate.controlplane/unhealthy-devices": f"{GPU}=device-0"}
        await client.patch(NODES, "", "node-1", {"metadata": {"annotations": note}})
        await ctx.sleep(30 * SECOND)
        assert await world.amounts(client) == ("2", "1")
        await client.create(PODS, pod("a", 1))
        await ctx.sleep(10 * SECOND)
        assert (await world.pod(client, "a"))[0] == "Running"

    assert World(user).owned == {"main": ("device-1",)}


def test_a_plugin_that_stays_away_loses_its_resource_after_five_minutes() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        ctx.faults.crash(ACTOR)
        await ctx.sleep(30 * SECOND)
        assert await world.amounts(client) == ("2", "0")
        await ctx.sleep(320 * SECOND)
        assert await world.amounts(client) == ("0", "0")
        ctx.faults.restart(ACTOR)
        await ctx.sleep(60 * SECOND)
        assert await world.amounts(client) == ("2", "2")

    World(user)


def test_a_restarted_kubelet_keeps_what_is_owned() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        await client.create(PODS, pod("a", 1))
        await ctx.sleep(10 * SECOND)
        ctx.faults.crash("node-1")
        await ctx.sleep(SECOND)
        ctx.faults.restart("node-1")
        await ctx.sleep(60 * SECOND)
        assert (await world.pod(client, "a"))[0] == "Running"
        assert await world.amounts(client) == ("2", "2")
        await client.create(PODS, pod("b", 1))
        await ctx.sleep(10 * SECOND)
        assert (await world.pod(client, "b"))[0] == "Running"

    world = World(user)
    file = json.loads(world.cluster.world.disk("node-1").read(FILE))
    held = [each["DeviceIDs"] for each in file["Data"]["PodDeviceEntries"]]
    assert held == [{"-1": ["device-0"]}, {"-1": ["device-1"]}]


def test_a_plugin_that_fails_to_allocate_rejects_the_pod() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        for name in ("a", "b"):
            await client.create(PODS, pod(name, 2))
            await ctx.sleep(10 * SECOND)
        assert "desc = not now" in (await world.pod(client, "a"))[2]
        assert (await world.pod(client, "b"))[0] == "Running"

    World(user, device_plugin_fails="1")


def test_containers_get_the_devices_of_init_containers_and_what_the_plugin_prefers() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        await client.create(PODS, pod("a", 2, init=1))
        await ctx.sleep(10 * SECOND)

    world = World(user, plugins=f"{GPU}=4", device_plugin_prefers="true")
    assert world.owned == {"first": ("device-3",), "main": ("device-3", "device-2")}


def health(status: Any) -> Any:
    (container,) = status["containerStatuses"]
    return container.get("allocatedResourcesStatus")


def of_gpu(**by_device: str) -> Any:
    resources = [
        {"resourceID": name.replace("_", "-"), "health": each} for name, each in by_device.items()
    ]
    return [{"name": GPU, "resources": resources}]


def test_the_status_of_a_container_tells_of_its_devices_and_of_their_health_as_it_changes() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        async def told(unhealthy: str) -> Any:
            note = {"emulate.controlplane/unhealthy-devices": f"{GPU}={unhealthy}"}
            await client.patch(NODES, "", "node-1", {"metadata": {"annotations": note}})
            await ctx.sleep(5 * SECOND)
            return health((await client.get(PODS, "default", "a")).tree["status"])

        await client.create(PODS, pod("a", 2))
        await ctx.sleep(10 * SECOND)
        before = health((await client.get(PODS, "default", "a")).tree["status"])
        assert before == of_gpu(device_0="Healthy", device_1="Healthy")
        assert await told("device-1") == of_gpu(device_0="Healthy", device_1="Unhealthy")
        assert await told("") == before

    World(user)


def test_without_the_gate_a_status_does_not_list_devices() -> None:
    async def user(world: World, client: Client, ctx: Context) -> None:
        await client.create(PODS, pod("a", 1))
        await ctx.sleep(10 * SECOND)
        status = (await client.get(PODS, "default", "a")).tree["status"]
        assert (status["phase"], health(status)) == ("Running", None)

    World(user, gates={"ResourceHealthStatus": False})
