"""The resource claim controller in a world; its decisions are in the golden cases."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.api.object import Object
from controlplane.client.indexer import Indexer
from controlplane.client.loops.clientset import PODS
from controlplane.client.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from controlplane.controllers.devices.resourceclaim.created import LIFETIME_NS, CreatedClaims
from controlplane.controllers.devices.resourceclaim.indexes import claims_of_pods
from controlplane.controllers.devices.uid_cache import UidCache
from controlplane.scenarios.engine.metrics import metrics_of
from tests.kubelet.claims_world import SECOND, TEMPLATE, World, allocate, pod


@pytest.mark.slow
def test_a_shared_claim_stays_allocated_until_its_last_pod_is_gone():
    async def user(world: World, client: Any, ctx: Any) -> None:
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "shared", "namespace": "default"},
            "spec": TEMPLATE["spec"]["spec"],
        }
        await client.create(RESOURCE_CLAIMS, claim)
        await allocate(client, "shared")
        for name in ("one", "two"):
            await client.create(PODS, pod(name, resourceClaimName="shared"))
        await ctx.sleep(130 * SECOND)
        for name in ("one", "two"):
            status = await _status(client)
            world.seen[f"before {name}"] = len(status["reservedFor"]), "allocation" in status
            await client.delete(PODS, "default", name)
            await ctx.sleep(60 * SECOND)
        world.seen["after"] = await _status(client)

    assert World(user).run().seen == {
        "before one": (2, True),
        "before two": (1, True),
        "after": {},
    }


async def _status(client: Any) -> Any:
    return (await client.get(RESOURCE_CLAIMS, "default", "shared")).tree.get("status") or {}


@pytest.mark.slow
def test_a_missing_template_is_reported_and_tried_again():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await client.create(PODS, pod("web", resourceClaimTemplateName="later"))
        await ctx.sleep(5 * SECOND)
        world.seen["claims"] = len(world.cluster.objects("/registry/resourceclaims/"))
        made = {**TEMPLATE, "metadata": {"name": "later", "namespace": "default"}}
        await client.create(RESOURCE_CLAIM_TEMPLATES, made)
        await ctx.sleep(5 * SECOND)

    world = World(user).run()
    assert world.seen == {"claims": 0}
    told = {family.name: family.samples for family in metrics_of(world.cluster)}
    (creates,) = told["resourceclaim_controller_creates_total"]
    assert (creates.labels, creates.value) == (
        (("admin_access", "false"), ("status", "success")),
        1,
    )
    (claims,) = told["resourceclaim_controller_resource_claims"]
    assert dict(claims.labels)["source"] == "resource_claim_template"
    assert claims.value == 1
    assert len(world.cluster.objects("/registry/resourceclaims/")) == 1
    assert "FailedResourceClaimCreation" in world.reasons()


def _claim(name: str, version: int) -> Object[Any]:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u", "controller": True}
    meta = {"name": name, "namespace": "ns", "resourceVersion": str(version)}
    return Object({"metadata": {**meta, "ownerReferences": [owner]}})


def test_own_creations_are_known_before_the_informer_tells_and_for_an_hour():
    store: Indexer[Any] = Indexer(pod_owner=claims_of_pods)
    now = [0]
    created = CreatedClaims(store, lambda: now[0])
    created.add(_claim("a", 2))

    def names() -> list[tuple[str, int]]:
        found = created.by_index("pod_owner", "u", claims_of_pods)
        return [(each.name, each.resource_version) for each in found]

    assert names() == [("a", 2)]
    store.put(_claim("a", 1))
    assert names() == [("a", 2)]  # the cache is behind
    store.put(_claim("a", 3))
    assert names() == [("a", 3)]
    created.add(_claim("b", 4))
    now[0] = LIFETIME_NS + 1
    assert names() == [("a", 3)]


def test_the_least_recently_used_uids_are_forgotten():
    uids = UidCache(kept=2)
    uids.add("a")
    uids.add("b")
    assert "a" in uids
    uids.add("c")
    assert ["a" in uids, "b" in uids, "c" in uids] == [True, False, True]


def test_without_pod_groups_their_claims_are_not_looked_for():
    async def user(world: World, client: Any, ctx: Any) -> None:
        await world.start_pod(client, ctx)
        world.seen["phase"] = await world.phase(client)

    gates = {"DRAWorkloadResourceClaims": True}
    assert World(user, scheduler_features=gates).run().seen == {"phase": "Running"}
