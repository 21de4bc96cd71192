"""The scheduler's fix gates found by search: small clusters, random schedules, nothing told where to look."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import attrs
import pytest

from actors import Context, EventLog, RandomWalk
from actors.explore import explore
from controlplane.client.errors import ApiError
from controlplane.client.loops.clientset import NODES, PODS, Client
from controlplane.cluster import APISERVER, SCHEDULER, Cluster, ClusterConfig, node_tree
from controlplane.gates import fix_gates
from controlplane.races import catalogue
from controlplane.scenarios.exploring import Campaign
from controlplane.scenarios.invariants.scheduling_queue import queue_holds
from controlplane.scenarios.plan import plan_of
from controlplane.scheduler.framework.interface import Code, PreBindPlugin, Status, StatusError
from tests.scheduler.loops.test_scheduler import Hold, events, pod_tree, pods, with_plugin

SECOND = 1_000_000_000
NOT_YET = ("139162", "139450", "141255", "141645", "142294")
"""Fixes that no release up to ours has."""


def cluster_with(user, *, nodes=1, strategy=None, without=(), fixes=(), **config):
    trees = tuple(node_tree(f"node-{number}", cpu="2") for number in range(1, nodes + 1))
    config.setdefault("disabled_admission", ("Priority",))
    made = ClusterConfig(
        nodes=trees,
        kubelets=False,
        controllers=False,
        scheduler_watches=(),
        gates=fix_gates(without=without, variants=fixes),
        **config,
    )
    cluster = Cluster(made, strategy=strategy, log=EventLog(), livelock_limit=20_000)
    cluster.user("user", user)
    return cluster


def search(user, check=None, schedules=100, names=(), **config):
    """What the first broken schedule says; "" when none of them breaks."""

    def build(strategy):
        cluster = cluster_with(user, strategy=strategy, **config)
        if names:
            looked = SimpleNamespace(cluster=cluster, notes={}, objects=cluster.objects)
            for each in queue_holds(names):
                for actor in each.after or (None,):
                    cluster.world.invariant(each.name, partial(each.check, looked), after=actor)
        if check is not None:
            cluster.world.invariant(check.__name__, lambda: check(cluster))
        return cluster.world

    found = explore(build, schedules)
    for finding in found.findings:
        assert finding.result.verdict == "violated", finding.result.reason
    return found.findings[0].result.reason if found.findings else ""


async def attempted(call) -> bool:
    try:
        await call
    except ApiError:
        return False
    return True


async def started(ctx: Context, *trees) -> Client:
    """A second for the nodes to be registered, then these pods."""
    client = Client(ctx)
    await ctx.sleep(SECOND)
    for tree in trees:
        await client.create(PODS, tree)
    return client


async def label(client: Client, resource, name: str, value: str) -> bool:
    namespace = "" if resource is NODES else "default"
    patch = {"metadata": {"labels": {"touched": value}}}
    return await attempted(client.patch(resource, namespace, name, patch))


# ---------------------------------------------------------------------- in flight


async def touched_pod(ctx: Context) -> None:
    client = await started(ctx, pod_tree("big", cpu="64"))
    for number in range(3):
        await label(client, PODS, "big", str(number))


def test_125578_search_finds_a_pod_that_is_in_flight_and_queued():
    assert "is in flight and in" in search(touched_pod, names=("I5",), without=("125578",))
    assert not search(touched_pod, names=("I5",))


async def touched_while_bound(ctx: Context) -> None:
    client = await started(ctx, pod_tree("web"))
    for number in range(3):
        await label(client, PODS, "web", str(number))


def test_127016_search_finds_a_pod_with_two_markers():
    config = {"names": ("I1",)}
    assert "marker" in search(touched_while_bound, without=("127016", "125578"), **config)
    assert not search(touched_while_bound, without=("125578",), **config)


async def terminating_pod(ctx: Context) -> None:
    tree = pod_tree("big", cpu="64")
    tree["metadata"]["finalizers"] = ["example.com/wait"]
    client = await started(ctx, tree)
    await client.delete(PODS, "default", "big")
    await label(client, NODES, "node-1", "yes")
    await ctx.sleep(10 * SECOND)
    await client.patch(PODS, "default", "big", {"metadata": {"finalizers": None}})


def test_126962_search_finds_a_leak_of_a_terminating_pod():
    found = search(terminating_pod, names=("I3",), without=("126962",))
    assert "no longer exists but is in flight for ever" in found
    assert not search(terminating_pod, names=("I3",))


async def early_failures(ctx: Context) -> None:
    await started(ctx, *(pod_tree(f"big-{number}", cpu="64") for number in range(4)))


def no_pod_is_taken_for_deleted(cluster) -> str | None:
    for event in events(cluster, "scheduler.failed"):
        if event.data["outcome"] == "deleted":
            return f"{event.obj} was dropped: {event.data['note']}"
    return None


def test_93044_search_finds_a_pod_that_is_dropped():
    config = {"check": no_pod_is_taken_for_deleted}
    found = search(early_failures, without=("93044",), **config)
    assert "doesn't exist in informer cache" in found
    assert not search(early_failures, **config)


# ---------------------------------------------------------------------- objects that are requeued


def queued_objects_are_the_latest(cluster) -> str | None:
    queue = cluster.scheduler.core.queue
    there = {pod.uid: pod.resource_version for pod in pods(cluster).values()}
    for info in queue.unschedulable:
        if there.get(info.uid) not in (None, info.pod.resource_version):
            return f"{info.key} is queued as it no longer is"
    return None


async def retried_pod(ctx: Context) -> None:
    """It does not fit, whatever happens to the node; that is known, so its status does not change again."""
    client = await started(ctx, pod_tree("big", cpu="64"))
    for number in range(3):
        await ctx.sleep(20 * SECOND)
        taint = {"key": "example.com/soft", "value": str(number), "effect": "PreferNoSchedule"}
        await client.patch(NODES, "", "node-1", {"spec": {"taints": [taint]}})
        await label(client, PODS, "big", str(number))


def test_141645_search_finds_a_stale_object_in_the_queue():
    config = {"check": queued_objects_are_the_latest}
    assert "no longer is" in search(retried_pod, **config)
    assert not search(retried_pod, fixes=("141645",), **config)


class Refuse(PreBindPlugin):
    name = "Refuse"

    def __init__(self, args, handle):
        pass

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None

    def pre_bind(self, state, pod, node_name):
        raise StatusError(Status(Code.ERROR, ("no",), self.name))


async def refused_pod(ctx: Context) -> None:
    client = await started(ctx, pod_tree("web"))
    for number in range(4):
        await label(client, PODS, "web", str(number))
    await ctx.sleep(10 * SECOND)
    await client.delete(PODS, "default", "web")


def no_requeue_met_a_copy(cluster) -> str | None:
    for event in events(cluster, "scheduler.failed"):
        if "already present" in event.data.get("note", ""):
            return event.data["note"]
    return None


def test_141645_search_finds_an_update_that_goes_round_the_backoff():
    config = {"check": no_requeue_met_a_copy, **with_plugin(Refuse)}
    assert "already present" in search(refused_pod, **config)
    assert not search(refused_pod, fixes=("141645",), **config)


# ---------------------------------------------------------------------- preemption


async def woken_preemptor(ctx: Context) -> None:
    low = pod_tree("low", cpu="2", priority=0)
    low["metadata"]["finalizers"] = ["example.com/wait"]
    client = await started(ctx, low)
    await ctx.sleep(SECOND)
    await client.create(PODS, pod_tree("high", cpu="2", priority=10))
    for number in range(6):
        await label(client, NODES, "node-1", str(number))
    for name in ("one", "two"):
        await client.create(PODS, pod_tree(name, cpu="0", nodeName="node-1"))
        await client.delete(PODS, "default", name)
    await ctx.sleep(SECOND)
    await client.patch(PODS, "default", "low", {"metadata": {"finalizers": None}})


def one_preemption_at_a_time(cluster) -> str | None:
    started = 0
    for event in cluster.world.log:
        if event.event == "scheduler.preemption":
            started += 1
        elif event.event == "apiserver.write" and event.data["verb"] == "delete pods":
            if event.obj == "Pod/default/low":
                break
    return f"{started} preemptions before the victim terminates" if started > 1 else None


def test_134730_search_finds_a_preemption_that_starts_again():
    found = search(woken_preemptor, one_preemption_at_a_time, without=("134730",))
    assert "2 preemptions" in found
    assert not search(woken_preemptor, one_preemption_at_a_time)


async def important_pod(ctx: Context) -> None:
    client = await started(ctx, *(pod_tree(f"low-{n}", cpu="600m", priority=0) for n in range(3)))
    await ctx.sleep(SECOND)
    await client.create(PODS, pod_tree("high", cpu="2", priority=10))
    await ctx.sleep(20 * SECOND)


def the_important_pod_is_placed(cluster) -> str | None:
    return None if pods(cluster)["high"].spec.node_name else "high waits although there is room"


def test_142294_search_finds_a_preemptor_that_waits_in_vain():
    assert search(important_pod, the_important_pod_is_placed)
    assert not search(important_pod, the_important_pod_is_placed, fixes=("142294",))


async def thief(ctx: Context) -> None:
    client = await started(ctx, pod_tree("low", cpu="2", priority=0))
    await ctx.sleep(SECOND)
    await client.create(PODS, pod_tree("high", cpu="2", priority=10))
    await client.create(PODS, pod_tree("thief", cpu="2", priority=0))
    await ctx.sleep(20 * SECOND)


def nobody_takes_the_room(cluster) -> str | None:
    placed = [event.obj for event in events(cluster, "scheduler.assumed")]
    return "the thief took the room" if "Pod/default/thief" in placed else None


def test_72259_search_finds_a_pod_that_takes_the_room_made_for_another():
    assert "thief" in search(thief, nobody_takes_the_room, without=("72259",))
    assert not search(thief, nobody_takes_the_room)


async def fleeting_preemptor(ctx: Context) -> None:
    client = await started(ctx, pod_tree("low", cpu="2", priority=0))
    await ctx.sleep(SECOND)
    await client.create(PODS, pod_tree("high", cpu="2", priority=10))
    await client.delete(PODS, "default", "high")


def test_102498_search_finds_the_nomination_of_a_pod_that_is_gone():
    config = {"names": ("I6",)}
    assert "is nominated to 'node-1'" in search(fleeting_preemptor, without=("102498",), **config)
    assert not search(fleeting_preemptor, **config)


def placed_at(fixes, seed):
    """When a pod is placed whose victim, held in Permit, is stopped in memory; None: not in 13 minutes."""

    async def user(ctx: Context) -> None:
        client = await started(ctx, pod_tree("web", cpu="2", priority=0, labels={"hold": "yes"}))
        await ctx.sleep(SECOND)
        await client.create(PODS, pod_tree("high", cpu="2", priority=10))
        await ctx.sleep(780 * SECOND)
        await attempted(client.delete(PODS, "default", "web"))

    strategy = RandomWalk(seed)
    cluster = cluster_with(user, fixes=fixes, strategy=strategy, **with_plugin(Hold))
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    assumed = [e.t_ns for e in events(cluster, "scheduler.assumed") if e.obj == "Pod/default/high"]
    return assumed[0] // SECOND if assumed else None


@pytest.mark.parametrize(
    ("fixes", "late"),
    [((), {None}), (("142294",), set()), (("139162",), {330})],
    ids=["unfixed", "142294", "139162"],
)
def test_a_preemptor_whose_victim_was_stopped_in_memory_may_stay_gated_until_a_flush(fixes, late):
    # Issue 140082: whether the victim's event comes too early is a matter of the schedule.
    times = {placed_at(fixes, seed) for seed in range(8)}
    assert {at for at in times if at is None or at > 60} == late
    assert times - late


# ---------------------------------------------------------------------- wake-ups


async def waiting_pod(ctx: Context) -> None:
    """It is held until its time is up, again and again, and events say that it is worth trying."""
    client = await started(ctx, pod_tree("web", labels={"hold": "yes"}))
    for number in range(8):
        await ctx.sleep(3 * SECOND)
        await label(client, NODES, "node-1", str(number))


def every_pod_is_somewhere(cluster) -> str | None:
    core = cluster.scheduler.core
    queue = core.queue
    heaps = (queue.active_q.heap, queue.backoff_q.heap, queue.backoff_q.error_heap)
    there = {info.uid for heap in (*heaps, queue.unschedulable) for info in heap}
    for name, pod in pods(cluster).items():
        if not pod.spec.node_name and pod.uid not in there and not core.cache.is_assumed_pod(pod):
            return f"{name} waits for a node but is in no queue"
    return None


def test_139450_search_finds_a_pod_that_is_lost():
    config = {"check": every_pod_is_somewhere, "schedules": 40, **with_plugin(Hold)}
    assert "is in no queue" in search(waiting_pod, **config)
    assert not search(waiting_pod, fixes=("139450",), **config)


async def tainted_node(ctx: Context) -> None:
    client = await started(ctx, pod_tree("big", cpu="64"))
    for number in range(4):
        taint = {"key": "example.com/soft", "value": str(number), "effect": "PreferNoSchedule"}
        await client.patch(NODES, "", "node-1", {"spec": {"taints": [taint]}})
    await ctx.sleep(20 * SECOND)


def nobody_sleeps_beside_a_poppable_pod(cluster) -> str | None:
    metrics = cluster.scheduler.core.queue.metrics.queue_incoming_pods
    served = metrics.get(("active", "BackoffComplete"), 0)
    return f"a pod served its backoff {served} times with nothing else to do" if served else None


def test_139884_search_finds_a_wake_up_that_is_lost():
    check = nobody_sleeps_beside_a_poppable_pod
    assert "served its backoff" in search(tainted_node, check, without=("139884",))
    assert not search(tainted_node, check)


# ---------------------------------------------------------------------- broken connections


async def broken_links(ctx: Context) -> None:
    await started(ctx, *(pod_tree(f"web-{number}", cpu="500m") for number in range(2)))
    for _ in range(2):
        for _ in range(ctx.choose("workload", 12, "when")):
            await ctx.point("user")
        ctx.break_link(SCHEDULER, APISERVER)
    await ctx.sleep(60 * SECOND)


def every_pod_is_bound(cluster) -> str | None:
    waiting = [name for name, pod in pods(cluster).items() if not pod.spec.node_name]
    return f"{waiting} will never be bound" if waiting else None


class RefuseOnce(Refuse):
    name = "RefuseOnce"

    def __init__(self, args, handle):
        self.refused = {}

    def pre_bind(self, state, pod, node_name):
        if self.refused.setdefault(pod.name, state) is state:
            raise StatusError(Status(Code.ERROR, ("not yet",), self.name))
        return ()


async def some_pods(ctx: Context) -> None:
    await started(ctx, *(pod_tree(f"web-{number}", cpu="500m") for number in range(2)))
    await ctx.sleep(20 * SECOND)


def test_28886_a_pod_whose_first_binding_failed_can_never_be_bound():
    config = {"check": every_pod_is_bound, "schedules": 30, **with_plugin(RefuseOnce)}
    assert "never be bound" in search(some_pods, without=("28886",), **config)
    assert not search(some_pods, **config)


def no_bound_pod_is_queued(cluster) -> str | None:
    queue = cluster.scheduler.core.queue
    for info in (*queue.backoff_q.error_heap, *queue.unschedulable):
        if pods(cluster)[info.pod.name].spec.node_name:
            return f"{info.key} is bound, and tried for the {info.attempts + 1}th time"
    return None


def test_96582_search_finds_a_bound_pod_that_is_tried_for_ever():
    config = {"check": no_bound_pod_is_queued, "schedules": 120}
    assert "is bound, and tried" in search(broken_links, without=("96582",), **config)
    assert not search(broken_links, **config)


def overcommitted(**config):
    """How much CPU is promised on a node of two, when the news of a binding is six minutes late."""

    async def user(ctx: Context) -> None:
        full = pod_tree("full", cpu="2", priority=9, nodeName="node-1")
        client = await started(ctx, full, pod_tree("one", cpu="2", priority=9))
        await client.create(PODS, pod_tree("two", cpu="2", priority=0))
        await ctx.sleep(20 * SECOND)
        await client.delete(PODS, "default", "full")
        while not pods(cluster)["one"].spec.node_name:
            await ctx.point("user")
        cluster.world.cut(APISERVER, SCHEDULER)
        await ctx.sleep(400 * SECOND)
        cluster.world.heal(APISERVER, SCHEDULER)
        await ctx.sleep(20 * SECOND)

    cluster = cluster_with(user, **config)
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    return [name for name, pod in pods(cluster).items() if pod.spec.node_name]


def test_106412_room_is_given_away_twice_when_the_news_of_a_binding_is_late():
    assert overcommitted(without=("106412",)) == ["one", "two"]
    assert overcommitted() == ["one"]


def recreated_elsewhere(**config):
    """Faults in the log, when a pod is recreated on another node while the watch is down."""

    async def user(ctx: Context) -> None:
        client = await started(ctx, pod_tree("web", nodeName="node-1"))
        await ctx.sleep(SECOND)
        cluster.world.cut(APISERVER, SCHEDULER)
        await client.delete(PODS, "default", "web")
        await client.create(PODS, pod_tree("web", nodeName="node-2"))
        ctx.crash(APISERVER)  # The new one knows no history: who asks for it has to list again.
        ctx.restart(APISERVER)
        cluster.world.heal(APISERVER, SCHEDULER)
        await ctx.sleep(20 * SECOND)

    cluster = cluster_with(user, nodes=2, **config)
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    return [(e.data["fault"], e.data.get("actor")) for e in events(cluster, "fault")]


def test_141255_a_pod_recreated_while_the_watch_is_down_ends_the_process():
    assert ("crash", SCHEDULER) in recreated_elsewhere()
    assert ("crash", SCHEDULER) not in recreated_elsewhere(fixes=("141255",))


# ---------------------------------------------------------------------- all together


def churned(gates, schedules, **options):
    """A user whose pods come and go, under random schedules."""
    plan = plan_of(catalogue.find("138324").scenario, **options)
    found = Campaign(attrs.evolve(plan, gates=gates)).explore(schedules)
    return found.findings[0].result.reason if found.findings else ""


@pytest.mark.parametrize("fixes", [(), NOT_YET], ids=["default", "with fixes to come"])
def test_the_queue_holds_its_invariants(fixes):
    assert not churned(fix_gates(variants=fixes), 60, all_invariants=True)


@pytest.mark.parametrize("release", ["1.10", "1.19", "1.22", "1.27", "1.30", "1.33"])
def test_the_scheduler_of_an_older_release_runs_with_its_bugs(release):
    gates = fix_gates(release)
    found = churned(gates, 20)
    leaks = [number for number in ("126962", "138324") if not gates.fixed(number)]
    assert not found or (leaks and "is in flight for ever" in found) or "marker" in found
    cluster = cluster_with(important_pod)
    cluster = Cluster(attrs.evolve(cluster.config, gates=gates), log=EventLog())
    cluster.user("user", important_pod)
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    assert pods(cluster)["high"].spec.node_name == "node-1"
