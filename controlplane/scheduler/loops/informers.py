"""Resources that the scheduler watches, and its reactions to their changes.

Pods and nodes are watched in any case. Other resources are watched only when an enabled plugin reads
them or has registered an event of theirs. Each informer delivers on its own: its handler, a task of
its own, may be behind the store that plugins read, and behind the handlers of other informers. A
resource of which nothing exists costs a list and a watch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from controlplane.api.generic import V
from controlplane.client.indexer import Indexer, label_index
from controlplane.client.loops.informer import Informer, TaskHandler
from controlplane.client.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    Resource,
)
from controlplane.scheduler import eventhandlers
from controlplane.scheduler.dra import slice_tracker
from controlplane.scheduler.framework import events as ev
from controlplane.scheduler.loops.custom import CustomCaches, event_informers, pod_handlers
from controlplane.scheduler.state.cache import CacheCorruptedError
from controlplane.scheduler.state.listers import Listers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from actors import Context
    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.view import View
    from controlplane.client.deltas import Notification
    from controlplane.client.loops.connection import RestConfig
    from controlplane.decisions import Steps
    from controlplane.gates import FixGates
    from controlplane.scheduler.dra.slice_tracker import Change
    from controlplane.scheduler.framework.runtime import Framework
    from controlplane.scheduler.loops.shared import Shared
    from controlplane.scheduler.scheduler import Scheduler

CLAIMS = "scheduler.claims.event"
NOT_FINISHED = "status.phase!=Succeeded,status.phase!=Failed"
STORAGE = "storage.k8s.io"

RESOURCES: Mapping[str, Resource[Any]] = {
    "namespaces": NAMESPACES,
    "persistent_volume_claims": Resource("", "v1", "persistentvolumeclaims"),
    "persistent_volumes": Resource("", "v1", "persistentvolumes"),
    "storage_classes": Resource(STORAGE, "v1", "storageclasses"),
    "csi_nodes": Resource(STORAGE, "v1", "csinodes"),
    "csi_drivers": Resource(STORAGE, "v1", "csidrivers"),
    "csi_storage_capacities": Resource(STORAGE, "v1", "csistoragecapacities"),
    "volume_attachments": Resource(STORAGE, "v1", "volumeattachments"),
    "services": SERVICES,
    "replication_controllers": Resource("", "v1", "replicationcontrollers"),
    "replica_sets": REPLICA_SETS,
    "stateful_sets": Resource("apps", "v1", "statefulsets"),
    "pod_disruption_budgets": Resource("policy", "v1", "poddisruptionbudgets"),
    "pod_groups": POD_GROUPS,
    "priority_classes": Resource("scheduling.k8s.io", "v1", "priorityclasses"),
}
"""By the name of their lister, in the order in which they are listed at the start."""

EVENTS: Mapping[str, str] = {
    "persistent_volume_claims": ev.PERSISTENT_VOLUME_CLAIM,
    "persistent_volumes": ev.PERSISTENT_VOLUME,
    "storage_classes": ev.STORAGE_CLASS,
    "csi_nodes": ev.CSI_NODE,
    "csi_drivers": ev.CSI_DRIVER,
    "csi_storage_capacities": ev.CSI_STORAGE_CAPACITY,
    "volume_attachments": ev.VOLUME_ATTACHMENT,
    "pod_groups": ev.POD_GROUP,
}
"""The resources whose changes can make pods schedulable, with their names in events."""


class StoreLister(Generic[V]):
    """An informer's store as the lister that plugins read."""

    __slots__ = ("_ctx", "_part", "_store")

    def __init__(self, ctx: Context, informer_part: str, store: Indexer[V]) -> None:
        self._ctx = ctx
        self._part = informer_part
        self._store = store

    def get(self, namespace: str, name: str) -> V | None:
        """The view as last heard, None when absent."""
        self._ctx.looks_at(self._part)
        found = self._store.get(f"{namespace}/{name}" if namespace else name)
        return None if found is None else found.view

    def list(self) -> Iterator[V]:
        """All views."""
        self._ctx.looks_at(self._part)
        return (obj.view for obj in self._store)

    def labelled(self, key: str, value: str) -> Iterator[V]:
        """All views with this label; only of pods, by a label that a plugin has named (`Plugin.pod_labels`)."""
        self._ctx.looks_at(self._part)
        return (obj.view for obj in self._store.by_index(_index_of(key), value))


def _index_of(label: str) -> str:
    return f"label {label}"


def needed(frameworks: Iterable[Framework], *, groups: bool = False) -> dict[str, None]:
    """Names of the listers that the plugins of these profiles need, pods and nodes left out.

    Pod groups are watched where they are scheduled as such (`groups`), and nowhere else.
    """
    wanted: dict[str, None] = {}
    for framework in frameworks:
        for plugin in framework.all_plugins:
            for name in plugin.reads:
                wanted[name] = None
        heard = {event.resource: None for event, _ in framework.queueing_hints()}
        for name, resource in EVENTS.items():
            if resource in heard or ev.WILDCARD in heard:
                wanted[name] = None
    wanted.pop("pod_groups", None)
    if groups:
        wanted["pod_groups"] = None
    return {name: None for name in RESOURCES if name in wanted}


class Informers:
    """The scheduler's informers and the listers over their stores.

    A lister exists for every resource; which informers fill one is decided in `start`, when it is
    known which plugins there are.

    Gate 93044 (issue 104521, cherry-pick 105015). Unfixed, the failure handler reads pods from an
    informer of its own. When that lags behind the one that fed the queue, a pod that fails at once
    is not there: it is dropped and never tried again. Fixed, there is one informer of pods.
    """

    def __init__(self, ctx: Context, server: RestConfig, *, joined: bool, gates: FixGates) -> None:
        self._ctx = ctx
        self._server = server
        self._stores: dict[str, Indexer[Any]] = {name: Indexer() for name in RESOURCES}
        self._classes: Indexer[View] = Indexer()
        self._slices: Indexer[View] = Indexer()
        self._rules: Indexer[View] = Indexer()
        self._devices_begun = False
        self.custom = CustomCaches(ctx, server)
        self._waited: list[Informer[View]] = []
        self.pods = Informer(ctx, PODS, server=server, immediate=joined, fieldSelector=NOT_FINISHED)
        self.nodes = Informer(ctx, NODES, server=server, immediate=joined)
        self.failed_pods = self.pods
        if not gates.fixed("93044"):
            self.failed_pods = Informer(
                ctx,
                PODS,
                server=server,
                immediate=joined,
                part="failed pods",
                fieldSelector=NOT_FINISHED,
            )
        self.listers = Listers(
            pods=StoreLister(ctx, self.pods.store_part, self.pods.store),
            nodes=StoreLister(ctx, self.nodes.store_part, self.nodes.store),
            device_classes=StoreLister(ctx, "deviceclasses store", self._classes),
            resource_slices=StoreLister(ctx, "resourceslices store", self._slices),
            device_taint_rules=StoreLister(ctx, "devicetaintrules store", self._rules),
            **{
                name: StoreLister(ctx, f"{RESOURCES[name].name} store", store)
                for name, store in self._stores.items()
            },
        )

    def failed_pod(self, key: str) -> Object[Pod] | None:
        """The pod of that key as the failure handler sees it."""
        self._ctx.looks_at(self.failed_pods.store_part)
        return self.failed_pods.store.get(key)

    def missing(self) -> list[str]:
        """Return the custom resources whose first lists the scheduler waits for."""
        waited = (each.resource.full_name for each in self._waited if not each.has_synced)
        return list(dict.fromkeys(waited))

    async def start(
        self, shared: Shared, allowed: Collection[str] | None, *, devices: bool = False
    ) -> None:
        """Start what the plugins need (of that, only what is `allowed`) and wait until all know the cluster.

        With `devices` that includes claims, slices and classes of devices; otherwise those are watched from
        the first pod on that names a claim. Upstream watches them always.
        """
        handlers = _Handlers(shared, self)
        others: list[Informer[Any]] = self.of_devices(handlers) if devices else []
        core = shared.core
        for name in needed(core.frameworks.values(), groups=core.schedules_groups):
            if allowed is not None and name not in (*allowed, "pod_groups"):
                continue
            informer = Informer(
                self._ctx,
                RESOURCES[name],
                self._stores[name],
                server=self._server,
                immediate=True,
            )
            if name in EVENTS:
                informer.add_task_handler(handlers.other(EVENTS[name]), "scheduler")
            others.append(informer)
        for plugin in core.all_plugins:
            for label in plugin.pod_labels:
                self.pods.store.add_indexes(**{_index_of(label): label_index(label)})
        # Upstream a plugin's cache is made with it, or blocks its first reader: none is read before it has listed.
        caches = self.custom.informers(core.all_plugins)
        for each in caches:
            each.start()
        for each in caches:
            await each.wait_synced_or_unserved()
        self._waited = event_informers(
            self._ctx, self._server, core.frameworks.values(), handlers.other
        )
        others += self._waited
        self.pods.add_task_handler(handlers.pods(), "scheduler")
        for hearer, handle in pod_handlers(core.all_plugins):
            self.pods.add_task_handler(handle, hearer.name, awaited=hearer.awaited)
        self.nodes.add_task_handler(handlers.nodes(), "scheduler")
        informers = [*others, self.pods, self.nodes]
        if self.failed_pods is not self.pods:
            informers.append(self.failed_pods)
        for informer in informers:
            informer.start()
        for informer in reversed(informers):
            if not informer.has_synced:
                await informer.wait_synced()

    def of_devices(self, handlers: _Handlers) -> list[Informer[Any]]:
        """Return the informers of claims, slices, classes, and of rules with their gate; none the second time."""
        if self._devices_begun or not handlers.knows_devices:
            return []
        self._devices_begun = True
        ctx, server = self._ctx, self._server
        eventhandlers.follow_claims(handlers.core)
        claims: Informer[View] = Informer(ctx, RESOURCE_CLAIMS, server=server, immediate=True)
        slices = Informer(ctx, RESOURCE_SLICES, self._slices, server=server, immediate=True)
        classes = Informer(ctx, DEVICE_CLASSES, self._classes, server=server, immediate=True)
        claims.add_task_handler(handlers.claims(), "scheduler")
        classes.add_task_handler(handlers.classes(), "scheduler")
        patches = handlers.core.handle.dra.patches
        if patches is None:
            slices.add_task_handler(handlers.other(ev.RESOURCE_SLICE), "scheduler")
            return [claims, slices, classes]
        rules = Informer(ctx, DEVICE_TAINT_RULES, self._rules, server=server, immediate=True)
        slices.add_task_handler(handlers.patching(patches.slice_changed), "scheduler")
        rules.add_task_handler(handlers.patching(patches.rule_changed), "scheduler")
        return [claims, slices, classes, rules]


async def _watch_late(_ctx: Context, informers: Sequence[Informer[Any]]) -> None:
    """Start informers of devices: claims, the first ones, last. Until a claim is known, its pods are held back."""
    claims, *others = informers
    for informer in others:
        informer.start()
    for informer in others:
        if not informer.has_synced:
            await informer.wait_synced()
    claims.start()


class _Handlers:
    """Handlers of changes: each notification in the steps in which upstream's handler takes its locks."""

    def __init__(self, shared: Shared, informers: Informers) -> None:
        self._shared = shared
        self._informers = informers
        self.core = shared.core
        self.knows_devices = shared.core.handle.feature("DynamicResourceAllocation")

    async def _run(self, ctx: Context, steps: Steps[None], point: str) -> None:
        """Make a handler's calls; the first is on what is behind `point`."""
        shared = self._shared
        try:
            await shared.run(ctx, steps, point)
        except CacheCorruptedError as broken:
            # Upstream ends the process: nothing it could do would be right (issue 45237, R25).
            shared.error(f"{broken}; the process exits")
            ctx.faults.crash(ctx.actor)

    def pods(self) -> TaskHandler[Pod]:
        """Return the handler of changes of pods."""
        shared = self._shared
        core, now = shared.core, shared.now

        async def handle(ctx: Context, told: Notification[Pod]) -> None:
            if shared.dispatcher is not None:
                ctx.writes("calls")
            if told.new is not None and told.new.view.spec.resource_claims:
                found = self._informers.of_devices(self)
                if found:
                    ctx.undeclared()
                    ctx.spawn(_watch_late, found, name="devices")
            if told.new is None:
                assert told.old is not None
                unknown = told.final_state_unknown
                steps = eventhandlers.delete_pod(
                    core, told.old.view, now(), final_state_unknown=unknown
                )
            elif told.old is None:
                steps = eventhandlers.add_pod(core, told.new.view, now())
            else:
                steps = eventhandlers.update_pod(core, told.old.view, told.new.view, now())
            await self._run(ctx, steps, _first_call(core, told))

        return handle

    def nodes(self) -> TaskHandler[Node]:
        """Return the handler of changes of nodes."""
        core, now = self._shared.core, self._shared.now

        async def handle(ctx: Context, told: Notification[Node]) -> None:
            point = eventhandlers.CACHE.name
            if told.new is None:
                assert told.old is not None
                steps = eventhandlers.delete_node(core, told.old.view, now())
                if core.queue.is_interesting(ev.NODE_DELETE):
                    point = eventhandlers.QUEUE.name
            elif told.old is None:
                steps = eventhandlers.add_node(core, told.new.view, now())
            else:
                steps = eventhandlers.update_node(core, told.old.view, told.new.view, now())
            await self._run(ctx, steps, point)

        return handle

    def claims(self) -> TaskHandler[View]:
        """Return the handler of changes of claims: the assume cache comes first."""
        core = self._shared.core

        async def handle(ctx: Context, told: Notification[View]) -> None:
            ctx.writes("plugins")
            old, new = _views(told)
            await self._run(ctx, eventhandlers.claim_changed(core, old, new), CLAIMS)

        return handle

    def classes(self) -> TaskHandler[View]:
        """Return the handler of changes of device classes: what they offer comes first."""
        core, now = self._shared.core, self._shared.now

        async def handle(ctx: Context, told: Notification[View]) -> None:
            ctx.writes("plugins")
            old, new = _views(told)
            steps = eventhandlers.class_changed(core, old, new, now())
            await self._run(ctx, steps, eventhandlers.QUEUE.name)

        return handle

    def patching(
        self, changed: Callable[[View | None, View | None], Iterator[Steps[Change | None]]]
    ) -> TaskHandler[View]:
        """Return the event handler of ResourceSlices or DeviceTaintRules; the queue gets events of patched slices."""
        core, now = self._shared.core, self._shared.now

        async def handle(ctx: Context, told: Notification[View]) -> None:
            steps = eventhandlers.slices_patched(core, changed(*_views(told)), now)
            await self._run(ctx, steps, slice_tracker.READ.name)

        return handle

    def other(self, resource: str) -> TaskHandler[View]:
        """Return the handler of changes of any other resource: only the queue is notified."""
        core, now = self._shared.core, self._shared.now

        async def handle(ctx: Context, told: Notification[View]) -> None:
            if told.new is None:
                assert told.old is not None
                steps = eventhandlers.other_deleted(core, resource, told.old.view, now())
            elif told.old is None:
                steps = eventhandlers.other_added(core, resource, told.new.view, now())
            else:
                old, new = told.old.view, told.new.view
                steps = eventhandlers.other_updated(core, resource, old, new, now())
            await self._run(ctx, steps, eventhandlers.QUEUE.name)

        return handle


def _views(told: Notification[View]) -> tuple[View | None, View | None]:
    old = None if told.old is None else told.old.view
    return old, None if told.new is None else told.new.view


def _first_call(core: Scheduler, told: Notification[Pod]) -> str:
    """Return what the first call of a pod's handler is about; further calls follow points of their own."""
    old, new = told.old, told.new
    if old is None:
        assert new is not None
        on_cache = bool(new.view.spec.node_name)
    elif new is None or (core.splits_recreated and old.uid != new.uid):
        unknown = new is None and told.final_state_unknown and core.cleans_both
        on_cache = unknown or bool(old.view.spec.node_name)
    else:
        on_cache = True
    return eventhandlers.CACHE.name if on_cache else eventhandlers.QUEUE.name
