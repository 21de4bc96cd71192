"""Loops of the kubelet: it registers its node, watches its pods, and each of its goroutines is a task.

| upstream's goroutine | our task |
|---|---|
| reflectors of pods and of the own node, config mux | `pods.reflector`, `nodes.reflector` |
| source of static pods | `file-source` (`loops/file_source.py`), where there are any |
| syncLoop | `sync-loop` (`loops/sync_loop.py`) |
| one per pod | `pod` (`loops/pod_workers.py`) |
| PLEG | `pleg` (`loops/pleg.py`) |
| one per probe | `prober` (`loops/prober.py`) |
| status manager | `status-manager` (`loops/status_sender.py`) |
| housekeeping ticker | `housekeeping` |
| allocation manager's ticker | `allocation-manager` (`loops/resources.py`) |
| CPU manager's reconcile loop | `cpu-manager` |
| eviction manager | `eviction-manager` (`loops/eviction.py`) |
| token manager | `token` (`loops/tokens.py`), for a pod that can read its tokens |
| node lease, node status | `lease`, `status` (`loops/node.py`) |
| server of attach | `attached` (`loops/clients.py`), once a program waits for its input |
| programs of containers | `files` (`loops/file_writes.py`), for one that writes files after a while |
| volume manager, where the node has CSI drivers | `loops/volumes.py` |
| device plugins, where the node has some | `device-plugin` (`loops/plugin_devices.py`) |
| DRA manager and plugin manager, where there are claims | `loops/claims.py` |

The container runtime is part of the machine, not of the process: sandboxes survive a crash of the
kubelet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from actors.log import DEBUG, ERROR
from controlplane.api.tree import EMPTY_MAP
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.client.loops.event_recorder import EventRecorder
from controlplane.client.loops.informer import Informer, handler
from controlplane.gates import FixGates
from controlplane.kubelet.cm.errors import ManagerError
from controlplane.kubelet.features import RESOURCE_HEALTH, RESOURCE_HEALTH_MESSAGE
from controlplane.kubelet.loops import file_source, pod_resources, status_sender, sync_loop
from controlplane.kubelet.loops import node as own_node
from controlplane.kubelet.loops.eviction import Evictions
from controlplane.kubelet.loops.host import Host
from controlplane.kubelet.loops.pod_workers import PodWorkers
from controlplane.kubelet.loops.process import Process
from controlplane.kubelet.loops.programs import Programs
from controlplane.kubelet.loops.resources import NodeResources
from controlplane.kubelet.loops.shared import Shared
from controlplane.kubelet.loops.volumes import VolumeManager
from controlplane.kubelet.node.settings import KubeletSettings
from controlplane.kubelet.pod.pod_config import API, FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from actors import Condition, Context
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.client.loops.connection import RestConfig

COMPONENT = "kubelet"
DEFAULT_SETTINGS = KubeletSettings()
NO_GATES = FixGates()

__all__ = ["COMPONENT", "Host", "KubeletOptions", "run"]


@frozen
class KubeletOptions:
    """The way in which a kubelet is started.

    Args:
        settings: policies, features, and so on, as of its configuration file.
        fixes: fix gates.
        heartbeats: whether it renews its lease and reports its node's status.
        events: whether it records Events.
        dra_drivers: the actors of DRA drivers by name; None where there is no dynamic resource allocation.
        claims_of_groups: the gate DRAWorkloadResourceClaims is on.
        csi_drivers: the drivers that have a plugin on the node; without any, CSI volumes are not mounted.
        device_plugins: the actors of device plugins by resource.
        pod_resources: serve the pod resources API.
        enters: clients may enter containers, so that all pods have the tokens that they mount.
        joins: the Node is there already, made by a client; the kubelet takes it over.
    """

    settings: KubeletSettings = DEFAULT_SETTINGS
    fixes: FixGates = NO_GATES
    heartbeats: bool = True
    events: bool = True
    csi_drivers: Sequence[str] = ()
    joins: bool = False
    enters: bool = False
    dra_drivers: Mapping[str, str] | None = None
    claims_of_groups: bool = False
    device_plugins: Mapping[str, str] = EMPTY_MAP
    pod_resources: bool = False


DEFAULT_OPTIONS = KubeletOptions()


async def run(
    ctx: Context,
    epoch_ns: int,
    tree: dict[str, Any],
    host: Host,
    *,
    server: RestConfig = IN_CLUSTER,
    options: KubeletOptions = DEFAULT_OPTIONS,
) -> None:
    """Main task: register, then start all others and follow the pods bound to this node.

    It ends, as the process does upstream, when a checkpoint does not fit the machine.
    """
    settings, csi_drivers = options.settings, options.csi_drivers
    name: str = tree["metadata"]["name"]
    if csi_drivers:
        tree = own_node.managed(tree)
    # Whatever a process before had in its memory.
    host.containers = host.promises = host.promises_go_by = host.attached = host.process = None
    host.sockets.pod_resources = None
    host.writing = 0
    client = Client(ctx, server)
    if options.joins:
        joined = await own_node.join(ctx, client, tree, host, epoch_ns)
        if joined is None:
            return
        node = joined
    else:
        node = await own_node.register(ctx, client, tree, host, epoch_ns)
    recorder = None
    if options.events:
        recorder = EventRecorder(ctx, COMPONENT, epoch_ns, host=name, server=server)
    sources = (API,) if settings.manifests is None else (API, FILE)
    shared = Shared(ctx, epoch_ns, node, host, server, recorder, options.fixes, sources)
    workers = PodWorkers(shared, enters=options.enters)
    try:
        resources = workers.resources = NodeResources(
            shared, settings, workers, options.device_plugins
        )
    except ManagerError as error:  # a policy that this very node's machine does not take
        host.refused = str(error)
        ctx.log("kubelet.fatal", level=ERROR, data={"message": host.refused})
        return
    if not await resources.start(ctx):
        return
    host.process = Process(shared, workers, resources)
    if options.pod_resources:
        ctx.spawn(pod_resources.run, host, workers, name="pod-resources")
    node_changed = ctx.condition()
    tell = _teller(ctx, shared, node_changed, reports=options.heartbeats)
    if resources.plugins is not None:
        tells = resources.device_statuses is not None
        resources.plugins.start(ctx, tell, workers.devices_changed if tells else None)
    evictions = workers.evictions = Evictions(shared, workers, resources, tell)
    evictions.look_again()
    if options.dra_drivers is not None and not await _start_claims(ctx, shared, workers, options):
        return
    if csi_drivers:
        volumes = VolumeManager(shared, csi_drivers, workers.relisted, tell)
        workers.volumes = shared.volumes = volumes
        workers.programs = Programs(shared)
        volumes.start()
    nodes = own_node.watch(shared, node_changed, resources.node_changed)
    ctx.spawn(sync_loop.SyncLoop(shared, workers, resources).run, name="sync-loop")
    if FILE in sources:
        ctx.spawn(file_source.run, shared, name="file-source")
    ctx.spawn(workers.pleg.run, name="pleg")
    ctx.spawn(status_sender.run, shared, workers, name="status-manager")
    ctx.spawn(sync_loop.housekeeping, shared, name="housekeeping")
    if options.heartbeats:
        ctx.spawn(own_node.renew_lease, shared, name="lease")
        ctx.spawn(own_node.report_status, shared, node_changed, name="status")
    await nodes.wait_synced()
    await _follow(ctx, shared, name)


async def _start_claims(
    ctx: Context, shared: Shared, workers: PodWorkers, options: KubeletOptions
) -> bool:
    """Start the manager of claims; False when its checkpoint does not fit: such a kubelet does not run."""
    from controlplane.kubelet.loops.claims import NodeClaims

    claims = NodeClaims(
        shared,
        options.dra_drivers or {},
        workers,
        groups=options.claims_of_groups,
        tells_health=options.settings.features.enabled(RESOURCE_HEALTH),
        tells_messages=options.settings.features.enabled(RESOURCE_HEALTH_MESSAGE),
    )
    workers.claims = claims
    try:
        await claims.start(ctx)
    except ManagerError as error:
        shared.host.refused = str(error)
        ctx.log("kubelet.fatal", level=ERROR, data={"message": shared.host.refused})
        return False
    return True


def _teller(
    ctx: Context, shared: Shared, node_changed: Condition, *, reports: bool
) -> Callable[[], None]:
    """Return the callback of the eviction manager when the pressure changes, which is reported even without
    heartbeats.
    """
    state = {"reports": reports}

    def tell() -> None:
        if not state["reports"]:
            state["reports"] = True
            ctx.spawn(own_node.report_status, shared, node_changed, name="status")
        node_changed.notify_all()

    return tell


async def _follow(ctx: Context, shared: Shared, name: str) -> None:
    """The API server as a source of pods: its first list is one push, then each change is."""
    pods = Informer(
        ctx, PODS, server=shared.server, immediate=True, fieldSelector=f"spec.nodeName={name}"
    )
    config = shared.config

    def change(old: Object[Pod] | None, new: Object[Pod] | None) -> None:
        if config.heard(API):
            shared.heard(config.change(API, old, new))

    pods.add_handler(
        handler(lambda new: change(None, new), change, lambda old, _unknown: change(old, None)),
        "kubelet",
    )
    pods.start()
    await pods.wait_synced()
    shared.heard(config.push(API, pods.store))
    shared.tidy_up()
    shared.news.notify_all()
    ctx.log("kubelet.synced", level=DEBUG, data={"pods": len(pods.store)})
