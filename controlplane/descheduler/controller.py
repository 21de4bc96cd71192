"""The descheduler as a process: a pass every interval, its evictions through the API server.

Passes go on at their interval; one that has evicted nothing does not keep a run from settling. Pods and nodes are
read from the caches again after each eviction, as upstream's listers are live. Lists are in the order in which the
cache learned of the objects, where upstream's order is that of its maps.

Points: those of `controllers.loops.worker` for the queue, and one for every request. Follows `pkg/descheduler`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from controlplane.api import usage
from controlplane.api.pod import Pod
from controlplane.api.times import SECOND
from controlplane.client import calls
from controlplane.client.election import ElectionConfig
from controlplane.client.errors import ApiError
from controlplane.client.resources import (
    CLAIMS,
    DISRUPTION_BUDGETS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
)
from controlplane.controllers.common.controller import Controller, Periodic, Work
from controlplane.controllers.common.effects import Reconcile, RequestFailed, Retry
from controlplane.controllers.common.pod_usage import PodUsage
from controlplane.decisions import immediate
from controlplane.descheduler.evictions import Eviction, Note, PodEvictor, Refusal
from controlplane.descheduler.metrics import COLLECTION_NS, Amounts, Collector
from controlplane.descheduler.profiles import Profile, build, run_pass
from controlplane.descheduler.world import World, is_ready

if TYPE_CHECKING:
    from controlplane.controllers.common.controller import Caches, Host
    from controlplane.descheduler.policy import Policy
    from controlplane.metrics.family import Family

__all__ = ["DEFAULT_INTERVAL_NS", "Descheduler", "descheduler_of"]

ELECTION: Final = ElectionConfig(
    "descheduler",
    lease_ns=137 * SECOND,
    renew_deadline_ns=107 * SECOND,
    retry_ns=26 * SECOND,
    release_on_cancel=True,
)
DEFAULT_INTERVAL_NS: Final = 300 * SECOND
"""As upstream's chart has it; its binary makes one pass unless told otherwise."""
QUEUE: Final = "descheduler"
NEXT: Final = "next"


class Descheduler(Controller):
    """One queue with one key: the next pass."""

    name = "descheduler"
    policy: Policy
    interval_ns = DEFAULT_INTERVAL_NS
    dry_run = False
    election = ELECTION

    def __init__(self, host: Host, caches: Caches) -> None:
        super().__init__(host, caches)
        self.queue = host.queue(QUEUE)
        self._pods = caches.of(PODS)
        self._nodes = caches.of(NODES)
        self._namespaces = caches.of(NAMESPACES)
        self._budgets = caches.of(DISRUPTION_BUDGETS)
        self._claims = caches.of(CLAIMS)
        self._classes = caches.of(PRIORITY_CLASSES)
        self._world = World()
        policy = self.policy
        self._evictor = PodEvictor(
            policy.limits,
            self._report,
            policy.grace_period_seconds,
            policy.notifies_failures,
            self.dry_run,
        )
        self._collector = Collector()
        self._used = PodUsage(host, caches)
        self._world.pod_usage = self._used_by
        self._world.prometheus = self._sampled
        self._profiles: list[Profile] | None = None
        self.queue.add_after(NEXT, self.interval_ns)

    def work(self) -> tuple[Work, ...]:
        """One worker: passes never overlap."""
        return (Work(QUEUE, self.sync, workers=1),)

    def periodic(self) -> tuple[Periodic, ...]:
        """The collection of what nodes use, where the policy asks for it."""
        if not self.policy.collects_usage:
            return ()
        return (Periodic("descheduler.metrics", COLLECTION_NS, immediate(self._collect)),)

    def families(self) -> Iterable[Family]:
        """Return the metrics that do not measure the descheduler's own time."""
        return self._evictor.families()

    @classmethod
    def goes_on(cls) -> tuple[str, ...]:
        """Name the passes."""
        return (f"passes of the descheduler every {cls.interval_ns // SECOND} s",)

    def sync(self, _key: str) -> Reconcile[None]:
        """Make a pass and ask for the next one."""
        self._look()
        if self._profiles is None:
            try:
                self._profiles = self._built()
            except ValueError as error:
                raise Retry(str(error)) from None
        selected = self.policy.nodes
        nodes = [node for node in self._world.nodes if selected.matches(node.metadata.labels)]
        evicting = run_pass(self._profiles, nodes, self._evictor, self._failed)
        answer: Refusal | None = None
        try:
            while True:
                answer = yield from self._evict(evicting.send(answer))
        except StopIteration:
            pass
        self.queue.add_after(NEXT, self.interval_ns, idle=not self._evictor.total or self.dry_run)

    def _built(self) -> list[Profile]:
        """Build the profiles with the priority classes that there are at the first pass."""
        classes = {obj.name: int(obj.tree.get("value") or 0) for obj in self._classes}
        policy = self.policy
        return [
            build(each, self._world, self._evictor, classes, policy.own) for each in policy.profiles
        ]

    def _look(self) -> None:
        """Let the pass see the caches as they are now."""
        world = self._world
        world.now = self.host.now
        world.nodes = [obj.view for obj in self._nodes]
        world.pods = [obj.view for obj in self._pods]
        world.namespaces = {obj.name: obj.metadata.get("labels") or {} for obj in self._namespaces}
        world.budgets = [obj.view for obj in self._budgets]
        world.claims = {
            (obj.namespace, obj.name): (obj.tree.get("spec") or {}).get("storageClassName") or ""
            for obj in self._claims
        }

    def _evict(self, wanted: Eviction) -> Reconcile[Refusal | None]:
        """Send an eviction; return why the server refused it. A dry run only counts."""
        if self.dry_run:
            return None
        meta = wanted.pod.metadata
        refused: Refusal | None = None
        try:
            yield from calls.create(PODS, meta.namespace, wanted.tree(), meta.name, "eviction")
        except RequestFailed as error:
            code = error.code if isinstance(error, ApiError) else 0
            refused = Refusal(code, str(error))
        self._look()
        return refused

    def _report(self, note: Note) -> None:
        self.host.event(note.pod, note.type, note.reason, note.note)

    def _failed(self, profile: str, message: str) -> None:
        for node in self._world.nodes[:1]:
            data = {"profile": profile, "message": message}
            self.host.log("descheduler.failed", node, data)

    def _collect(self) -> None:
        """Take in what each node uses now: the figures of `metrics.k8s.io`, which knows ready nodes only."""
        self._look()
        self._collector.collect({node: dict(used) for node, used in self._used_by_nodes().items()})
        self._world.collected = self._collector.nodes

    def _used_by(self, pod: Pod) -> Mapping[str, Amounts] | None:
        """The usage of a pod's running containers: 0 without an annotation, None if no container runs."""
        known = usage.of_pod(pod.tree, self._used.reading())
        idle = dict.fromkeys(usage.MEASURED, 0)
        names = usage.running_containers(pod.tree)
        return {name: _amounts({**idle, **known.get(name, {})}) for name in names} or None

    def _used_by_nodes(self) -> dict[str, Amounts]:
        world = self._world
        read = self._used.reading()
        return {
            node.metadata.name: _amounts(
                usage.of_pods((pod.tree for pod in world.pods_on(node.metadata.name)), read)
            )
            for node in world.nodes
            if is_ready(node)
        }

    def _sampled(self) -> Mapping[str, Any]:
        """Prometheus' answer to any query: the share of its CPU that a node uses."""
        samples = []
        used_by = self._used_by_nodes()
        for node in self._world.nodes:
            used = used_by.get(node.metadata.name)
            cpu = node.status.allocatable.get("cpu")
            if used is not None and cpu is not None and cpu.milli_value() > 0:
                share = min(1.0, used["cpu"] / cpu.milli_value())
                samples.append(
                    {"metric": {"instance": node.metadata.name}, "value": [0, str(share)]}
                )
        return {"status": "success", "data": {"resultType": "vector", "result": samples}}


def _amounts(thousandths: Mapping[str, int]) -> Amounts:
    """Milli-CPU, and whole bytes rounded up."""
    return {
        name: amount if name == "cpu" else -(-amount // 1000)
        for name, amount in thousandths.items()
    }


def descheduler_of(
    policy: Policy,
    *,
    interval_ns: int = DEFAULT_INTERVAL_NS,
    dry_run: bool = False,
    replicas: int = 1,
) -> type[Descheduler]:
    """Return the descheduler with this policy, as a process of a cluster (`ClusterConfig.own_controllers`).

    Of several `replicas` one leads, elected over the Lease `kube-system/descheduler`.
    """
    more = {
        "policy": policy,
        "interval_ns": interval_ns,
        "dry_run": dry_run,
        "replicas": replicas,
    }
    return type("Descheduler", (Descheduler,), more)
