"""The invariant of prepared claims holds in a calm world, and sees what is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from controlplane.scenarios.invariants.prepared_claims import devices_are_held_for_pods
from tests.kubelet.claims_world import ACTOR, World


def said(law: Any, world: World) -> str | None:
    run: Any = SimpleNamespace(cluster=world.cluster, objects=world.cluster.objects)
    return law.check(run)


async def two_pods(world: World, client: Any, ctx: Any) -> None:
    await world.start_pod(client, ctx, "one")
    await world.start_pod(client, ctx, "two")
    world.seen["calm"] = said(devices_are_held_for_pods(), world)


def test_a_claim_that_only_one_side_holds_is_found():
    world = World(two_pods).run()
    assert world.seen["calm"] is None
    law = devices_are_held_for_pods()
    manager = world.cluster.machines["node-1"].claims
    assert manager is not None
    key, info = next(iter(manager.cache.claims.items()))
    del manager.cache.claims[key]
    assert said(law, world) == f"a pod on node-1 uses claim {key}, which its kubelet does not hold"
    manager.cache.claims[key] = info
    assert world.cluster.node_drivers is not None
    ref = type(info.ref)("default", "gone", "u")
    world.cluster.node_drivers.probes[ACTOR].prepared["u"] = ref
    assert "holds claim default/gone/u" in (said(law, world) or "")
    del world.cluster.node_drivers.probes[ACTOR].prepared["u"]
    manager.cache.claims["default/gone"] = info
    assert "holds claim default/gone, which no pod uses" in (said(law, world) or "")
