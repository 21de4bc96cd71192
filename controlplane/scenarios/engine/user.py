"""A workload's handle of the cluster: a user, an operator's script or a chaos tool, acting from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors import LinkBroken
from controlplane.api.request import MERGE_PATCH, Request
from controlplane.api.times import SECOND
from controlplane.apiserver.schema.feature_gates import GATES
from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.client.errors import ApiError, is_already_exists, is_not_found
from controlplane.client.loops.clientset import PODS, Client, Resource
from controlplane.errors import UsageError, unknown_name
from controlplane.scenarios.engine.user_faults import UserFaults

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from actors import Context, Task
    from actors.holding import Hold
    from controlplane.api.object import Object
    from controlplane.scenarios.engine.histories import History
    from controlplane.scenarios.engine.run import Run

Tree = dict[str, Any]
DEFAULT = "default"
PREFERRED = ("v1", "apps/v1", "batch/v1", "policy/v1", "storage.k8s.io/v1")
"""The groups in which a bare kind is looked up first; others follow."""


class AtPoint:
    """A block in which a process stands at a point; see `User.at_point`."""

    __slots__ = ("_ctx", "_hold", "_idle", "_where")

    def __init__(
        self, ctx: Context, actor: str, point: str, nth: int, *, idle: bool = False
    ) -> None:
        if nth < 1:
            raise UsageError(f"at point {point!r}: for the {nth}th time: expected 1 or more")
        self._ctx = ctx
        self._where = (actor, point, nth)
        self._idle = idle
        self._hold: Hold | None = None

    async def __aenter__(self) -> None:
        self._hold = await self._ctx.stand_by(*self._where, idle=self._idle)

    async def __aexit__(self, *_raised: object) -> None:
        assert self._hold is not None
        self._ctx.let_go(self._hold)


class User(UserFaults):
    """A user of the cluster, in one task.

    Objects are named by kind ("Pod", or "batch/v1/Job" where a kind alone would not do) and name;
    the namespace is "default" unless given. Everything that awaits is one request and one step;
    refusals raise `ApiError`, a broken connection `actors.LinkBroken`. `ctx` is the task's context,
    `client` its clientset, `run` the run: its cluster, its options by key, its notes.
    """

    __slots__ = ("client",)

    def __init__(self, ctx: Context, run: Run) -> None:
        super().__init__(ctx, run)
        self.client = Client(ctx) if run.history is None else _recording(ctx, run.history)

    @property
    def options(self) -> Mapping[str, Any]:
        """The value of every option, by key."""
        return self.run.options

    @property
    def notes(self) -> dict[str, Any]:
        """Notes that the users and invariants of one run share."""
        return self.run.notes

    # ------------------------------------------------------------------ objects

    async def create(self, tree: Tree, namespace: str = "") -> Object:
        """Create an object; as the server stored it."""
        resource, namespace = _place(tree["kind"], namespace, tree)
        return await self.client.create(resource, tree, namespace)

    async def get(self, kind: str, name: str, namespace: str = "") -> Object:
        """Read an object."""
        resource, namespace = _place(kind, namespace)
        return await self.client.get(resource, namespace, name)

    async def exists(self, kind: str, name: str, namespace: str = "") -> bool:
        """Return whether there is such an object."""
        try:
            await self.get(kind, name, namespace)
        except ApiError as error:
            if not is_not_found(error):
                raise
            return False
        return True

    async def list(self, kind: str, namespace: str = "", **query: str) -> Sequence[Object]:
        """All objects of a kind; `query` as of the server (labelSelector, ...)."""
        resource, namespace = _place(kind, namespace)
        return (await self.client.list(resource, namespace, **query)).items

    async def update(self, tree: Tree, subresource: str = "") -> Object:
        """Write a whole object; refused when it carries a resourceVersion that is not the current one."""
        resource, _ = _place(tree["kind"], "", tree)
        return await self.client.update(resource, tree, subresource)

    async def patch(
        self, kind: str, name: str, patch: Tree, namespace: str = "", *, subresource: str = ""
    ) -> Object:
        """Change an object by a strategic merge patch."""
        resource, namespace = _place(kind, namespace)
        return await self.client.patch(resource, namespace, name, patch, subresource=subresource)

    async def delete(
        self,
        kind: str,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str = "",
    ) -> None:
        """Delete an object; with `uid` only that very one. `propagation_policy` as `kubectl delete --cascade`."""
        resource, namespace = _place(kind, namespace)
        await self.client.delete(
            resource,
            namespace,
            name,
            uid=uid,
            grace_period_seconds=grace_period_seconds,
            propagation_policy=propagation_policy,
        )

    async def apply(self, tree: Tree, namespace: str = "") -> Object:
        """Create an object, or merge the tree into it if it exists: one request, or two."""
        try:
            return await self.create(tree, namespace)
        except ApiError as error:
            if not is_already_exists(error):
                raise
        return await self.patch(tree["kind"], tree["metadata"]["name"], tree, namespace)

    async def gone(self, kind: str, name: str, namespace: str = "", *, uid: str = "") -> None:
        """Wait, asking once a virtual second, until the object (with that uid) is gone."""
        while True:
            try:
                found = await self.get(kind, name, namespace)
            except ApiError as error:
                if not is_not_found(error):
                    raise
                return
            if uid and found.uid != uid:
                return
            await self.sleep(1)

    async def recreate(self, kind: str, name: str, namespace: str = "") -> Object:
        """Delete an object, wait until it is gone, and create it again as it was, with a new identity.

        Status and what the cluster filled in about this one object (a pod's node, versions) stay behind.
        """
        found = await self.get(kind, name, namespace)
        await self.delete(kind, name, namespace, uid=found.uid)
        await self.gone(kind, name, namespace, uid=found.uid)
        return await self.create(_afresh(found.tree), namespace)

    async def resize(
        self, pod: str, container: str, *, namespace: str = "", **requests: str
    ) -> Object:
        """Ask for other resources of a running container: `resize("web", "main", cpu="2")`."""
        resources = {"requests": requests}
        patch = {"spec": {"containers": [{"name": container, "resources": resources}]}}
        return await self.patch("Pod", pod, patch, namespace, subresource="resize")

    async def scale(self, kind: str, name: str, replicas: int, namespace: str = "") -> None:
        """Set the number of replicas by the subresource `scale`, as `kubectl scale` does."""
        resource, namespace = _place(kind, namespace)
        await self.client.call(
            Request(
                "patch",
                group=resource.group,
                version=resource.version,
                resource=resource.name,
                namespace=namespace,
                name=name,
                subresource="scale",
                body={"spec": {"replicas": replicas}},
                content_type=MERGE_PATCH,
                user_agent=self.ctx.actor,
            )
        )

    async def evict(self, pod: str, namespace: str = "") -> None:
        """Ask for a pod to be evicted; refused with 429 while a disruption budget forbids it."""
        namespace = namespace or DEFAULT
        metadata = {"name": pod, "namespace": namespace}
        tree = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
        await self.client.call(
            Request(
                "create",
                resource=PODS.name,
                namespace=namespace,
                name=pod,
                subresource="eviction",
                body=tree,
                user_agent=self.ctx.actor,
            )
        )

    async def cordon(self, node: str) -> Object:
        """Let no further pods come to a node."""
        return await self.patch("Node", node, {"spec": {"unschedulable": True}})

    async def uncordon(self, node: str) -> Object:
        """End a cordon."""
        return await self.patch("Node", node, {"spec": {"unschedulable": None}})

    async def drain(self, node: str, *, every_s: float = 5, patience_s: float = 300) -> bool:
        """Cordon a node and evict its pods, again and again while budgets forbid; whether it is empty in time."""
        await self.cordon(node)
        end = self.ctx.now + round(patience_s * SECOND)
        while True:
            query = {"fieldSelector": f"spec.nodeName={node}"}
            there = (await self.client.list(PODS, **query)).items
            if not there:
                return True
            if self.ctx.now >= end:
                return False
            for each in there:
                await self.attempt(self.evict(each.name, each.namespace))
            await self.sleep(every_s)

    async def write_manifest(self, node: str, file: str, tree: Tree | None) -> None:
        """Write the file of a static pod on a node whose kubelet looks for them, or (None) remove it.

        The kubelet hears of it if it runs, and finds it otherwise when it starts. Raises UsageError.
        """
        from controlplane.kubelet.loops.file_source import FileChanged
        from controlplane.kubelet.pod.static_pods import write_manifest
        from controlplane.scenarios.inputs.static_pods import manifest

        found = None if tree is None else manifest(tree, file)
        await self.ctx.point("user.write-manifest")
        self.ctx.undeclared()
        write_manifest(self.cluster.world.disk(node), file, found)
        if self.cluster.world.alive(node):
            self.ctx.send(node, FileChanged(file))

    async def attempt(self, call: Coroutine[Any, Any, Any]) -> bool:
        """Return whether the server did it: a refusal is shrugged off, and so is a broken connection."""
        try:
            await call
        except (ApiError, LinkBroken):
            return False
        return True

    # ------------------------------------------------------------------ time, chance, company

    async def wait_until(
        self, holds: Callable[[Run], Any], *, every_s: float = 1, patience_s: float = 3600
    ) -> bool:
        """Wait until something holds of the run, looking past every cache; whether it did in time (virtual)."""
        end = self.ctx.now + round(patience_s * SECOND)
        while not holds(self.run):
            if self.ctx.now >= end:
                return False
            await self.sleep(every_s)
        return True

    async def wait_steps_until(self, holds: Callable[[Run], Any], steps: int) -> bool:
        """Return whether a condition of the run holds within this number of steps; virtual time stands still."""
        for _ in range(steps):
            if holds(self.run):
                return True
            await self.point("user.wait")
        return bool(holds(self.run))

    def at_point(self, actor: str, point: str, nth: int = 1) -> AtPoint:
        """`async with user.at_point("scheduler", "scheduler.failure.read")`: hold a process at a point.

        Waits until a task of the process comes to the point (for the nth time from now on), and
        holds that task there until the block ends; all other tasks go on. `race run` and
        `logs events` show the points that a run passed; the scheduler's stand in
        `docs/interleavings-scheduler.md`. If no task comes to the point, the run ends as a deadlock and says so.
        In `point` a `*` stands for anything, and `|` for "or".
        """
        return AtPoint(self.ctx, actor, point, nth)

    async def sleep(self, seconds: float) -> None:
        """Wait this number of virtual seconds."""
        await self.ctx.sleep(round(seconds * SECOND))

    async def point(self, name: str = "user") -> None:
        """Let others go first, if the schedule wants it."""
        await self.ctx.point(name)

    def choose(self, n: int, label: str) -> int:
        """Choose among 0 to n - 1 through the strategy; 0 is the default."""
        return self.ctx.choose("workload", n, label)

    def spawn(self, body: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Task:
        """Let another task of this user run `body(user, *args)`."""

        def main(ctx: Context) -> Coroutine[Any, Any, Any]:
            return body(User(ctx, self.run), *args)

        return self.ctx.spawn(main, name=body.__name__)

    async def join(self, task: Task) -> Any:
        """Wait for a task; its result."""
        return await self.ctx.join(task)

    async def divide(
        self, body: Callable[[User, int], Coroutine[Any, Any, Any]], count: int, tasks: int
    ) -> None:
        """Run `body(user, share)` in `tasks` tasks, this one among them; the shares add up to `count`."""
        made = [self.spawn(body, count // tasks) for _ in range(tasks - 1)]
        await body(self, count - count // tasks * (tasks - 1))
        for task in made:
            await self.join(task)


def _recording(ctx: Context, history: History) -> Client:
    from controlplane.scenarios.engine.histories import RecordingClient

    return RecordingClient(ctx, history)


def _afresh(tree: Tree) -> Tree:
    """The manifest with which a user would create the object again."""
    kept = ("name", "namespace", "labels", "annotations", "finalizers")
    metadata = {key: tree["metadata"][key] for key in kept if key in tree["metadata"]}
    made = {key: value for key, value in tree.items() if key not in ("metadata", "status")}
    if tree.get("kind") == "Pod":
        made["spec"] = {key: value for key, value in tree["spec"].items() if key != "nodeName"}
    if tree.get("kind") == "Node" and "status" in tree:  # it registers with what it has
        made["status"] = tree["status"]
    return {**made, "metadata": metadata}


_PLACES: dict[str, tuple[Resource, bool]] = {}


def _place(kind: str, namespace: str, tree: Tree | None = None) -> tuple[Resource, str]:
    """The resource of a kind, and the namespace to use for it."""
    named = f"{tree['apiVersion']}/{kind}" if tree is not None else kind
    found = _PLACES.get(named)
    if found is None:
        found = _PLACES[named] = _look_up(named)
    resource, namespaced = found
    if not namespaced:
        return resource, ""
    if not namespace and tree is not None:
        namespace = tree["metadata"].get("namespace", "")
    return resource, namespace or DEFAULT


def _look_up(named: str) -> tuple[Resource, bool]:
    version, _, kind = named.rpartition("/")
    table = builtin_resources(gates=frozenset(GATES))
    for tried in (version,) if version else PREFERRED:
        info = table.by_kind(tried, kind)
        if info is not None:
            return Resource(info.group, info.version, info.resource), info.namespaced
    for info in table:
        if not version and info.kind == kind:
            return Resource(info.group, info.version, info.resource), info.namespaced
    known = [each.kind for each in table]
    others = "kinds of definitions: user.client with a Resource"
    raise UsageError(unknown_name("built-in kind", named if kind in known else kind, known, others))
