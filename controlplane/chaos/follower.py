"""A component that does nothing but keep a cache of config maps, and the invariant that it is right in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken
from controlplane.client.errors import ApiError
from controlplane.client.indexer import Indexer
from controlplane.client.loops.clientset import Client, Resource
from controlplane.client.loops.informer import Informer

if TYPE_CHECKING:
    from actors import Context
    from controlplane.cluster import Cluster

SECOND = 1_000_000_000
CONFIG_MAPS = Resource("", "v1", "configmaps")
NAMESPACE = "default"
FOLLOWER = "follower"
REGISTRY = "/registry/configmaps/"


def attach(cluster: Cluster) -> None:
    """Add the follower, and the invariant that its cache equals the store once nothing moves."""
    server = cluster.address(FOLLOWER)
    store = Indexer()

    async def follow(ctx: Context) -> None:
        informer = Informer(ctx, CONFIG_MAPS, store, server=server)
        informer.add_handler(lambda _told: None)
        informer.start()

    def differs() -> str | None:
        there = {obj.key: obj.uid for obj in cluster.objects(REGISTRY)}
        cached = {obj.key: obj.uid for obj in store}
        ghosts = [key for key in cached if key not in there]
        missing = [key for key in there if cached.get(key) != there[key]]
        if ghosts:
            return f"the cache still has {', '.join(ghosts)}"
        if missing:
            return f"the cache lacks {', '.join(missing)}"
        return None

    cluster.user(FOLLOWER, follow)
    cluster.world.invariant("the cache is what the API server holds", differs)


async def restarts(ctx: Context, victim: str, times: int) -> None:
    """Crash and restart a process a few times, at moments that are choices."""
    for _ in range(times):
        await ctx.sleep((1 + ctx.choose("fault", 8, "when")) * SECOND)
        ctx.crash(victim)
        if ctx.choose("fault", 2, "how long"):
            await ctx.sleep(SECOND)
        ctx.restart(victim)


async def come_and_go(ctx: Context, names: tuple[str, ...], operations: int) -> None:
    """Create and delete config maps under a few names. A refusal or a broken connection is shrugged off."""
    client = Client(ctx)
    for _ in range(operations):
        name = names[ctx.choose("workload", len(names), "which")]
        metadata = {"name": name, "namespace": NAMESPACE}
        try:
            if ctx.choose("workload", 2, "create or delete"):
                await client.delete(CONFIG_MAPS, NAMESPACE, name)
            else:
                tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
                await client.create(CONFIG_MAPS, tree)
        except (ApiError, LinkBroken):
            pass
        if ctx.choose("workload", 2, "pause"):
            await ctx.sleep(SECOND)
