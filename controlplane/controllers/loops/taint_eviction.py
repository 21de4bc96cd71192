"""The loops of the taint eviction controller. Upstream: pkg/controller/tainteviction/taint_eviction.go.

Tasks: `taint-eviction.look` takes in changes of nodes (first) and pods, `taint-eviction.timer`
begins deletions when their time has come, `taint-eviction.delete` carries one out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors import LinkBroken
from actors.log import INFO, WARNING
from controlplane.api.times import format_time
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.loops.event_recorder import EventRecorder
from controlplane.controllers.common.pod_status import BY_UID
from controlplane.controllers.lifecycle import taint_eviction as decisions

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.api.constraints import Taint
    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.client.indexer import Indexer
    from controlplane.client.loops.connection import RestConfig
    from controlplane.gates import FixGates

NAME = "taint-eviction"


class TaintEvictionController:
    """Deletes pods that do not tolerate their node's NoExecute taints. `pods` needs index "node"."""

    def __init__(
        self,
        ctx: Context,
        epoch_ns: int,
        server: RestConfig,
        nodes: Indexer[Node],
        pods: Indexer[Pod],
        fixes: FixGates,
    ) -> None:
        self._ctx = ctx
        self._by_uid = fixes.fixed(BY_UID)
        self._uids: dict[str, str] = {}
        """By key the uid of the pod whose deletion was last decided on."""
        self._epoch = epoch_ns
        self._server = server
        self._nodes = nodes
        self._pods = pods
        self._recorder = EventRecorder(ctx, f"{NAME}-controller", epoch_ns, server=server)
        self._tainted: dict[str, tuple[Taint, ...]] = {}
        self._evictions = decisions.Evictions()
        self._changed_nodes: dict[str, None] = {}
        self._changed_pods: dict[tuple[str, str], None] = {}
        self._work = ctx.condition()
        self._timers = ctx.condition()

    def start(self) -> None:
        """Start the loops."""
        self._ctx.spawn(self._look, name=f"{NAME}.look")
        self._ctx.spawn(self._fire, name=f"{NAME}.timer")

    @property
    def has_changes(self) -> bool:
        """Return whether changes wait that have not been taken in."""
        return bool(self._changed_nodes or self._changed_pods)

    def scheduled(self) -> dict[str, tuple[str, decisions.Timer | None]]:
        """Return by key the pod whose deletion was decided on (its uid), with the timer; None once it has begun."""
        return {key: (self._uids[key], timer) for key, timer in self._evictions.timers.items()}

    def _now(self) -> int:
        return self._epoch + self._ctx.now

    # ------------------------------------------------------------------ handlers

    def node_handlers(self) -> tuple[Callable[..., None], ...]:
        """For nodes: only their NoExecute taints count."""

        def updated(old: Object[Node], new: Object[Node]) -> None:
            before = old.view
            node = new.view
            if decisions.no_execute(before.spec.taints) != decisions.no_execute(node.spec.taints):
                changed(new)

        def changed(obj: Object[Node]) -> None:
            self._changed_nodes[obj.name] = None
            self._work.notify()

        return changed, updated, lambda obj, _unknown: changed(obj)

    def pod_handlers(self) -> tuple[Callable[..., None], ...]:
        """For pods: only their node and tolerations count."""

        def updated(old: Object[Pod], new: Object[Pod]) -> None:
            before = old.view
            pod = new.view
            if (before.spec.node_name, before.spec.tolerations) != (
                pod.spec.node_name,
                pod.spec.tolerations,
            ):
                changed(new)

        def changed(obj: Object[Pod]) -> None:
            pod = obj.view
            self._changed_pods[(obj.key, pod.spec.node_name)] = None
            self._work.notify()

        return changed, updated, lambda obj, _unknown: changed(obj)

    # ------------------------------------------------------------------ decisions

    async def _look(self, ctx: Context) -> None:
        """Take in one change per step, those of nodes first."""
        while True:
            if self.look_once():
                await ctx.point(f"{NAME}.look")
            else:
                await self._work.wait(idle=True, point=f"{NAME}.look")

    def look_once(self) -> bool:
        """Take in one change; whether more of them wait."""
        if self._changed_nodes:
            name = next(iter(self._changed_nodes))
            del self._changed_nodes[name]
            self._look_at_node(name)
        elif self._changed_pods:
            key, node = next(iter(self._changed_pods))
            del self._changed_pods[(key, node)]
            self._look_at_pod(key, node)
        return self.has_changes

    def _look_at_node(self, name: str) -> None:
        obj = self._nodes.get(name)
        if obj is None:
            self._tainted.pop(name, None)
            return
        node = obj.view
        taints = decisions.no_execute(node.spec.taints)
        if taints:
            self._tainted[name] = taints
        else:
            self._tainted.pop(name, None)
        for pod in self._pods.by_index("node", name):
            if taints:
                self._decide(pod, taints)
            else:
                self._cancel(pod.key)

    def _look_at_pod(self, key: str, node: str) -> None:
        obj = self._pods.get(key)
        if obj is None:
            self._cancel(key)
            return
        pod = obj.view
        taints = self._tainted.get(node)
        if node and taints is not None and pod.spec.node_name == node:
            self._decide(obj, taints)

    def _decide(self, obj: Object[Pod], taints: tuple[Taint, ...]) -> None:
        pod = obj.view
        self._uids[obj.key] = obj.uid
        outcome = decisions.look_at(
            self._evictions, obj.key, taints, pod.spec.tolerations, self._now()
        )
        if outcome.cancelled:
            self._say(obj.key, f"Cancelling deletion of Pod {obj.key}")
        if outcome.delete_now:
            self._ctx.spawn(self._delete, obj.key, name=f"{NAME}.delete")
        self._timers.notify()

    def _cancel(self, key: str) -> None:
        if self._evictions.cancel(key):
            self._say(key, f"Cancelling deletion of Pod {key}")
            self._timers.notify()

    def _say(self, key: str, message: str) -> None:
        namespace, name = key.split("/")
        about = {"apiVersion": "v1", "kind": "Pod", "name": name, "namespace": namespace}
        self._recorder.about(about, "Normal", "TaintManagerEviction", message)

    # ------------------------------------------------------------------ deletions

    async def _fire(self, ctx: Context) -> None:
        """Begin deletions when they are due."""
        while True:
            due = self.fire_once()
            wait = None if due is None else due - self._now()
            await self._timers.wait(wait, idle=due is None, point=f"{NAME}.timer")

    def fire_once(self) -> int | None:
        """Begin the deletions that are due; when the next one is."""
        for key in self._evictions.fire(self._now()):
            self._ctx.spawn(self._delete, key, name=f"{NAME}.delete")
        return self._evictions.next_due()

    async def _delete(self, ctx: Context, key: str) -> None:
        """Mark a pod as a target of disruption and delete it; five tries, then it is given up."""
        self._say(key, f"Marking for deletion Pod {key}")
        ctx.log("pod.evicted", level=INFO, obj=f"Pod/{key}")
        client = Client(ctx, self._server)
        for _ in range(decisions.RETRIES):
            try:
                await self._mark_and_delete(client, key)
            except (ApiError, LinkBroken) as error:
                data = {"message": f"unable to evict: {error}"}
                ctx.log("taint-eviction.error", level=WARNING, obj=f"Pod/{key}", data=data)
                await ctx.sleep(decisions.RETRY_NS, point=f"{NAME}.delete")
            else:
                break
        self._evictions.finished(key)

    async def _mark_and_delete(self, client: Client, key: str) -> None:
        namespace, name = key.split("/")
        pod = (await client.get(PODS, namespace, name)).view
        if self._by_uid and pod.uid != self._uids[key]:
            return  # the pod of the decision is gone
        marked = any(
            (found.type, found.status, found.reason, found.message)
            == ("DisruptionTarget", "True", decisions.REASON, decisions.MESSAGE)
            for found in pod.status.conditions
        )
        if not marked:
            condition = {
                "type": "DisruptionTarget",
                "status": "True",
                "observedGeneration": pod.metadata.generation,
                "lastTransitionTime": format_time(self._now()),
                "reason": decisions.REASON,
                "message": decisions.MESSAGE,
            }
            patch = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
            await client.patch(PODS, namespace, name, patch, subresource="status")
        await client.delete(PODS, namespace, name, uid=pod.uid if self._by_uid else "")
