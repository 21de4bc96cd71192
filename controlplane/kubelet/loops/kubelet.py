"""How a kubelet lives: it registers its node, hears of its pods, and runs a task per pod and one per heartbeat.

Points: `kubelet.pod` (a pod's worker takes its next step), `kubelet.lease`, `kubelet.status`,
`watch pods` (changes of pods arrive; new ones are admitted in that very step), and one for every
request.

The container runtime is part of the machine, not of the process: sandboxes survive a crash of the
kubelet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import LinkBroken
from actors.log import DEBUG, INFO, WARNING
from controlplane.api.pod import Pod
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.loops.clientset import LEASES, NODES, PODS, Client
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.client.loops.event_recorder import EventRecorder, reference
from controlplane.client.loops.informer import Informer, handler
from controlplane.kubelet import admission, node_status, preemption
from controlplane.kubelet.container_runtime import DEFAULTS, Sandbox
from controlplane.kubelet.pod_worker import FINISHED, Delete, Event, PodWorker, SetStatus
from controlplane.kubelet.status import Condition as PodCondition
from controlplane.kubelet.status import status_patch

if TYPE_CHECKING:
    from actors import Condition, Context
    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.client.loops.connection import RestConfig

COMPONENT = "kubelet"
RETRY_NS = 1_000_000_000
SLOWNESS = 3
"""How many options a duration has: as planned, twice, four times as long."""


class Machine:
    """What survives the kubelet's process: the runtime's sandboxes by pod uid, and the addresses it gave out."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.sandboxes: dict[str, Sandbox] = {}
        self._next_address = 2

    @property
    def host_ip(self) -> str:
        """The node's own address."""
        return f"172.{16 + (self.number >> 16)}.{(self.number >> 8) & 255}.{self.number & 255}"

    def pod_ip(self) -> str:
        """The next address of the node's range."""
        at = self._next_address
        self._next_address = at + 1 if at < 254 else 2
        return f"10.{128 + ((self.number >> 8) & 127)}.{self.number & 255}.{at}"


async def run(
    ctx: Context,
    epoch_ns: int,
    tree: dict[str, Any],
    machine: Machine,
    *,
    heartbeats: bool = True,
    events: bool = True,
    server: RestConfig = IN_CLUSTER,
) -> None:
    """Main task: register, then follow the pods bound to this node."""
    name: str = tree["metadata"]["name"]
    client = Client(ctx, server)
    node = await _register(ctx, client, tree, machine, epoch_ns)
    recorder = EventRecorder(ctx, COMPONENT, epoch_ns, host=name, server=server) if events else None
    kubelet = _Kubelet(ctx, epoch_ns, node, machine, server, recorder)
    pods = Informer(ctx, PODS, server=server, immediate=True, fieldSelector=f"spec.nodeName={name}")
    pods.add_handler(handler(kubelet.added, kubelet.updated, kubelet.removed), "kubelet")
    pods.start()
    if heartbeats:
        ctx.spawn(_renew_lease, name, node.uid, epoch_ns, server, name="lease")
        ctx.spawn(_report_status, name, epoch_ns, server, name="status")
    await pods.wait_synced()
    kubelet.forget_orphans(pods.store.keys())


async def _register(
    ctx: Context, client: Client, tree: dict[str, Any], machine: Machine, epoch_ns: int
) -> Node:
    """Create the Node, or take over the one of an earlier life; retry until the API server answers."""
    wanted = node_status.adopted(tree, epoch_ns + ctx.now, ip=machine.host_ip)
    while True:
        try:
            try:
                made = (await client.create(NODES, wanted)).view
            except ApiError as error:
                if not is_already_exists(error):
                    raise
                made = (await client.get(NODES, "", tree["metadata"]["name"])).view
        except (ApiError, LinkBroken) as error:
            ctx.log(
                "kubelet.error",
                level=WARNING,
                data={"message": f"unable to register node: {error}"},
            )
            await ctx.sleep(RETRY_NS, point="kubelet.register")
        else:
            return made


async def _renew_lease(
    ctx: Context, name: str, uid: str, epoch_ns: int, server: RestConfig
) -> None:
    """Renew the node's lease every ten seconds. Idle: a heartbeat does not keep a run from settling."""
    client = Client(ctx, server)
    lease: dict[str, Any] | None = None
    while True:
        now = epoch_ns + ctx.now
        try:
            if lease is None:
                lease = (
                    await client.create(LEASES, node_status.lease(name, now, node_uid=uid))
                ).tree
            else:
                lease = (await client.update(LEASES, node_status.renewed(lease, now))).tree
        except LinkBroken:
            pass
        except ApiError as error:
            if is_already_exists(error) or error.reason == "Conflict":
                lease = (await client.get(LEASES, node_status.LEASE_NAMESPACE, name)).tree
            elif is_not_found(error):
                lease = None
        await ctx.sleep(node_status.LEASE_RENEW_INTERVAL, idle=True, point="kubelet.lease")


async def _report_status(ctx: Context, name: str, epoch_ns: int, server: RestConfig) -> None:
    """Report the node's conditions: when they changed, and every five minutes."""
    client = Client(ctx, server)
    while True:
        await ctx.sleep(node_status.STATUS_REPORT_INTERVAL, idle=True, point="kubelet.status")
        try:
            node = await client.get(NODES, "", name)
            before = (node.tree.get("status") or {}).get("conditions")
            conditions = node_status.conditions(epoch_ns + ctx.now, before)
            await client.patch(
                NODES, "", name, {"status": {"conditions": conditions}}, subresource="status"
            )
        except (ApiError, LinkBroken) as error:
            ctx.log(
                "kubelet.error",
                level=WARNING,
                data={"message": f"unable to update node status: {error}"},
            )


MEANINGFUL = ("labels", "annotations", "deletionTimestamp", "deletionGracePeriodSeconds")


def differ_semantically(old: Object, new: Object) -> bool:
    """Whether a worker has to look at a change: not when it is only a status, mostly our own coming back.

    Upstream: pkg/kubelet/config/config.go (podsDifferSemantically; the rest is a RECONCILE).
    """
    if old.tree.get("spec") != new.tree.get("spec"):
        return True
    before, after = old.metadata, new.metadata
    return any(before.get(key) != after.get(key) for key in MEANINGFUL)


class _Kubelet:
    """The pods of one node and their workers, known by uid."""

    def __init__(
        self,
        ctx: Context,
        epoch_ns: int,
        node: Node,
        machine: Machine,
        server: RestConfig,
        recorder: EventRecorder | None,
    ) -> None:
        self._ctx = ctx
        self._epoch = epoch_ns
        self._node = node
        self._machine = machine
        self._server = server
        self._workers: dict[str, tuple[PodWorker, Condition]] = {}
        self._recorder = recorder

    def _now(self) -> int:
        return self._epoch + self._ctx.now

    def _duration(self, kind: str, _name: str) -> int:
        return DEFAULTS[kind] << self._ctx.choose("duration", SLOWNESS, kind)

    # ------------------------------------------------------------------ what the informer tells

    def added(self, obj: Object[Pod]) -> None:
        """A pod was bound to this node, or was there when the kubelet started."""
        pod = obj.view
        if pod.uid in self._workers:
            self.updated(obj, obj)
            return
        sandbox = self._machine.sandboxes.get(pod.uid)
        active = [worker.pod for worker, _ in self._workers.values() if worker.active]
        if sandbox is None and pod.status.phase not in {"Succeeded", "Failed"}:
            decided = admission.admit(pod, self._node, active, disk=self._ctx.disk)
            if not decided.admitted:
                self._ctx.spawn(self._reject, pod, decided, name="reject")
                return
            for victim in decided.victims:
                self._evict(victim)
        now = self._now()
        worker = PodWorker(
            pod,
            now,
            self._duration,
            ip=self._machine.pod_ip(),
            host_ip=self._machine.host_ip,
            sandbox=sandbox,
        )
        self._machine.sandboxes[pod.uid] = worker.sandbox
        changed = self._ctx.condition()
        self._workers[pod.uid] = (worker, changed)
        self._ctx.log("kubelet.admitted", level=DEBUG, obj=f"Pod/{pod.key}", uid=pod.uid)
        if pod.metadata.deletion_timestamp is not None:
            worker.update(pod, now)
        self._ctx.spawn(self._work, worker, changed, name="pod")

    def updated(self, old: Object[Pod], new: Object[Pod]) -> None:
        """A pod changed. Another uid under the name is another pod: the old one is gone."""
        if old.uid != new.uid:
            self.removed(old, unknown=True)
            self.added(new)
            return
        known = self._workers.get(new.uid)
        if known is not None:
            pod = new.view
            known[0].update(pod, self._now())
            if old is new or differ_semantically(old, new):
                known[1].notify_all()

    def removed(self, obj: Object[Pod], unknown: bool) -> None:
        """A pod is gone from the API server."""
        known = self._workers.get(obj.uid)
        if known is not None:
            known[0].remove(self._now())
            known[1].notify_all()

    def forget_orphans(self, keys: list[str]) -> None:
        """After a restart: sandboxes of pods that are no longer there are removed."""
        for uid in list(self._machine.sandboxes):
            if uid not in self._workers:
                del self._machine.sandboxes[uid]
        self._ctx.log("kubelet.synced", level=DEBUG, data={"pods": len(keys)})

    def _evict(self, victim: Pod) -> None:
        known = self._workers.get(victim.uid)
        if known is not None:
            condition = PodCondition(**preemption.PREEMPTED_CONDITION)
            known[0].kill(self._now(), preemption.PREEMPTED_STATUS, condition=condition)
            message = preemption.PREEMPTED_STATUS["message"]
            self._event(
                reference(victim), "Warning", preemption.PREEMPTED_STATUS["reason"], message
            )
            known[1].notify_all()

    def _event(self, about: dict[str, Any], kind: str, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder.about(about, kind, reason, message)

    # ------------------------------------------------------------------ tasks

    async def _work(self, ctx: Context, worker: PodWorker, changed: Condition) -> None:
        """One pod from its first step to its end."""
        client = Client(ctx, self._server)
        written: Object | None = None
        while True:
            actions, deadline = worker.step(self._now())
            for action in actions:
                written = await self._act(ctx, client, worker.pod, action, written)
            if worker.phase == FINISHED and not worker.sandbox.running():
                self._finished(worker)
                if worker.uid not in self._workers:
                    return
            if deadline is not None and deadline <= self._now():
                continue
            wait = None if deadline is None else deadline - self._now()
            await changed.wait(wait, idle=deadline is None, point="kubelet.pod")

    def _finished(self, worker: PodWorker) -> None:
        """Forget a pod that has ended and is gone, or is going, from the API server."""
        if worker.removed or worker.pod.metadata.deletion_timestamp is not None:
            self._workers.pop(worker.uid, None)
            self._machine.sandboxes.pop(worker.uid, None)

    async def _act(
        self,
        ctx: Context,
        client: Client,
        pod: Pod,
        action: SetStatus | Delete | Event,
        written: Object | None,
    ) -> Object | None:
        """Do what a worker asks for; the pod as it was last written by us, if that is known."""
        if isinstance(action, Event):
            if self._recorder is not None:
                about = reference(pod)
                if action.container:
                    about["fieldPath"] = f"spec.containers{{{action.container}}}"
                self._event(about, action.type, action.reason, action.message)
            return written
        while True:
            try:
                if isinstance(action, SetStatus):
                    return await self._write_status(client, pod, action, written)
                await client.delete(
                    PODS, pod.namespace, pod.name, uid=action.uid, grace_period_seconds=0
                )
            except ApiError as error:
                if not is_not_found(error):
                    ctx.log(
                        "kubelet.error",
                        level=WARNING,
                        obj=f"Pod/{pod.key}",
                        data={"message": str(error)},
                    )
                return None
            except LinkBroken:
                await ctx.sleep(RETRY_NS, point="kubelet.retry")
            else:
                return None

    async def _write_status(
        self, client: Client, pod: Pod, action: SetStatus, written: Object | None
    ) -> Object | None:
        """Patch what differs from the newest status that the kubelet knows of."""
        known = pod.tree
        if written is not None and written.resource_version > int(pod.resource_version or 0):
            known = written.tree
        change = status_patch(known.get("status") or {}, action.status)
        if not change:
            return written
        patch = {"metadata": {"uid": action.uid}, "status": change}
        return await client.patch(PODS, pod.namespace, pod.name, patch, subresource="status")

    async def _reject(self, ctx: Context, pod: Pod, decided: admission.Admission) -> None:
        """A pod that this node cannot run fails for good."""
        client = Client(ctx, self._server)
        status = admission.rejection_status(pod, decided)
        ctx.log(
            "kubelet.rejected",
            level=INFO,
            obj=f"Pod/{pod.key}",
            uid=pod.uid,
            data={"reason": decided.reason, "message": decided.message},
        )
        self._event(reference(pod), "Warning", decided.reason, decided.message)
        await self._act(
            ctx, client, pod, SetStatus(pod.uid, {**pod.tree.get("status", {}), **status}), None
        )
