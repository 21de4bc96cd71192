"""Many informers start at once: which server runs out of memory, and which does not."""

import pytest

from actors import EventLog, Fifo, RandomWalk
from controlplane.apiserver.requests.memory import ONE, WHOLE, Account, Memory
from controlplane.client.features import PLAIN, ClientFeatures
from controlplane.client.loops.clientset import Client, Resource
from controlplane.client.loops.informer import Informer
from controlplane.cluster import Cluster, ClusterConfig
from controlplane.gates import fix_gates
from tests.client.objects import obj

SECOND = 1_000_000_000
CONFIG_MAPS = Resource("", "v1", "configmaps")
OBJECTS, SIZE, INFORMERS = 40, 10_000, 8
DATA = OBJECTS * SIZE
LIMIT = 5 * WHOLE * DATA // 2
"""Two lists as a whole find room, three do not."""
SLOW_LINK = DATA * 2
"""A client takes a list in half a second."""


async def component(ctx, started, synced, address):
    while not started:
        await ctx.sleep(SECOND)
    informer = Informer(ctx, CONFIG_MAPS, server=address)
    informer.start()
    await informer.wait_synced()
    synced.append((ctx.actor, len(informer.store)))


def play(without=(), *, informers=INFORMERS, memory=None, client=PLAIN, strategy=None):
    """Components whose informers all start when the data is there; the cluster, and who has synced."""
    config = ClusterConfig(
        kubelets=False,
        controllers=False,
        gates=fix_gates(without=without),
        apiserver_memory=memory,
        client=client,
    )
    cluster = Cluster(config, strategy=strategy or Fifo(), log=EventLog())
    synced = []
    started = []

    async def user(ctx):
        server = Client(ctx, cluster.address("user"))
        for number in range(OBJECTS):
            await server.create(
                CONFIG_MAPS,
                {
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {"name": f"c{number:02}", "namespace": "default"},
                    "data": {"text": "x" * SIZE},
                },
            )
        started.append(True)

    cluster.user("user", user)
    for number in range(informers):
        name = f"component-{number}"
        cluster.user(
            name, lambda ctx, name=name: component(ctx, started, synced, cluster.address(name))
        )
    result = cluster.world.run("bare", until_ns=120 * SECOND)
    return cluster, synced, result


def kills(cluster):
    return [event for event in cluster.world.log if event.event == "apiserver.oom"]


LIMITED = Memory(LIMIT, link_bytes_per_s=SLOW_LINK)


def test_lists_as_a_whole_run_the_server_out_of_memory():
    cluster, _, _ = play(("129334",), memory=LIMITED)
    found = kills(cluster)
    assert found
    assert found[0].data["held"] > LIMIT == found[0].data["limit"]
    assert len(cluster.accounts) > 1, "it was started again"


def test_few_informers_are_no_burden_even_so():
    cluster, synced, _ = play(("129334",), informers=2, memory=LIMITED)
    assert not kills(cluster)
    assert [count for _, count in synced] == [OBJECTS] * 2
    assert cluster.accounts[0].peak <= LIMIT


@pytest.mark.parametrize("strategy", [Fifo(), RandomWalk(1), RandomWalk(2)])
def test_lists_item_by_item_never_do(strategy):
    cluster, synced, _ = play(memory=LIMITED, strategy=strategy)
    assert not kills(cluster)
    assert sorted(synced) == [(f"component-{n}", OBJECTS) for n in range(INFORMERS)]
    (account,) = cluster.accounts
    assert 0 < account.peak <= INFORMERS * ONE * (SIZE + 1000)
    assert account.held == 0


def test_streaming_lists_never_do_whatever_lists_cost():
    streams = ClientFeatures(watch_list_client=True)
    cluster, synced, _ = play(("129334",), memory=LIMITED, client=streams)
    assert not kills(cluster)
    assert [count for _, count in synced] == [OBJECTS] * INFORMERS


def test_the_same_schedule_kills_at_the_same_moment():
    traces = set()
    for _ in range(2):
        cluster, _, result = play(("129334",), memory=LIMITED, strategy=RandomWalk(7))
        assert kills(cluster)
        traces.add((result.trace_hash, tuple(event.t_ns for event in kills(cluster))))
    assert len(traces) == 1


def test_without_a_limit_nothing_is_counted():
    cluster, synced, _ = play(("129334",))
    assert not kills(cluster)
    assert len(synced) == INFORMERS
    assert cluster.accounts == []


def test_what_an_answer_costs():
    small, large = obj("a", 1), obj("b", 2, label="y" * 1000)
    total = len(small.json) + len(large.json)
    memory = Memory(1, link_bytes_per_s=total)
    assert Account(memory, whole=True).cost([small, large]) == (WHOLE * total, SECOND)
    assert Account(memory, whole=False).cost([small, large]) == (ONE * len(large.json), SECOND)
    streamed = Account(memory, whole=True).cost([small, large], streamed=True)
    assert streamed == (ONE * len(large.json), SECOND)
    assert Account(memory, whole=True).cost([]) == (0, 0)
