"""Invariants of a component's cache of the API server's objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.scenarios.engine.scenario import Invariant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from controlplane.api.object import Object
    from controlplane.client.loops.connection import RestConfig
    from controlplane.scenarios.engine.run import Run
    from controlplane.scenarios.engine.user import User

FOLLOWER = "follower"
CONFIG_MAPS = "/registry/configmaps/"
_CACHE = "follower's cache"


async def follow(user: User) -> None:
    """A component that does nothing but keep a cache of config maps, and handle notifications of them."""
    follow_at(user, user.cluster.address(FOLLOWER))


def follow_at(user: User, server: RestConfig, *, immediate: bool = False) -> None:
    """Start the follower's informer of what `server` serves; `immediate` as of `Informer`."""
    from controlplane.client.indexer import Indexer
    from controlplane.client.loops.clientset import Resource
    from controlplane.client.loops.informer import Informer

    store: Indexer[Any] = Indexer()
    heard: dict[str, int] = {}
    user.notes[_CACHE] = (store, heard)

    def hear(told: Any) -> None:
        if told.new is not None:
            heard[told.new.key] = told.new.resource_version

    informer: Informer[Any] = Informer(
        user.ctx, Resource("", "v1", "configmaps"), store, server=server, immediate=immediate
    )
    informer.add_handler(hear)
    informer.start()


def cache_is(held: Callable[[Run], Mapping[str, Object]]) -> Invariant:
    """Once nothing moves: the follower's cache has what `held` gives, by key, and its handlers heard of it."""

    def check(run: Run) -> str | None:
        there = held(run)
        store, heard = run.notes.get(_CACHE, ((), {}))
        cached = {obj.key: obj.uid for obj in store}
        for what, keys in (
            ("the cache still has", [key for key in cached if key not in there]),
            ("the cache lacks", [key for key in there if cached.get(key) != there[key].uid]),
            (
                "no handler was notified of the last change of",
                [obj.key for obj in store if heard.get(obj.key) != obj.resource_version],
            ),
        ):
            if keys:
                return f"{what} {', '.join(keys)}"
        return None

    return Invariant("the cache is what the API server holds", check)


CACHE_IS_RIGHT = cache_is(lambda run: {obj.key: obj for obj in run.objects(CONFIG_MAPS)})
