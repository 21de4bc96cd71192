"""A server over a file: what it says while the disk is full, what it forgets in time, what it finishes."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from actors import Context, EventLog
from controlplane.api.object import Object
from controlplane.api.request import Request
from controlplane.apiserver.front.answering import served_by
from controlplane.apiserver.front.discovery import answer
from controlplane.apiserver.options import ServerOptions
from controlplane.apiserver.requests.routing import HttpRequest
from controlplane.apiserver.requests.server import ApiServer
from controlplane.apiserver.requests.unfinished import finish_deletions
from controlplane.apiserver.storage.durable_store import DurableStore
from controlplane.apiserver.storage.store import Store
from controlplane.apiserver.storage.watch_cache import WatchCache
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import PODS, Client, Resource
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.cluster_config import EPOCH_NS
from controlplane.scenarios.authoring.workloads import config_map, pod
from tests.apiserver.storage.faulty_files import FULL, LAYER, register

CONFIG_MAPS = Resource("", "v1", "configmaps")
SECOND = 1_000_000_000
SPACE_EXCEEDED = "etcdserver: mvcc: database space exceeded"


class Small(Cluster):
    """A cluster of an API server alone, which compacts."""

    def server_options(self) -> ServerOptions:
        return ServerOptions(disabled=("ServiceAccount",), compaction_ns=300 * SECOND)


def run(path: Path, main: Any, vfs: str = "") -> Cluster:
    """An API server over a file and `main(ctx, cluster)`."""
    store = DurableStore.open(path, vfs=vfs)
    config = ClusterConfig(kubelets=False, controllers=False, store=store)
    made = Small(config, log=EventLog())
    made.user("user", main, made)
    result = made.world.run("bare")
    assert result.ok, result.reason
    return made


def server_over(store: Any) -> ApiServer:
    numbers = count(store.incarnation << 40)
    options = ServerOptions(disabled=("ServiceAccount",))
    return ApiServer(
        store,
        uid=lambda: f"uid-{next(numbers)}",
        suffix=lambda: f"{next(numbers)}",
        options=options,
    )


def health(cluster: Cluster, path: str, *, verbose: bool = False) -> tuple[int, str]:
    server = server_over(cluster.store)
    asked = HttpRequest("GET", path, {"verbose": [""]} if verbose else {})
    code, _, _, text = answer(served_by(server), asked)
    assert text is not None
    return code, text


def test_a_full_disk_is_said_as_etcd_says_it_and_writing_goes_on_when_there_is_space(
    tmp_path,
) -> None:
    register()
    LAYER.begin()

    async def main(ctx: Context, cluster: Cluster) -> None:
        client = Client(ctx)
        await client.create(CONFIG_MAPS, config_map("one"))
        LAYER.begin(1, with_code=FULL)
        for call in (
            client.create(CONFIG_MAPS, config_map("two")),
            client.patch(CONFIG_MAPS, "default", "one", {"data": {"a": "b"}}),
            client.delete(CONFIG_MAPS, "default", "one"),
        ):
            with pytest.raises(ApiError) as refused:
                await call
            assert (refused.value.code, refused.value.message) == (500, SPACE_EXCEEDED)
        assert [each.name for each in (await client.list(CONFIG_MAPS, "default")).items] == ["one"]
        for name in ("readyz", "livez", "healthz"):
            code, text = health(cluster, f"/{name}")
            assert code == 500
            assert text.startswith("[+]ping ok\n[+]log ok\n")
            assert "\n[-]etcd failed: reason withheld\n" in text
            assert text.endswith(f"\n{name} check failed\n")
            assert health(cluster, f"/{name}/ping") == (200, "ok")
            alone = health(cluster, f"/{name}/etcd")
            assert alone == (500, f"internal server error: {SPACE_EXCEEDED}\n")
        LAYER.begin()
        assert health(cluster, "/readyz") == (200, "ok")
        await client.create(CONFIG_MAPS, config_map("two"))

    cluster = run(tmp_path / "store.db", main, register())
    told = [each for each in cluster.world.log if each.event == "apiserver.unwritten"]
    assert [each.data["message"] for each in told] == [SPACE_EXCEEDED] * 3
    cluster.store.close()
    store = DurableStore.open(tmp_path / "store.db")
    names = list(store.keyspace("/registry/configmaps/").keys("default/"))
    assert {"default/one", "default/two"} <= set(names)
    store.close()


def test_events_that_could_not_be_let_go_of_go_in_a_later_round(tmp_path) -> None:
    register()
    LAYER.begin()
    events = Resource("", "v1", "events")
    tree = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "type": "Normal",
    }
    left = []

    async def main(ctx: Context, cluster: Cluster) -> None:
        client = Client(ctx)
        await client.create(events, tree)
        await ctx.sleep(3590 * SECOND)
        LAYER.begin(1, with_code=FULL)
        await ctx.sleep(300 * SECOND)
        left.append(len(cluster.objects("/registry/events/")))
        LAYER.begin()
        await ctx.sleep(700 * SECOND)
        left.append(len(cluster.objects("/registry/events/")))

    run(tmp_path / "store.db", main, register()).store.close()
    assert left == [1, 0]


def test_history_is_forgotten_after_five_to_ten_minutes(tmp_path) -> None:
    path = tmp_path / "store.db"

    async def main(ctx: Context, cluster: Cluster) -> None:
        client = Client(ctx)
        await client.create(CONFIG_MAPS, config_map("one"))
        for number in range(70):
            await client.patch(CONFIG_MAPS, "default", "one", {"data": {"n": str(number)}})
            await ctx.sleep(20 * SECOND)

    cluster = run(path, main)
    assert 15 <= cluster.store.revision - cluster.store.compacted <= 30
    cluster.store.close()


def test_a_deletion_without_grace_is_finished_after_a_kill_between_its_writes(tmp_path) -> None:
    path = tmp_path / "store.db"
    store = DurableStore.open(path)
    server = server_over(store)
    server.bootstrap(EPOCH_NS)
    for name in ("killed", "held", "slow", "stays"):
        tree = pod(name, "100m")
        if name == "held":
            tree["metadata"]["finalizers"] = ["example.com/wait"]
        made = server.handle(
            Request("create", resource="pods", namespace="default", body=tree), EPOCH_NS
        )
        assert made.ok, made.message
    space = store.keyspace("/registry/pods/")
    delete = space.delete
    killed = RuntimeError("killed between two writes")

    def dies(*_: object, **__: object) -> None:
        raise killed

    type(space).delete = dies  # type: ignore[method-assign]
    try:
        for name, grace in (("killed", 0), ("held", 0), ("slow", 30)):
            asked = Request(
                "delete",
                resource="pods",
                namespace="default",
                name=name,
                body={"gracePeriodSeconds": grace},
            )
            try:
                server.handle(asked, EPOCH_NS)
            except RuntimeError as error:
                assert error is killed
    finally:
        type(space).delete = delete.__func__  # type: ignore[method-assign,attr-defined]
    store.close()

    async def main(ctx: Context, cluster: Cluster) -> None:
        found.extend(each.name for each in (await Client(ctx).list(PODS, "default")).items)

    found: list[str] = []
    cluster = run(path, main)
    assert "killed" not in found
    assert {"held", "stays"} <= set(found)
    again = server_over(cluster.store)
    assert finish_deletions(again, EPOCH_NS) == 0
    cluster.store.close()


def test_watches_of_what_does_not_change_go_on_while_history_is_forgotten(tmp_path) -> None:
    ended = []

    async def main(ctx: Context, cluster: Cluster) -> None:
        client = Client(ctx)
        await client.create(CONFIG_MAPS, config_map("one"))
        found = await client.list(PODS, "default")
        stream = client.watch(PODS, "default", resourceVersion=found.resource_version)
        for number in range(60):
            await client.patch(CONFIG_MAPS, "default", "one", {"data": {"n": str(number)}})
            await ctx.sleep(20 * SECOND)
        assert cluster.store.compacted > int(found.resource_version)
        while stream.ready():
            ended.append((await stream.recv()).payload)
        await client.create(PODS, pod("a", "100m"), "default")
        ended.append((await stream.recv()).payload)

    run(tmp_path / "store.db", main).store.close()
    assert ended
    assert not [each for each in ended if each.end]


def test_watch_caches_keep_no_more_of_what_is_forgotten_than_upstream_keeps_at_least() -> None:
    store = Store()
    space = store.keyspace("/registry/pods/")
    cache = WatchCache(space)
    revisions = []
    for number in range(400):
        revisions.append(space.put(f"k{number}", Object({"metadata": {"name": f"k{number}"}})))
        cache.advance()
    assert cache.oldest < revisions[0]
    store.compact(revisions[-250])
    revisions.append(space.put("more", Object({"metadata": {"name": "more"}})))
    cache.advance()
    assert cache.oldest == revisions[-250 - 1]
    store.compact(store.revision)
    revisions.append(space.put("most", Object({"metadata": {"name": "most"}})))
    cache.advance()
    assert cache.oldest == revisions[-101]
