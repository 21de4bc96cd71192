"""The emulated cloud as an actor: it answers requests, and starts and stops the machines of its instances.

It is no component of Kubernetes and shares nothing with the autoscaler. A machine's kubelet registers its Node; where
no kubelet is emulated the cloud creates the Node, as a provider of KWOK does. A Node whose instance is gone is
deleted once it is not ready, as the cloud node lifecycle controller does
(`k8s.io/cloud-provider/controllers/nodelifecycle`).

Points: `cloud.boot` (an instance is being made), `cloud.shutdown`, `cloud.loss` (an instance is to vanish),
`cloud.node` (the next look at a Node without instance).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from attrs import define, field, frozen

from actors import LinkBroken
from controlplane.autoscaler.cloud.fleet import Boot, Fleet
from controlplane.autoscaler.cloud.messages import (
    SCHEME,
    Answer,
    Decrease,
    Delete,
    Describe,
    Description,
    Increase,
    Lose,
)
from controlplane.autoscaler.options import SECOND
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.loops.clientset import NODES, Client
from controlplane.client.loops.event_recorder import EventRecorder
from controlplane.controllers.lifecycle.node_lifecycle import is_ready
from controlplane.kubelet.node.node_status import adopted, has_kubelet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors import Context
    from controlplane.api.tree import Tree
    from controlplane.autoscaler.cloud.messages import Request
    from controlplane.autoscaler.cloud.specs import GroupSpec
    from controlplane.client.loops.connection import RestConfig

__all__ = ["CloudOptions", "CloudProbe", "Machines", "run"]

NODE_PERIOD: Final = 5 * SECOND
RETRY: Final = SECOND
COMPONENT: Final = "cloud-node-lifecycle-controller"


class Machines(Protocol):
    """Machines with kubelets, which outlive the processes that ask for them."""

    def power_on(self, tree: Tree) -> None:
        """Start a machine; its kubelet registers this Node."""

    def power_off(self, name: str) -> None:
        """Switch the machine of a Node off."""


@frozen
class CloudOptions:
    """The cloud and the world around it.

    Args:
        specs: its node groups.
        machines: its machines.
        server: the API servers.
        epoch_ns: the wall time of the first step.
        kubelets: machines have kubelets.
        heartbeats: a Node without kubelet becomes not ready.
        stages: stages of KWOK take care of fake nodes, which have no kubelet.
    """

    specs: Sequence[GroupSpec]
    machines: Machines
    server: RestConfig
    epoch_ns: int
    kubelets: bool = True
    heartbeats: bool = True
    stages: bool = False


@define
class CloudProbe:
    """The cloud as observers outside of the run see it: its machines, its requests, what it deleted on request."""

    fleet: Fleet | None = None
    calls: list[Request] = field(factory=list)
    """Requests that the cloud carried out."""
    deleted: list[str] = field(factory=list)
    """The Nodes of instances that are gone, as was asked for."""


async def run(ctx: Context, options: CloudOptions, probe: CloudProbe) -> None:
    """Main task: start the first instances, then answer requests."""
    await _Cloud(ctx, options, probe).serve()


class _Cloud:
    def __init__(self, ctx: Context, options: CloudOptions, probe: CloudProbe) -> None:
        self._probe = probe
        self._ctx = ctx
        self._options = options
        self._fleet = probe.fleet = Fleet(options.specs, ctx.choose)
        self._on: dict[str, None] = {}
        self._recorder: EventRecorder | None = None

    async def serve(self) -> None:
        """Answer one request after the other."""
        for boot in self._fleet.begin():
            await self._come(self._ctx, boot)
        while True:
            message = await self._ctx.recv(idle=True)
            message.reply(self._answer(message.payload))

    def _answer(self, request: Request) -> Answer | Description:
        if isinstance(request, Describe):
            return self._fleet.describe()
        if isinstance(request, Increase):
            error, boots = self._fleet.increase(request.group, request.count)
            for boot in boots:
                self._ctx.spawn(self._boot, boot, name="boot")
            return self._told("increase", request, request.count, error)
        if isinstance(request, Decrease):
            error, _ = self._fleet.decrease(request.group, request.count)
            return self._told("decrease", request, request.count, error)
        if isinstance(request, Delete):
            error, names = self._fleet.delete(request.group, request.names)
            for name in names:
                self._ctx.spawn(self._shut_down, name, name="shutdown")
            return self._told("delete", request, len(request.names), error)
        assert isinstance(request, Lose)
        return Answer("" if self._vanish(self._ctx, request.name) else "no such instance")

    def _told(
        self, call: str, request: Increase | Decrease | Delete, count: int, error: str
    ) -> Answer:
        data = {"call": call, "group": request.group, "count": count, "error": error}
        self._ctx.log("cloud.call", data=data)
        if not error:
            self._probe.calls.append(request)
        return Answer(error)

    # -- machines ----------------------------------------------------------------------------------

    async def _boot(self, ctx: Context, boot: Boot) -> None:
        await ctx.sleep(boot.after, point="cloud.boot")
        await self._come(ctx, boot)

    async def _come(self, ctx: Context, boot: Boot) -> None:
        """Let an instance run, unless it was dropped meanwhile."""
        if not self._fleet.runs(boot.name):
            return
        ctx.log("cloud.instance", data={"node": boot.name, "state": "running"})
        if boot.lives is not None:
            ctx.spawn(self._lose_later, boot.name, boot.lives, name="loss")
        if not boot.registers:
            return
        if self._has_kubelet(boot.tree):
            self._on[boot.name] = None
            self._options.machines.power_on(boot.tree)
        else:
            await self._register(ctx, boot.tree)

    def _has_kubelet(self, tree: Tree) -> bool:
        return self._options.kubelets and has_kubelet(tree, stages=self._options.stages)

    async def _register(self, ctx: Context, tree: Tree) -> None:
        """Create the Node of a machine without kubelet; retry until the server answers."""
        client, name = Client(ctx, self._options.server), tree["metadata"]["name"]
        wanted = adopted(tree, self._options.epoch_ns + ctx.now)
        while self._fleet.has(name):
            try:
                await client.create(NODES, wanted)
            except (ApiError, LinkBroken) as error:
                if isinstance(error, ApiError) and is_already_exists(error):
                    return
                await ctx.sleep(RETRY, point="cloud.node")
            else:
                return

    async def _lose_later(self, ctx: Context, name: str, after: int) -> None:
        await ctx.sleep(after, point="cloud.loss")
        self._vanish(ctx, name)

    async def _shut_down(self, ctx: Context, name: str) -> None:
        await ctx.point("cloud.shutdown")
        if self._vanish(ctx, name):
            self._probe.deleted.append(name)

    def _vanish(self, ctx: Context, name: str) -> bool:
        """Let an instance go, with its machine; whether there was one."""
        name = name.removeprefix(SCHEME)
        known, successor = self._fleet.gone(name)
        if not known:
            return False
        ctx.log("cloud.instance", data={"node": name, "state": "gone"})
        had_kubelet = name in self._on
        if had_kubelet:
            del self._on[name]
            self._options.machines.power_off(name)
        if successor is not None:
            ctx.spawn(self._boot, successor, name="boot")
        ctx.spawn(self._clear, name, had_kubelet and self._options.heartbeats, name="node")
        return True

    # -- nodes -------------------------------------------------------------------------------------

    async def _clear(self, ctx: Context, name: str, becomes_unready: bool) -> None:
        """Delete the Node of an instance that is gone, as soon as it is not ready."""
        client = Client(ctx, self._options.server)
        while True:
            await ctx.sleep(NODE_PERIOD - ctx.now % NODE_PERIOD, point="cloud.node")
            try:
                node = (await client.get(NODES, "", name)).view
                if becomes_unready and is_ready(node):
                    continue
                if self._recorder is None:
                    self._recorder = EventRecorder(
                        ctx, COMPONENT, self._options.epoch_ns, server=self._options.server
                    )
                text = f"Deleting node {name} because it does not exist in the cloud provider"
                self._recorder.event(node, "Normal", "DeletingNode", text)
                await client.delete(NODES, "", name)
            except ApiError as error:
                if is_not_found(error):
                    return
            except LinkBroken:
                continue
            else:
                return
