"""Parts of the controllers' churn in which what clients do is drawn: several of them want the same few objects.

Small worlds and short runs: what matters happens between two steps of a request, or between a read and the write that
rests on it, so there are many of these and little else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controlplane.api.request import Request
from controlplane.client.calls import delete_options
from controlplane.client.errors import ApiError
from controlplane.scenarios.authoring.workloads import namespaced, template

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from controlplane.api.object import Object
    from controlplane.scenarios.engine.user import User

__all__ = ["CLIENTS"]

Tree = dict[str, Any]
PLURALS: Final = {"ConfigMap": "configmaps", "Secret": "secrets", "Pod": "pods"}
HELD: Final = "example.com/held"
CLIENT_TASKS: Final = 5
WRITES: Final = 60
GRAPH_CHANGES: Final = 24
REST_S: Final = 300
"""Longer than an owner that leaves its dependents waits (120 s), and than caches lag after that (60 s)."""
OWNERS: Final = ("one", "two")
DEPENDENTS: Final = ("a", "b")
POLICIES: Final = ("Background", "Foreground", "Orphan")


class _Client:
    """A client that remembers each object as it saw it last, as a controller's cache does."""

    def __init__(self, user: User) -> None:
        self.user = user
        self.known: dict[tuple[str, str], Object[Any]] = {}

    def draw(self, what: str, among: Sequence[Any]) -> Any:
        """One of these."""
        return among[self.user.choose(len(among), what)]

    async def tries(self, kind: str, name: str, call: Coroutine[Any, Any, Any]) -> None:
        """Make a request, and remember what its answer tells; a refusal is shrugged off."""
        try:
            found = await call
        except ApiError:
            return
        if found is not None:
            self.known[kind, name] = found

    async def seen(self, kind: str, name: str) -> Object[Any] | None:
        """The object as this client saw it last, maybe long ago; a first look if it never did."""
        if (kind, name) not in self.known:
            await self.tries(kind, name, self.user.get(kind, name))
        return self.known.get((kind, name))

    async def delete(self, kind: str, name: str, options: Tree) -> None:
        """Delete an object with these options."""
        request = Request(
            "delete",
            resource=PLURALS[kind],
            namespace="default",
            name=name,
            body=options,
            user_agent=self.user.ctx.actor,
        )
        await self.user.attempt(self.user.client.call(request))


# -- several writers of one object -----------------------------------------------------------------


async def writers(user: User) -> None:
    """Clients create, update, patch and delete one object, with and without preconditions; some are slow to go."""
    kind = ("Pod", "Secret", "ConfigMap")[user.choose(3, "which kind")]

    async def write(user: User, count: int) -> None:
        await _write(user, kind, count)

    await user.divide(write, WRITES, CLIENT_TASKS)
    await user.sleep(60)


async def _write(user: User, kind: str, count: int) -> None:
    client = _Client(user)
    for number in range(count):
        label = {f"client-{user.ctx.serial()}": str(number)}
        await client.draw("what", WRITING)(client, kind, label)
        if not user.choose(6, "pause"):
            await user.sleep(1)


async def _create(client: _Client, kind: str, label: Tree) -> None:
    """Create the object; a secret is held by a finalizer at times, a pod has time to end."""
    made = namespaced("v1", kind, "a", {}, labels=label)
    if kind == "Pod":
        made["spec"] = {
            **template("a")["spec"],
            "nodeName": "node-1",
            "terminationGracePeriodSeconds": 5,
        }
    else:
        del made["spec"]
        if kind == "Secret" and client.user.choose(2, "held"):
            made["metadata"]["finalizers"] = [HELD]
    await client.tries(kind, "a", client.user.create(made))


async def _again(client: _Client, kind: str, label: Tree) -> None:
    """Remove the object at once, and create the next one of its name."""
    await client.delete(kind, "a", delete_options(grace_period_seconds=0))
    await _create(client, kind, label)


async def _read(client: _Client, kind: str, _label: Tree) -> None:
    await client.tries(kind, "a", client.user.get(kind, "a"))


async def _patch(client: _Client, kind: str, label: Tree) -> None:
    """Add a label, maybe only to the object, or to the version, that was seen last."""
    metadata: Tree = {"labels": label}
    exact = client.draw("exact", ("", "uid", "resourceVersion"))
    if exact and (seen := await client.seen(kind, "a")) is not None:
        metadata[exact] = seen.metadata[exact]
    await client.tries(kind, "a", client.user.patch(kind, "a", {"metadata": metadata}))


async def _update(client: _Client, kind: str, label: Tree) -> None:
    """Write the whole object as it was seen last, with a label more: over that version alone, or any of the uid."""
    seen = await client.seen(kind, "a")
    if seen is None:
        return
    metadata = {**seen.metadata, "labels": {**(seen.metadata.get("labels") or {}), **label}}
    if client.user.choose(2, "any version"):
        del metadata["resourceVersion"]
    await client.tries(kind, "a", client.user.update({**seen.tree, "metadata": metadata}))


async def _delete(client: _Client, kind: str, _label: Tree) -> None:
    """Delete whatever has the name, or only the object, or the version, that was seen last; a pod by force at times."""
    options: dict[str, Any] = {}
    exact = client.draw("exact", ("", "uid", "resourceVersion"))
    if exact and (seen := await client.seen(kind, "a")) is not None:
        options["resource_version" if exact != "uid" else "uid"] = str(seen.metadata[exact])
    if kind == "Pod" and not client.user.choose(4, "by force"):
        options["grace_period_seconds"] = 0
    await client.delete(kind, "a", delete_options(**options))


async def _release(client: _Client, kind: str, _label: Tree) -> None:
    """Take the finalizer away."""
    patch = {"metadata": {"finalizers": [], "$deleteFromPrimitiveList/finalizers": [HELD]}}
    await client.tries(kind, "a", client.user.patch(kind, "a", patch))


WRITING: Final = (_create, _patch, _update, _delete, _again, _patch, _update, _release, _read)


# -- owners and their dependents -------------------------------------------------------------------


async def graph(user: User) -> None:
    """Owners under two names come, go by every policy and come again; their dependents change owners meanwhile."""
    await user.divide(_change_graph, GRAPH_CHANGES, 2)
    await user.sleep(REST_S)


async def _change_graph(user: User, count: int) -> None:
    client = _Client(user)
    for _ in range(count):
        await client.draw("what", CHANGING)(client)
        if user.choose(2, "pause"):
            await user.sleep(1)


def _owner(name: str) -> Tree:
    tree = namespaced("v1", "ConfigMap", name, {})
    del tree["spec"]
    return tree


async def _new_owner(client: _Client) -> None:
    name = client.draw("which owner", OWNERS)
    await client.tries("ConfigMap", name, client.user.create(_owner(name)))


async def _references(client: _Client) -> list[Tree]:
    """References to one owner or both, as they were seen last: maybe to one that is gone, whose name is used again."""
    found = []
    names = client.draw("which owners", (OWNERS[:1], OWNERS[1:], OWNERS))
    for name in names:
        owner = await client.seen("ConfigMap", name)
        if owner is not None:
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner.uid}
            found.append({**reference, "blockOwnerDeletion": not client.user.choose(2, "free")})
    return found


async def _new_dependent(client: _Client) -> None:
    """Create a dependent, instead of one that is there at times."""
    name = client.draw("which dependent", DEPENDENTS)
    if not client.user.choose(3, "instead"):
        await client.delete("Secret", name, delete_options())
    tree = namespaced("v1", "Secret", name, {}, ownerReferences=await _references(client))
    del tree["spec"]
    await client.tries("Secret", name, client.user.create(tree))


async def _other_owners(client: _Client) -> None:
    """Give a dependent other owners, or just another label."""
    name = client.draw("which dependent", DEPENDENTS)
    metadata: Tree = {"labels": {"seen": str(client.user.ctx.serial())}}
    if client.user.choose(3, "owners"):
        metadata["ownerReferences"] = [{"$patch": "replace"}, *await _references(client)]
    await client.tries("Secret", name, client.user.patch("Secret", name, {"metadata": metadata}))


async def _owner_goes(client: _Client) -> None:
    """Delete an owner, and create the next one of its name at once at times."""
    name = client.draw("which owner", OWNERS)
    policy = client.draw("what goes with it", POLICIES)
    await client.delete("ConfigMap", name, delete_options(propagation_policy=policy))
    if client.user.choose(2, "again"):
        await client.tries("ConfigMap", name, client.user.create(_owner(name)))


async def _look(client: _Client) -> None:
    name = client.draw("which owner", OWNERS)
    await client.tries("ConfigMap", name, client.user.get("ConfigMap", name))


CHANGING: Final = (
    _new_owner,
    _new_dependent,
    _owner_goes,
    _other_owners,
    _new_dependent,
    _other_owners,
    _look,
)

# -- one workload that its user does not leave alone ----------------------------------------------

BUSY_CHANGES: Final = 12
APP: Final = {"matchLabels": {"app": "busy"}}
PAUSES: Final = (1, 0, 0, 2, 6)
PATIENT: Final = (
    {"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 4},
    {"key": "slow", "operator": "Exists", "effect": "NoExecute"},
)
VERSIONS: Final = {
    "StatefulSet": "apps/v1",
    "ReplicaSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
}


async def busy(user: User) -> None:
    """A workload of one kind, under a budget, is scaled, updated, deleted and made again; its pods are deleted, evicted
    and let go, and its nodes drive them away for a while.
    """
    kind = tuple(VERSIONS)[user.choose(len(VERSIONS), "which kind")]
    budget = {"maxUnavailable": 1, "selector": APP}
    await user.create(namespaced("policy/v1", "PodDisruptionBudget", "busy", budget))
    await _made(user, kind)
    await user.sleep(4)

    async def change(user: User, count: int) -> None:
        for _ in range(count):
            await BUSY[user.choose(len(BUSY), "what")](user, kind)
            await user.sleep(PAUSES[user.choose(len(PAUSES), "pause")])

    await user.divide(change, BUSY_CHANGES, 2)
    for name in ("node-1", "node-2"):
        await user.attempt(user.patch("Node", name, {"spec": {"taints": None}}))
    await user.sleep(REST_S)


async def _made(user: User, kind: str) -> None:
    """Create the workload, unless it is there."""
    forms: dict[str, Tree] = {
        "StatefulSet": {"replicas": 2, "serviceName": "busy"},
        "ReplicaSet": {"replicas": 2},
        "DaemonSet": {},
        "Job": {"parallelism": 2, "completions": 4},
    }
    pods = template("busy", tolerations=[*PATIENT], terminationGracePeriodSeconds=3)
    spec: Tree = {"template": pods, **forms[kind]}
    if kind == "Job":
        spec["template"] = template(
            "busy", run_seconds="6", restartPolicy="Never", tolerations=[*PATIENT]
        )
    else:
        spec["selector"] = APP
    await user.attempt(user.create(namespaced(VERSIONS[kind], kind, "busy", spec)))


async def _sized(user: User, kind: str) -> None:
    size = 1 + user.choose(3, "size")
    field = {"Job": "parallelism", "DaemonSet": "revisionHistoryLimit"}.get(kind, "replicas")
    name = f"{VERSIONS[kind]}/{kind}"
    await user.attempt(user.patch(name, "busy", {"spec": {field: size}}))


async def _updated(user: User, kind: str) -> None:
    """Change the template, or suspend a Job or let it go on."""
    name = f"{VERSIONS[kind]}/{kind}"
    patch: Tree = {"spec": {"suspend": not user.choose(2, "go on")}}
    if kind != "Job":
        container = {"name": "main", "image": f"app:{user.ctx.serial()}"}
        patch = {"spec": {"template": {"spec": {"containers": [container]}}}}
    await user.attempt(user.patch(name, "busy", patch))


async def _replaced(user: User, kind: str) -> None:
    """Delete the workload, and create it again at once or later."""
    policy = POLICIES[user.choose(len(POLICIES), "what goes with it")]
    name = f"{VERSIONS[kind]}/{kind}"
    await user.attempt(user.delete(name, "busy", propagation_policy=policy))
    await user.sleep(PAUSES[user.choose(len(PAUSES), "pause")])
    await _made(user, kind)


async def _pod_goes(user: User, _kind: str) -> None:
    """Delete or evict a pod, or take it from its owner."""
    names = [pod.name for pod in user.run.objects("/registry/pods/")]
    if not names:
        return
    name = names[user.choose(len(names), "which pod")]
    what = user.choose(4, "how")
    if what == 0:
        await user.attempt(user.delete("Pod", name))
    elif what == 1:
        await user.attempt(user.delete("Pod", name, grace_period_seconds=0))
    elif what == 2:
        await user.attempt(user.evict(name))
    else:
        labels = {"app": ("free", "busy")[user.choose(2, "back")]}
        await user.attempt(user.patch("Pod", name, {"metadata": {"labels": labels}}))


async def _all_pods_go(user: User, _kind: str) -> None:
    """Delete all pods at once, some without time to end: so they go in any order."""
    for pod in user.run.objects("/registry/pods/"):
        grace = (None, 0)[user.choose(2, "by force")]
        await user.attempt(user.delete("Pod", pod.name, grace_period_seconds=grace))


async def _tainted(user: User, _kind: str) -> None:
    """Let a node drive pods away at once, after a while or not, or no more."""
    node = f"node-{1 + user.choose(2, 'which node')}"
    key = ("down", "slow", "hard", "")[user.choose(4, "which taint")]
    taints = [{"key": key, "value": "yes", "effect": "NoExecute"}] if key else None
    await user.attempt(user.patch("Node", node, {"spec": {"taints": taints}}))


async def _remade(user: User, kind: str) -> None:
    await _made(user, kind)


BUSY: Final = (
    _sized,
    _pod_goes,
    _updated,
    _all_pods_go,
    _replaced,
    _tainted,
    _sized,
    _pod_goes,
    _remade,
)

CLIENTS: Final[dict[str, tuple[Callable[[User], Coroutine[Any, Any, None]], tuple[str, ...]]]] = {
    "writers": (writers, ()),
    "graph": (graph, ("garbage-collector",)),
    "busy": (busy, ("statefulset", "daemonset", "job", "disruption", "garbage-collector")),
}
"""The clients' actions of each part, and the controllers that it needs besides the default ones."""
