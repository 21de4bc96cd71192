"""The configuration of a cluster, and what follows from it alone: gates, kinds, names of processes, plain nodes."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from controlplane.api.times import SECOND
from controlplane.api.tree import Tree
from controlplane.api.usage import UsageSource
from controlplane.apiserver.options import (
    EMULATED_KEY,
    Debugging,
    NodePages,
)
from controlplane.apiserver.requests.memory import Memory
from controlplane.apiserver.schema.feature_gates import switched_on
from controlplane.apiserver.schema.resources import builtin_resources
from controlplane.apiserver.storage.store import Store
from controlplane.client.resources import Resource
from controlplane.controllers.common.controller import Controller
from controlplane.controllers.common.rest_mapper import ServedKind
from controlplane.controllers.common.selection import STANDARD, names_of
from controlplane.gates import LATEST, FixGates
from controlplane.scheduler.config.features import of_release
from controlplane.scheduler.config.model import SchedulerConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from controlplane.api.aggregated_groups import AggregatedGroup
    from controlplane.apiserver.loops.replica import ReplicaOptions
    from controlplane.client.features import ClientFeatures
    from controlplane.controllers.loops.storage import Storage
    from controlplane.kubelet.node.devices import Devices
    from controlplane.kubelet.node.settings import KubeletSettings
    from controlplane.scheduler.plugins.registry import Registry

    Equip = Callable[[Sequence[Tree]], tuple[Sequence[Tree], Mapping[str, KubeletSettings]]]


EPOCH_NS = 1_767_225_600 * SECOND
"""Wall time of virtual time 0: 2026-01-01T00:00:00Z."""

APISERVER = "apiserver"
SCHEDULER = "scheduler"
CONTROLLER_MANAGER = "controller-manager"
PROVIDER = "machine-provider"
"""The actor that starts machines for Nodes that clients create."""
DEVICES_SINCE = (1, 34)
"""The release that serves resource.k8s.io/v1, and has DynamicResourceAllocation on."""


@frozen
class ClusterConfig:
    """The configuration of a cluster: its components, their releases and their settings.

    nodes: node trees, one kubelet each. None leaves them to the scenario, whose options --nodes, --node-cpu and
        --node-memory make them; a cluster without a scenario then has none.
    gates: the fixes of upstream bugs that the components have.
    release: the Kubernetes release, which sets the defaults of feature gates.
    old_versions: serve v1beta1 of policy, batch and rbac, too, which ended by 1.25.
    queueing_hints: the scheduler's feature gate SchedulerQueueingHints; None means the release's default.
    kubelets, controllers: False leaves a component out; races often need less than a whole cluster.
    enabled_controllers: as in `--controllers` ("*", "job", "-cronjob-controller", or all in one text).
    stages: stages of KWOK take care of fake nodes, which have no kubelet.
    usage: tells the usage of pods; without it their annotations do.
    node_pages: pages that the server of fake nodes has.
    debugging: tells what logs, exec, attach and ports of pods on fake nodes lead to, in a served cluster.
    own_controllers: a user's controllers, each a process of its own (`examples/operator.py`).
    installed: objects that are there before the first step, in the order of their creation.
    track_fields: the API servers record the managers of fields, which server-side apply needs; it costs time.
    aggregated: groups of the API that processes of `own_controllers` answer (`Controller.answer`).
    webhook_servers: processes that answer the webhooks of a host: main tasks, called with the context, the epoch and
        `server`, by the host of the service (`checker.default.svc`).
    storage: emulated CSI drivers with their sidecars (`controllers.loops.storage`).
    device_drivers: dynamic resource allocation: its controllers, and the drivers on the nodes (`kubelet.node.devices`).
        None looks for annotations of `nodes`.
    apiservers: the number of API servers. One alone holds the store, and hears of every write in a later step;
        several share the store with the settings of `replica` (`apiserver.replica_actor`), and so does one if
        `replica` is given.
    connected: the API server of a process by the process's name; otherwise the server is a choice.
    client: the client library of all processes; by default that of `release`.
    schedulers, controller_managers: of several one leads, elected over a Lease.
    devices: the scheduler watches claims, slices and classes of devices from the start; otherwise it begins with
        the first pod that names a claim.
    service_accounts: pods run as service accounts, which the enabled controllers create.
    token_key: signs service-account tokens, in place of the key of all emulated clusters.
    admin_token: the digest of the token with which a client is the administrator (`tokens.digest_of`).
    apiserver_memory: the memory that running requests of an API server may hold.
    webhook_services: addresses of webhook services outside of a served cluster.
    controller_client_rate: the rate limit of each controller (requests per second, burst). Upstream's is 20 and
        30 (--kube-api-qps, --kube-api-burst); without a limit requests take no time.
    topology_updates_ns: nodes with a machine publish what their managers have, at this interval at least
        (`scheduler_plugins.loops.topology_updater`); None: they do not.
    joining_nodes: True starts a kubelet for each Node that a client creates; `equip` gives its machine and
        settings, as `nodes` and `kubelet_settings` do for the others.
    additions: called with the cluster once its parts are there: they add actors of systems beside it, a cloud's for
        instance.
    """

    nodes: Sequence[Tree] | None = None
    gates: FixGates = field(factory=FixGates)
    release: str = LATEST
    old_versions: bool = False
    queueing_hints: bool | None = None
    kubelets: bool = True
    controllers: bool = True
    enabled_controllers: Sequence[str] = field(default=STANDARD, converter=names_of)
    own_controllers: Sequence[type[Controller]] = ()
    stages: bool = False
    usage: UsageSource | None = None
    node_pages: NodePages | None = None
    debugging: Debugging | None = None
    installed: Sequence[tuple[Resource[Any], Tree]] = ()
    track_fields: bool = False
    aggregated: Sequence[AggregatedGroup] = ()
    webhook_servers: Mapping[str, Callable[..., Coroutine[Any, Any, None]]] = field(factory=dict)
    storage: Storage | None = None
    device_drivers: Devices | None = None
    heartbeats: bool = True
    kubelet_events: bool = True
    kubelet_settings: Mapping[str, KubeletSettings] = field(factory=dict)
    joined_informers: bool = False
    store: Store | None = None
    scheduler: SchedulerConfig | None = None
    scheduler_features: Mapping[str, bool] = field(factory=dict)
    scheduler_plugins: Registry | None = None
    scheduler_watches: Sequence[str] | None = None
    explain_scheduling: bool = False
    devices: bool = False
    disabled_admission: Sequence[str] = ()
    apiservers: int = 1
    replica: ReplicaOptions | None = None
    connected: Mapping[str, str] = field(factory=dict)
    client: ClientFeatures | None = None
    service_accounts: bool = False
    schedulers: int = 1
    controller_managers: int = 1
    apiserver_memory: Memory | None = None
    epoch_ns: int = EPOCH_NS
    token_key: bytes = field(default=EMULATED_KEY, repr=False)
    admin_token: str = field(default="", repr=False)
    webhook_services: Mapping[str, str] = field(factory=dict)
    controller_client_rate: tuple[int, int] | None = None
    topology_updates_ns: int | None = None
    joining_nodes: bool = False
    equip: Equip | None = None
    additions: Sequence[Callable[[Any], None]] = ()


def scheduler_features(config: ClusterConfig) -> dict[str, bool]:
    """The scheduler's feature gates: as the release had them, but for those asked for."""
    found = of_release(config.release)
    if config.queueing_hints is not None:
        found["SchedulerQueueingHints"] = config.queueing_hints
    return {**found, **config.scheduler_features}


def server_gates(config: ClusterConfig) -> frozenset[str]:
    """The feature gates of the API servers that are on: a gate is one setting of the whole cluster."""
    return switched_on(scheduler_features(config), config.release)


def numbered(name: str, count: int) -> tuple[str, ...]:
    """Names of equal processes: "scheduler", "scheduler-2", ..."""
    return tuple(name if number == 1 else f"{name}-{number}" for number in range(1, count + 1))


@cache
def served_kinds(release: str = LATEST, *gates: str) -> tuple[ServedKind, ...]:
    """Return the built-in kinds that a release serves with these feature gates on, as discovery lists them."""
    return tuple(
        ServedKind(
            Resource(info.group, info.version, info.resource),
            info.kind,
            info.namespaced,
            info.verbs,
            scalable="scale" in info.subresources,
        )
        for info in builtin_resources(release, frozenset(gates))
    )


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
