"""The loops of the controller manager: shared informers, and per controller a work queue and some workers.

`table` has one line per controller, in the order in which they are notified of changes.
Points: those of `client.informer`, `controllers.loops.worker` and `controllers.loops.running`, those
that a controller names, and one for every request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from attrs import define, field, frozen

from controlplane.client.loops.connection import IN_CLUSTER
from controlplane.client.loops.informer import Handler, Informer, handler, together
from controlplane.client.resources import CUSTOM_RESOURCE_DEFINITIONS, LEASES, NODES, PODS
from controlplane.controllers.common.controller import Caches, Controller
from controlplane.controllers.common.features import DRA_DEVICE_TAINTS, of_release
from controlplane.controllers.common.ref_manager import controller_index
from controlplane.controllers.common.rest_mapper import RESTMapper, ServedKind
from controlplane.controllers.common.selection import STANDARD, UnknownController, selected
from controlplane.controllers.lifecycle.rootca.controller import ROOT_CA
from controlplane.controllers.loops.custom_kinds import CustomKinds
from controlplane.controllers.loops.node_lifecycle import NodeController
from controlplane.controllers.loops.running import ManagerProcess, Running, Throttle
from controlplane.controllers.loops.table import (
    CONTROLLERS,
    DEVICE_TAINTS,
    RESOURCE_CLAIMS,
    controllers_of,
)
from controlplane.controllers.loops.taint_eviction import TaintEvictionController
from controlplane.errors import UsageError
from controlplane.gates import FixGates

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from actors import Context
    from controlplane.api.object import Object
    from controlplane.api.pod import Pod
    from controlplane.api.usage import UsageSource
    from controlplane.client.loops.connection import RestConfig
    from controlplane.client.loops.leader_election import Readiness
    from controlplane.client.resources import Resource

WORKERS = 5
ALL_FIXED: Final = FixGates()
"""The gates as by default."""

LOOPS: Final = ("node-lifecycle-controller", "taint-eviction-controller")
"""Controllers with loops of their own."""


def names() -> tuple[str, ...]:
    """The names of all controllers."""
    return (*CONTROLLERS, *LOOPS)


def of_devices(release: str) -> tuple[str, ...]:
    """Return the controllers of dynamic resource allocation that run by default in a release."""
    if of_release(release)[DRA_DEVICE_TAINTS]:
        return (RESOURCE_CLAIMS, DEVICE_TAINTS)
    return (RESOURCE_CLAIMS,)


def _node_index(obj: Object[Pod]) -> tuple[str, ...]:
    """Index pods by the node they are bound to."""
    pod = obj.view
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def check_names(asked: Sequence[str], where: str) -> None:
    """Check a selection of controllers, given at `where`. Raises UsageError for an unknown name."""
    try:
        selected(asked, names())
    except UnknownController as error:
        raise UsageError(f"{where}: {error}") from None


@frozen
class ManagerOptions:
    """The way in which a controller manager is started.

    Args:
        workers: workers of each queue, where a controller does not say otherwise.
        monitor_nodes: without it missing heartbeats of nodes are ignored (a trace has no heartbeats), but their
            taints still follow their conditions.
        joined_informers: makes each informer one task.
        enabled: the controllers, as upstream's `--controllers`.
        features: the gates of `controllers.features`; those of our release unless given.
        kinds: the kinds that the server serves, as discovery would say.
        root_ca: the certificate (PEM) by which pods know the server.
        fixes: the published races that are closed.
        own: a user's controllers; the process has these, and none of the table.
        client_rate: limits the requests of each controller: requests per second, and the size of a burst;
            upstream each has a client of its own.
        usage: tells the usage of pods; without it their annotations do.
    """

    workers: int = WORKERS
    monitor_nodes: bool = True
    joined_informers: bool = False
    enabled: Sequence[str] = STANDARD
    features: Mapping[str, bool] | None = None
    kinds: Sequence[ServedKind] = ()
    root_ca: str = ROOT_CA
    fixes: FixGates = ALL_FIXED
    own: Sequence[type[Controller]] = ()
    client_rate: tuple[int, int] | None = None
    usage: UsageSource | None = None


DEFAULT_OPTIONS = ManagerOptions()


@define
class Probe:
    """Lets measurements from outside look at the controllers of the process that is running now."""

    name: str
    incarnation: int = 0
    controllers: tuple[Controller, ...] = ()
    caches: Caches | None = None
    informers: Mapping[Resource[Any], Informer[Any]] = field(factory=dict)
    taint_eviction: TaintEvictionController | None = None


async def run(
    ctx: Context,
    epoch_ns: int,
    probe: Probe | None = None,
    *,
    server: RestConfig = IN_CLUSTER,
    options: ManagerOptions = DEFAULT_OPTIONS,
    readiness: Readiness | None = None,
) -> None:
    """Main task of the controller manager; `readiness` is for a replica that runs before it leads."""
    own, workers, client_rate = options.own, options.workers, options.client_rate
    caches = Caches()
    of_pods: list[Handler[Any]] = []
    told: dict[Resource[Any], list[Handler[Any]]] = {PODS: of_pods}
    chosen = () if own else selected(options.enabled, names())
    table = own or controllers_of(chosen)
    features = of_release() if options.features is None else options.features
    mapper = RESTMapper(options.kinds)
    process = ManagerProcess(
        server, caches, features, options.fixes, mapper, options.root_ca, options.usage
    )

    def throttle(kind: type[Controller]) -> Throttle | None:
        if client_rate is None:
            return None
        return Throttle(client_rate, by_kind=kind.client_rate_by_kind)

    running = [Running(ctx, epoch_ns, kind, process, throttle(kind)) for kind in table]
    if probe is not None:
        probe.controllers = tuple(each.controller for each in running)
        probe.caches, probe.taint_eviction = caches, None
        probe.incarnation = ctx.incarnation
    for each in running:
        for resource, handlers in each.controller.handlers().items():
            told.setdefault(resource, []).append(handler(*handlers))
    custom = CustomKinds(ctx, server, mapper, [each.controller for each in running])
    if custom.needed:
        caches.of(CUSTOM_RESOURCE_DEFINITIONS)
        told.setdefault(CUSTOM_RESOURCE_DEFINITIONS, []).append(handler(*custom.handlers()))
    others: list[Callable[[int], None]] = []
    if not own:
        others = _others(ctx, epoch_ns, server, caches, told, chosen, options, probe)

    # The controllers only note keys when they hear of something, so they share a listener per resource;
    # their workers interleave freely.
    informers: dict[Resource[Any], Informer[Any]] = {}
    for resource, store in caches.stores.items():
        informer = Informer(ctx, resource, store, server=server, immediate=options.joined_informers)
        informers[resource] = informer
        if told.get(resource):
            informer.add_handler(together(*told[resource]), "controllers")
    if probe is not None:
        probe.informers = informers
    for informer in informers.values():
        informer.start()
    later = [each for one in running for each in one.controller.defined_later()]
    for resource, informer in informers.items():
        if resource in later:
            await informer.wait_synced_or_unserved()
        else:
            await informer.wait_synced()
    for each in running:
        if readiness is None:
            each.start(workers)
        else:
            each.follow(workers)
    for start in others:
        start(workers)
    for each in running:
        if each.controller.answers:
            ctx.spawn(_answer_requests, each.controller, name=f"{each.controller.name}.requests")
    if readiness is not None:
        readiness.ready.set()
        await readiness.elected.wait(idle=True, point="election.elected")
        for each in running:
            each.lead(workers)


async def _answer_requests(ctx: Context, controller: Controller) -> None:
    """Answer requests for the aggregated group of a controller; those that came before the caches were filled, too."""
    while True:
        message = await ctx.recv(idle=True)
        message.reply(controller.answer(message.payload.body))


def _others(
    ctx: Context,
    epoch_ns: int,
    server: RestConfig,
    caches: Caches,
    told: dict[Resource[Any], list[Handler[Any]]],
    chosen: Iterable[str],
    options: ManagerOptions,
    probe: Probe | None,
) -> list[Callable[[int], None]]:
    """The controllers with loops of their own: what starts each."""
    pods = caches.of(PODS, controller=controller_index, node=_node_index)
    starts: list[Callable[[int], None]] = []

    def hear(resource: Resource[Any], *handlers: Any) -> None:
        told.setdefault(resource, []).append(handler(*handlers))

    nodes = caches.of(NODES)
    last: list[tuple[Callable[..., None], ...]] = []
    if LOOPS[0] in chosen:
        leases = caches.of(LEASES) if options.monitor_nodes else None
        node = NodeController(ctx, epoch_ns, server, nodes, pods, leases)
        hear(NODES, *node.node_handlers())
        if options.monitor_nodes:
            last.append(node.pod_handlers())
        starts.append(lambda _: node.start())
    if LOOPS[1] in chosen:
        eviction = TaintEvictionController(ctx, epoch_ns, server, nodes, pods, options.fixes)
        if probe is not None:
            probe.taint_eviction = eviction
        hear(PODS, *eviction.pod_handlers())
        hear(NODES, *eviction.node_handlers())
        starts.append(lambda _: eviction.start())
    for handlers in last:
        hear(PODS, *handlers)
    return starts
