"""Claims of pods in a world: prepared before a pod starts, unprepared when it ends."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.client.loops.clientset import NODES, PODS
from controlplane.client.resources import RESOURCE_SLICES
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.kubelet.cm.dra.driver import DeviceFault, DriverFault, HealthSilence
from controlplane.kubelet.cm.dra.messages import PREPARE, UNPREPARE
from tests.kubelet.claims_world import ACTOR, DRIVER, SECOND, World, allocate, pod


def test_a_pod_runs_once_its_claim_is_prepared_and_nothing_is_left_when_it_is_gone():
    async def user(world: World, client: Any, ctx: Any) -> None:
        claim = await world.start_pod(client, ctx)
        world.seen["phase"] = await world.phase(client)
        world.seen["prepared"] = world.prepared == world.held == [f"default/{claim}"]
        (status,) = (await client.get(PODS, "default", "web")).tree["status"]["containerStatuses"]
        (told,) = status["allocatedResourcesStatus"]
        world.seen["told"] = told["name"], [each["health"] for each in told["resources"]]
        await client.delete(PODS, "default", "web")
        await ctx.sleep(60 * SECOND)

    world = World(user).run()
    told = ("claim:gpu", ["Unknown"])
    assert world.seen == {"phase": "Running", "prepared": True, "told": told}
    assert world.prepared == world.held == []
    assert world.cluster.objects("/registry/resourceclaims/") == []


def test_a_pod_waits_for_its_driver_and_starts_when_it_is_back():
    async def user(world: World, client: Any, ctx: Any) -> None:
        ctx.faults.crash(ACTOR)
        await world.start_pod(client, ctx)
        world.seen["away"] = await world.phase(client)
        ctx.faults.restart(ACTOR)
        await ctx.sleep(200 * SECOND)
        world.seen["back"] = await world.phase(client)

    world = World(user).run()
    assert world.seen == {"away": "Pending", "back": "Running"}
    assert "FailedPrepareDynamicResources" in world.reasons()


def test_the_slices_of_a_driver_go_half_a_minute_after_it_and_come_back_with_it():
    async def user(world: World, client: Any, ctx: Any) -> None:
        ctx.faults.crash(ACTOR)
        await ctx.sleep(20 * SECOND)
        world.seen["soon"] = len(world.slices())
        await ctx.sleep(20 * SECOND)
        world.seen["later"] = len(world.slices())
        ctx.faults.restart(ACTOR)
        await ctx.sleep(60 * SECOND)
        world.seen["back"] = len(world.slices())

    assert World(user).run().seen == {"soon": 1, "later": 0, "back": 1}


@pytest.mark.slow
def test_a_slice_that_is_deleted_is_published_again_while_its_node_is_there():
    async def user(world: World, client: Any, ctx: Any) -> None:
        (found,) = world.slices()
        await client.delete(RESOURCE_SLICES, "", found["metadata"]["name"])
        await ctx.sleep(10 * SECOND)
        world.seen["again"] = len(world.slices())
        await client.delete(NODES, "", "node-1")
        await ctx.sleep(10 * SECOND)

    world = World(user).run()
    assert world.seen == {"again": 1}
    assert world.slices() == []


def test_a_kubelet_that_comes_back_unprepares_the_claims_of_pods_that_are_gone():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await world.start_pod(client, ctx)
        ctx.faults.crash("node-1")
        await client.delete(PODS, "default", "web", grace_period_seconds=0)
        await ctx.sleep(10 * SECOND)
        world.seen["held"] = len(world.held)
        ctx.faults.restart("node-1")
        await ctx.sleep(130 * SECOND)

    world = World(user).run()
    assert world.seen == {"held": 1}
    assert world.prepared == world.held == []


def test_a_kubelet_does_not_start_with_a_damaged_checkpoint():
    async def user(world: World, client: Any, ctx: Any) -> None:
        ctx.faults.crash("node-1")
        disk = world.cluster.world.disk("node-1")
        disk.write("dra_manager_state", '{"Data":"{}","Checksum":1}')
        disk.sync()
        ctx.faults.restart("node-1")
        await ctx.sleep(10 * SECOND)

    world = World(user).run()
    assert world.cluster.machines["node-1"].refused == (
        "create ResourceClaim cache: GetOrCreate() on checkpoint state: failed to get checkpoint"
        " dra_manager_state: checkpoint is corrupted"
    )


def test_an_annotation_has_the_first_calls_fail():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await world.start_pod(client, ctx)
        world.seen["first"] = await world.phase(client)
        await ctx.sleep(120 * SECOND)
        world.seen["then"] = await world.phase(client)

    notes = {"emulate.controlplane/dra-prepare-fails": "3"}
    assert World(user, notes).run().seen == {"first": "Pending", "then": "Running"}


@pytest.mark.parametrize("lost", [False, True])
def test_unpreparing_is_tried_until_it_succeeds(lost: bool):
    async def user(world: World, client: Any, ctx: Any) -> None:
        await world.start_pod(client, ctx)
        await ctx.ask(ACTOR, DriverFault(UNPREPARE, count=2, lost=lost))
        await client.delete(PODS, "default", "web")
        await ctx.sleep(8 * SECOND)
        world.seen["kept"] = len(world.prepared), len(world.held)
        await ctx.sleep(60 * SECOND)

    world = World(user).run()
    assert world.seen == {"kept": (1, 0 if lost else 1)}
    assert world.prepared == world.held == []
    assert world.cluster.objects("/registry/pods/") == []


def test_a_claim_that_fails_alone_is_named_in_the_event():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await client.create(PODS, pod("web"))
        await ctx.sleep(SECOND)
        (found,) = world.cluster.objects("/registry/resourceclaims/")
        await ctx.ask(ACTOR, DriverFault(PREPARE, "broken", claim=found.uid))
        await allocate(client, found.name)
        await ctx.sleep(70 * SECOND)

    world = World(user).run()
    messages = [each.tree["message"] for each in world.cluster.objects("/registry/events/")]
    assert any(
        "failed for ResourceClaim web-gpu-" in text and "broken" in text for text in messages
    )


def test_a_cluster_without_devices_has_no_part_of_them():
    cluster = Cluster(ClusterConfig(nodes=[node_tree("node-1")], enabled_controllers=("*",)))
    cluster.world.run("bare", until_ns=60 * SECOND)
    assert cluster.node_drivers is None
    assert cluster.machines["node-1"].claims is None


def test_a_container_is_not_made_again_without_the_devices_of_its_claims():
    async def user(world: World, client: Any, ctx: Any) -> None:
        web = pod("web")
        web["metadata"]["annotations"] = {"emulate.controlplane/run-seconds": "300"}
        await client.create(PODS, web)
        await ctx.sleep(SECOND)
        (found,) = world.cluster.objects("/registry/resourceclaims/")
        await allocate(client, found.name)
        await ctx.sleep(130 * SECOND)
        ctx.faults.crash("node-1")
        disk = world.cluster.world.disk("node-1")
        disk.remove("dra_manager_state")
        disk.sync()
        ctx.faults.restart("node-1")
        await ctx.sleep(400 * SECOND)

    world = World(user).run()
    messages = [each.tree["message"] for each in world.cluster.objects("/registry/events/")]
    assert any("unable to get claim info for ResourceClaim web-gpu-" in text for text in messages)


HEALTH = {"emulate.controlplane/dra-health": DRIVER}


async def _health(client: Any) -> list[tuple[str, str]]:
    (status,) = (await client.get(PODS, "default", "web")).tree["status"]["containerStatuses"]
    (told,) = status["allocatedResourcesStatus"]
    return [(each["health"], each.get("message", "")) for each in told["resources"]]


def test_the_status_of_a_pod_follows_the_health_that_its_driver_reports():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await world.start_pod(client, ctx)
        world.seen["first"] = await _health(client)
        note = {"emulate.controlplane/unhealthy-devices": f"{DRIVER}=device-0"}
        await client.patch(NODES, "", "node-1", {"metadata": {"annotations": note}})
        await ctx.sleep(5 * SECOND)
        world.seen["annotated"] = await _health(client)
        await ctx.ask(ACTOR, DeviceFault("device-0", "Unhealthy", "fell off the bus"))
        await ctx.sleep(5 * SECOND)
        world.seen["fault"] = await _health(client)

    assert World(user, HEALTH).run().seen == {
        "first": [("Healthy", "")],
        "annotated": [("Unhealthy", "")],
        "fault": [("Unhealthy", "fell off the bus")],
    }


def test_health_that_a_driver_stops_to_report_is_unknown_in_the_next_status_after_its_time():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await world.start_pod(client, ctx)
        await ctx.ask(ACTOR, HealthSilence())
        await ctx.sleep(25 * SECOND)
        world.seen["in time"] = await _health(client)
        await ctx.sleep(120 * SECOND)
        world.seen["late"] = await _health(client)
        await ctx.ask(ACTOR, HealthSilence(on=False))
        await ctx.ask(ACTOR, DeviceFault("device-1", "Unhealthy"))
        await ctx.ask(ACTOR, DeviceFault("device-0", "Healthy", "well again"))
        await ctx.sleep(5 * SECOND)
        world.seen["again"] = await _health(client)

    seen = World(user, HEALTH).run().seen
    assert seen == {
        "in time": [("Healthy", "")],
        "late": [("Unknown", "")],
        "again": [("Healthy", "well again")],
    }


def test_health_is_forgotten_with_the_stream_of_a_driver_that_crashes():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await world.start_pod(client, ctx)
        before = world.cluster.machines["node-1"].claims.health.drivers
        ctx.faults.crash(ACTOR)
        await ctx.sleep(2 * SECOND)
        after = dict(world.cluster.machines["node-1"].claims.health.drivers)
        ctx.faults.restart(ACTOR)
        await ctx.sleep(200 * SECOND)
        world.seen.update(before=list(before), after=list(after), back=await _health(client))

    assert World(user, HEALTH).run().seen == {
        "before": [DRIVER],
        "after": [],
        "back": [("Healthy", "")],
    }
