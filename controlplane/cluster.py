"""Puts the parts together: a world with a store, API server, controller manager, scheduler and kubelets."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from actors import EventLog, World
from controlplane.api import identity
from controlplane.api.times import SECOND
from controlplane.apiserver import actor as apiserver
from controlplane.apiserver.server import ApiServer
from controlplane.apiserver.store import Store
from controlplane.client.clientset import NODES, Client
from controlplane.controllers import actor as controllers
from controlplane.gates import LATEST, FixGates
from controlplane.scheduler import actor as scheduler
from controlplane.scheduler.config import SchedulerConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from actors import Context, Strategy
    from controlplane.api.object import Object
    from controlplane.scheduler.framework.registry import Registry

Tree = dict[str, Any]

EPOCH_NS = 1_767_225_600 * SECOND
"""Wall time of virtual time 0: 2026-01-01T00:00:00Z."""

APISERVER = "apiserver"
SCHEDULER = "scheduler"
CONTROLLER_MANAGER = "controller-manager"


@frozen
class ClusterConfig:
    """What a cluster is made of.

    `nodes` are node trees, one kubelet each. A component that is switched off is simply not there:
    races often need less than a whole cluster. `queueing_hints` is the scheduler's feature gate of
    that name.
    """

    nodes: Sequence[Tree] = ()
    gates: FixGates = field(factory=FixGates)
    release: str = LATEST
    queueing_hints: bool = True
    kubelets: bool = True
    controllers: bool = True
    heartbeats: bool = True
    kubelet_events: bool = True
    joined_informers: bool = False
    store: Store | None = None
    scheduler: SchedulerConfig | None = None
    scheduler_features: Mapping[str, bool] = field(factory=dict)
    scheduler_plugins: Registry | None = None
    scheduler_watches: Sequence[str] | None = None
    explain_scheduling: bool = False
    disabled_admission: Sequence[str] = ()
    epoch_ns: int = EPOCH_NS


def node_tree(name: str, *, cpu: str = "8", memory: str = "32Gi", pods: int = 110) -> Tree:
    """A plain node of the given size."""
    capacity = {"cpu": cpu, "memory": memory, "pods": str(pods), "ephemeral-storage": "100Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {},
        "status": {"capacity": capacity, "allocatable": dict(capacity)},
    }


DISABLED_ADMISSION = ("ServiceAccount",)
"""Nothing makes service accounts yet, so pods are not asked for theirs."""
SERIAL_BITS = 40
"""How many serials one life of a store may use, as a power of two."""
TAINT_NODES = "TaintNodesByCondition"
"""Admission plugin that is left out when no controller would ever take the taint away again."""


class Cluster:
    """A world with a control plane in it. Add users and faults as actors, then `world.run`."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        strategy: Strategy | None = None,
        log: EventLog | None = None,
        **world_options: Any,
    ) -> None:
        self.config = config
        self._first_serial = 0
        self.world = World(strategy=strategy, log=log, **world_options)
        if config.store is None:
            self.store = _bootstrapped(config.epoch_ns).fork()
        else:
            self.store = config.store
            # Serials start again with every world; each life of a store has a range of its own.
            self._first_serial = (self.store.incarnation - 1) << SERIAL_BITS
            ApiServer(self.store, uid=_bootstrap_uid(self._first_serial), suffix=str).bootstrap(
                config.epoch_ns
            )
        self.scheduler = scheduler.Probe()
        self.activity = apiserver.Activity()
        self.world.actor(APISERVER, apiserver.run, self._core, config.epoch_ns, self.activity)
        if config.controllers:
            self.world.actor(
                CONTROLLER_MANAGER,
                controllers.run,
                config.epoch_ns,
                monitor_nodes=config.heartbeats,
                joined_informers=config.joined_informers,
            )
        self.world.actor(
            SCHEDULER,
            scheduler.run,
            config.epoch_ns,
            config.scheduler or SchedulerConfig(),
            config.gates,
            self.scheduler,
            features={
                "SchedulerQueueingHints": config.queueing_hints,
                **config.scheduler_features,
            },
            registry=config.scheduler_plugins,
            watched=config.scheduler_watches,
            joined_informers=config.joined_informers,
            explaining=config.explain_scheduling,
        )
        if config.kubelets:
            self._add_kubelets(config)
        else:
            self.world.actor("registrar", _register, config.nodes)

    def _add_kubelets(self, config: ClusterConfig) -> None:
        from controlplane.kubelet import actor as kubelet

        for number, tree in enumerate(config.nodes, 1):
            self.world.actor(
                tree["metadata"]["name"],
                kubelet.run,
                config.epoch_ns,
                tree,
                kubelet.Machine(number),
                heartbeats=config.heartbeats,
                events=config.kubelet_events,
            )

    def _core(self, ctx: Context) -> ApiServer:
        first = self._first_serial
        return ApiServer(
            self.store,
            uid=lambda: identity.uid(first + ctx.serial()),
            suffix=lambda: identity.suffix(first + ctx.serial()),
            disabled=(
                *DISABLED_ADMISSION,
                *(() if self.config.controllers else (TAINT_NODES,)),
                *self.config.disabled_admission,
            ),
        )

    def user(self, name: str, main: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Add an actor that uses the cluster from outside: `main(ctx, *args)`."""
        self.world.actor(name, main, *args)

    def scratch_server(self) -> ApiServer:
        """An API server over an empty store of its own: for looking things up and trying things out."""
        return ApiServer(uid=_bootstrap_uid(), suffix=str, disabled=DISABLED_ADMISSION)

    def dump(self) -> str:
        """All stored objects as YAML documents, by storage prefix and key."""
        import yaml

        dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
        trees = [
            entry.object.tree
            for prefix in self.store.prefixes()
            for _, entry in sorted(self.store.keyspace(prefix).entries.items())
        ]
        text: str = yaml.dump_all(
            trees, Dumper=dumper, sort_keys=True, allow_unicode=True, explicit_start=True
        )
        return text

    def objects(self, prefix: str) -> list[Object]:
        """All stored objects of one resource, "/registry/pods/" say, read past every cache."""
        keyspace = self.store.keyspace(prefix)
        return [entry.object for entry in keyspace.entries.values()]


@lru_cache(maxsize=4)
def _bootstrapped(epoch_ns: int) -> Store:
    """A store as the API server's own bootstrap leaves it. Every cluster begins with a fork of it."""
    store = Store()
    ApiServer(store, uid=_bootstrap_uid(), suffix=str).bootstrap(epoch_ns)
    return store


def _bootstrap_uid(first: int = 0) -> Callable[[], str]:
    """Uids of what exists before the first step; serials of the world start at 1, these below 0."""
    serial = (1 << 62) + first

    def next_uid() -> str:
        nonlocal serial
        serial += 1
        return identity.uid(serial)

    return next_uid


async def _register(ctx: Context, nodes: Iterable[Tree]) -> None:
    """Without kubelets somebody has to create the nodes."""
    client = Client(ctx)
    for tree in nodes:
        await client.create(NODES, tree)
