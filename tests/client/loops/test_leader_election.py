"""Leader election: one candidate's decisions, elections in a world, and what they do wrong."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context, EventLog, RandomWalk
from actors.explore import explore
from controlplane.api.times import format_micro_time
from controlplane.client.election import Candidate, ElectionConfig, Record
from controlplane.client.loops.clientset import LEASES, Client, Resource
from controlplane.client.loops.leader_election import LeaderElection
from controlplane.cluster import Cluster, ClusterConfig, node_tree
from controlplane.cluster_config import EPOCH_NS
from tests.test_cluster import plain_pod

SECOND = 1_000_000_000
CONFIG_MAPS = Resource("", "v1", "configmaps")
PODS = Resource("", "v1", "pods")
ELECTION = ElectionConfig("work")


def lease(holder: str, version: int = 1, transitions: int = 0, renewed: int = 0) -> dict[str, Any]:
    return {
        "metadata": {"name": "work", "namespace": "kube-system", "resourceVersion": str(version)},
        "spec": Record(holder, 15, 0, renewed, transitions).spec(),
    }


# ---------------------------------------------------------------------- decisions


def test_the_first_candidate_creates_the_lease():
    made = Candidate("me", ELECTION).new_lease(EPOCH_NS)
    assert made["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": format_micro_time(EPOCH_NS),
        "renewTime": format_micro_time(EPOCH_NS),
        "leaseTransitions": 0,
    }


def test_a_lease_is_respected_from_the_moment_it_was_seen_to_change_however_old_it_is():
    me = Candidate("me", ELECTION)
    found = lease("other", renewed=0)
    assert me.challenge(found, 1000 * SECOND) is None
    assert me.challenge(found, 1015 * SECOND - 1) is None
    wanted = me.challenge(found, 1015 * SECOND)
    assert wanted is not None
    assert wanted["spec"]["holderIdentity"] == "me"
    assert wanted["spec"]["leaseTransitions"] == 1
    assert wanted["metadata"]["resourceVersion"] == "1"


def test_every_change_of_the_record_starts_its_time_anew():
    me = Candidate("me", ELECTION)
    me.challenge(lease("other"), 0)
    me.challenge(lease("other", 2, renewed=SECOND), 10 * SECOND)
    assert me.challenge(lease("other", 2, renewed=SECOND), 24 * SECOND) is None
    assert me.challenge(lease("other", 2, renewed=SECOND), 25 * SECOND) is not None


def test_a_released_lease_is_free_at_once():
    me = Candidate("me", ELECTION)
    assert me.challenge(lease(""), 0) is not None


def test_a_leader_renews_without_reading_while_its_lease_is_valid():
    me = Candidate("me", ELECTION)
    me.written(lease("me", 7, transitions=3), 0)
    wanted = me.first_try(14 * SECOND)
    assert wanted is not None
    assert wanted["metadata"]["resourceVersion"] == "7"
    assert wanted["spec"]["leaseTransitions"] == 3
    assert me.first_try(15 * SECOND) is None


def test_a_leader_that_reads_its_own_lease_keeps_its_time_and_transitions():
    me = Candidate("me", ELECTION)
    me.written(lease("me", 7, transitions=3), 0)
    wanted = me.challenge(lease("me", 8, transitions=3), 20 * SECOND)
    assert wanted is not None
    assert wanted["spec"]["leaseTransitions"] == 3
    assert wanted["spec"]["acquireTime"] == format_micro_time(0)


def test_only_the_leader_releases():
    me = Candidate("me", ELECTION)
    assert me.release(0) is None
    me.written(lease("me", 7), 0)
    released = me.release(SECOND)
    assert released is not None
    assert released["spec"]["holderIdentity"] == ""
    assert released["spec"]["leaseDurationSeconds"] == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_ns": 10 * SECOND},
        {"renew_deadline_ns": 2 * SECOND},
        {"retry_ns": 9 * SECOND},
    ],
)
def test_times_that_cannot_work_are_refused(wrong):
    with pytest.raises(ValueError, match="must be greater"):
        ElectionConfig("work", **wrong)


# ---------------------------------------------------------------------- in a world


class Worker:
    """A process that appends its name to a ledger, once a second, while it believes that it leads."""

    def __init__(
        self, cluster: Cluster, name: str, config: ElectionConfig, leading: list[Any]
    ) -> None:
        self.cluster = cluster
        self.config = config
        self.leading = leading
        self.election: LeaderElection | None = None
        cluster.user(name, self.run)

    async def run(self, ctx: Context) -> None:
        election = self.election = LeaderElection(
            ctx, self.cluster.address(ctx.actor), EPOCH_NS, self.config
        )
        while await election.acquire(ctx):
            self.leading.append((ctx.now, ctx.actor, "begins"))
            work = ctx.spawn(self.work)
            await election.renew(ctx)
            ctx.cancel(work)
            self.leading.append((ctx.now, ctx.actor, "ends"))

    async def work(self, ctx: Context) -> None:
        client = Client(ctx, self.cluster.address(ctx.actor))
        while True:
            metadata = {"generateName": f"{ctx.actor}-", "namespace": "default"}
            tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            await client.create(CONFIG_MAPS, tree)
            await ctx.sleep(SECOND, idle=True)


def election(
    scene: Any = None, strategy: Any = None, config: ElectionConfig = ELECTION, **world: Any
) -> tuple[Cluster, list[Any], dict[str, Worker]]:
    cluster = Cluster(
        ClusterConfig(kubelets=False, controllers=False, scheduler_watches=()),
        strategy=strategy,
        log=EventLog(),
        **world,
    )
    leading: list[Any] = []
    workers = {name: Worker(cluster, name, config, leading) for name in ("one", "two")}
    if scene is not None:
        cluster.user("scene", scene, cluster, workers)
    return cluster, leading, workers


def writers(cluster: Cluster) -> list[str]:
    """Who wrote to the ledger, in the order of the writes."""
    objects = sorted(
        cluster.objects("/registry/configmaps/"), key=lambda each: each.resource_version
    )
    return [each.name.partition("-")[0] for each in objects if each.namespace == "default"]


@pytest.mark.parametrize("seed", range(5))
def test_one_leads_and_goes_on_leading(seed):
    cluster, leading, _ = election(strategy=RandomWalk(seed))
    assert cluster.world.run("bare", until_ns=120 * SECOND).ok
    assert [what for _, _, what in leading] == ["begins"]
    assert len(set(writers(cluster))) == 1


@pytest.mark.parametrize("seed", range(10))
def test_after_a_crash_another_takes_over_within_the_documented_time(seed):
    """A full lease after the other saw the last renewal, plus its jittered retry and nothing more."""

    async def scene(ctx: Context, _cluster: Cluster, _workers: Any) -> None:
        await ctx.sleep((30 + ctx.choose("fault", 8, "when")) * SECOND + SECOND // 3)
        leader = leading[-1][1]
        leading.append((ctx.now, leader, "crashes"))
        ctx.faults.crash(leader)

    cluster, leading, _ = election(scene, RandomWalk(seed))
    assert cluster.world.run("bare", until_ns=90 * SECOND).ok
    (_, first, _), (crashed, _, _), (took, second, what) = leading
    assert what == "begins" and first != second
    renewal, lease_time, retry = 2 * SECOND, 15 * SECOND, 2 * SECOND * 22 // 10
    assert lease_time - renewal <= took - crashed <= lease_time + 2 * retry


def test_a_released_lease_is_taken_over_at_the_next_retry():
    config = ElectionConfig("work", release_on_cancel=True)

    async def scene(ctx: Context, _cluster: Cluster, workers: Any) -> None:
        await ctx.sleep(30 * SECOND)
        leading.append((ctx.now, leading[-1][1], "is asked to stop"))
        workers[leading[-1][1]].election.cancel()

    cluster, leading, _ = election(scene, config=config)
    assert cluster.world.run("bare", until_ns=60 * SECOND).ok
    asked, took = leading[1][0], leading[-1][0]
    assert [what for _, _, what in leading] == ["begins", "is asked to stop", "ends", "begins"]
    assert took - asked <= 2 * SECOND * 22 // 10


def overlap(leading: list[Any]) -> list[str]:
    """Who else believed that it led when somebody began to."""
    believing: dict[str, None] = {}
    found = []
    for _, who, what in leading:
        if what == "begins":
            found += [f"{other} while {who} begins" for other in believing]
            believing[who] = None
        else:
            believing.pop(who, None)
    return found


@pytest.mark.parametrize("bounded", [True, False])
def test_an_update_that_hangs_lets_two_lead_unless_calls_are_bounded_by_the_deadline(bounded):
    """Issues 67651, 44887: the request hung for a minute while the lease ran out."""
    config = ElectionConfig("work", bounded_calls=bounded)

    async def scene(ctx: Context, cluster: Cluster, _workers: Any) -> None:
        await ctx.sleep(30 * SECOND)
        leader = leading[-1][1]
        cluster.world.faults.cut(leader, "apiserver")
        await ctx.sleep(60 * SECOND)
        cluster.world.faults.heal(leader, "apiserver")
        await ctx.sleep(10 * SECOND)

    cluster, leading, _ = election(scene, config=config)
    assert cluster.world.run("bare", until_ns=110 * SECOND).ok
    assert bool(overlap(leading)) is not bounded
    # Bounded or not, what the old leader had sent before is carried out after its successor took over.
    order = writers(cluster)
    first, second = order[0], order[-1]
    assert first != second
    assert first in order[order.index(second) :], "no fencing: a late write of the old leader"


class Paused:
    """A strategy that does not let one process run for a while: SIGSTOP, a pause of the garbage collector, a frozen VM.

    Needs a world with eager time, where "let time pass" is an option beside the tasks that are ready.
    """

    name = "paused"
    footprint = None
    exhausted = False
    seed: int | None = None

    def __init__(self, victim: Any, begin_ns: int, end_ns: int) -> None:
        self._victim = victim
        self._begin = begin_ns
        self._end = end_ns
        self.world: Any = None

    def begin(self) -> None:
        pass

    def choose(self, kind: str, options: Any, step: int) -> int:
        if kind != "task" or not self._begin <= self.world.now < self._end:
            return 0
        victim = self._victim()
        for index, option in enumerate(options):
            if getattr(option, "actor", None) is None or option.actor.name != victim:
                return index
        return 0

    def end(self) -> None:
        pass

    def parameters(self) -> dict[str, int | str | float]:
        return {}


@pytest.mark.parametrize(
    ("pause", "two_lead"),
    [(4 * SECOND, False), (12 * SECOND, False), (40 * SECOND, True)],
)
def test_a_leader_that_is_paused_for_longer_than_its_lease_acts_beside_its_successor(
    pause, two_lead
):
    strategy = Paused(lambda: leading[0][1], 30 * SECOND + 1, 30 * SECOND + pause)
    cluster, leading, _ = election(None, strategy, eager_time=True)
    strategy.world = cluster.world
    assert cluster.world.run("bare", until_ns=120 * SECOND).ok
    assert bool(overlap(leading)) is two_lead
    order = writers(cluster)
    assert (len(set(order)) == 2) is two_lead
    if two_lead:
        first, second = order[0], order[-1]
        assert first in order[order.index(second) :], "the old leader wrote after its successor"
        # And then it noticed, and stopped.
        assert set(order[-20:]) == {second}


def test_search_finds_two_leaders_when_time_may_pass_while_a_process_stands_still():
    def build(strategy: Any) -> Any:
        cluster, leading, _ = election(None, strategy, eager_time=True, livelock_limit=20_000)

        def one_leader() -> str | None:
            found = overlap(leading)
            return found[0] if found else None

        for name in ("one", "two"):
            cluster.world.invariant("at most one leader", one_leader, after=name)
        return cluster.world

    found = explore(build, 60, until_ns=120 * SECOND)
    assert found.findings
    assert "begins" in found.findings[0].result.reason


# ---------------------------------------------------------------------- components


@pytest.mark.parametrize("seed", [None, 1, 2, 3])
def test_of_several_schedulers_and_controller_managers_one_each_works_and_another_follows(seed):
    def cluster_of_replicas() -> Cluster:
        nodes = (node_tree("node-1"),)
        config = ClusterConfig(nodes=nodes, schedulers=2, controller_managers=2)
        strategy = None if seed is None else RandomWalk(seed)
        return Cluster(config, strategy=strategy, log=EventLog())

    async def user(ctx: Context) -> None:
        client = Client(ctx)
        await client.create(PODS, plain_pod("before"))
        await ctx.sleep(20 * SECOND)
        for process in leaders(cluster):
            ctx.faults.crash(process)
        await client.create(PODS, plain_pod("after"))
        await ctx.sleep(60 * SECOND)

    cluster = cluster_of_replicas()
    cluster.user("user", user)
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    pods = cluster.objects("/registry/pods/")
    assert sorted(each.name for each in pods) == ["after", "before"]
    assert {each.view.spec.node_name for each in pods} == {"node-1"}
    assert len(leaders(cluster)) == 4


def leaders(cluster: Cluster) -> list[str]:
    return [event.actor for event in cluster.world.log if event.event == "election.leading"]


def test_a_component_that_loses_its_lease_starts_anew_and_no_longer_acts():
    async def user(ctx: Context, cluster: Cluster) -> None:
        client = Client(ctx)
        await ctx.sleep(30 * SECOND)
        (first,) = leaders(cluster)
        cluster.world.faults.cut(first, "apiserver")
        await client.create(PODS, plain_pod("during"))
        await ctx.sleep(40 * SECOND)
        cluster.world.faults.heal(first, "apiserver")
        await client.create(PODS, plain_pod("later"))
        await ctx.sleep(30 * SECOND)
        held = (await client.get(LEASES, "kube-system", "kube-scheduler")).view
        assert held.spec.lease_transitions == 1

    config = ClusterConfig(nodes=(node_tree("node-1"),), schedulers=2)
    cluster = Cluster(config, log=EventLog())
    cluster.user("user", user, cluster)
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    first, second = leaders(cluster)
    assert {first, second} == {"scheduler", "scheduler-2"}
    lost = [e.actor for e in cluster.world.log if e.event == "election.lost"]
    assert lost == [first]
    assert {p.view.spec.node_name for p in cluster.objects("/registry/pods/")} == {"node-1"}
