"""Hazards of stale reads (facts/apiserver, sections 4.2 and 8): found by search where possible, gone with the guard.

Nothing tells the search where to look: which server a process is connected to, how far its caches
lag, when it crashes and who runs next are choices of a random walk. Each hazard is sought in a
bounded number of schedules, with the hazard possible and with what upstream did against it.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context, EventLog, LinkBroken
from actors.explore import explore
from controlplane.apiserver.loops.etcd import ETCD
from controlplane.apiserver.loops.replica import ReplicaOptions
from controlplane.client.errors import ApiError
from controlplane.client.expectations import Expectations
from controlplane.client.features import ClientFeatures
from controlplane.client.indexer import Indexer
from controlplane.client.loops.clientset import REPLICA_SETS, Client, Resource
from controlplane.client.loops.informer import Informer
from controlplane.cluster import Cluster, ClusterConfig, node_tree

SECOND = 1_000_000_000
CONFIG_MAPS = Resource("", "v1", "configmaps")
PODS = Resource("", "v1", "pods")
LISTS = ClientFeatures()
"""A reflector that begins with a list at version 0, as every one did before 1.35."""
STREAMS = ClientFeatures(watch_list_client=True)
"""A reflector that begins with a stream of a state not older than its request (gate WatchListClient)."""
LAGGING = ReplicaOptions(lag_ns=60 * SECOND, lagging=("apiserver-2",))


def search(build: Any, schedules: int = 60) -> Any:
    """The first schedule that breaks the invariant; None if none does."""
    found = explore(lambda strategy: build(strategy).world, schedules)
    for finding in found.findings:
        assert finding.result.verdict == "violated", finding.result.reason
    return found.findings[0].result if found.findings else None


def lagging_servers(strategy: Any, client: ClientFeatures, **config: Any) -> Cluster:
    return Cluster(
        ClusterConfig(apiservers=2, replica=LAGGING, client=client, **config),
        strategy=strategy,
        log=EventLog(),
        livelock_limit=20_000,
    )


async def restart_sometime(ctx: Context, victim: str) -> None:
    """Crash and restart a process at some moment within a minute."""
    await ctx.sleep((1 + ctx.choose("fault", 30, "when")) * 2 * SECOND)
    ctx.crash(victim)
    await ctx.sleep(SECOND)
    ctx.restart(victim)


# ---------------------------------------------------------------------- issue 59848


def stateful_identity(strategy: Any, client: ClientFeatures) -> Cluster:
    """web-0 runs on node-1, is deleted, comes again on node-2; node-1's kubelet restarts sometime."""
    nodes = (node_tree("node-1"), node_tree("node-2"))
    cluster = lagging_servers(
        strategy, client, nodes=nodes, controllers=False, heartbeats=False, kubelet_events=False
    )
    uids: list[str] = []

    async def stateful_set(ctx: Context) -> None:
        """Recreates web-0 only when its object is gone, as the StatefulSet controller does."""
        api = Client(ctx)
        for node in ("node-1", "node-2"):
            uids.append((await api.create(PODS, web_0(node))).uid)
            await ctx.sleep(70 * SECOND)
            if node == "node-2":
                return
            await api.delete(PODS, "default", "web-0")
            while True:
                try:
                    await api.get(PODS, "default", "web-0")
                except ApiError:
                    break
                await ctx.sleep(SECOND)

    def one_at_most() -> str | None:
        running = [
            (node, uid)
            for node, machine in cluster.machines.items()
            for uid, sandbox in machine.sandboxes.items()
            if uid in uids and sandbox.running()
        ]
        return f"web-0 runs twice: {running}" if len(running) > 1 else None

    cluster.user("statefulset", stateful_set)

    async def chaos(ctx: Context) -> None:
        while len(uids) < 2:
            await ctx.sleep(SECOND)
        await restart_sometime(ctx, "node-1")

    cluster.user("chaos", chaos)
    for node in ("node-1", "node-2"):
        cluster.world.invariant("at most one pod per identity", one_at_most, after=node)
    return cluster


def web_0(node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "default"},
        "spec": {
            "nodeName": node,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "app:1"}],
        },
    }


def test_59848_a_restarted_kubelet_starts_a_pod_of_the_past():
    found = search(lambda strategy: stateful_identity(strategy, LISTS))
    assert found is not None
    assert "web-0 runs twice" in found.reason


def test_59848_a_kubelet_that_begins_with_a_stream_does_not_travel():
    assert search(lambda strategy: stateful_identity(strategy, STREAMS)) is None


# ---------------------------------------------------------------------- issue 19858: restarted controllers


def replica_set(replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": "app:1"}]},
            },
        },
    }


def one_replica_set(cluster: Cluster, replicas: int) -> Cluster:
    """A ReplicaSet whose size nobody changes and whose pods nobody deletes: more pods were made by mistake."""

    async def user(ctx: Context) -> None:
        await Client(ctx).create(REPLICA_SETS, replica_set(replicas))

    def no_surplus() -> str | None:
        made = len(cluster.objects("/registry/pods/"))
        return f"{made} pods for {replicas} replicas" if made > replicas else None

    cluster.user("user", user)
    store = ETCD if len(cluster.apiservers) > 1 else "apiserver"
    cluster.world.invariant("no surplus pods", no_surplus, after=store)
    return cluster


def restarted_controller(strategy: Any, client: ClientFeatures) -> Cluster:
    cluster = lagging_servers(strategy, client, kubelets=False, heartbeats=False)
    cluster.user("chaos", restart_sometime, "controller-manager")
    return one_replica_set(cluster, 3)


def test_a_controller_restarted_onto_a_stale_cache_creates_its_pods_twice():
    found = search(lambda strategy: restarted_controller(strategy, LISTS))
    assert found is not None
    assert "pods for 3 replicas" in found.reason


def test_a_controller_that_begins_with_a_stream_creates_its_pods_once():
    assert search(lambda strategy: restarted_controller(strategy, STREAMS)) is None


# ---------------------------------------------------------------------- expectations (section 5.5)


def one_server(strategy: Any) -> Cluster:
    config = ClusterConfig(kubelets=False, heartbeats=False)
    cluster = Cluster(config, strategy=strategy, log=EventLog(), livelock_limit=20_000)
    return one_replica_set(cluster, 3)


def test_without_expectations_a_controller_acts_again_on_a_cache_without_its_own_writes(
    monkeypatch,
):
    monkeypatch.setattr(Expectations, "satisfied", lambda *_: True)
    assert search(one_server) is not None


def test_with_expectations_it_waits_for_what_it_asked_for():
    assert search(one_server) is None


# ---------------------------------------------------------------------- Sieve: stale state, delete by name


GUARDS = ("nothing", "uid precondition", "live read", "stream")


def operator_of_clusters(strategy: Any, guard: str) -> Cluster:
    """An operator keeps a volume per cluster object and deletes it when the cluster object is marked.

    The shape of issue 29522 and of most stale-state bugs that Sieve found in operators
    (K8SSAND-559, cassandra-operator 402, zookeeper-operator 312): after a restart the operator
    reads the past, sees the mark of an earlier cluster object, and deletes the living one's volume.
    """
    cluster = lagging_servers(
        strategy, STREAMS if guard == "stream" else LISTS, kubelets=False, controllers=False
    )
    losses: list[str] = []
    living: dict[str, str] = {}
    address = cluster.address("operator")

    async def operator(ctx: Context) -> None:
        store = Indexer()
        informer = Informer(ctx, CONFIG_MAPS, store, server=address)
        changed = ctx.condition()
        informer.add_handler(lambda _told: changed.notify_all())
        informer.start()
        await informer.wait_synced()
        api = Client(ctx, address)
        while True:
            for owner in [each for each in store if each.name == "db"]:
                try:
                    await reconcile(ctx, api, store, owner)
                except (ApiError, LinkBroken):
                    await ctx.sleep(SECOND)
            await changed.wait(idle=True, point="operator")

    async def reconcile(ctx: Context, api: Client, store: Indexer, owner: Any) -> None:
        volume = store.get("default/db-volume")
        if owner.tree["data"]["marked"] == "no":
            if volume is None:
                await api.create(CONFIG_MAPS, thing("db-volume"))
        elif volume is not None:
            if guard == "live read":
                fresh = await api.get(CONFIG_MAPS, "default", "db")
                if fresh.uid != owner.uid or fresh.tree["data"]["marked"] == "no":
                    return
            uid = volume.uid if guard == "uid precondition" else ""
            await api.delete(CONFIG_MAPS, "default", "db-volume", uid=uid)

    async def user(ctx: Context) -> None:
        api = Client(ctx)
        first = await api.create(CONFIG_MAPS, thing("db", marked="no"))
        await ctx.sleep(70 * SECOND)
        await api.update(CONFIG_MAPS, {**first.tree, "data": {"marked": "yes"}})
        while await exists(api, "db-volume"):
            await ctx.sleep(SECOND)
        await api.delete(CONFIG_MAPS, "default", "db")
        await api.create(CONFIG_MAPS, thing("db", marked="no"))
        while not await exists(api, "db-volume"):
            await ctx.sleep(SECOND)
        living["db-volume"] = (await api.get(CONFIG_MAPS, "default", "db-volume")).uid

    async def chaos(ctx: Context) -> None:
        while not living:
            await ctx.sleep(SECOND)
        await restart_sometime(ctx, "operator")

    def volume_of_the_living() -> str | None:
        if losses or not living:
            return None
        held = [each.uid for each in cluster.objects("/registry/configmaps/")]
        if living["db-volume"] not in held:
            losses.append("lost")
            return "the volume of the living cluster was deleted"
        return None

    cluster.user("operator", operator)
    cluster.user("user", user)
    cluster.user("chaos", chaos)
    cluster.world.invariant("no live volume is deleted", volume_of_the_living, after=ETCD)
    return cluster


def thing(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def exists(api: Client, name: str) -> bool:
    try:
        await api.get(CONFIG_MAPS, "default", name)
    except ApiError:
        return False
    return True


@pytest.mark.parametrize("guard", GUARDS)
def test_an_operator_that_reads_its_past_deletes_the_living(guard):
    found = search(lambda strategy: operator_of_clusters(strategy, guard))
    assert (found is not None) is (guard == "nothing")


# ---------------------------------------------------------------------- issue 37725: every retry reads the cache


def status_updates(strategy: Any, *, only_first_from_cache: bool) -> Cluster:
    """A kubelet reports its node's status: read, change, write, and on a conflict again, five times."""
    cluster = lagging_servers(strategy, LISTS, kubelets=False, controllers=False)
    address = cluster.address("node")
    failed: list[str] = []

    async def kubelet(ctx: Context) -> None:
        api = Client(ctx, address)
        for number in range(4):
            await ctx.sleep(10 * SECOND)
            for attempt in range(5):
                stale = attempt == 0 or not only_first_from_cache
                query = {"resourceVersion": "0"} if stale else {}
                try:
                    found = await api.get(CONFIG_MAPS, "default", "status", **query)
                    data = {**(found.tree.get("data") or {}), "kubelet": str(number)}
                    await api.update(CONFIG_MAPS, {**found.tree, "data": data})
                except ApiError:
                    continue
                break
            else:
                failed.append(f"report {number} failed five times")

    async def others(ctx: Context) -> None:
        """The node is also written by others, at the same time."""
        api = Client(ctx)
        await api.create(CONFIG_MAPS, thing("status"))
        for number in range(4):
            await ctx.sleep(9 * SECOND)
            found = await api.get(CONFIG_MAPS, "default", "status")
            data = {**(found.tree.get("data") or {}), "others": str(number)}
            try:
                await api.update(CONFIG_MAPS, {**found.tree, "data": data})
            except ApiError:
                continue

    cluster.user("others", others)
    cluster.user("node", kubelet)
    cluster.world.invariant(
        "a report gets through", lambda: failed[0] if failed else None, after="node"
    )
    return cluster


def test_37725_a_status_that_is_read_from_the_cache_at_every_retry_is_never_written():
    found = search(lambda strategy: status_updates(strategy, only_first_from_cache=False))
    assert found is not None
    assert "failed five times" in found.reason


def test_37725_after_the_first_try_the_store_is_read():
    assert search(lambda strategy: status_updates(strategy, only_first_from_cache=True)) is None
