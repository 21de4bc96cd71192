"""A small cluster with chosen controllers, for tests of how they live."""

from __future__ import annotations

from typing import Any

from actors import Context, EventLog
from controlplane.api.object import Object
from controlplane.client.loops.clientset import Client
from controlplane.client.resources import Resource
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.controllers.common.selection import STANDARD

SECOND = 1_000_000_000


class Small:
    """Nodes, the standard controllers and `controllers`, and a user who does `steps`, one after the other.

    A step is a (resource, tree) to be created, a number of seconds to wait, or a function of the
    client and the context.
    """

    def __init__(
        self, controllers: tuple[str, ...], *steps: Any, nodes: int = 2, strategy: Any = None,
        **config: Any,
    ) -> None:  # fmt: skip
        trees = tuple(node_tree(f"node-{number}") for number in range(1, nodes + 1))
        asked = ClusterConfig(nodes=trees, enabled_controllers=(*STANDARD, *controllers), **config)
        self.log = EventLog()
        self.cluster = Cluster(asked, strategy=strategy, log=self.log)
        self.cluster.user("user", self._user, steps)

    @staticmethod
    async def _user(ctx: Context, steps: tuple[Any, ...]) -> None:
        client = Client(ctx)
        for step in steps:
            if isinstance(step, int):
                await ctx.sleep(step * SECOND)
            elif isinstance(step, tuple):
                await client.create(*step)
            else:
                await step(client, ctx)

    def run(self, **until: Any) -> Small:
        """Run until nothing but periodic work is left to do, or until `until_ns`."""
        result = self.cluster.world.run("bare", **until)
        assert result.verdict == ("until" if until else "quiescent"), result.reason
        return self

    def objects(self, prefix: str) -> list[Object[Any]]:
        return self.cluster.objects(f"/registry/{prefix}/")

    def one(self, prefix: str) -> Any:
        (found,) = self.objects(prefix)
        return found.view

    def reasons(self, kind: str) -> list[str]:
        """The reasons of events about objects of a kind, in order of their first report."""
        return [
            obj.view.reason
            for obj in self.objects("events")
            if obj.view.involved_object.kind == kind
        ]


def template(labels: dict[str, str], *, policy: str = "Always", **more: Any) -> dict[str, Any]:
    """A pod template with one container; `annotations` say what its program does."""
    metadata: dict[str, Any] = {"labels": labels}
    if "annotations" in more:
        metadata["annotations"] = {
            f"emulate.controlplane/{key}": value for key, value in more["annotations"].items()
        }
    container = {"name": "main", "image": more.get("image", "app:1"), **more.get("container", {})}
    return {
        "metadata": metadata,
        "spec": {"containers": [container], "restartPolicy": policy, **more.get("spec", {})},
    }


def workload(resource: Resource[Any], kind: str, name: str, spec: dict[str, Any]) -> Any:
    """What a step creates."""
    return resource, {
        "apiVersion": resource.api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }
