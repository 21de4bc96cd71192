"""Custom kinds that plugins need, and handlers of plugins.

A kind that a plugin reads has a cache; one whose events a plugin registers has an informer of its own beside that, as
upstream, where the cache is controller-runtime's and the queue hears from a dynamic informer: a pod may be moved for
an object that the cache does not have yet. Upstream each plugin has a cache of its own; here plugins that read one
kind share it. Until the first lists have come, no pod is scheduled: while a definition is missing, that is for ever.
Handlers of plugins may still have to be told of those lists then: upstream waits for its own handlers only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from controlplane.client.indexer import Indexer
from controlplane.client.loops.informer import Informer, TaskHandler
from controlplane.scheduler.framework.custom import (
    CustomKind,
    CustomObjects,
    Tree,
    resource_of_event,
)
from controlplane.scheduler.framework.notified import ObjectHandler, PodHandler

if TYPE_CHECKING:
    from actors import Context
    from controlplane.api.pod import Pod
    from controlplane.api.view import View
    from controlplane.client.deltas import Notification
    from controlplane.client.loops.connection import RestConfig
    from controlplane.client.resources import Resource
    from controlplane.scheduler.framework.interface import Plugin
    from controlplane.scheduler.framework.runtime import Framework

__all__ = ["CustomCaches", "event_informers", "pod_handlers"]


class CustomCaches(CustomObjects):
    """The caches of the custom kinds that plugins read."""

    def __init__(self, ctx: Context, server: RestConfig) -> None:
        self._ctx = ctx
        self._server = server
        self._found: dict[str, Informer[View]] = {}

    def informers(self, plugins: Iterable[Plugin]) -> list[Informer[View]]:
        """Return the informers that fill the caches, to be started."""
        for plugin in plugins:
            for each in plugin.custom:
                informer = self._informer(each)
                if isinstance(plugin, ObjectHandler):
                    handle = _of_objects(plugin, each.kind)
                    informer.add_task_handler(handle, plugin.name, awaited=False)
        return list(self._found.values())

    def _informer(self, kind: CustomKind) -> Informer[View]:
        informer = self._found.get(kind.kind)
        if informer is None:
            part = f"{kind.resource.name}.{kind.resource.group}"
            informer = self._found[kind.kind] = Informer(
                self._ctx, kind.resource, Indexer(), server=self._server, immediate=True, part=part
            )
        return informer

    def get(self, kind: str, namespace: str, name: str) -> Tree | None:
        """Return the object as last heard, None if there is none."""
        informer = self._found.get(kind)
        if informer is None:
            return None
        self._ctx.looks_at(informer.store_part)
        found = informer.store.get(f"{namespace}/{name}" if namespace else name)
        return None if found is None else found.tree

    def list(self, kind: str) -> Iterable[Tree]:
        """Return all objects of a kind as last heard."""
        informer = self._found.get(kind)
        if informer is None:
            return ()
        self._ctx.looks_at(informer.store_part)
        return [each.tree for each in informer.store]


def event_informers(
    ctx: Context,
    server: RestConfig,
    frameworks: Iterable[Framework],
    handler: Callable[[str], TaskHandler[View]],
) -> list[Informer[View]]:
    """Return an informer for each custom kind whose events a plugin registered; `handler` tells the queue."""
    named: dict[str, Resource[Any]] = {}
    for framework in frameworks:
        for event, _ in framework.queueing_hints():
            resource = resource_of_event(event.resource)
            if resource is not None:
                named[event.resource] = resource
    made = []
    for name, resource in named.items():
        informer: Informer[View] = Informer(
            ctx, resource, server=server, immediate=True, part=f"{name} events"
        )
        informer.add_task_handler(handler(name), "scheduler")
        made.append(informer)
    return made


def pod_handlers(plugins: Iterable[Plugin]) -> list[tuple[PodHandler, TaskHandler[Pod]]]:
    """Return the handlers of plugins on the informer of pods."""
    return [
        (plugin, _of_pods(plugin))
        for plugin in plugins
        if isinstance(plugin, PodHandler) and plugin.hears_pods
    ]


def _of_pods(plugin: PodHandler) -> TaskHandler[Pod]:
    everything = not plugin.assigned_only

    async def handle(ctx: Context, told: Notification[Pod]) -> None:
        ctx.writes("plugins")
        old = None if told.old is None else told.old.view
        new = None if told.new is None else told.new.view
        before = old is not None and (everything or bool(old.spec.node_name))
        after = new is not None and (everything or bool(new.spec.node_name))
        if before and after:
            assert old is not None and new is not None
            plugin.pod_updated(old, new)
        elif after:
            assert new is not None
            plugin.pod_added(new)
        elif before:
            assert old is not None
            plugin.pod_deleted(old)

    return handle


def _of_objects(plugin: ObjectHandler, kind: str) -> TaskHandler[View]:
    async def handle(ctx: Context, told: Notification[View]) -> None:
        ctx.writes("plugins")
        if told.new is None:
            assert told.old is not None
            plugin.object_deleted(kind, told.old.tree)
        elif told.old is None:
            plugin.object_added(kind, told.new.tree)
        else:
            plugin.object_updated(kind, told.old.tree, told.new.tree)

    return handle
