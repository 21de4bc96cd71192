"""The loops of the node lifecycle controller. Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go.

Tasks: `node.worker` keeps NoSchedule taints equal to conditions, `node.monitor` looks at all nodes
every five seconds, `node.taint` sets NoExecute taints at the rate of each zone, `node.pod` marks
pods that come to a node that is down. The monitor's sleep is idle: a heartbeat does not keep a run
from settling, nor does listening for it. Without a monitor only the first task runs.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from actors import LinkBroken
from actors.log import INFO, WARNING
from controlplane.api.taints import NO_EXECUTE
from controlplane.api.times import MILLISECOND
from controlplane.api.tree import Tree
from controlplane.client.errors import ApiError, is_conflict, is_not_found
from controlplane.client.loops.clientset import NODES, PODS, Client
from controlplane.client.loops.event_recorder import EventRecorder
from controlplane.controllers.lifecycle import node_lifecycle as lifecycle
from controlplane.controllers.lifecycle.node_lifecycle import HealthBook, Probe, TaintChange
from controlplane.controllers.lifecycle.node_zones import RETRY_NS, Verdict, Zones
from controlplane.controllers.loops.worker import Workers

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors import Context
    from controlplane.api.coordination import Lease
    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.client.indexer import Indexer
    from controlplane.client.loops.connection import RestConfig

WORKERS = 8
POD_WORKERS = 4
PASS_NS = 100 * MILLISECOND
"""The interval at which the queues of nodes to be tainted are looked at."""
HEALTH_TRIES = 5
HEALTH_RETRY_NS = 20 * MILLISECOND
TAINT_TRIES = 5
TAINT_RETRY_NS = 100 * MILLISECOND


class NodeController:
    """Judges nodes. `pods` needs index "node"; `leases` may be None when there is no monitor."""

    def __init__(
        self,
        ctx: Context,
        epoch_ns: int,
        server: RestConfig,
        nodes: Indexer[Node],
        pods: Indexer[Pod],
        leases: Indexer[Lease] | None,
    ) -> None:
        self._ctx = ctx
        self._epoch = epoch_ns
        self._server = server
        self._recorder = EventRecorder(ctx, "node-controller", epoch_ns, server=server)
        self.workers = Workers(ctx, "node", self.sync)
        self._nodes = nodes
        self._pods = pods
        self._leases = leases
        self._book = HealthBook()
        self._zones = Zones()
        self._known: dict[str, str] = {}
        self._to_mark: dict[str, None] = {}
        self._queued = ctx.condition()
        self._arrived = Workers(ctx, "node.pod", self._mark_arrived)

    def _now(self) -> int:
        return self._epoch + self._ctx.now

    def node_handlers(self) -> tuple[Callable[..., None], ...]:
        """For nodes."""

        def deleted(obj: Object[Node], _unknown: bool) -> None:
            self._to_mark.pop(obj.name, None)

        return (
            lambda obj: self.workers.add(obj.name),
            lambda _old, new: self.workers.add(new.name),
            deleted,
        )

    def pod_handlers(self) -> tuple[Callable[..., None], ...]:
        """For pods: one that comes to a node that is down is not ready."""

        def updated(old: Object[Pod] | None, new: Object[Pod]) -> None:
            before = old.view if old is not None else None
            pod = new.view
            node = pod.spec.node_name
            if node and (before is None or before.spec.node_name != node):
                self._arrived.add(new.key)

        return (lambda obj: updated(None, obj)), updated, (lambda _obj, _unknown: None)

    def start(self) -> None:
        """Start the loops; the caches must have been filled."""
        self.workers.start(WORKERS)
        if self._leases is not None:
            self._arrived.start(POD_WORKERS)
            self._ctx.spawn(self._taint_loop, name="node.taint")
            self._ctx.spawn(self._monitor_loop, name="node.monitor")

    # ------------------------------------------------------------------ NoSchedule taints and labels

    async def sync(self, ctx: Context, key: str) -> None:
        """Make a node's NoSchedule taints follow its conditions. What fails waits for the next change of the node."""
        obj = self._nodes.get(key)
        if obj is None:
            return
        node = obj.view
        client = Client(ctx, self._server)
        change = lifecycle.scheduling_taints(node)
        if change.add or change.remove:
            await self._swap(ctx, client, node, change)
        labels = lifecycle.missing_labels(node)
        if labels:
            try:
                await client.patch(NODES, "", key, {"metadata": {"labels": labels}})
            except (ApiError, LinkBroken) as error:
                self._complain(ctx, key, f"unable to update labels: {error}")

    async def _swap(self, ctx: Context, client: Client, node: Node, change: TaintChange) -> bool:
        """Add taints, then remove others, each in one write; whether both succeeded."""
        now = self._now()
        try:
            if change.add:
                await self._edit_taints(
                    ctx,
                    client,
                    node.name,
                    lambda taints: lifecycle.with_taints(taints, change.add, now),
                )
            await self._remove(ctx, client, node, change.remove)
        except (ApiError, LinkBroken) as error:
            self._complain(ctx, node.name, f"unable to change taints: {error}")
            return False
        return True

    async def _remove(
        self, ctx: Context, client: Client, node: Node, remove: tuple[tuple[str, str], ...]
    ) -> None:
        """Remove taints, if the node as last heard has one of them."""
        if any(lifecycle.has_taint(node, key, effect) for key, effect in remove):
            await self._edit_taints(
                ctx, client, node.name, lambda taints: lifecycle.without_taints(taints, remove)
            )

    async def _edit_taints(
        self, ctx: Context, client: Client, name: str, edit: Callable[[list[Tree]], list[Tree]]
    ) -> None:
        """Read, edit and patch the taints, guarded by the resource version; anew after a conflict of either."""
        for attempt in range(1, TAINT_TRIES + 1):
            query = {"resourceVersion": "0"} if attempt == 1 else {}
            try:
                node = await client.get(NODES, "", name, **query)
                taints: list[Tree] = (node.tree.get("spec") or {}).get("taints") or []
                edited = edit(taints)
                if edited != taints:
                    patch = {
                        "metadata": {"resourceVersion": str(node.resource_version)},
                        "spec": {"taints": edited or None},
                    }
                    await client.patch(NODES, "", name, patch)
            except ApiError as error:
                if not is_conflict(error) or attempt == TAINT_TRIES:
                    raise
                await ctx.sleep(TAINT_RETRY_NS, point="node.taint")
            else:
                return

    def _complain(self, ctx: Context, name: str, message: str) -> None:
        data = {"message": message}
        ctx.log("node.error", level=WARNING, obj=f"Node/{name}", data=data)

    # ------------------------------------------------------------------ the monitor

    async def _monitor_loop(self, ctx: Context) -> None:
        while True:
            await self._monitor(ctx)
            await ctx.sleep(lifecycle.MONITOR_PERIOD_NS, idle=True, point="node.monitor")

    async def _monitor(self, ctx: Context) -> None:
        """One look at all nodes."""
        client = Client(ctx, self._server)
        nodes = [obj.view for obj in self._nodes]
        await self._meet(ctx, client, nodes)
        probed: dict[str, tuple[Node, str | None]] = {}
        jobs: deque[tuple[Node, Probe]] = deque()
        for node in nodes:
            probe = self._probe(node)
            if self._needs_work(node, probe):
                jobs.append((node, probe))
            else:
                probed[node.name] = (node, probe.after)
        tasks = [
            ctx.spawn(self._work_off, jobs, probed, name="node.health")
            for _ in range(min(WORKERS, len(jobs)))
        ]
        for task in tasks:
            await ctx.join(task)
        ready: dict[str, list[bool]] = {}
        for node in nodes:
            judged = probed.get(node.name)
            if judged is not None and lifecycle.EXCLUDED not in judged[0].labels:
                ready.setdefault(lifecycle.zone_of(judged[0]), []).append(judged[1] == "True")
        await self._apply(ctx, client, nodes, self._zones.update(ready, self._now()))
        self._queued.notify_all()

    async def _meet(self, ctx: Context, client: Client, nodes: list[Node]) -> None:
        """Welcome new nodes, and forget those that are gone."""
        present = {node.name: node.uid for node in nodes}
        for node in nodes:
            self._zones.queue(lifecycle.zone_of(node))
            if node.name not in self._known:
                self._known[node.name] = node.uid
                text = f"Registered Node {node.name} in Controller"
                self._node_event(node.name, node.uid, "RegisteredNode", f"event: {text}")
                await self._try_mark_reachable(ctx, client, node)
        for name in [name for name in self._known if name not in present]:
            text = f"Removing Node {name} from Controller"
            self._node_event(name, self._known.pop(name), "RemovingNode", f"event: {text}")

    def _node_event(self, name: str, uid: str, reason: str, text: str) -> None:
        about = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        self._recorder.about(about, "Normal", reason, f"Node {name} {text}")

    def _probe(self, node: Node) -> Probe:
        assert self._leases is not None
        lease = self._leases.get(f"{lifecycle.LEASE_NAMESPACE}/{node.name}")
        view = lease.view if lease is not None else None
        return self._book.probe(node, view, self._now())

    def _needs_work(self, node: Node, probe: Probe) -> bool:
        """Return whether anything has to be written. A healthy node's place in the queue is given up on the way."""
        if probe.conditions is not None or node.name in self._to_mark:
            return True
        if probe.after != "True":
            return probe.after is not None
        self._zones.queue(lifecycle.zone_of(node)).remove(node.name)
        return any(
            lifecycle.has_taint(node, key, NO_EXECUTE)
            for key in (lifecycle.NOT_READY, lifecycle.UNREACHABLE)
        )

    async def _work_off(
        self,
        ctx: Context,
        jobs: deque[tuple[Node, Probe]],
        probed: dict[str, tuple[Node, str | None]],
    ) -> None:
        client = Client(ctx, self._server)
        while jobs:
            node, probe = jobs.popleft()
            try:
                judged = await self._write_health(ctx, client, node, probe)
                if judged is not None:
                    node, probe = judged
                    probed[node.name] = (node, probe.after)
                    await self._consequences(ctx, client, node, probe)
            except (ApiError, LinkBroken) as error:
                self._complain(ctx, node.name, f"unable to monitor: {error}")

    async def _write_health(
        self, ctx: Context, client: Client, node: Node, probe: Probe
    ) -> tuple[Node, Probe] | None:
        """Write the conditions of a silent node, anew over a live read when that fails; None when nothing helps."""
        for _ in range(HEALTH_TRIES):
            if probe.conditions is None:
                return node, probe
            status = {**(node.tree.get("status") or {}), "conditions": probe.conditions}
            try:
                await client.update(NODES, {**node.tree, "status": status}, "status")
            except ApiError:
                live = (await client.get(NODES, "", node.name)).view
                node = live
                await ctx.sleep(HEALTH_RETRY_NS, point="node.health")
                probe = self._probe(node)
            else:
                ctx.log("node.silent", level=INFO, obj=f"Node/{node.name}", uid=node.uid)
                return node, probe
        self._complain(ctx, node.name, "unable to update health")
        return None

    async def _consequences(self, ctx: Context, client: Client, node: Node, probe: Probe) -> None:
        """Taints and pods of a node whose Ready condition is known."""
        if probe.after is None:
            return
        # One that falls silent while it is not ready anyway keeps its taint until the next look.
        judged = probe.after if probe.before == "True" else probe.before
        await self._judge_eviction(ctx, client, node, judged)
        fell = probe.after != "True" and probe.before == "True"
        if fell:
            self._node_event(node.name, node.uid, "NodeNotReady", "status is now: NodeNotReady")
        if fell or (node.name in self._to_mark and probe.before != "True"):
            self._to_mark[node.name] = None
            for obj in self._pods.by_index("node", node.name):
                await self._mark_pod(client, obj)
        self._to_mark.pop(node.name, None)

    async def _judge_eviction(self, ctx: Context, client: Client, node: Node, status: str) -> None:
        change = lifecycle.eviction_taints(status)
        if change is None:
            await self._mark_reachable(ctx, client, node)
            return
        if lifecycle.has_taint(node, *change.remove[0]):
            await self._swap(ctx, client, node, change)
            return
        queue = self._zones.queue(lifecycle.zone_of(node))
        if not lifecycle.has_taint(node, *change.add[0]):
            queue.remove(node.name)
        queue.add(node.name, self._now())

    async def _mark_reachable(self, ctx: Context, client: Client, node: Node) -> None:
        """Remove the NoExecute taints of a node, and its place in the queue."""
        for key in (lifecycle.UNREACHABLE, lifecycle.NOT_READY):
            await self._remove(ctx, client, node, ((key, NO_EXECUTE),))
        self._zones.queue(lifecycle.zone_of(node)).remove(node.name)

    async def _try_mark_reachable(self, ctx: Context, client: Client, node: Node) -> None:
        try:
            await self._mark_reachable(ctx, client, node)
        except (ApiError, LinkBroken) as error:
            self._complain(ctx, node.name, f"unable to remove taints: {error}")

    async def _apply(
        self, ctx: Context, client: Client, nodes: list[Node], verdict: Verdict
    ) -> None:
        if verdict.untaint_all:
            ctx.log("node.disruption", level=WARNING, data={"message": "no node is ready"})
            for node in nodes:
                await self._try_mark_reachable(ctx, client, node)
        if verdict.restart_clocks:
            ctx.log("node.disruption", level=INFO, data={"message": "some node is ready again"})
            self._book.restart_clocks(self._now())

    # ------------------------------------------------------------------ pods of nodes that are down

    async def _mark_pod(self, client: Client, obj: Object[Pod]) -> None:
        """Set Ready of a pod False, and say so."""
        pod = obj.view
        conditions = lifecycle.not_ready_conditions(pod, self._now())
        if conditions is None:
            return
        status = {**(pod.tree.get("status") or {}), "conditions": conditions}
        failed: ApiError | None = None
        try:
            await client.update(PODS, {**pod.tree, "status": status}, "status")
        except ApiError as error:
            if is_not_found(error):
                return
            failed = error
        self._recorder.event(pod, "Warning", "NodeNotReady", "Node is not ready")
        if failed is not None:
            raise failed

    async def _mark_arrived(self, ctx: Context, key: str) -> None:
        obj = self._pods.get(key)
        if obj is None:
            return
        pod = obj.view
        if self._book.is_down(pod.spec.node_name) and pod.spec.node_name in self._nodes:
            await self._mark_pod(Client(ctx, self._server), obj)

    # ------------------------------------------------------------------ NoExecute taints

    async def _taint_loop(self, ctx: Context) -> None:
        """Pass over the zones' queues every 100 ms, leaving out the passes that could do nothing."""
        client = Client(ctx, self._server)
        started = ctx.now
        while True:
            due = [
                at for queue in self._zones.queues.values() if (at := queue.next_at()) is not None
            ]
            if not due:
                await self._queued.wait(idle=True, point="node.taint")
                continue
            ahead = max(min(due) - self._epoch, ctx.now) - started
            tick = started + -(-ahead // PASS_NS) * PASS_NS
            if tick > ctx.now:
                await self._queued.wait(tick - ctx.now, point="node.taint")
                continue
            await self._taint_pass(ctx, client)
            await ctx.sleep_until(tick + PASS_NS, point="node.taint")

    async def _taint_pass(self, ctx: Context, client: Client) -> None:
        for queue in list(self._zones.queues.values()):
            while (name := queue.take(self._now())) is not None:
                done, wait = await self._taint(ctx, client, name)
                if done:
                    queue.done(name)
                else:
                    queue.again(name, self._now(), wait)

    async def _taint(self, ctx: Context, client: Client, name: str) -> tuple[bool, int]:
        """Taint one node as its Ready condition asks for; whether it is done, or after what time to try again."""
        obj = self._nodes.get(name)
        if obj is None:
            return True, 0
        node = obj.view
        ready = lifecycle.ready_condition(node)
        if ready is None:
            return False, RETRY_NS
        change = lifecycle.eviction_taints(ready.status)
        if change is None:
            return True, 0
        return await self._swap(ctx, client, node, change), 0
