"""Ready-made user workloads. They aim at no race: each next action is a choice.

The all-zero run creates and deletes in turn; a strategy decides how rough it gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from controlplane.scenarios.engine.user import User

    Main = Callable[[User], Coroutine[Any, Any, None]]

Tree = dict[str, Any]
SIZES = ("500m", "64", "1500m")
"""CPU requests: one that fits any node, one that fits none, one that fits an empty node."""
NAMESPACE = "default"
STOPS = "emulate.controlplane/stop-seconds"


def pod(name: str, cpu: str = "1", **spec: Any) -> Tree:
    """A pod that requests this much CPU; `spec` as in the API."""
    resources = {"requests": {"cpu": cpu, "memory": "64Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "containers": [{"name": "main", "image": "app:1", "resources": resources}],
            "terminationGracePeriodSeconds": 0,
            **spec,
        },
    }


def namespaced(api: str, kind: str, name: str, spec: Tree, **metadata: Any) -> Tree:
    """An object of namespace default, unless `metadata` names another one."""
    named = {"name": name, "namespace": NAMESPACE, **metadata}
    return {"apiVersion": api, "kind": kind, "metadata": named, "spec": spec}


def template(
    app: str, image: str = "app:1", *, cpu: str = "", run_seconds: str = "", **spec: Any
) -> Tree:
    """The template of pods with the label `app`; they request this much CPU, and end after so long, if that is told."""
    metadata: Tree = {"labels": {"app": app}}
    if run_seconds:
        metadata["annotations"] = {"emulate.controlplane/run-seconds": run_seconds}
    container: Tree = {"name": "main", "image": image}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    return {
        "metadata": metadata,
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1, **spec},
    }


def new_image(image: str) -> Tree:
    """The patch that gives the pods of a workload another image."""
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": image}]}}}}


def static_pod(
    name: str,
    *,
    uid: str = "",
    stops_s: int = 0,
    labels: Tree | None = None,
    **spec: Any,
) -> Tree:
    """The manifest of a static pod: its `uid` if it names one, its labels, and how long it takes to stop."""
    metadata: Tree = {"name": name, "namespace": NAMESPACE}
    if uid:
        metadata["uid"] = uid
    if labels is not None:
        metadata["labels"] = labels
    if stops_s:
        metadata["annotations"] = {STOPS: str(stops_s)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "app:1"}], **spec},
    }


def config_map(name: str, **data: str) -> Tree:
    """A config map."""
    tree: Tree = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    return {**tree, "data": data} if data else tree


def pods_come_and_go(names: tuple[str, ...], operations: int) -> Main:
    """Create, delete and recreate pods under a few names, some of which fit no node, and update nodes.

    Ends by deleting what is left.
    """

    async def churn(user: User) -> None:
        exists = dict.fromkeys(names, False)
        for _ in range(operations):
            name = names[user.choose(len(names), "which pod")]
            if not exists[name]:
                size = SIZES[user.choose(len(SIZES), "what size")]
                exists[name] = await user.attempt(user.create(pod(name, size)))
            elif user.choose(3, "delete or touch") < 2:
                await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
                exists[name] = False
            else:
                await _touch_node(user)
            if user.choose(4, "pause") == 3:
                await user.sleep(1 + user.choose(3, "how long"))
        for name in names:
            if exists[name]:
                await user.attempt(user.delete("Pod", name, grace_period_seconds=0))

    return churn


async def _touch_node(user: User) -> None:
    """Something about a node changes: queued pods may hear of it."""
    nodes = await user.list("Node")
    if nodes:
        node = nodes[user.choose(len(nodes), "which node")]
        labels = {"touched": str(user.ctx.serial())}
        await user.attempt(user.patch("Node", node.name, {"metadata": {"labels": labels}}))


def config_maps_come_and_go(names: tuple[str, ...], operations: int) -> Main:
    """Create and delete config maps under a few names."""

    async def come_and_go(user: User) -> None:
        for _ in range(operations):
            name = names[user.choose(len(names), "which")]
            if user.choose(2, "create or delete"):
                await user.attempt(user.delete("ConfigMap", name))
            else:
                await user.attempt(user.create(config_map(name)))
            if user.choose(2, "pause"):
                await user.sleep(1)

    return come_and_go


def own_cpus(name: str, cpus: str, node: str = "node-1", *, stops_s: int = 0, **spec: Any) -> Tree:
    """A Guaranteed pod, on a node from its start: with a whole number of CPUs it gets CPUs of its own.

    Its container takes `stops_s` seconds to stop, if it is given that long.
    """
    tree = pod(name, cpus, nodeName=node, **spec)
    (container,) = tree["spec"]["containers"]
    container["resources"]["limits"] = dict(container["resources"]["requests"])
    if stops_s:
        tree["metadata"]["annotations"] = {STOPS: str(stops_s)}
        tree["spec"]["terminationGracePeriodSeconds"] = 30
    return tree


async def restart_between_writes(user: User, node: str) -> None:
    """The kubelet of a node dies and begins again, but not amid writes that belong together."""
    while user.run.cluster.machines[node].writing:
        await user.sleep(0.1)
    user.crash(node)
    user.restart(node)
