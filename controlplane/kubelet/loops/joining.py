"""The machines behind Nodes that clients create: each Node gets a kubelet, which ends with it.

It stands for the provider of the machines, and is no component of Kubernetes. It watches Nodes; what runs where
is kept outside of its process, as machines do not stop with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.client.loops.clientset import NODES
from controlplane.client.loops.informer import Informer, handler
from controlplane.kubelet.node.node_status import has_kubelet

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from actors import Context
    from controlplane.api.node import Node
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.client.loops.connection import RestConfig

__all__ = ["Machines", "run"]


class Machines:
    """The machines of Nodes that clients made: they outlive the actor that starts them."""

    def __init__(
        self,
        begin: Callable[[Tree, int], object],
        end: Callable[[str], object],
        number: int,
        *,
        stages: bool = False,
    ) -> None:
        """`begin` and `end` start and end the kubelet of a Node; `number` machines are there already.

        With `stages`, fake nodes of KWOK have no machine.
        """
        self.stages = stages
        self._begin = begin
        self._end = end
        self._serving: dict[str, str] = {}
        self._number = number

    def serving(self) -> dict[str, str]:
        """By name, the uids of the Nodes that a machine was started for."""
        return self._serving

    def start(self, tree: Tree) -> None:
        """Start a machine, and the kubelet on it, for a Node."""
        name = tree["metadata"]["name"]
        self._number += 1
        self._serving[name] = tree["metadata"]["uid"]
        self._begin(tree, self._number)

    def end(self, name: str) -> None:
        """Switch off the machine of a Node."""
        del self._serving[name]
        self._end(name)


async def run(ctx: Context, machines: Machines, given: Collection[str], server: RestConfig) -> None:
    """Main task: keep one machine for every Node that is not one of `given`, which have theirs."""

    def look(name: str, node: Object[Node] | None) -> None:
        if name in given:
            return
        wanted = (
            node.uid if node is not None and has_kubelet(node.tree, stages=machines.stages) else ""
        )
        running = machines.serving().get(name, "")
        if running and running != wanted:
            machines.end(name)
            ctx.log("machine.ended", data={"node": name})
        if wanted and running != wanted:
            assert node is not None
            machines.start(node.tree)
            ctx.log("machine.started", data={"node": name})

    informer: Informer[Node] = Informer(ctx, NODES, server=server, immediate=True)
    informer.add_handler(
        handler(
            lambda new: look(new.name, new),
            lambda _old, new: look(new.name, new),
            lambda old, _unknown: look(old.name, None),
        )
    )
    informer.start()
    await informer.wait_synced()
    for name in [*machines.serving()]:
        if name not in informer.store:
            look(name, None)
