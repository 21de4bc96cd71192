"""A world with devices: one node with an emulated driver, and a user who allocates claims by hand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from actors import Context, EventLog
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.resources import RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.kubelet.cm.dra.driver import driver_actor

SECOND = 1_000_000_000
DRIVER = "gpu.example.com"
ACTOR = driver_actor(DRIVER, "node-1")
TEMPLATE = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaimTemplate",
    "metadata": {"name": "gpu", "namespace": "default"},
    "spec": {
        "spec": {"devices": {"requests": [{"name": "req", "exactly": {"deviceClassName": "gpu"}}]}}
    },
}


def pod(name: str, **claim: str) -> Any:
    entry = {"name": "gpu", **(claim or {"resourceClaimTemplateName": "gpu"})}
    container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 1,
            "containers": [container],
            "resourceClaims": [entry],
        },
    }


async def allocate(client: Client, name: str, device: str = "device-0", **more: Any) -> None:
    """Give a claim a device, as the scheduler does."""
    found = (await client.get(RESOURCE_CLAIMS, "default", name)).tree
    metadata = {**found["metadata"], "finalizers": ["resource.kubernetes.io/delete-protection"]}
    found = (await client.update(RESOURCE_CLAIMS, {**found, "metadata": metadata})).tree
    result = {"request": "req", "driver": DRIVER, "pool": "node-1", "device": device, **more}
    status = {"allocation": {"devices": {"results": [result]}}}
    await client.update(RESOURCE_CLAIMS, {**found, "status": status}, "status")


class World:
    """Runs `user`; afterwards what is left can be looked at."""

    def __init__(
        self,
        user: Callable[[World, Client, Context], Awaitable[None]],
        annotations: dict[str, str] | None = None,
        **config: Any,
    ) -> None:
        node = node_tree("node-1")
        node["metadata"]["annotations"] = {
            "emulate.controlplane/dra-devices": f"{DRIVER}=2",
            **(annotations or {}),
        }
        self.log = EventLog()
        self.cluster = Cluster(
            ClusterConfig(nodes=[node], enabled_controllers=("*",), **config), log=self.log
        )
        self.user = user
        self.seen: dict[str, Any] = {}
        self.cluster.user("user", self._run)

    async def _run(self, ctx: Context) -> None:
        await ctx.sleep(5 * SECOND)
        client = Client(ctx)
        await client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE)
        await self.user(self, client, ctx)

    def run(self) -> World:
        result = self.cluster.world.run("bare", until_ns=3600 * SECOND)
        assert result.verdict in ("quiescent", "until"), result.reason
        return self

    async def start_pod(self, client: Client, ctx: Context, name: str = "web") -> str:
        """Create a pod, allocate its claim, and wait until it should run; the claim's name."""
        await client.create(PODS, pod(name))
        await ctx.sleep(SECOND)
        (claim,) = [
            each.name
            for each in (await client.list(RESOURCE_CLAIMS, "default")).items
            if each.name.startswith(name)
        ]
        await allocate(client, claim)
        await ctx.sleep(130 * SECOND)
        return claim

    async def phase(self, client: Client, name: str = "web") -> str:
        return str((await client.get(PODS, "default", name)).view.status.phase)

    @property
    def prepared(self) -> list[str]:
        """The claims that the kubelet holds."""
        manager = self.cluster.machines["node-1"].claims
        assert manager is not None
        return sorted(manager.cache.claims)

    @property
    def held(self) -> list[str]:
        """The claims that the driver holds."""
        assert self.cluster.node_drivers is not None
        probe = self.cluster.node_drivers.probes[ACTOR]
        return sorted(f"{ref.namespace}/{ref.name}" for ref in probe.prepared.values())

    def reasons(self) -> list[str]:
        return [
            each.tree["reason"]
            for each in self.cluster.objects("/registry/events/")
            if each.tree["involvedObject"]["kind"] == "Pod"
        ]

    def slices(self) -> list[Any]:
        return [each.tree for each in self.cluster.objects("/registry/resourceslices/")]
