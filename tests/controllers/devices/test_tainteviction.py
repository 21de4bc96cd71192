"""Eviction by device taints in a world; its decisions are in the golden cases."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.client.resources import DEVICE_TAINT_RULES, RESOURCE_SLICES
from controlplane.controllers.devices.tainteviction.pools import modified
from controlplane.scenarios.engine.metrics import metrics_of
from tests.kubelet.claims_world import DRIVER, SECOND, World

TAINT = {"key": "broken", "effect": "NoExecute"}


async def _taint(world: World, client: Any) -> None:
    (found,) = world.slices()
    devices = [{**each, "taints": [TAINT]} for each in found["spec"]["devices"]]
    await client.update(RESOURCE_SLICES, {**found, "spec": {**found["spec"], "devices": devices}})


@pytest.mark.slow
def test_a_pod_leaves_a_device_that_its_driver_taints():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await world.start_pod(client, ctx)
        await _taint(world, client)
        await ctx.sleep(60 * SECOND)

    world = World(user).run()
    assert world.cluster.objects("/registry/pods/") == []
    assert "DeviceTaintManagerEviction" in world.reasons()
    assert world.prepared == world.held == []


def test_a_rule_evicts_and_tells_of_it():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await world.start_pod(client, ctx)
        rule = {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "maintenance"},
            "spec": {"deviceSelector": {"driver": DRIVER}, "taint": TAINT},
        }
        await client.create(DEVICE_TAINT_RULES, rule)
        await ctx.sleep(60 * SECOND)

    gates = {"DRADeviceTaintRules": True}
    world = World(user, scheduler_features=gates).run()
    assert world.cluster.objects("/registry/pods/") == []
    (rule,) = world.cluster.objects("/registry/devicetaintrules/")
    (condition,) = rule.tree["status"]["conditions"]
    assert (condition["reason"], condition["message"]) == (
        "Completed",
        "1 pod evicted since starting the controller.",
    )
    told = {family.name: family for family in metrics_of(world.cluster)}
    (deletions,) = told["device_taint_eviction_controller_pod_deletions_total"].samples
    (duration,) = told["device_taint_eviction_controller_pod_deletion_duration_seconds"].samples
    assert (deletions.value, duration.value.count) == (1, 1)


def test_one_more_taint_of_a_device_modifies_the_one_behind_it_too():
    def taints(*names: str) -> list[tuple[str, Any]]:
        return [(name, TAINT) for name in names]

    assert list(modified(taints("a", "b"), taints("a", "b"))) == []
    assert sorted(modified(taints("a", "b"), taints("a", "a", "b"))) == ["a", "b"]
    assert list(modified(taints("a", "b"), taints("b"))) == ["a"]
