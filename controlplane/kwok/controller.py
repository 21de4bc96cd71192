"""KWOK as a process: stages are matched with the objects that the watch delivers, and play after their delays.

For each kind one task matches (`kwok.preprocess`) and several play (`kwok.play.*`), as upstream. A job holds the object
as it was at the match and is found by name, not by uid: a delayed job of a deleted pod reaches its successor, an update
that matches nothing leaves the queued job, and a job that has left the delay queue is no longer cancelled.

The choice of a stage by weight and the share of a jitter are choices of the run; by default the first stage, and no
jitter. Upstream: pkg/kwok/controllers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from attrs import define, field

from controlplane.api.times import SECOND, format_micro_time, format_nano_time, parse_time
from controlplane.api.tree import is_fake_node
from controlplane.client import calls
from controlplane.client.errors import ApiError, is_already_exists
from controlplane.client.resources import LEASES, NODES, PODS, Resource
from controlplane.controllers.common.controller import Controller, Handlers, Periodic, Work, ignore
from controlplane.controllers.common.effects import Failure, Reconcile, RequestFailed
from controlplane.controllers.common.rest_mapper import NoKindMatch
from controlplane.decisions import Choose
from controlplane.kwok import lifecycle, patching
from controlplane.kwok.addresses import Pool
from controlplane.kwok.cel.results import ExpressionError
from controlplane.kwok.definitions import STAGES
from controlplane.kwok.lifecycle import KwokError, Moment
from controlplane.kwok.rendering import renderer
from controlplane.kwok.stored_stages import StoredStages

if TYPE_CHECKING:
    from controlplane.api.object import Object
    from controlplane.api.tree import Tree
    from controlplane.controllers.common.controller import Caches, Host
    from controlplane.controllers.common.rest_mapper import ServedKind
    from controlplane.kwok.stages import Stage

__all__ = ["Kwok", "kwok_of"]

VERSION: Final = "v0.8.0"
NETWORK: Final = "10.0.0.0/24"
NODE_IP: Final = "10.0.0.1"
LEASE_NAMESPACE: Final = "kube-node-lease"
LEASE_SECONDS: Final = 40
PREPROCESS: Final = "kwok.preprocess"
PLAY: Final = "kwok.play"
STAGES_QUEUE: Final = "kwok.stages"
MANY: Final = ("Pod", "Node")
WORKERS: Final = 4
"""Tasks that play stages of pods, and of nodes; other kinds have one."""
SHARES: Final = 64
"""The parts that a random delay or a sum of weights is cut into, at most, for a choice of the run."""
RETRY_NS: Final = SECOND
LONGEST_RETRY_NS: Final = 32 * 60 * SECOND
RETRYABLE: Final = frozenset((429, 503, 504))


@define(eq=False)
class _Job:
    """A stage that waits to be played for an object as it was."""

    number: int
    key: str
    tree: Tree
    resource: Resource[Any]
    stage: Stage
    due: int
    step: int = 0
    retries: int = 0
    cancelled: bool = False


@define(eq=False)
class _Kind:
    api_version: str
    kind: str
    resource: Resource[Any]
    stages: tuple[Stage, ...]
    jobs: dict[str, _Job] = field(factory=dict)
    """The queued job of each object, by key."""


class Kwok(Controller):
    """The process. `stages` are those of its files; where it `watches`, they are those of the API in their place.

    A kind is taken up when its first stage comes, with all its objects, and left with its last one: jobs that wait are
    then dropped. A stage that comes to a kind that has some is asked at the next change of an object. To take up any
    kind at once, a process that watches has the objects of all kinds.
    """

    name = "kwok-controller"
    component = "kwok_controller"
    stages: tuple[Stage, ...] = ()
    watches: bool = False

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self._preprocess = host.queue(PREPROCESS)
        self._nodes = caches.of(NODES)
        self._pods = caches.of(PODS)
        self._leases = caches.of(LEASES)
        self._caches = caches
        self._started = host.now
        self._kinds: dict[tuple[str, str], _Kind] = {}
        self._jobs: dict[int, _Job] = {}
        self._made = 0
        self._pools: dict[str, Pool] = {}
        self._last: dict[tuple[str, str], str] = {}
        self._objects: dict[tuple[str, str], dict[str, Object[Any]]] = {}
        """The objects of custom kinds that came later, which no cache has."""
        self._playing = set(MANY)
        if self.watches:
            self._changes = host.queue(STAGES_QUEUE)
            self._stored = StoredStages(caches.of(STAGES), self._complain)
            for each in self._monitored():
                caches.of(each.resource)
        for api_version, kind in kinds_of(self.stages):
            served = host.rest_mapper.kinds.get((api_version, kind))
            if served is not None:
                caches.of(served.resource)
                self._serve(served)

    def _monitored(self) -> list[ServedKind]:
        """The built-in kinds that stages may be for."""
        kinds = self.host.rest_mapper.kinds.values()
        return [
            each for each in kinds if each.has("list", "watch") and each.resource.name != "events"
        ]

    def _serve(self, served: ServedKind) -> None:
        known = served.resource.api_version, served.kind
        stages = tuple(s for s in self.stages if (s.api_version, s.kind) == known)
        self._kinds[known] = _Kind(*known, served.resource, stages)

    # -- stages of the API -----------------------------------------------------------------------

    def _stages_changed(self, *_: Any) -> None:
        """Take in the stages at once; kinds are taken up and left in a step of their own."""
        self.stages = self._stored.read()
        for known, kind in self._kinds.items():
            kind.stages = tuple(s for s in self.stages if (s.api_version, s.kind) == known)
        self._changes.add("stages")

    def _manage(self, _key: str) -> Reconcile[None]:
        """Take up the kinds that have stages, and leave those that have none."""
        yield from ()
        wanted = tuple(kinds_of(self.stages))
        for known in wanted:
            served = self.host.rest_mapper.kinds.get(known)
            if known not in self._kinds and served is not None:
                self._serve(served)
                self._start_playing(known)
                added = self._handlers(known).added
                for obj in self._objects_of(known, served.resource):
                    added(obj)
        for known in [known for known in self._kinds if known not in wanted]:
            for job in self._kinds.pop(known).jobs.values():
                job.cancelled = True

    def _start_playing(self, known: tuple[str, str]) -> None:
        """Start the task that plays stages of a kind, which stays when the kind is left."""
        if known[1] not in self._playing:
            self._playing.add(known[1])
            self.host.start_work(Work(f"{PLAY}.{known[1]}", self._play, workers=1))

    def _objects_of(self, known: tuple[str, str], resource: Resource[Any]) -> Iterable[Object[Any]]:
        later = self._objects.get(known)
        return [*(self._caches.of(resource) if later is None else later.values())]

    def _complain(self, stage: Tree, why: str) -> None:
        self.host.event(stage, "Warning", "StageInvalid", why)

    # -- events ----------------------------------------------------------------------------------

    def handlers(self) -> dict[Resource[Any], Handlers]:
        """Match every object that is added or changed; nodes also bring their pods along."""
        made = {kind.resource: self._handlers(known) for known, kind in self._kinds.items()}
        if self.watches:
            for each in self._monitored():
                made[each.resource] = self._handlers((each.resource.api_version, each.kind))
            told = self._stages_changed
            made[STAGES] = Handlers(told, told, told)
        made.setdefault(NODES, Handlers(self._node_added, ignore, ignore))
        return made

    def handlers_of_kind(self, kind: ServedKind) -> Handlers | None:
        """Match the objects of a custom kind that has stages, or may come to have some."""
        known = kind.resource.api_version, kind.kind
        if kind.resource == STAGES:
            return None
        if not self.watches:
            if known in self._kinds or known not in kinds_of(self.stages):
                return None
            self._serve(kind)
        objects = self._objects[known] = {}
        told = self._handlers(known)

        def added(obj: Object[Any]) -> None:
            objects[obj.key] = obj
            told.added(obj)

        def updated(old: Object[Any], new: Object[Any]) -> None:
            objects[new.key] = new
            told.updated(old, new)

        def deleted(obj: Object[Any], unknown: bool) -> None:
            objects.pop(obj.key, None)
            told.deleted(obj, unknown)

        if self.watches:
            self._changes.add("stages")
        return Handlers(added, updated, deleted)

    def _handlers(self, known: tuple[str, str]) -> Handlers:
        """Handle changes of the objects of a kind, while it has stages."""
        named = f"{known[0]} {known[1]}"

        def changed(obj: Object[Any]) -> None:
            kind = self._kinds.get(known)
            if kind is not None and self._managed(kind, obj):
                self._preprocess.add(f"{named} {obj.key}")

        def added(obj: Object[Any]) -> None:
            changed(obj)
            if known == ("v1", "Node"):
                self._node_added(obj)

        def deleted(obj: Object[Any], _unknown: bool) -> None:
            kind = self._kinds.get(known)
            if kind is None:
                return
            self._last.pop((kind.kind, obj.key), None)
            job = kind.jobs.pop(obj.key, None)
            if job is not None and job.due > self.host.now:
                job.cancelled = True
            if kind.resource == PODS:
                address = (obj.tree.get("status") or {}).get("podIP")
                if address:
                    for pool in self._pools.values():
                        pool.give_back(address)

        return Handlers(added, lambda _old, new: changed(new), deleted)

    def _node_added(self, node: Object[Any]) -> None:
        if is_fake_node(node.tree) and ("v1", "Pod") in self._kinds:
            for pod in self._pods:
                if (pod.tree.get("spec") or {}).get("nodeName") == node.name:
                    self._preprocess.add(f"v1 Pod {pod.key}")

    def _managed(self, kind: _Kind, obj: Object[Any]) -> bool:
        if kind.resource == NODES:
            return is_fake_node(obj.tree)
        if kind.resource == PODS:
            node = self._nodes.get((obj.tree.get("spec") or {}).get("nodeName") or "")
            return node is not None and is_fake_node(node.tree)
        return True

    # -- work ------------------------------------------------------------------------------------

    def work(self) -> Sequence[Work]:
        """One queue to match, and one to play for each kind."""
        work = [Work(PREPROCESS, self._match, workers=1)]
        if self.watches:
            work.append(Work(STAGES_QUEUE, self._manage, workers=1))
            work += [Work(f"{PLAY}.{kind}", self._play, workers=WORKERS) for kind in MANY]
            return work
        for api_version, kind in kinds_of(self.stages):
            workers = WORKERS if kind in MANY and api_version == "v1" else 1
            work.append(Work(f"{PLAY}.{kind}", self._play, workers=workers))
        return work

    def periodic(self) -> Sequence[Periodic]:
        """Renew the leases of the nodes."""
        return (Periodic("kwok.leases", LEASE_SECONDS * SECOND // 4, self._renew),)

    def _match(self, key: str) -> Reconcile[None]:
        """Match one object, and queue the job of its stage."""
        api_version, kind_name, name = key.split(" ", 2)
        kind = self._kinds.get((api_version, kind_name))
        if kind is None:
            return  # left meanwhile
        later = self._objects.get((api_version, kind_name))
        obj = self._caches.of(kind.resource).get(name) if later is None else later.get(name)
        if obj is None or not self._managed(kind, obj):
            return
        yield from self._matched(kind, name, obj.tree)

    def _matched(self, kind: _Kind, name: str, tree: Tree) -> Reconcile[None]:
        queued = kind.jobs.get(name)
        version = tree["metadata"].get("resourceVersion")
        if queued is not None and queued.tree["metadata"].get("resourceVersion") == version:
            return
        moment = Moment(tree, self.host.now, lambda: 0.0)
        try:
            stage = yield from self._stage(kind, moment, name)
            if stage is None:
                return
            bounds = lifecycle.delay_range(stage, moment) or (0,)
        except (KwokError, ExpressionError) as error:
            about = _reference(kind, tree)
            self.host.event(about, "Warning", "StageMatchFailed", f"stage match: {error}")
            return
        wait = bounds[0]
        if len(bounds) == 2:
            shares = min(SHARES, bounds[1] - bounds[0])
            share = yield Choose("kwok.jitter", shares, f"jitter of {stage.name}")
            wait += (bounds[1] - bounds[0]) * share // shares
        self._queue(kind, name, tree, stage, max(0, wait))

    def _stage(self, kind: _Kind, moment: Moment, name: str) -> Reconcile[Stage | None]:
        """Choose among the stages that match, by weight."""
        lot = lifecycle.lot(kind.stages, moment)
        if len(lot.stages) < 2:
            return lot.stages[0] if lot.stages else None
        parts = min(max(SHARES, len(lot.stages)), lot.total)
        share = yield Choose("kwok.stage", parts, f"stage of {name}")
        return lot.at(share * lot.total // parts)

    def _queue(self, kind: _Kind, name: str, tree: Tree, stage: Stage, wait: int) -> None:
        old = kind.jobs.get(name)
        if old is not None and old.due > self.host.now:
            old.cancelled = True
        self._made += 1
        job = _Job(self._made, name, tree, kind.resource, stage, self.host.now + wait)
        kind.jobs[name] = self._jobs[job.number] = job
        again = self._last.get((stage.kind, name)) == stage.name
        self._ask(job, wait, idle=again)

    def _ask(self, job: _Job, wait: int, *, idle: bool) -> None:
        stage = job.stage
        queue = self.host.queue(f"{PLAY}.{stage.kind}")
        queue.add_after(f"{job.number} {job.key}", wait, idle=idle)

    # -- playing ---------------------------------------------------------------------------------

    def _play(self, key: str) -> Reconcile[None]:
        job = self._jobs.pop(int(key.split(" ", 1)[0]))
        if job.cancelled:
            return
        kind = self._kinds.get((job.stage.api_version, job.stage.kind))
        if kind is None:
            return  # left meanwhile
        kind.jobs.pop(job.key, None)
        self._last[job.stage.kind, job.key] = job.stage.name
        result: Tree | None = None
        steps = lifecycle.actions(job.stage.steps, job.tree, self._renderer(job), job.step)
        at = job.step
        try:
            for number, action in steps:
                at = number
                result = (yield from self._carry_out(job, action)) or result
        except RequestFailed as error:
            self._failed(kind, job, at, error)
            return
        except (KwokError, patching.PatchError) as error:
            about = _reference(job.stage, job.tree)
            self.host.event(about, "Warning", "StageFailed", f"{job.stage.name}: {error}")
            return
        if result is not None and job.stage.immediate_next_stage:
            yield from self._matched(kind, job.key, result)

    def _failed(self, kind: _Kind, job: _Job, at: int, error: Failure) -> None:
        """Queue the job again from the failed step, or drop it until the object's next event."""
        if isinstance(error, ApiError) and error.code not in RETRYABLE:
            return
        wait = min(RETRY_NS << job.retries, LONGEST_RETRY_NS)
        job.step, job.retries, job.due = at, min(job.retries + 1, 11), self.host.now + wait
        kind.jobs[job.key] = self._jobs[job.number] = job
        self._ask(job, wait, idle=False)

    def _carry_out(self, job: _Job, action: lifecycle.Action) -> Reconcile[Tree | None]:
        meta = job.tree["metadata"]
        namespace, name = meta.get("namespace", ""), meta["name"]
        if isinstance(action, lifecycle.Event):
            about = _reference(job.stage, job.tree)
            self.host.event(about, action.type, action.reason, action.message)
        elif isinstance(action, lifecycle.Delete):
            yield from calls.delete(
                job.resource, namespace, name, calls.delete_options(grace_period_seconds=0)
            )
        elif isinstance(action, lifecycle.Apply):
            yield from self._apply(action, namespace)
        elif patching.changes(job.tree, action):
            patched = yield from calls.patch(
                job.resource,
                namespace,
                name,
                action.data,
                subresource=action.subresource,
                kind=action.type,
            )
            return patched.tree
        return None

    def _apply(self, action: lifecycle.Apply, namespace: str) -> Reconcile[None]:
        """Create the rendered object, or patch it where it exists."""
        tree = action.data
        if not isinstance(tree, dict) or not tree.get("apiVersion") or not tree.get("kind"):
            raise KwokError("template must include apiVersion and kind")
        try:
            served = self.host.rest_mapper.of(tree["apiVersion"], tree["kind"])
        except NoKindMatch as error:
            raise KwokError(f"failed to map {tree['kind']}: {error}") from None
        meta = tree["metadata"] = dict(tree.get("metadata") or {})
        space = (meta.get("namespace") or namespace) if served.namespaced else ""
        if space:
            meta["namespace"] = space
        name = meta.get("name", "")
        if not action.subresource:
            try:
                yield from calls.create(served.resource, space, tree)
                return
            except ApiError as error:
                if not is_already_exists(error):
                    raise
        query = (
            {"fieldManager": "kwok", "force": "true"}
            if action.type == lifecycle.APPLY_PATCH
            else {}
        )
        yield calls.Call(
            "patch",
            served.resource,
            space,
            name,
            action.subresource,
            query=query,
            body=tree,
            content_type=action.type,
        )

    # -- templates -------------------------------------------------------------------------------

    def _renderer(self, job: _Job) -> Any:
        def pod_ip(node: Any = "", on_host: Any = False, *_rest: Any) -> str:
            if on_host is True:
                return self._node_ip(str(node))
            status = job.tree.get("status") or {}
            return status.get("podIP") or self._pool(str(node)).take()

        functions: dict[str, Callable[..., Any]] = {
            "Now": lambda: format_nano_time(self.host.now),
            "now": lambda: format_nano_time(self.host.now),
            "StartTime": lambda: format_nano_time(self._started),
            "Version": lambda: VERSION,
            "NodeIP": lambda: NODE_IP,
            "NodeName": lambda: self.name,
            "NodePort": lambda: 10247,
            "PodIP": lambda: self._pool("").take(),
            "NodeIPWith": self._node_ip,
            "NodeIPsWith": lambda node: [self._node_ip(node)],
            "PodIPWith": pod_ip,
            "PodIPsWith": lambda *args: [pod_ip(*args)],
        }
        return renderer(functions)

    def _node_ip(self, name: str) -> str:
        node = self._nodes.get(name)
        addresses = ((node.tree.get("status") or {}).get("addresses") or ()) if node else ()
        for kind in ("InternalIP", "ExternalIP"):
            for each in addresses:
                if each.get("type") == kind:
                    return str(each["address"])
        return NODE_IP

    def _pool(self, node_name: str) -> Pool:
        node = self._nodes.get(node_name)
        spec = (node.tree.get("spec") or {}) if node else {}
        network = spec.get("podCIDR") or NETWORK
        found = self._pools.get(network)
        if found is None:
            found = self._pools[network] = Pool(network)
            for pod in self._pods:
                found.use((pod.tree.get("status") or {}).get("podIP") or "")
        return found

    # -- leases ----------------------------------------------------------------------------------

    def _renew(self) -> Reconcile[None]:
        if self.watches and ("v1", "Node") not in self._kinds:
            return  # leases come with the stages of nodes
        for node in list(self._nodes):
            if not is_fake_node(node.tree):
                continue
            try:
                yield from self._renew_one(node.name)
            except RequestFailed:
                continue  # tried again after the interval

    def _renew_one(self, name: str) -> Reconcile[None]:
        now = format_micro_time(self.host.now)
        held = {
            "holderIdentity": self.name,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now,
        }
        lease = self._leases.get(f"{LEASE_NAMESPACE}/{name}")
        if lease is None:
            meta = {"name": name, "namespace": LEASE_NAMESPACE}
            yield from calls.create(LEASES, LEASE_NAMESPACE, {"metadata": meta, "spec": held})
            return
        spec = lease.tree.get("spec") or {}
        holder = spec.get("holderIdentity")
        renewed = spec.get("renewTime")
        lasting = (spec.get("leaseDurationSeconds") or 0) * SECOND
        expired = not renewed or parse_time(renewed) + lasting < self.host.now
        if holder in (None, "", self.name) or expired:
            yield from calls.update(LEASES, {**lease.tree, "spec": {**spec, **held}})


def _reference(stage: Stage | _Kind, tree: Tree) -> Tree:
    """Return what an event about an object names."""
    meta = tree["metadata"]
    return {
        "apiVersion": stage.api_version,
        "kind": stage.kind,
        "namespace": meta.get("namespace", ""),
        "name": meta["name"],
        "uid": meta.get("uid", ""),
    }


def kinds_of(stages: Sequence[Stage]) -> Iterator[tuple[str, str]]:
    """Yield the kinds that the stages are for, each once."""
    yield from dict.fromkeys((stage.api_version, stage.kind) for stage in stages)


def kwok_of(
    stages: tuple[Stage, ...], built_in: frozenset[tuple[str, str]], *, watches: bool = False
) -> type[Kwok]:
    """Return KWOK with these stages, as a process of a cluster (`ClusterConfig.own_controllers`).

    Args:
        stages: in the order in which they are asked.
        built_in: the kinds that are served from the start; for others all kinds are watched.
        watches: the stages are those of the API.
    """
    custom = watches or any(known not in built_in for known in kinds_of(stages))
    return type("Kwok", (Kwok,), {"stages": stages, "any_kind": custom, "watches": watches})
