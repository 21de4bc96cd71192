"""A served cluster: the same engine at a pace, with an HTTP rim. What `controlplane serve` does."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio
from attrs import evolve, field, frozen

from actors import collector
from actors.inlet import Outlet
from actors.jsonl import seconds
from controlplane.api.request import ADMIN
from controlplane.api.tree import Tree
from controlplane.apiserver.http.authentication import Access
from controlplane.apiserver.http.kubeconfig import Address
from controlplane.apiserver.http.verifying import Verifier
from controlplane.apiserver.kinds.custom.converters import webhook_of
from controlplane.apiserver.loops.http_host import Limits
from controlplane.apiserver.loops.http_listener import Listener, Site
from controlplane.apiserver.loops.webhooks import OUTSIDE, Hosts, pass_on
from controlplane.apiserver.options import COMPACTION_NS, ForeignReview, ServerOptions
from controlplane.apiserver.requests.admission.policies.source import GROUP
from controlplane.apiserver.requests.admission.webhooks import MUTATING, VALIDATING, place_of
from controlplane.apiserver.requests.tokens import digest_of
from controlplane.apiserver.storage.store_state import state_of
from controlplane.cluster import Cluster
from controlplane.cluster_config import APISERVER, CONTROLLER_MANAGER, SCHEDULER, numbered
from controlplane.controllers.loops.table import MIRRORING
from controlplane.controllers.storage.volume.protection import ClassProtectionController
from controlplane.errors import UsageError
from controlplane.gates import minor_of
from controlplane.scenarios.engine.unattended_kinds import Attention
from controlplane.scenarios.inputs.reading import CREATE
from controlplane.scheduler.loops import scheduler
from controlplane.serving import access_check, metrics_page, webhook_services
from controlplane.serving.containers import Containers
from controlplane.serving.objects import PATH, Objects
from controlplane.serving.signals import stop_on_signal
from controlplane.serving.webhook_calls import WebhookCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from actors import Context
    from actors.inlet import Inlet
    from actors.pace import Pacer
    from controlplane.apiserver.front.answering import HttpAnswer
    from controlplane.apiserver.http.foreign_tokens import Key
    from controlplane.apiserver.loops.http_host import Local, Page
    from controlplane.apiserver.schema.resources import ResourceInfo
    from controlplane.client.election import ElectionConfig
    from controlplane.cluster import ClusterConfig
    from controlplane.controllers.loops.storage import Process, Storage
    from controlplane.kubelet.node.settings import KubeletSettings
    from controlplane.scenarios.engine.execution import Execution
    from controlplane.scheduler.config.model import SchedulerConfig
    from controlplane.serving.forks import Forks
    from controlplane.serving.session_files import SessionFiles
    from controlplane.serving.simulator.pages import Simulator


CLASSES_SINCE = (1, 34)
"""The first release whose server has classes of volume attributes in v1."""
OTHER_FILES = 64
"""Open files that are no connections: the store, logs, what Python holds."""


@frozen
class Rim:
    """The address to listen on. `port` 0 takes a free one; `token` "" admits every client."""

    host: str = "127.0.0.1"
    port: int = 0
    tls: bool = True
    http2: bool = True
    """If true, clients may choose HTTP/2 over TLS."""
    token: str = field(default="", repr=False)
    limits: Limits = field(factory=Limits)
    keys: tuple[Key, ...] = field(default=(), repr=False)
    """Public keys of other signers of service-account tokens."""
    token_key: bytes = field(default=b"", repr=False)
    """The key that signs service-account tokens, 32 bytes; a fresh key by default."""
    record_token_key: bool = True
    """If true, the recording holds that key, so that a replay gives the same tokens."""
    ui: bool = False
    """If true, there is a page; then all events are kept, as for a recording."""
    origins: tuple[str, ...] = ()
    """The origins of pages of other sites that may ask this server."""
    goaway_chance: float = 0.0
    """The share of requests over HTTP/2 whose client is told to open another connection."""


class ServedCluster(Cluster):
    """A cluster whose API server keeps what clients outside expect."""

    serves_clients = True

    def __init__(self, config: ClusterConfig, **options: Any) -> None:
        self._place = ["127.0.0.1:6443"]
        self._foreign: list[ForeignReview] = []
        self._token_key = [config.token_key]
        self._tokens: list[str] = []
        self._attention = [Attention.of(config)]
        self.webhooks_outside = Outlet()
        self._containers = Containers(self)
        config = evolve(config, devices=True)  # clients may bring classes of devices at any time
        self._enabled: list[str] = []
        self._plugins: dict[str, list[str]] = {}
        """By kubelet, the drivers that it finds at its next start."""
        self.scheduler_configuration: list[SchedulerConfig] = []
        """At most one: the configuration in place of that of `config` at the scheduler's next start."""
        super().__init__(config, **options)
        self.world.actor(OUTSIDE, pass_on, self.webhooks_outside)
        server = self.bootstrapping_server(self.server_options())
        server.install_roles(config.epoch_ns)
        server.install_server_objects(config.epoch_ns, self.apiservers)
        if config.joining_nodes and config.controllers and config.controller_managers == 1:
            from controlplane.serving import joining_storage

            installed = joining_storage.Installed(self)
            address = self.address(joining_storage.INSTALLER)
            self.world.experimenter(
                joining_storage.INSTALLER, joining_storage.run, installed, address
            )

    # ------------------------------------------------------------------ storage that joins

    def _add_replicas(
        self,
        name: str,
        count: int,
        main: Callable[..., Coroutine[Any, Any, Any]],
        args: Callable[[], tuple[Any, ...]],
        election: ElectionConfig | None = None,
        **kwargs: Any,
    ) -> None:
        """The controller manager reads the names of its controllers at each start: a driver may have come."""
        if name == CONTROLLER_MANAGER:
            self._enabled = [*kwargs["options"].enabled]
            if "*" in self._enabled:
                self._enabled.append(MIRRORING)
                if minor_of(self.config.release) >= CLASSES_SINCE:
                    self._enabled.append(ClassProtectionController.name)
            kwargs["options"] = evolve(kwargs["options"], enabled=self._enabled)
        if name == SCHEDULER:
            main = partial(_run_scheduler, self.scheduler_configuration)
        super()._add_replicas(name, count, main, args, election, **kwargs)

    def _kubelet_options(
        self, tree: Tree, settings: KubeletSettings, *, actor: str = "", joins: bool = False
    ) -> dict[str, Any]:
        """A kubelet reads the names of the drivers at each start. Clients may enter containers."""
        found = super()._kubelet_options(tree, settings, actor=actor, joins=joins)
        drivers = [*found["options"].csi_drivers]
        self._plugins[actor or tree["metadata"]["name"]] = drivers
        return {**found, "options": evolve(found["options"], csi_drivers=drivers, enters=True)}

    def add_process(self, process: Process, client_rate: tuple[int, int] | None) -> list[str]:
        """Declare a process of the storage side; return the names of its actors, which are to be started."""
        self._add_controller(process.kind, process.count, process.election, client_rate)
        names = self.names_of(process)
        self.storage_processes += names
        return names

    def names_of(self, process: Process) -> list[str]:
        """Return the names of a process's actors."""
        return [*numbered(process.kind.name, process.count)]

    def storage_runs(self, storage: Storage) -> None:
        """Take in what runs: for the next start of kubelets and controller manager, and for warnings."""
        from controlplane.controllers.loops.storage import ATTACHER, PROVISIONER

        for drivers in self._plugins.values():
            drivers[:] = [each.options.name for each in storage.drivers]
        if storage.attaches and ATTACHER not in self._enabled:
            self._enabled.insert(0, ATTACHER)
        if storage.snapshots and PROVISIONER not in self._enabled:
            self._enabled.append(PROVISIONER)
        self._attention[:] = [Attention.of(evolve(self.config, storage=storage))]

    def kubelets(self) -> list[str]:
        """Return the actors of the kubelets."""
        return [self._joined.get(node, node) for node in self.machines]

    def server_options(self) -> ServerOptions:
        """Users are held to their roles, fields have owners, and history is forgotten in time."""
        return evolve(
            super().server_options(),
            authorize=True,
            track_fields=True,
            container_log=self._containers.output,
            machines=self._containers,
            debugging=self.config.debugging,
            registers_groups=True,
            compaction_ns=COMPACTION_NS,
            notice_at_creation=partial(_warning, self._attention, self.webhooks),
        )

    def webhook_hosts(self) -> Hosts:
        """Webhooks with a URL are asked outside, and those of services of which it is said where they are."""
        return Hosts(outside=True, services=tuple(self.config.webhook_services))

    def options_of_servers(self) -> Callable[[], ServerOptions]:
        """The same, with the address that is known once the server listens."""
        options, place = self.server_options(), self._place
        foreign, key, tokens = self._foreign, self._token_key, self._tokens
        return lambda: evolve(
            options,
            address=place[0],
            foreign_review=foreign[0] if foreign else None,
            token_key=key[0],
            static_tokens=dict.fromkeys(tokens, ADMIN),
        )

    def trusts(self, review: ForeignReview) -> None:
        """Set the other signers of tokens; before the servers start."""
        self._foreign[:] = [review]

    def signs_with(self, key: bytes) -> None:
        """Set the key that signs service-account tokens; before the servers start."""
        self._token_key[0] = key

    def accepts(self, digest: str) -> None:
        """Set the digest of the administrator's token; before the servers start."""
        self._tokens[:] = [digest]

    def listens_at(self, address: str) -> None:
        """Set the address at which clients reach the servers; before they start."""
        self._place[0] = address


async def _run_scheduler(
    configuration: list[SchedulerConfig],
    ctx: Context,
    epoch_ns: int,
    config: SchedulerConfig,
    *args: Any,
    **kwargs: Any,
) -> None:
    """Main task of a scheduler that reads its configuration at each start."""
    now = configuration[0] if configuration else config
    await scheduler.run(ctx, epoch_ns, now, *args, **kwargs)


def _warning(
    attention: list[Attention], hosts: Hosts, info: ResourceInfo, tree: Tree, watched: bool
) -> str:
    """The notice for the creation of an object that nothing acts on; a client that watches may act."""
    if info.resource == "customresourcedefinitions":
        webhook = webhook_of(tree)
        asked = [] if webhook is None else [place_of(webhook)[0]]
        outcome = "objects are served in the version that they are stored in only"
    elif info.group == GROUP and info.resource in (MUTATING, VALIDATING):
        asked = [place_of(spec)[0] for spec in tree.get("webhooks") or ()]
        outcome = "those webhooks are kept and not called"
    else:
        return "" if watched else attention[0].warning(info)
    unknown = [*dict.fromkeys(host for host in asked if not hosts.actor(host))]
    if not unknown:
        return ""
    return (
        f"no service answers for {', '.join(unknown)} here: {outcome}"
        " (serve --webhook-service NAME.NAMESPACE=HOST:PORT says where a service is)"
    )


def serve(
    run: Execution,
    rim: Rim,
    pace: Pacer,
    ready: Callable[[Address], None],
    *,
    keep: bool = True,
    leaving: SessionFiles | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    `ready` is told the address once requests are answered. `keep`: whether what comes from outside
    is remembered for a recording. `leaving` takes out of memory what is recorded.
    """
    collector.rest()
    trio.run(serve_async, run, rim, pace, ready, None, keep, leaving)


async def serve_async(
    run: Execution,
    rim: Rim,
    pace: Pacer,
    ready: Callable[[Address], None],
    stop: trio.Event | None = None,
    keep: bool = True,
    leaving: SessionFiles | None = None,
) -> None:
    """`serve` from inside Trio; `stop` ends it as a signal does.

    Raises UsageError for a taken port, and what `ready` raises of that kind.
    """
    cluster = run.cluster
    assert isinstance(cluster, ServedCluster)
    inlet = cluster.world.inlet()
    if not keep:
        cluster.world.keep_no_recording()
    tls, authority = None, b""
    if rim.tls:
        from controlplane.apiserver.http import certificates

        made = certificates.make(rim.host, http2=rim.http2)
        tls, authority = made.context, made.authority
    epoch = cluster.config.epoch_ns
    key = rim.token_key or _fresh_key()
    cluster.signs_with(key)
    token = digest_of(rim.token) if rim.token else ""
    if token:
        cluster.accepts(token)
    state = state_of(cluster.store) if keep else ""
    recorded_key = key.hex() if rim.record_token_key else ""
    run.plan = evolve(run.plan, token_key=recorded_key, store_state=state, admin_token=token)
    if rim.keys:
        from controlplane.apiserver.http.foreign_tokens import reviewed

        cluster.trusts(lambda token, now, audiences: reviewed(token, rim.keys, now, audiences))
    verifier = Verifier(key, rim.keys)
    access = Access.of_token(rim.token, verifier.user, lambda: epoch + pace.now())
    objects = Objects(cluster, _given(run))
    pages: dict[str, Page] = {metrics_page.PATH: metrics_page.of(cluster), PATH: objects.page}
    assets: Mapping[str, HttpAnswer] = {}
    forks: Forks | None = None
    if rim.ui:
        from controlplane.serving import ui
        from controlplane.serving.forks import Forks
        from controlplane.serving.live import Live

        live = Live(run)
        forks = Forks(live)
        pages.update(ui.pages(live, forks, _scheduler_configuration(run)))
        assets = ui.assets()
    simulator: Simulator | None = None
    body_limits: Mapping[str, int] = {}
    if run.plan.options.get("simulator"):
        simulator = _simulator(run, objects, inlet)
        pages.update(simulator.pages())
        body_limits = simulator.body_limits()
    write = os.write if os.name == "posix" else None  # other systems' sockets are no files
    listener = Listener(
        inlet,
        APISERVER,
        access,
        pace=pace,
        tls=tls,
        limits=_affordable(rim.limits),
        write=write,
        site=Site(pages, assets, cluster.disks, rim.origins, body_limits, _local(cluster)),
        access_check=access_check.of(cluster),
        goaway_chance=rim.goaway_chance,
    )
    objects.asks(listener.ask)
    if simulator is not None:
        simulator.serves(listener)
    try:
        port = await listener.open(rim.host, rim.port)
    except OSError as error:
        raise UsageError(f"{rim.host}:{rim.port}: cannot listen: {error.strerror}") from error
    host = f"[{rim.host}]" if ":" in rim.host else rim.host
    cluster.listens_at(f"{host}:{port}")
    scheme = "https" if rim.tls else "http"
    address = Address(f"{scheme}://{_reachable(host)}:{port}", rim.token, authority)
    calls = WebhookCalls(webhook_services.addresses(cluster.config.webhook_services), inlet, pace)
    cluster.webhooks_outside.on_put = calls.send
    unready: UsageError | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(calls.serve)
        if forks is not None:
            nursery.start_soon(forks.serve)
        if leaving is not None:
            nursery.start_soon(leaving.go_on)
        await nursery.start(stop_on_signal, inlet.stop)
        nursery.start_soon(listener.serve)
        if stop is not None:
            nursery.start_soon(_stop_on_event, stop, inlet.stop)
        try:
            ready(address)
        except UsageError as error:  # kept, for a nursery would wrap it
            unready = error
        else:
            await run.execute_async(pace=pace)
        await listener.close()
        nursery.cancel_scope.cancel()
    if unready is not None:
        raise unready


def _local(cluster: Cluster) -> Local | None:
    """What leads clients to the machine, for a cluster whose fake nodes do so."""
    if cluster.config.debugging is None:
        return None
    from controlplane.serving.local import connection

    return connection.serve


def _scheduler_configuration(run: Execution) -> str:
    """The scheduler's configuration as YAML; "" if the scenario builds it in Python."""
    import yaml

    from controlplane.api.yaml_text import dumper

    found = _scheduler_tree(run)
    return "" if found is None else str(yaml.dump(found, Dumper=dumper(), sort_keys=True))


def _scheduler_tree(run: Execution) -> Tree | None:
    """The scheduler's configuration with all defaults, None if the scenario builds it in Python."""
    from controlplane.scheduler.config import user_plugins

    file = run.plan.options["scheduler_config"]
    if file:
        return user_plugins.defaulted_config(Path(file))
    found = getattr(run.plan.given, "scheduler", None)
    if run.cluster.config.scheduler is not None and found is None:
        return None
    return user_plugins.defaulted_config(None if found is None else found.tree)


def _simulator(run: Execution, objects: Objects, inlet: Inlet) -> Simulator:
    """The simulator's API. Raises UsageError where its configuration cannot be shown."""
    from controlplane.serving.simulator.pages import Simulator

    tree = _scheduler_tree(run)
    registry = run.cluster.config.scheduler_plugins
    assert tree is not None and registry is not None
    return Simulator(run.cluster, objects, inlet, tree, registry)


def _given(run: Execution) -> list[Tree]:
    """The objects that a session's files bring, and its nodes."""
    given = run.plan.given
    submissions = [] if given is None else given.submissions
    made = [each.tree for each in submissions if each.verb == CREATE]
    return [*(run.cluster.config.nodes or ()), *made]


def last_words(run: Execution) -> str:
    """The verdict, in one line."""
    result = run.result
    return (
        f"{result.verdict}: {result.reason}. Virtual time {seconds(result.t_ns)} s,"
        f" {result.steps} steps, trace {result.trace_hash}"
    )


def _affordable(limits: Limits) -> Limits:
    """As many connections as there are files to be had: each is one, and a few are for other things."""
    try:
        import resource
    except ImportError:  # not on Windows
        return limits
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits
    left = max(soft - OTHER_FILES, 8)
    unauthenticated = min(limits.unauthenticated, max(left // 4, 2))
    return evolve(
        limits,
        unauthenticated=unauthenticated,
        connections=min(limits.connections, left - unauthenticated),
    )


def _fresh_key() -> bytes:
    from controlplane.serving.token_files import fresh

    return fresh()


def _reachable(host: str) -> str:
    """The address by which a client on this machine reaches a server that listens on all addresses."""
    return {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104


async def _stop_on_event(event: trio.Event, stop: Callable[[str], None]) -> None:
    await event.wait()
    stop("asked to")
