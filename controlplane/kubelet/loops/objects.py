"""The config maps, secrets, claims and accounts that pods of a node name: each is watched while one of them does.

Upstream: pkg/kubelet/util/manager/watch_based_manager.go. A worker waits at most a second for an object
of which nothing was heard yet. Claims and accounts, which upstream reads when it needs them, are watched
too, so that reads that would find nothing new are left out. Services, which upstream watches from the start, are
watched from the first pod on whose programs the emulated shell runs: nothing else sees them. Points: those of a
reflector, `kubelet.objects` (a worker waits for the first news).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from controlplane.client.loops.clientset import SERVICES, Resource
from controlplane.client.loops.informer import Informer, handler
from controlplane.kubelet.pod.preemption import is_static
from controlplane.kubelet.pod.references import Missing, references
from controlplane.kubelet.pod.tokens import runs_programs

if TYPE_CHECKING:
    from actors import Condition, Context
    from controlplane.api.pod import Pod
    from controlplane.api.tree import Tree
    from controlplane.kubelet.loops.shared import Shared
    from controlplane.kubelet.pod.references import Find

WAIT_NS = 1_000_000_000
Key = tuple[str, str, str]
"""Resource, namespace, name."""


class Waiting(Protocol):
    """A worker, as far as it waits for objects."""

    changed: Condition

    def wake(self) -> None:
        """An object changed."""


class _Watch:
    """One object that is watched, and the workers whose pods name it, by uid."""

    def __init__(self, informer: Informer[Any]) -> None:
        self.informer = informer
        self.wanted: dict[str, Waiting] = {}

    def tell(self) -> None:
        for worker in self.wanted.values():
            worker.wake()


class Objects:
    """Objects that the pods of a kubelet refer to."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._watches: dict[Key, _Watch] = {}
        self._of: dict[str, tuple[Key, ...]] = {}
        self._finds: dict[str, Find] = {}
        self._services: _Watch | None = None

    async def register(self, ctx: Context, pod: Pod, worker: Waiting) -> None:
        """Watch what a pod names, until it is forgotten; `worker` is woken by every change."""
        if pod.uid in self._of:
            return
        keys = self._of[pod.uid] = tuple(
            (resource, pod.namespace, name) for resource, name in references(pod) if name
        )
        wanted = [self._watch(key) for key in keys]
        if runs_programs(pod):
            wanted.append(self._watch_services())
        if not wanted:
            return
        for watch in wanted:
            watch.wanted[pod.uid] = worker
        end = ctx.now + WAIT_NS
        while (
            ctx.now < end
            and pod.uid in self._of
            and not all(each.informer.has_synced for each in wanted)
        ):
            await worker.changed.wait(end - ctx.now, point="kubelet.objects")

    def services(self) -> list[Tree]:
        """Return the Services of the cluster, as far as they are watched."""
        if self._services is None:
            return []
        return [each.tree for each in self._services.informer.store]

    def services_error(self, pod: Pod) -> str:
        """Return why a container of a pod cannot have its variables of Services; "" if it can."""
        watch = self._services
        if watch is None or watch.informer.has_synced or is_static(pod):
            return ""
        return "services have not yet been read at least once, cannot construct envvars"

    def _watch_services(self) -> _Watch:
        """Watch all Services; only their first list wakes workers, as programs keep the variables that they have."""
        if self._services is None:
            informer: Informer[Any] = Informer(
                self._shared.ctx, SERVICES, server=self._shared.server, immediate=True
            )
            self._services = _Watch(informer)
            informer.when_synced(self._services.tell)
            informer.start()
        return self._services

    def _watch(self, key: Key) -> _Watch:
        found = self._watches.get(key)
        if found is None:
            resource, namespace, name = key
            informer: Informer[Any] = Informer(
                self._shared.ctx,
                Resource("", "v1", resource),
                server=self._shared.server,
                immediate=True,
                namespace=namespace,
                fieldSelector=f"metadata.name={name}",
            )
            found = self._watches[key] = _Watch(informer)
            tell = found.tell
            informer.add_handler(
                handler(lambda _new: tell(), lambda _old, _new: tell(), lambda _old, _gone: tell())
            )
            informer.when_synced(tell)
            informer.start()
        return found

    def forget(self, uid: str) -> None:
        """The pod is gone: objects to which no other pod refers are watched no more."""
        if self._services is not None:
            self._services.wanted.pop(uid, None)
        for key in self._of.pop(uid, ()):
            found = self._watches[key]
            found.wanted.pop(uid, None)
            if not found.wanted:
                found.informer.stop()
                del self._watches[key]

    def find(self, namespace: str) -> Find:
        """Return the lookup of objects for pods of a namespace."""
        found = self._finds.get(namespace)
        if found is None:
            found = self._finds[namespace] = self._find(namespace)
        return found

    def _find(self, namespace: str) -> Find:
        def look(resource: str, name: str) -> Tree:
            if resource == "nodes":  # resources of a container without limits are those of the node
                return self._shared.node.tree
            watch = self._watches.get((resource, namespace, name))
            if watch is None:
                raise Missing(resource, name)
            if not watch.informer.has_synced:
                raise Missing(resource, name, unknown=True)
            for obj in watch.informer.store:
                tree: Tree = obj.tree
                return tree
            raise Missing(resource, name)

        return look
