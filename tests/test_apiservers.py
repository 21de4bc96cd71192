"""Several API servers over one store: what clients see of servers that lag, are cut off, or go down."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context, EventLog, LinkBroken, RandomWalk
from actors.testing import assert_deterministic
from controlplane.apiserver.loops.etcd import ETCD
from controlplane.apiserver.loops.replica import Hold, Release, ReplicaOptions
from controlplane.client.errors import ApiError, is_expired, is_too_large
from controlplane.client.features import ClientFeatures, upstream
from controlplane.client.loops.clientset import DEPLOYMENTS, NODES, PODS, Client, Resource
from controlplane.client.loops.connection import RestConfig
from controlplane.client.loops.informer import Informer
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from tests.test_determinism import deployment

SECOND = 1_000_000_000
CONFIG_MAPS = Resource("", "v1", "configmaps")
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
A, B, C = "apiserver", "apiserver-2", "apiserver-3"


def config_map(name: str, value: str = "") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"value": value},
    }


def servers(user: Any, *, count: int = 2, strategy: Any = None, **config: Any) -> Cluster:
    """API servers and a store with nobody but `user(ctx, cluster)`."""
    made = Cluster(
        ClusterConfig(apiservers=count, kubelets=False, controllers=False, **config),
        strategy=strategy,
        log=EventLog(),
    )
    made.user("user", user, made)
    return made


def run(cluster: Cluster, driver: Any = "bare") -> Any:
    result = cluster.world.run(driver)
    assert result.verdict == "quiescent", result.reason
    return result


def play(user: Any, **config: Any) -> Cluster:
    cluster = servers(user, **config)
    run(cluster)
    return cluster


async def names(client: Client, **query: str) -> list[str]:
    return [obj.name for obj in (await client.list(CONFIG_MAPS, "default", **query)).items]


def connections(cluster: Cluster, actor: str) -> list[str]:
    """The servers that a process was connected to, one after the other."""
    return [
        event.data["server"]
        for event in cluster.world.log
        if event.event == "client.connected" and event.actor == actor
    ]


async def settle(ctx: Context) -> None:
    """Let what is under way arrive."""
    await ctx.sleep(1)


# ---------------------------------------------------------------------- reading


def test_a_write_by_one_server_is_read_from_the_other():
    async def user(ctx: Context, _cluster: Cluster) -> None:
        await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("a"))
        assert await names(Client(ctx, RestConfig((B,)))) == ["a"]
        await settle(ctx)
        assert await names(Client(ctx, RestConfig((B,))), resourceVersion="0") == ["a"]

    play(user)


def test_the_held_cache_shows_the_past_to_those_who_take_any_version():
    async def user(ctx: Context, _cluster: Cluster) -> None:
        fresh, stale = Client(ctx, RestConfig((A,))), Client(ctx, RestConfig((B,)))
        old = await fresh.create(CONFIG_MAPS, config_map("a", "old"))
        assert await names(stale) == ["a"]
        await settle(ctx)
        await ctx.ask(B, Hold("configmaps"))
        await fresh.update(CONFIG_MAPS, {**old.tree, "data": {"value": "new"}})
        await fresh.create(CONFIG_MAPS, config_map("b"))
        await settle(ctx)
        assert await names(stale, resourceVersion="0") == ["a"]
        got = await stale.get(CONFIG_MAPS, "default", "a", resourceVersion="0")
        assert got.tree["data"] == {"value": "old"}
        assert (await stale.get(CONFIG_MAPS, "default", "a")).tree["data"] == {"value": "new"}
        assert await names(fresh, resourceVersion="0") == ["a", "b"]
        # Other resources of the same server are not held.
        await fresh.create(NODES, node_tree("n"))
        await settle(ctx)
        assert (await stale.list(NODES, resourceVersion="0")).items
        await ctx.ask(B, Release("configmaps"))
        await settle(ctx)
        assert await names(stale, resourceVersion="0") == ["a", "b"]

    play(user)


def test_a_version_ahead_of_a_held_cache_is_waited_for_three_seconds():
    async def user(ctx: Context, _cluster: Cluster) -> None:
        stale = Client(ctx, RestConfig((B,)))
        await stale.list(CONFIG_MAPS, resourceVersion="0")
        await ctx.ask(B, Hold("configmaps"))
        version = (
            await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("a"))
        ).resource_version
        await settle(ctx)
        begun = ctx.now
        with pytest.raises(ApiError) as caught:
            await names(stale, resourceVersion=str(version))
        assert is_too_large(caught.value)
        assert caught.value.message.startswith(f"Timeout: Too large resource version: {version}, ")
        assert ctx.now - begun == 3 * SECOND

    play(user)


def test_a_version_that_the_cache_reaches_in_time_is_answered_then():
    async def user(ctx: Context, _cluster: Cluster) -> None:
        stale = Client(ctx, RestConfig((B,)))
        await stale.list(CONFIG_MAPS, resourceVersion="0")
        await ctx.ask(B, Hold("configmaps"))
        version = (
            await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("a"))
        ).resource_version

        async def release(ctx: Context) -> None:
            await ctx.sleep(2 * SECOND)
            await ctx.ask(B, Release("configmaps"))

        ctx.spawn(release)
        begun = ctx.now
        assert await names(stale, resourceVersion=str(version)) == ["a"]
        assert ctx.now - begun == 2 * SECOND

    play(user)


@pytest.mark.parametrize("from_cache", [True, False])
def test_a_list_without_a_version_is_never_stale(from_cache):
    """From the cache it waits at most three seconds for it, then the store answers."""

    async def user(ctx: Context, _cluster: Cluster) -> None:
        stale = Client(ctx, RestConfig((B,)))
        await stale.list(CONFIG_MAPS, resourceVersion="0")
        await ctx.ask(B, Hold("configmaps"))
        await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("a"))
        begun = ctx.now
        assert await names(stale) == ["a"]
        assert ctx.now - begun == (3 * SECOND if from_cache else 0)

    play(user, replica=ReplicaOptions(consistent_list_from_cache=from_cache))


def test_an_idle_resource_is_as_far_as_anything_was_heard():
    """Kind X unchanged: a version from another kind's write is no reason to wait (KEP-1904, issue 91073)."""

    async def user(ctx: Context, _cluster: Cluster) -> None:
        await Client(ctx, RestConfig((B,))).list(CONFIG_MAPS, resourceVersion="0")
        made = await Client(ctx, RestConfig((A,))).create(NODES, node_tree("n"))
        begun = ctx.now
        await names(Client(ctx, RestConfig((B,))), resourceVersion=str(made.resource_version))
        assert ctx.now == begun

    play(user)


@pytest.mark.parametrize("progress", [True, False])
def test_91073_a_version_from_another_server_is_too_large_for_an_idle_cache(progress):
    """Kind X unchanged, the servers began at different versions: without progress notifications B never gets there."""
    told: list[str] = []

    async def user(ctx: Context, cluster: Cluster) -> None:
        await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("x"))
        assert await names(Client(ctx, RestConfig((B,))), resourceVersion="0") in (["x"], [])
        await Client(ctx, RestConfig((A,))).create(NODES, node_tree("n"))
        ctx.faults.crash(A)
        ctx.faults.restart(A)
        await ctx.sleep(SECOND)
        version = (
            await Client(ctx, RestConfig((A,))).list(CONFIG_MAPS, resourceVersion="0")
        ).resource_version
        try:
            await names(Client(ctx, RestConfig((B,))), resourceVersion=version)
        except ApiError as error:
            assert is_too_large(error)
            told.append("too large")
        # A reflector asks again without a version then, and gets there either way.
        informer = Informer(ctx, CONFIG_MAPS, server=cluster.address("follower"))
        informer.start()
        await informer.wait_synced()
        assert [each.name for each in informer.store] == ["x"]
        cluster.world.faults.cut("user", A)
        ctx.faults.crash(B)
        ctx.faults.restart(B)
        await ctx.sleep(120 * SECOND)
        assert [each.name for each in informer.store] == ["x"]

    play(user, replica=ReplicaOptions(progress_notify=progress))
    assert told == ([] if progress else ["too large"])


def test_pages_of_one_list_come_from_one_version_whichever_server_answers():
    async def user(ctx: Context, _cluster: Cluster) -> None:
        for name in "abcd":
            await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map(name))
        first = await Client(ctx, RestConfig((A,))).list(CONFIG_MAPS, "default", limit="2")
        await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("c2"))
        query = {"limit": "10", "continue": first.continue_token}
        rest = await Client(ctx, RestConfig((B,))).list(CONFIG_MAPS, "default", **query)
        assert [obj.name for obj in rest.items] == ["c", "d"]
        assert rest.resource_version == first.resource_version

    play(user)


# ---------------------------------------------------------------------- cut and crashed


def test_a_server_cut_from_the_store_answers_from_its_cache_and_refuses_the_rest():
    async def user(ctx: Context, cluster: Cluster) -> None:
        stale = Client(ctx, RestConfig((B,)))
        await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("a"))
        assert await names(stale) == ["a"]
        await settle(ctx)
        cluster.world.faults.cut(ETCD, B)
        await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("b"))
        await ctx.sleep(10 * SECOND)
        assert await names(stale, resourceVersion="0") == ["a"]
        begun = ctx.now
        with pytest.raises(ApiError) as caught:
            await stale.create(CONFIG_MAPS, config_map("c"))
        assert caught.value.code == 504
        assert ctx.now - begun == 34 * SECOND
        cluster.world.faults.heal(ETCD, B)
        await settle(ctx)
        assert await names(stale, resourceVersion="0") == ["a", "b"]
        # What nobody waited for any more was not done later.
        assert await names(Client(ctx, RestConfig((A,)))) == ["a", "b"]

    play(user)


def test_a_write_whose_answer_is_cut_off_has_happened():
    async def user(ctx: Context, cluster: Cluster) -> None:
        assert await names(Client(ctx, RestConfig((B,)))) == []  # B has heard of the store
        _there, back = cluster.world.link(B, ETCD, latency_ns=SECOND)
        back.cut = True
        with pytest.raises(ApiError) as caught:
            await Client(ctx, RestConfig((B,))).create(CONFIG_MAPS, config_map("a"))
        assert caught.value.code == 504
        assert await names(Client(ctx, RestConfig((A,)))) == ["a"]

    play(user)


def test_when_the_store_restarts_nothing_is_lost():
    async def user(ctx: Context, _cluster: Cluster) -> None:
        client = Client(ctx, RestConfig((A,)))
        await client.create(CONFIG_MAPS, config_map("a"))
        ctx.faults.crash(ETCD)
        with pytest.raises(ApiError) as caught:
            await client.create(CONFIG_MAPS, config_map("b"))
        assert caught.value.code == 500
        await ctx.sleep(5 * SECOND)
        ctx.faults.restart(ETCD)
        await client.create(CONFIG_MAPS, config_map("c"))
        await ctx.sleep(5 * SECOND)
        assert await names(Client(ctx, RestConfig((B,))), resourceVersion="0") == ["a", "c"]

    play(user)


def test_a_process_goes_to_another_server_when_its_own_goes_down():
    async def user(ctx: Context, cluster: Cluster) -> None:
        client = Client(ctx, cluster.address("user"))
        await client.create(CONFIG_MAPS, config_map("a"))
        ctx.faults.crash(A)
        with pytest.raises(LinkBroken):
            await client.create(CONFIG_MAPS, config_map("b"))
        await client.create(CONFIG_MAPS, config_map("c"))
        assert await names(client) == ["a", "c"]

    cluster = play(user)
    assert connections(cluster, "user") == [A, B]


def test_a_server_that_a_process_cannot_reach_is_found_out_by_a_ping():
    heard: list[str] = []

    async def user(ctx: Context, cluster: Cluster) -> None:
        informer = Informer(ctx, CONFIG_MAPS, server=cluster.address("user"))
        informer.add_handler(lambda told: heard.append(told.new.name))
        informer.start()
        await informer.wait_synced()
        cluster.world.faults.cut("user", A)
        await Client(ctx, RestConfig((B,))).create(CONFIG_MAPS, config_map("a"))
        await ctx.sleep(60 * SECOND)
        assert heard == ["a"]

    play(user)


def test_a_process_with_many_silent_watches_pings_once_for_all_of_them():
    async def user(ctx: Context, cluster: Cluster) -> None:
        address = cluster.address("user")
        for resource in (CONFIG_MAPS, NODES, PODS, CRDS, DEPLOYMENTS):
            Informer(ctx, resource, server=address).start()
        await ctx.sleep(299 * SECOND)

    cluster = play(user)
    pings = [
        event
        for event in cluster.world.log
        if event.event == "client.ping" and event.actor == "user"
    ]
    assert 5 <= len(pings) <= 10
    steps = [event.event for event in cluster.world.log if event.actor == "user"]
    assert steps.count("client.idle") <= len(pings) + 5, "a timer for the connection"
    assert steps.count("watch configmaps") <= 6, (
        "a stream wakes for what comes: a bookmark a minute"
    )


def test_a_process_that_changed_its_server_finds_out_again_that_it_cannot_reach_it():
    heard: list[str] = []

    async def user(ctx: Context, cluster: Cluster) -> None:
        informer = Informer(ctx, CONFIG_MAPS, server=cluster.address("user"))
        informer.add_handler(lambda told: heard.append(told.new.name))
        informer.start()
        await informer.wait_synced()
        for cut, other, name in ((A, B, "a"), (B, A, "b"), (A, B, "c")):
            cluster.world.faults.cut("user", cut)
            await Client(ctx, RestConfig((other,))).create(CONFIG_MAPS, config_map(name))
            await ctx.sleep(60 * SECOND)
            assert heard[-1] == name
            cluster.world.faults.heal("user", cut)

    cluster = play(user)
    assert heard == ["a", "b", "c"]
    assert connections(cluster, "user") == [A, B, A, B]


# ---------------------------------------------------------------------- watches


@pytest.mark.slow
def test_watches_of_different_resources_go_their_own_pace():
    """Between kinds there is no order: the later write of one may be heard before the earlier of another."""
    orders: set[tuple[str, ...]] = set()
    for seed in range(100):
        heard: list[str] = []

        async def user(ctx: Context, cluster: Cluster, heard: list[str] = heard) -> None:
            for resource in (CONFIG_MAPS, NODES):
                informer = Informer(ctx, resource, server=cluster.address("user"))
                informer.add_handler(lambda told: heard.append(told.new.name))
                informer.start()
                await informer.wait_synced()
            await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("first"))
            await Client(ctx, RestConfig((A,))).create(NODES, node_tree("second"))

        run(servers(user, strategy=RandomWalk(seed)))
        orders.add(tuple(name for name in heard if name in ("first", "second")))
    assert orders == {("first", "second"), ("second", "first")}


def test_a_watch_goes_on_at_another_server_without_gap_or_repetition():
    for seed in range(10):
        heard: list[str] = []

        async def user(ctx: Context, cluster: Cluster, heard: list[str] = heard) -> None:
            informer = Informer(ctx, CONFIG_MAPS, server=cluster.address("user"))
            informer.add_handler(lambda told: heard.append(told.new.name))
            informer.start()
            await informer.wait_synced()
            writer = Client(ctx, RestConfig((C,)))
            for number in range(6):
                await writer.create(CONFIG_MAPS, config_map(f"m{number}"))
                await ctx.sleep(SECOND)
                if number == 2:
                    ctx.faults.break_link("user", A)
                    ctx.faults.break_link("user", B)

        cluster = servers(
            user, count=3, strategy=RandomWalk(seed), replica=ReplicaOptions(lag_ns=3 * SECOND)
        )
        run(cluster)
        assert heard == [f"m{number}" for number in range(6)], seed


def test_events_come_from_the_store_whatever_version_is_asked_for():
    events = Resource("", "v1", "events")
    heard: list[str] = []

    async def user(ctx: Context, cluster: Cluster) -> None:
        informer = Informer(ctx, events, server=cluster.address("follower"))
        informer.add_handler(lambda told: heard.append(told.new.name))
        informer.start()
        await informer.wait_synced()
        tree = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        }
        await Client(ctx, RestConfig((A,))).create(events, tree)
        assert (
            len((await Client(ctx, RestConfig((B,))).list(events, resourceVersion="0")).items) == 1
        )
        await settle(ctx)

    play(user, connected={"follower": B}, replica=ReplicaOptions(lag_ns=SECOND))
    assert heard == ["e"]


def test_compaction_happens_in_turns_and_keeps_five_to_ten_minutes():
    compacted: list[tuple[int, int]] = []

    async def user(ctx: Context, cluster: Cluster) -> None:
        client = Client(ctx, RestConfig((A,)))
        marks = []
        for number in range(20):
            await client.create(CONFIG_MAPS, config_map(f"m{number}"))
            marks.append((ctx.now, cluster.store.revision))
            await ctx.sleep(60 * SECOND)
            oldest = min((at for at, rv in marks if rv >= cluster.store.compacted), default=ctx.now)
            compacted.append((ctx.now - oldest, cluster.store.compacted))

    play(user, count=3)
    kept = [age // (60 * SECOND) for age, revision in compacted if revision]
    assert kept and min(kept) >= 5 and max(kept) <= 11


def test_a_version_older_than_a_restarted_server_remembers_is_gone_and_listed_anew():
    told: list[tuple[str, bool]] = []

    async def user(ctx: Context, cluster: Cluster) -> None:
        writer = Client(ctx, RestConfig((A,)))
        await writer.create(CONFIG_MAPS, config_map("a"))
        informer = Informer(ctx, CONFIG_MAPS, server=cluster.address("user"))
        informer.add_handler(lambda n: told.append(((n.new or n.old).name, n.new is None)))
        informer.start()
        await informer.wait_synced()
        cluster.world.faults.cut("user", A)
        await Client(ctx, RestConfig((B,))).delete(CONFIG_MAPS, "default", "a")
        await Client(ctx, RestConfig((B,))).create(CONFIG_MAPS, config_map("b"))
        ctx.faults.crash(B)
        ctx.faults.restart(B)
        await ctx.sleep(60 * SECOND)

    cluster = play(user)
    assert told == [("a", False), ("a", True), ("b", False)]
    errors = [e.data["message"] for e in cluster.world.log if e.event == "reflector.error"]
    assert any(text.startswith("too old resource version") for text in errors)


def test_a_cut_server_that_missed_compacted_events_ends_its_watches_and_lists_anew():
    async def user(ctx: Context, cluster: Cluster) -> None:
        await Client(ctx, RestConfig((B,))).list(CONFIG_MAPS, resourceVersion="0")
        stream = Client(ctx, RestConfig((B,))).watch(CONFIG_MAPS)
        await ctx.sleep(SECOND)
        cluster.world.faults.cut(ETCD, B)
        await Client(ctx, RestConfig((A,))).create(CONFIG_MAPS, config_map("a"))
        await ctx.sleep(1200 * SECOND)
        ctx.faults.break_link(ETCD, B)  # what was under way is lost with the connection
        cluster.world.faults.heal(ETCD, B)
        await ctx.sleep(5 * SECOND)
        while not (batch := (await stream.recv()).payload).end:
            assert all(event.type == "BOOKMARK" for event in batch.events)
        assert batch.error is None
        assert await names(Client(ctx, RestConfig((B,))), resourceVersion="0") == ["a"]

    cluster = play(user)
    assert any(e.event == "apiserver.relisted" for e in cluster.world.log)


def test_a_page_after_compaction_is_refused():
    async def user(ctx: Context, _cluster: Cluster) -> None:
        client = Client(ctx, RestConfig((A,)))
        for name in "abcd":
            await client.create(CONFIG_MAPS, config_map(name))
        first = await client.list(CONFIG_MAPS, "default", limit="2")
        await client.create(CONFIG_MAPS, config_map("e"))
        await ctx.sleep(900 * SECOND)
        query = {"limit": "2", "continue": first.continue_token}
        with pytest.raises(ApiError) as caught:
            await client.list(CONFIG_MAPS, "default", **query)
        assert is_expired(caught.value)

    play(user)


def definition_of_widgets() -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }


def widget(name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}


def test_what_one_server_is_told_to_serve_the_others_serve_too():
    definition = definition_of_widgets()
    widgets = Resource("example.com", "v1", "widgets")

    async def user(ctx: Context, _cluster: Cluster) -> None:
        await Client(ctx, RestConfig((A,))).create(CRDS, definition)
        await ctx.sleep(SECOND)
        await Client(ctx, RestConfig((B,))).create(widgets, widget("w"))
        await ctx.sleep(SECOND)
        assert (
            len((await Client(ctx, RestConfig((A,))).list(widgets, resourceVersion="0")).items) == 1
        )

    play(user)


@pytest.mark.parametrize("lost", [0, 1])
def test_a_server_that_starts_again_serves_what_was_defined_before(lost):
    """Also when the store's first answer to it is lost."""
    widgets = Resource("example.com", "v1", "widgets")
    found: list[str] = []

    async def user(ctx: Context, _cluster: Cluster) -> None:
        await Client(ctx, RestConfig((A,))).create(CRDS, definition_of_widgets())
        await Client(ctx, RestConfig((A,))).create(widgets, widget("w"))
        ctx.faults.crash(B)
        ctx.faults.restart(B)
        if lost:
            await ctx.point("the server asks what is stored")
            ctx.faults.lose(ETCD, B, lost)
        await ctx.sleep(5 * SECOND)
        found.extend(obj.name for obj in (await Client(ctx, RestConfig((B,))).list(widgets)).items)

    play(user)
    assert found == ["w"]


def test_a_definition_that_a_server_could_not_look_up_at_once_is_served_later():
    widgets = Resource("example.com", "v1", "widgets")

    async def user(ctx: Context, _cluster: Cluster) -> None:
        ctx.faults.lose(B, ETCD, 3)
        await Client(ctx, RestConfig((A,))).create(CRDS, definition_of_widgets())
        await ctx.sleep(5 * SECOND)
        await Client(ctx, RestConfig((B,))).create(widgets, widget("w"))

    play(user)


def test_a_definition_that_went_and_came_again_is_heard_of_again():
    definition = definition_of_widgets()
    widgets = Resource("example.com", "v1", "widgets")
    heard: list[str] = []

    async def user(ctx: Context, cluster: Cluster) -> None:
        client = Client(ctx, RestConfig((A,)))
        for number in range(2):
            await client.create(CRDS, definition)
            await ctx.sleep(SECOND)
            stream = Client(ctx, RestConfig((B,))).watch(widgets)
            await client.create(widgets, widget(f"w{number}"))
            await ctx.sleep(SECOND)
            while stream.ready():
                events = (await stream.recv()).payload.events
                heard.extend(f"{e.type} {e.object.name}" for e in events if e.type != "BOOKMARK")
            ctx.close(stream)
            await client.delete(CRDS, "", "widgets.example.com")
            await ctx.sleep(SECOND)

    play(user)
    assert heard == ["ADDED w0", "ADDED w1"]


def test_with_an_older_release_components_have_the_older_queue():
    config = ClusterConfig(release="1.32")
    address = Cluster(config, log=EventLog()).address("scheduler")
    assert isinstance(address, RestConfig)
    assert address.features.generation == "DeltaFIFO"
    assert Cluster(ClusterConfig(), log=EventLog()).address("scheduler") == RestConfig((A,))


# ---------------------------------------------------------------------- the whole control plane


async def stubborn(ctx: Context, call: Any) -> Any:
    """Ask again when the connection broke; an answer of the first try may have been lost (409, 404)."""
    while True:
        try:
            return await call()
        except LinkBroken:
            await ctx.sleep(SECOND)
        except ApiError as error:
            assert error.code in (404, 409), error
            return None


def control_plane(strategy: Any, client: ClientFeatures) -> Cluster:
    nodes = tuple(node_tree(f"node-{number}", cpu="2") for number in (1, 2))
    config = ClusterConfig(
        nodes=nodes, apiservers=3, replica=ReplicaOptions(lag_ns=2 * SECOND), client=client
    )
    cluster = Cluster(config, strategy=strategy, log=EventLog())

    async def user(ctx: Context) -> None:
        client = Client(ctx, cluster.address("user"))
        await stubborn(ctx, lambda: client.create(DEPLOYMENTS, deployment(3)))
        await ctx.sleep(20 * SECOND)
        pods = await stubborn(ctx, lambda: client.list(PODS, "default"))
        name = pods.items[0].name
        await stubborn(ctx, lambda: client.delete(PODS, "default", name))
        await ctx.sleep(60 * SECOND)
        patch = {"spec": {"replicas": 1}}
        await stubborn(ctx, lambda: client.patch(DEPLOYMENTS, "default", "web", patch))

    async def chaos(ctx: Context) -> None:
        await ctx.sleep((1 + ctx.choose("fault", 40, "when")) * SECOND)
        victim = cluster.apiservers[ctx.choose("fault", 3, "which")]
        ctx.faults.crash(victim)
        await ctx.sleep(5 * SECOND)
        ctx.faults.restart(victim)

    cluster.user("user", user)
    cluster.user("chaos", chaos)
    return cluster


@pytest.mark.slow
@pytest.mark.parametrize("release", ["1.30", "1.33", "1.36"])
@pytest.mark.parametrize("seed", range(3))
def test_a_control_plane_gets_there_over_three_lagging_servers_of_which_one_crashes(seed, release):
    cluster = control_plane(RandomWalk(seed), upstream(release))
    run(cluster)
    pods = cluster.objects("/registry/pods/")
    assert [pod.view.status.phase for pod in pods] == ["Running"]


@pytest.mark.slow
def test_several_servers_are_deterministic_on_both_drivers():
    assert_deterministic(lambda: control_plane(RandomWalk(1), upstream()).world)


def test_a_process_that_starts_again_knows_nothing_of_its_former_connection():
    async def user(ctx: Context, cluster: Cluster) -> None:
        client = Client(ctx, cluster.address("user"))
        await client.list(CONFIG_MAPS)
        if ctx.incarnation == 1:
            ctx.faults.crash(B)
            await stubborn(ctx, lambda: client.list(CONFIG_MAPS))

    async def chaos(ctx: Context) -> None:
        await ctx.sleep(5 * SECOND)
        ctx.faults.restart(B)
        ctx.faults.crash("user")
        ctx.faults.restart("user")

    cluster = servers(user, connected={"user": B})
    address = cluster.address("user")
    cluster.address = lambda _process: address  # one address for both lives, as components have
    cluster.user("chaos", chaos)
    run(cluster)
    assert connections(cluster, "user") == [B, A, B]
