"""Kueue's webhook server: defaults, validation and conversion of its objects; defaults and validation of jobs and pods.

Upstream it is part of the one process and reads its caches; here it is an actor with informers of its own, so it may
know more or less than the rest of Kueue at a moment. Requests that come before the caches are filled wait for them.

Points: those of `client.informer`, and `recv` (a review arrives).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from controlplane.client.loops.informer import Informer
from controlplane.controllers.common.controller import Caches
from controlplane.kueue.api.conversion import review as convert
from controlplane.kueue.controllers.workload import stop_policy
from controlplane.kueue.jobs.generic import resource_of
from controlplane.kueue.names import DEFAULT_LOCAL_QUEUE
from controlplane.kueue.process.jobs import surroundings, watched_for_jobs
from controlplane.kueue.process.kinds import kinds_with
from controlplane.kueue.process.reader import CacheReader
from controlplane.kueue.webhooks.review import mutate, validate

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from actors import Context
    from controlplane.client.loops.connection import RestConfig
    from controlplane.kueue.process.settings import Settings

WATCHED = ("Namespace", "LocalQueue", "WorkloadPriorityClass")


def webhook_of(settings: Settings) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return the server's main task, for `ClusterConfig.webhook_servers`."""

    async def main(ctx: Context, _epoch_ns: int, *, server: RestConfig) -> None:
        await serve(ctx, server, settings)

    return main


async def serve(ctx: Context, server: RestConfig, settings: Settings) -> None:
    """Answer reviews for ever."""
    caches = Caches()
    watched = dict.fromkeys((*WATCHED, *watched_for_jobs(settings)))
    reader = CacheReader(caches, watched, kinds_with(settings.custom))
    informers = [
        Informer(ctx, resource, store, server=server) for resource, store in caches.stores.items()
    ]
    for informer in informers:
        informer.start()

    def has_default_queue(namespace: str) -> bool:
        found = reader.get("LocalQueue", namespace, DEFAULT_LOCAL_QUEUE)
        return found is not None and stop_policy(found) == "None"

    around = surroundings(settings, reader, has_default_queue)
    later = [resource_of(each) for each in settings.custom]
    for informer in informers:
        if informer.resource in later:
            await informer.wait_synced_or_unserved()
        else:
            await informer.wait_synced()
    custom = {each.kind.kind: each for each in settings.custom}
    while True:
        message = await ctx.recv(idle=True)
        review = message.payload
        request = review.body["request"]
        if review.body["kind"] == "ConversionReview":
            response = convert(request, settings.gates)
        else:
            decide = mutate if "/mutate-" in review.url else validate
            response = decide(request, around, custom)
        response = {**response, "uid": request["uid"]}
        head = {key: review.body[key] for key in ("apiVersion", "kind")}
        message.reply({**head, "response": response})
