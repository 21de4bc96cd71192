"""Requests through the API server in process: the pure core, and the whole path of an actor's request."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from actors import Context, EventLog, World
from bench.harness import Row, rate
from controlplane.api import identity
from controlplane.api.request import Request
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.server import ApiServer
from controlplane.client.loops.clientset import PODS, Client
from controlplane.client.loops.informer import Informer
from controlplane.cluster import DISABLED_ADMISSION, Cluster, ClusterConfig
from controlplane.cluster_config import EPOCH_NS
from controlplane.scenarios.authoring.workloads import pod

COUNT = 2000


PAGE = 500
"""Objects of a page: what kubectl asks for."""


def core(*, track_fields: bool = False) -> ApiServer:
    """A server without actors around it, with what every cluster starts with."""
    serials = iter(range(1, 1 << 30))
    server = ApiServer(
        uid=lambda: identity.uid(next(serials)),
        suffix=lambda: identity.suffix(next(serials)),
        options=ServerOptions(disabled=DISABLED_ADMISSION, track_fields=track_fields),
    )
    server.bootstrap(EPOCH_NS)
    return server


def _core_creates(server: ApiServer | None = None, count: int = COUNT) -> int:
    server = server or core()
    for number in range(count):
        body = pod(f"pod-{number:06}", "100m")
        answer = server.handle(
            Request("create", resource="pods", namespace="default", body=body), EPOCH_NS
        )
        assert answer.ok
    return count


def _pages(server: ApiServer, query: dict[str, str]) -> int:
    """Read all pods page by page."""
    pages, token = 0, ""
    while pages == 0 or token:
        asked = {"limit": str(PAGE), **query, **({"continue": token} if token else {})}
        answer = server.handle(Request("list", resource="pods", query=asked), EPOCH_NS)
        pages, token = pages + 1, answer.tree["metadata"].get("continue", "")
    return pages


async def _creator(ctx: Context) -> None:
    client = Client(ctx)
    for number in range(COUNT):
        await client.create(PODS, pod(f"pod-{number}", "100m"))


async def _observer(ctx: Context, seen: list[str]) -> None:
    informer = Informer(ctx, PODS)
    informer.add_handler(lambda told: seen.append(told.new.uid if told.new else ""), "bench")
    informer.start()
    await informer.wait_synced()


def _path_creates(informers: int) -> int:
    """One client creates, each informer (with its three tasks) has a process of its own."""
    config = ClusterConfig(kubelets=False, controllers=False, schedulers=0)
    world: World = Cluster(config, log=EventLog(keep=False)).world
    seen: list[str] = []
    for number in range(informers):
        world.actor(f"observer-{number}", _observer, seen)
    world.actor("user", _creator)
    assert world.run("bare", until_ns=1_000_000_000).ok
    assert len(seen) == informers * COUNT
    return COUNT


def _refused_pods() -> int:
    """With a scheduler that has no nodes: each pod costs two more writes, an event and a status."""
    config = ClusterConfig(kubelets=False, controllers=False)
    world: World = Cluster(config, log=EventLog(keep=False)).world
    world.actor("user", _creator)
    assert world.run("bare", until_ns=1_000_000_000).ok
    return COUNT


def rows(repeat: int) -> Iterator[Row]:
    yield rate("pod create, API server core", "creates/s", repeat, _core_creates)
    for count in (PAGE, 10_000, 50_000):
        server = core()
        _core_creates(server, count)
        for shown, query in (
            ("", {}),
            (", with a selector", {"fieldSelector": "metadata.name!=x"}),
        ):
            name = f"page of {PAGE} pods of {count:,}{shown}, API server core"
            yield rate(name, "pages/s", repeat, partial(_pages, server, query))
    for informers in (0, 1, 3):
        name = f"pod create, through actors, {informers} informers listening"
        yield rate(name, "creates/s", repeat, partial(_path_creates, informers))
    yield rate("pod create and a scheduler that refuses it", "pods/s", repeat, _refused_pods)
