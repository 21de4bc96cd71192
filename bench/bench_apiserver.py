"""Requests through the API server in process: the pure core, and the whole path of an actor's request."""

from __future__ import annotations

from collections.abc import Iterator

from actors import Context, EventLog, World
from bench.harness import Row, rate
from controlplane.api import identity
from controlplane.api.request import Request
from controlplane.apiserver.server import ApiServer
from controlplane.chaos.churn import pod
from controlplane.client.clientset import PODS, Client
from controlplane.cluster import APISERVER, DISABLED_ADMISSION, EPOCH_NS, Cluster, ClusterConfig

COUNT = 2000


def _core_creates() -> int:
    serials = iter(range(1, 1 << 30))
    server = ApiServer(
        uid=lambda: identity.uid(next(serials)),
        suffix=lambda: identity.suffix(next(serials)),
        disabled=DISABLED_ADMISSION,
    )
    server.bootstrap(EPOCH_NS)
    for number in range(COUNT):
        body = pod(f"pod-{number}", "100m")
        answer = server.handle(
            Request("create", resource="pods", namespace="default", body=body), EPOCH_NS
        )
        assert answer.ok
    return COUNT


async def _creator(ctx: Context) -> None:
    client = Client(ctx, APISERVER)
    for number in range(COUNT):
        await client.create(PODS, pod(f"pod-{number}", "100m"))


def _path_creates() -> int:
    world: World = Cluster(
        ClusterConfig(kubelets=False, controllers=False), log=EventLog(keep=False)
    ).world
    world.actor("user", _creator)
    assert world.run("bare", until_ns=1_000_000_000).ok
    return COUNT


def rows(repeat: int) -> Iterator[Row]:
    yield rate("pod create, API server core", "creates/s", repeat, _core_creates)
    yield rate(
        "pod create, through an actor, informers listening", "creates/s", repeat, _path_creates
    )
