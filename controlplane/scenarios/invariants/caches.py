"""What must hold of a cache that a component keeps of the API server's objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.scenarios.scenario import Invariant

if TYPE_CHECKING:
    from controlplane.scenarios.run import Run
    from controlplane.scenarios.user import User

FOLLOWER = "follower"
CONFIG_MAPS = "/registry/configmaps/"
_CACHE = "follower's cache"


async def follow(user: User) -> None:
    """A component that does nothing but keep a cache of config maps, and heed what it is told of them."""
    from controlplane.client.indexer import Indexer
    from controlplane.client.loops.clientset import Resource
    from controlplane.client.loops.informer import Informer

    store = Indexer()
    heard: dict[str, int] = {}
    user.notes[_CACHE] = (store, heard)

    def hear(told: object) -> None:
        new = getattr(told, "new", None)
        if new is not None:
            heard[new.key] = new.resource_version

    config_maps = Resource("", "v1", "configmaps")
    server = user.cluster.address(FOLLOWER)
    informer = Informer(user.ctx, config_maps, store, server=server)
    informer.add_handler(hear)
    informer.start()


def _cache_is_right(run: Run) -> str | None:
    there = {obj.key: obj for obj in run.objects(CONFIG_MAPS)}
    store, heard = run.notes.get(_CACHE, ((), {}))
    cached = {obj.key: obj.uid for obj in store}
    ghosts = [key for key in cached if key not in there]
    missing = [key for key in there if cached.get(key) != there[key].uid]
    untold = [obj.key for obj in store if heard.get(obj.key) != obj.resource_version]
    for what, keys in (
        ("the cache still has", ghosts),
        ("the cache lacks", missing),
        ("no handler was told of the last change of", untold),
    ):
        if keys:
            return f"{what} {', '.join(keys)}"
    return None


CACHE_IS_RIGHT = Invariant("the cache is what the API server holds", _cache_is_right)
"""Once nothing moves any more: the follower's cache has what the server has, and its handlers heard of it."""
