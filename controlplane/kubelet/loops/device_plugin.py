"""The loop of an emulated device plugin on a node, and the plugins of a cluster's nodes.

Tasks: the main task serves, a task per call works. Points: those of an informer, `plugin.begin` (a call has arrived).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from actors.log import INFO, WARNING
from controlplane.client.loops.clientset import NODES
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.client.loops.informer import Informer, handler
from controlplane.kubelet.cm.devicemanager.plugin import (
    ALLOCATE,
    Listed,
    PluginFailed,
    PluginOptions,
    Watch,
    devices_of,
    plugin_actor,
    plugins_of_node,
    preferred,
)
from controlplane.kubelet.effects import PluginCall

if TYPE_CHECKING:
    from actors import Context, Mailbox, Message, World
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.client.loops.connection import RestConfig

__all__ = ["NodePlugins", "run"]


async def run(
    ctx: Context, node: str, options: PluginOptions, *, server: RestConfig = IN_CLUSTER
) -> None:
    """Main task of a plugin on a node."""
    plugin = _Plugin(ctx, options)
    nodes: Informer[Any] = Informer(
        ctx, NODES, server=server, immediate=True, fieldSelector=f"metadata.name={node}"
    )
    nodes.add_handler(
        handler(plugin.heard, lambda _old, new: plugin.heard(new), lambda _old, _unknown: None)
    )
    nodes.start()
    await plugin.serve()


class _Plugin:
    """One life of the plugin's process."""

    def __init__(self, ctx: Context, options: PluginOptions) -> None:
        self._ctx = ctx
        self._options = options
        self._devices = options.devices
        self._failures = options.failures if ctx.incarnation == 1 else 0
        self._streams: list[Mailbox] = []

    def heard(self, node: Object[Any]) -> None:
        """The Node may say that devices are unhealthy, or healthy again: tell all kubelets that watch."""
        devices = devices_of(self._options, node.tree)
        if devices != self._devices:
            self._devices = devices
            for stream in self._streams:
                self._list(stream)

    def _list(self, stream: Mailbox) -> None:
        self._ctx.send(stream, Listed(self._devices, self._options.prefers))

    async def serve(self) -> None:
        """Take what comes."""
        ctx = self._ctx
        while True:
            message = await ctx.recv(idle=True)
            if isinstance(message.payload, PluginCall):
                ctx.spawn(self._call, message, name=message.payload.method)
            elif isinstance(message.payload, Watch):
                assert message.stream is not None
                self._streams = [message.stream]  # a node has one kubelet
                self._list(message.stream)

    async def _call(self, ctx: Context, message: Message) -> None:
        call: PluginCall = message.payload
        await ctx.point("plugin.begin")
        data = {"resource": call.resource, "method": call.method, "devices": ",".join(call.devices)}
        if call.method == ALLOCATE and self._failures:
            self._failures -= 1
            ctx.log("plugin.call", level=WARNING, data={**data, "error": "not now"})
            message.fail(PluginFailed("rpc error: code = Unknown desc = not now"))
            return
        ctx.log("plugin.call", level=INFO, data={**data, "error": ""})
        message.reply(None if call.method == ALLOCATE else preferred(call))


class NodePlugins:
    """The device plugins of all nodes: an actor each. `address` gives the API server of a process by its name."""

    def __init__(self, world: World, address: Callable[[str], RestConfig]) -> None:
        self._world = world
        self._address = address
        self._actors: dict[str, dict[str, str]] = {}

    def add(self, node: Tree, *, start: bool = False) -> None:
        """Declare the plugins of a node, or start them while the world runs; a second life has actors of its own."""
        name = node["metadata"]["name"]
        declare = self._world.start if start else self._world.actor
        for resource, options in plugins_of_node(node).items():
            actor, life = plugin_actor(resource, name), 1
            while self._world.has_actor(actor):
                life += 1
                actor = f"{plugin_actor(resource, name)}:{life}"
            self._actors.setdefault(name, {})[resource] = actor
            declare(actor, run, name, options, server=self._address(actor))

    def of(self, node: str) -> Mapping[str, str]:
        """Return the actors of a node's plugins, by resource."""
        return self._actors.get(node, {})

    def end(self, node: str) -> None:
        """End the plugins of a node."""
        for actor in self._actors.pop(node, {}).values():
            self._world.end(actor)
