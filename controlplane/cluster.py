"""Puts the parts together: a world with a store, API server, controller manager, scheduler and kubelets."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from attrs import evolve

from actors import DebugChecks, EventLog, World
from controlplane.api import identity
from controlplane.api.labels import Requirement, Selector
from controlplane.api.object import Object
from controlplane.api.quantity import Quantity
from controlplane.api.redaction import redacted
from controlplane.api.request import ADMIN, Request
from controlplane.api.tree import Tree
from controlplane.api.view import View
from controlplane.apiserver.kinds.resource.selecting import select_device
from controlplane.apiserver.kinds.strategy import Strategy
from controlplane.apiserver.loops import server as apiserver
from controlplane.apiserver.loops import supervisor as supervisor_actor
from controlplane.apiserver.loops import webhooks
from controlplane.apiserver.loops.activity import Activity
from controlplane.apiserver.loops.etcd import ETCD
from controlplane.apiserver.loops.server_maker import ServerMaker
from controlplane.apiserver.loops.supervisor import SUPERVISOR
from controlplane.apiserver.options import (
    ServerOptions,
    build_of,
)
from controlplane.apiserver.requests.installing import install
from controlplane.apiserver.requests.memory import Account
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.schema.resources import ResourceInfo
from controlplane.apiserver.storage.store import Store
from controlplane.apiserver.storage.watch_cache import WatchEvent
from controlplane.client.features import PLAIN, plain
from controlplane.client.loops.connection import IN_CLUSTER, RestConfig
from controlplane.client.resources import Resource
from controlplane.cluster_config import (
    APISERVER,
    CONTROLLER_MANAGER,
    DEVICES_SINCE,
    PROVIDER,
    SCHEDULER,
    ClusterConfig,
    node_tree,
    numbered,
    scheduler_features,
    served_kinds,
    server_gates,
)
from controlplane.controllers.common import features as controller_features
from controlplane.controllers.common.controller import Controller
from controlplane.controllers.common.selection import selected
from controlplane.controllers.lifecycle.rootca.controller import RootCAPublisher, published
from controlplane.controllers.lifecycle.serviceaccount.controller import (
    ServiceAccountController,
    default_account,
)
from controlplane.controllers.loops import manager as controllers
from controlplane.controllers.loops.table import POD_GROUP_PROTECTION
from controlplane.errors import UsageError
from controlplane.gates import FixGates, minor_of
from controlplane.kubelet.cm.cpuset import CPUSet
from controlplane.kubelet.node.devices import devices_of_objects
from controlplane.kubelet.node.node_status import has_kubelet
from controlplane.scheduler.config.model import SchedulerConfig
from controlplane.scheduler.loops import scheduler
from controlplane.shell.files import Disks, Hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from actors import Strategy as Answering
    from controlplane.client.election import ElectionConfig
    from controlplane.controllers.loops.csi_driver import DriverProbe
    from controlplane.controllers.loops.storage import Process
    from controlplane.kubelet.loops.host import Host
    from controlplane.kubelet.loops.node_drivers import NodeDrivers
    from controlplane.kubelet.node.settings import KubeletSettings
    from controlplane.scheduler_plugins.loops.node_reports import NodeReports
    from controlplane.shell.files import Device

    Equip = Callable[[Sequence[Tree]], tuple[Sequence[Tree], Mapping[str, KubeletSettings]]]


__all__ = ["DISABLED_ADMISSION", "VALUES", "Cluster", "ClusterConfig", "node_tree"]

DISABLED_ADMISSION = ("ServiceAccount",)
"""Admission plugins left out if no controller creates service accounts: pods need none then."""
ACCOUNT_CONTROLLERS = (ServiceAccountController.name, RootCAPublisher.name)
"""Without these a pod would not get the account and the certificate that it waits for."""
VALUES = (
    Object,
    View,
    Quantity,
    WatchEvent,
    Strategy,
    ResourceInfo,
    SchedulerConfig,
    FixGates,
    CPUSet,
    Requirement,
    Selector,
    Hardware,
)
"""Classes that do not change once they are made, though some keep what they computed: actors may share them.
Hardware does change: disks are where containers of all machines, and drivers, read and write."""
INSTALLED_SERIALS = 1 << 39
"""The uids of installed objects begin here: after those of a server's own bootstrap."""
SERIAL_BITS = 40
"""The number of serials that one life of a store may use, as a power of two."""
GROUPS_GATE = "GenericWorkload"
"""The feature gate with which pod groups are served, and protected while pods are in them."""
TAINT_NODES = "TaintNodesByCondition"
PROTECT_GROUPS = "PodGroupProtection"
"""Admission plugins that are left out when no controller would ever take back what they add."""


class Cluster:
    """A world with a control plane in it. Add users and faults as actors, then `world.run`."""

    serves_clients = False
    """Clients outside of the world can send requests."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        strategy: Answering | None = None,
        log: EventLog | None = None,
        checks: DebugChecks | None = None,
        **world_options: Any,
    ) -> None:
        self.config = config
        controllers.check_names(config.enabled_controllers, "enabled_controllers")
        self._first_serial = 0
        self.webhooks = self.webhook_hosts()
        checks = checks or DebugChecks()
        checks = evolve(checks, values=(*VALUES, *checks.values))
        self.world = World(strategy=strategy, log=log, checks=checks, **world_options)
        if config.store is None:
            self.store = _bootstrapped(config.epoch_ns, accounts=_has_accounts(config)).fork()
        else:
            self.store = config.store
            # Serials start again with every world; each life of a store has a range of its own.
            self._first_serial = (self.store.incarnation - 1) << SERIAL_BITS
            self.bootstrapping_server().bootstrap(config.epoch_ns)
        if config.installed:
            first: Sequence[tuple[Resource[Any], Tree]] = ()
            if config.topology_updates_ns is not None:
                from controlplane.scheduler_plugins.loops.node_reports import first_reports

                first = first_reports(config.kubelet_settings)
            self._install((*config.installed, *first))
        self.probes: list[scheduler.Probe] = []
        self.managers: list[controllers.Probe] = []
        self.own_managers: dict[str, list[controllers.Probe]] = {}
        """The probes of controllers that are processes of their own, by the controller's name."""
        self.activities: list[Activity] = []
        self.machines: dict[str, Host] = {}
        self.disks = Disks(self._device_of)
        """The content of volumes, and what containers wrote."""
        self._joined: dict[str, str] = {}
        """By Node, the actors of kubelets that were started while the world ran."""
        self.beside: dict[str, Any] = {}
        """The values that systems of `additions` publish for observers outside the run, by the system's name."""
        self._given: dict[str, None] = {}
        """Nodes that have their machines, whatever clients do."""
        self.apiservers = numbered(APISERVER, config.apiservers)
        self._accounts: list[list[Account]] = []
        self._running: dict[str, list[ApiServer]] = {}
        self._add_apiservers(config)
        if config.apiserver_memory is not None:
            self.world.actor(SUPERVISOR, supervisor_actor.run)
        enabled = config.enabled_controllers
        processes: Sequence[Process] = ()
        self.csi_drivers: dict[str, DriverProbe] = {}
        if config.storage is not None:
            from controlplane.controllers.loops import storage

            self.csi_drivers = storage.add_drivers(self.world, config.epoch_ns, config.storage)
            processes = storage.processes_of(config.storage, config.release)
            if config.storage.drivers and config.storage.snapshots:
                enabled = (*enabled, storage.PROVISIONER)
            if config.storage.attaches:
                enabled = (storage.ATTACHER, *enabled)
        if GROUPS_GATE in server_gates(config):
            enabled = (*enabled, POD_GROUP_PROTECTION)
        from controlplane.kubelet.loops.device_plugin import NodePlugins

        self.node_plugins = NodePlugins(self.world, self.address)
        self.node_reports: NodeReports | None = None
        if config.topology_updates_ns is not None:
            from controlplane.scheduler_plugins.loops.node_reports import NodeReports

            self.node_reports = NodeReports(self.world, config.topology_updates_ns, self.address)
        self.node_drivers: NodeDrivers | None = None  # DRA drivers, where devices are allocated
        devices = config.device_drivers or devices_of_objects(config.nodes or ())
        if devices is not None and minor_of(config.release) >= DEVICES_SINCE:
            from controlplane.kubelet.loops.node_drivers import NodeDrivers

            self.node_drivers = NodeDrivers(devices, self.world, self.address)
            enabled = (*enabled, *controllers.of_devices(config.release))
        if config.controllers:
            self._add_replicas(
                CONTROLLER_MANAGER,
                config.controller_managers,
                controllers.run,
                self._manager_probe,
                options=controllers.ManagerOptions(
                    monitor_nodes=config.heartbeats,
                    enabled=enabled,
                    joined_informers=config.joined_informers,
                    features=controller_features.chosen(config.release, scheduler_features(config)),
                    kinds=served_kinds(config.release, *sorted(server_gates(config))),
                    fixes=config.gates,
                    client_rate=config.controller_client_rate,
                    usage=config.usage,
                ),
            )
        self.storage_processes: list[str] = []
        """The names of the snapshot controllers, the snapshotters and the provisioners."""
        for kind in config.own_controllers:
            self._add_controller(kind, kind.replicas, kind.election, kind.client_rate)
        for host, main in config.webhook_servers.items():
            self.webhooks.own[host] = None
            name = webhooks.actor_of(host)
            self.world.actor(name, main, config.epoch_ns, server=self.address(name))
        for process in processes:
            rate = None if config.storage is None else config.storage.client_rate
            self._add_controller(process.kind, process.count, process.election, rate)
            self.storage_processes += numbered(process.kind.name, process.count)
        self.schedulers = numbered(SCHEDULER, config.schedulers)
        self.scheduler_features = scheduler_features(config)
        """The scheduler's feature gates; a change takes effect at its restart."""
        self._add_replicas(
            SCHEDULER,
            config.schedulers,
            scheduler.run,
            lambda: (config.scheduler or SchedulerConfig(), config.gates, self._probe()),
            options=scheduler.SchedulerOptions(
                self.scheduler_features,
                config.scheduler_plugins,
                config.scheduler_watches,
                config.joined_informers,
                config.explain_scheduling,
                config.devices,
                select_device,
                config.usage,
            ),
        )
        bare = config.nodes or ()
        if config.kubelets:
            self._add_kubelets(config)
            bare = [tree for tree in bare if not has_kubelet(tree, stages=config.stages)]
        if bare or not config.kubelets:
            from controlplane.kubelet.loops import registrar

            self.world.actor("registrar", registrar.run, bare, self.address("registrar"))
        if config.joining_nodes and config.kubelets:
            from controlplane.kubelet.loops import joining

            self._given.update(dict.fromkeys(self.machines))
            number = len(config.nodes or ())
            machines = joining.Machines(
                self.start_kubelet, self.end_kubelet, number, stages=config.stages
            )
            self.world.experimenter(
                PROVIDER, joining.run, machines, self._given, self.address(PROVIDER)
            )
        for add in config.additions:
            add(self)

    def _probe(self) -> scheduler.Probe:
        self.probes.append(scheduler.Probe())
        return self.probes[-1]

    @property
    def scheduler(self) -> scheduler.Probe:
        """The state of the most recently started scheduler: of several the leading one."""
        probes = self.probes
        if len(probes) == 1:  # invariants ask after every step
            return probes[0]
        return max(probes, key=lambda probe: probe.started)

    @property
    def activity(self) -> Activity:
        """The counts of all API servers together."""
        return Activity.sum(self.activities)

    @property
    def servers(self) -> dict[str, ApiServer]:
        """The memory of the running API servers, by name, for reading from outside of the actors."""
        return {name: running[0] for name, running in self._running.items() if running}

    @property
    def accounts(self) -> list[Account]:
        """The memory accounts of all lives of API servers, where their memory is limited."""
        return [account for lives in self._accounts for account in lives]

    def _add_apiservers(self, config: ClusterConfig) -> None:
        if config.apiservers == 1 and config.replica is None:
            maker, activity = self._server(self.store, APISERVER)
            self.world.actor(APISERVER, apiserver.run, maker, config.epoch_ns, activity)
            return
        from controlplane.apiserver.loops import etcd as etcd_actor
        from controlplane.apiserver.loops import replica as replica_actor

        options = config.replica or replica_actor.ReplicaOptions(
            consistent_list_from_cache=minor_of(config.release) >= (1, 31)
        )
        self.world.actor(ETCD, etcd_actor.run, self.store, config.epoch_ns)
        for name in self.apiservers:
            maker, activity = self._server(None, name)
            self.world.actor(name, replica_actor.run, maker, config.epoch_ns, activity, options)

    def _server(self, store: Store | None, name: str) -> tuple[ServerMaker, Activity]:
        """The start arguments of one API server's process; none of them is shared."""
        memory = self.config.apiserver_memory
        lives: list[Account] = []
        self._accounts.append(lives)
        self.activities.append(Activity())
        self._running[name] = running = list[ApiServer]()
        maker = ServerMaker(
            self._first_serial, self.options_of_servers(), store, memory, lives, running
        )
        return maker, self.activities[-1]

    def _manager_probe(self) -> tuple[controllers.Probe]:
        names = numbered(CONTROLLER_MANAGER, self.config.controller_managers)
        self.managers.append(controllers.Probe(names[len(self.managers)]))
        return (self.managers[-1],)

    def _add_controller(
        self,
        kind: type[Controller],
        count: int,
        election: ElectionConfig | None,
        client_rate: tuple[int, int] | None = None,
    ) -> None:
        """A controller that is a process of its own, or several of which one leads."""
        names = numbered(kind.name, count)
        probes = self.own_managers.setdefault(kind.name, [])

        def probe() -> tuple[controllers.Probe]:
            probes.append(controllers.Probe(names[len(probes)]))
            return (probes[-1],)

        self._add_replicas(
            kind.name,
            count,
            controllers.run,
            probe,
            election,
            warm=kind.warm,
            options=controllers.ManagerOptions(
                kinds=served_kinds(self.config.release, *sorted(server_gates(self.config))),
                own=(kind,),
                fixes=self.config.gates,
                client_rate=client_rate,
                usage=self.config.usage,
            ),
        )

    def _add_replicas(
        self,
        name: str,
        count: int,
        main: Callable[..., Coroutine[Any, Any, Any]],
        args: Callable[[], tuple[Any, ...]],
        election: ElectionConfig | None = None,
        *,
        warm: bool = False,
        **kwargs: Any,
    ) -> None:
        """One process of a component, or several of which one leads; `args` are made for each.

        Those that are `warm` run before they lead.
        """
        epoch = self.config.epoch_ns
        if count == 1:
            self.world.actor(name, main, epoch, *args(), server=self.address(name), **kwargs)
            return
        from controlplane.client.election import ElectionConfig
        from controlplane.client.loops.leader_election import run_elected, run_warm

        election = election or ElectionConfig(f"kube-{name}")
        run = run_warm if warm else run_elected
        for replica in numbered(name, count):
            server = self.address(replica)
            self.world.actor(replica, run, epoch, election, server, main, *args(), **kwargs)

    def address(self, process: str) -> RestConfig:
        """The clients' transport to the API servers."""
        config = self.config
        client = plain(config.release) if config.client is None else config.client
        if config.apiservers == 1 and client == PLAIN:
            return IN_CLUSTER
        fixes = FixGates({**client.fixes.chosen, **config.gates.chosen})
        features = evolve(client, fixes=fixes)
        pinned = config.connected.get(process, "")
        return RestConfig(self.apiservers, features, pinned)

    def _add_kubelets(self, config: ClusterConfig) -> None:
        for number, tree in enumerate(config.nodes or (), 1):
            if has_kubelet(tree, stages=config.stages):
                name = tree["metadata"]["name"]
                settings = self._settings(config.kubelet_settings.get(name))
                if self.node_drivers is not None:
                    self.node_drivers.add(tree)
                self.node_plugins.add(tree)
                main, *args = self._kubelet(tree, number)
                if self.node_reports is not None:
                    self.node_reports.add(name, settings, self.machines[name])
                self.world.actor(name, main, *args, **self._kubelet_options(tree, settings))
                self._write_manifests(name, settings)

    def _kubelet(self, tree: Tree, number: int) -> tuple[Any, ...]:
        """A machine, the main task of the kubelet on it, and the task's arguments."""
        from controlplane.kubelet.loops import kubelet

        machine = self.machines[tree["metadata"]["name"]] = kubelet.Host(number, self.disks)
        return kubelet.run, self.config.epoch_ns, tree, machine

    def _settings(self, given: KubeletSettings | None) -> KubeletSettings:
        from controlplane.kubelet.features import SCHEDULER_PREEMPTION
        from controlplane.kubelet.loops.kubelet import DEFAULT_SETTINGS

        settings = DEFAULT_SETTINGS if given is None else given
        if self.scheduler_features.get(SCHEDULER_PREEMPTION):
            gates = settings.features.on | {SCHEDULER_PREEMPTION}
            settings = evolve(settings, features=evolve(settings.features, on=gates))
        return settings

    def _kubelet_options(
        self, tree: Tree, settings: KubeletSettings, *, actor: str = "", joins: bool = False
    ) -> dict[str, Any]:
        """The options of a node's kubelet; of one that starts later, with the name of its `actor`."""
        from controlplane.kubelet.loops.kubelet import KubeletOptions

        config, name = self.config, tree["metadata"]["name"]
        options = KubeletOptions(
            settings,
            config.gates,
            config.heartbeats,
            config.kubelet_events,
            tuple(self.csi_drivers),
            joins=joins,
        )
        if self.node_drivers is not None:
            from controlplane.controllers.devices.resourceclaim.templates import groups_have_claims

            groups = groups_have_claims(dict.fromkeys(server_gates(config), True))
            drivers = self.node_drivers.of(name)
            options = evolve(options, dra_drivers=drivers, claims_of_groups=groups)
        plugins = self.node_plugins.of(name)
        if plugins:
            options = evolve(options, device_plugins=plugins)
        if self.node_reports is not None and name in self.node_reports:
            options = evolve(options, pod_resources=True)
        return {"server": self.address(actor or name), "options": options}

    def _write_manifests(self, name: str, settings: KubeletSettings) -> None:
        from controlplane.kubelet.pod.static_pods import write_manifest

        for file, manifest in (settings.manifests or {}).items():
            write_manifest(self.world.disk(name), file, manifest)

    def start_kubelet(self, tree: Tree, number: int, *, registers: bool = False) -> None:
        """Start the kubelet of a Node that a client made, or that it `registers` itself, while the world runs.

        Its actor has the Node's name, unless one has or had it: each life of a Node has a machine of its own.
        """
        node: str = tree["metadata"]["name"]
        name, life = node, 1
        while self.world.has_actor(name):
            name, life = f"{node}:{life}", life + 1
        given = None
        if self.config.equip is not None:
            with suppress(
                UsageError
            ):  # no machine is like that: the Node stays as its client wrote it
                (tree,), found = self.config.equip((tree,))
                given = found[node]
        settings = self._settings(given)
        if self.node_drivers is not None:
            self.node_drivers.add(tree, start=True)
        self.node_plugins.add(tree, start=True)
        main, *args = self._kubelet(tree, number)
        if self.node_reports is not None:
            host = self.machines[node]
            self.node_reports.add(node, settings, host, kubelet=name, start=True)
        options = self._kubelet_options(tree, settings, actor=name, joins=not registers)
        if registers:
            self._given[node] = None
        self.world.start(name, main, *args, **options)
        self._write_manifests(name, settings)
        self._joined[node] = name

    def end_kubelet(self, node: str) -> None:
        """End such a kubelet, and forget its machine."""
        self.world.end(self._joined.pop(node))
        if self.node_drivers is not None:
            self.node_drivers.end(node)
        self.node_plugins.end(node)
        if self.node_reports is not None:
            self.node_reports.end(node)
        del self.machines[node]

    def options_of_servers(self) -> Callable[[], ServerOptions]:
        """The configuration of the cluster's API servers at their start."""
        options = self.server_options()
        return lambda: options

    def server_options(self) -> ServerOptions:
        """The configuration of the cluster's API servers."""
        return ServerOptions(
            disabled=(
                *(() if _has_accounts(self.config) else DISABLED_ADMISSION),
                *(() if self.config.controllers else (TAINT_NODES, PROTECT_GROUPS)),
                *self.config.disabled_admission,
            ),
            track_fields=self.config.track_fields,
            exact_windows=self.config.gates.fixed("49992"),
            streams_lists=self.config.gates.fixed("129334"),
            keeps_successors=self.config.gates.fixed("77952"),
            deletes_as_listed=self.config.gates.fixed("here1"),
            measures_usage=True,
            aggregated={each.name: each for each in self.config.aggregated},
            usage=self.config.usage,
            node_pages=self.config.node_pages,
            build=build_of(self.config.release),
            webhook_actor=self.webhooks.actor,
            release=self.config.release,
            old_versions=self.config.old_versions,
            token_key=self.config.token_key,
            static_tokens={self.config.admin_token: ADMIN} if self.config.admin_token else {},
            gates=server_gates(self.config),
        )

    def components(self) -> tuple[str, ...]:
        """The names of all processes of the control plane and of the nodes."""
        config = self.config
        managers = numbered(CONTROLLER_MANAGER, config.controller_managers)
        return (
            *self.apiservers,
            *(managers if config.controllers else ()),
            *self.schedulers,
            *(self._joined.get(node, node) for node in self.machines),
        )

    def user(self, name: str, main: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> None:
        """Add an actor that uses the cluster from outside: `main(ctx, *args)`."""
        self.world.experimenter(name, main, *args)

    def webhook_hosts(self) -> webhooks.Hosts:
        """The webhook answerers besides those that `webhook` names."""
        return webhooks.Hosts()

    def webhook(self, host: str, decide: webhooks.Decide) -> None:
        """Let `decide` answer the webhooks of a host, such as `checker.default.svc` of a service.

        It makes of the `request` of an AdmissionReview its `response` (`allowed`, `status`, `patch` ...).
        Webhooks of hosts without a handler are stored and not called.
        """
        self.webhooks.own[host] = None
        self.world.actor(webhooks.actor_of(host), webhooks.answer, decide)

    def _install(self, objects: Sequence[tuple[Resource[Any], Tree]]) -> None:
        """Create objects before the first step. Raises UsageError when the server refuses one."""
        uid = _bootstrap_uid(self._first_serial + INSTALLED_SERIALS)
        server = ApiServer(self.store, uid=uid, suffix=str, options=self.server_options())
        install(server, objects, self.config.epoch_ns)

    def bootstrapping_server(self, options: ServerOptions | None = None) -> ApiServer:
        """A server over the cluster's store for what is there before the first step."""
        uid = _bootstrap_uid(self._first_serial)
        return ApiServer(self.store, uid=uid, suffix=str, options=options)

    def scratch_server(self) -> ApiServer:
        """An API server over an empty store of its own: for looking things up and trying things out."""
        options = ServerOptions(disabled=DISABLED_ADMISSION)
        return ApiServer(uid=_bootstrap_uid(), suffix=str, options=options)

    def dump(self, *, show_secrets: bool = True) -> str:
        """All stored objects as YAML documents, by storage prefix and key."""
        import yaml

        from controlplane.api.yaml_text import dumper

        trees = [
            entry.object.tree if show_secrets else redacted(entry.object.tree)
            for prefix in self.store.prefixes()
            for _, entry in sorted(self.store.keyspace(prefix).entries.items())
        ]
        text: str = yaml.dump_all(
            trees, Dumper=dumper(), sort_keys=True, allow_unicode=True, explicit_start=True
        )
        return text

    def _device_of(self, volume: str) -> tuple[Device, str] | None:
        """Return the emulated CSI driver and the handle behind a PersistentVolume; None where there is none."""
        if not self.csi_drivers:
            return None
        entry = self.store.keyspace("/registry/persistentvolumes/").entries.get(volume)
        source = {} if entry is None else entry.object.tree["spec"].get("csi") or {}
        probe = self.csi_drivers.get(source.get("driver", ""))
        driver = None if probe is None else probe.driver
        return None if driver is None else (driver, source.get("volumeHandle", ""))

    def objects(self, prefix: str) -> list[Object]:
        """All stored objects of one resource, "/registry/pods/" say, read past every cache."""
        keyspace = self.store.keyspace(prefix)
        return [entry.object for entry in keyspace.entries.values()]


def _has_accounts(config: ClusterConfig) -> bool:
    """Return whether pods are asked for service accounts."""
    if not (config.service_accounts and config.controllers):
        return False
    chosen = selected(config.enabled_controllers, controllers.names())
    return all(name in chosen for name in ACCOUNT_CONTROLLERS)


@lru_cache(maxsize=4)
def _bootstrapped(epoch_ns: int, *, accounts: bool = False) -> Store:
    """A store as the API server's own bootstrap leaves it. Every cluster begins with a fork of it.

    With `accounts` its namespaces have theirs, as when their controllers have run before.
    """
    store = Store()
    server = ApiServer(store, uid=_bootstrap_uid(), suffix=str)
    server.bootstrap(epoch_ns)
    if accounts:
        for namespace in store.keyspace("/registry/namespaces/").entries:
            for resource, tree in (
                ("serviceaccounts", default_account(namespace)),
                ("configmaps", published(namespace)),
            ):
                made = Request("create", "", "v1", resource, namespace, body=tree)
                response = server.handle(made, epoch_ns)
                assert response.ok, response.message
        server.settle(epoch_ns)
    return store


def _bootstrap_uid(first: int = 0) -> Callable[[], str]:
    """Uids of what exists before the first step; serials of the world start at 1, these below 0."""
    serial = (1 << 62) + first

    def next_uid() -> str:
        nonlocal serial
        serial += 1
        return identity.uid(serial)

    return next_uid
