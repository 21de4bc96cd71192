"""Replicas of Kueue: one leads, and the others know all that it knows."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from attrs import evolve

from actors import EventLog
from actors.strategies import Fifo
from controlplane.api.object import Object
from controlplane.api.request import Request
from controlplane.api.times import SECOND
from controlplane.controllers.common.controller import Caches, Work
from controlplane.gates import FixGates
from controlplane.kueue.process.kinds import WORKLOADS
from controlplane.kueue.process.leading import FOLLOWER, LEADER, STANDALONE, Leadership
from controlplane.kueue.queues.visibility import GROUP, group
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.kueue_worlds import (
    create,
    delete,
    leader,
    queues,
    two_kueues,
    workload,
    workloads_now,
)
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.kueue import (
    AT_REST_KUEUE_KNOWS_EACH_WORKLOAD,
    QUOTA_IS_GIVEN_ONCE,
)

LEASE = 15 * SECOND


def executed(user):
    scenario = Scenario(
        "replicas",
        workload=user,
        build=two_kueues,
        invariants=(QUOTA_IS_GIVEN_ONCE, AT_REST_KUEUE_KNOWS_EACH_WORKLOAD),
    )
    run = Execution(plan_of(scenario), log=EventLog())
    result = run.execute("bare")
    assert result.ok, result.reason
    return run


def written(run, since: int = 0) -> dict[str, list[str]]:
    """Return the writes of each replica since a time in seconds, without those of Leases."""
    found: dict[str, list[str]] = {}
    for each in run.cluster.world.log:
        by = (each.data or {}).get("by", "")
        if (
            each.event == "apiserver.write"
            and by.startswith("kueue")
            and each.t_ns >= since * SECOND
        ):
            if not (each.obj or "").startswith("Lease/"):
                found.setdefault(by, []).append(each.obj)
    return found


def admitted(user) -> list[str]:
    return [
        name
        for name, tree in workloads_now(user).items()
        if any(
            each["type"] == "Admitted" and each["status"] == "True"
            for each in tree.get("status", {}).get("conditions", ())
        )
    ]


def processes(run):
    return {probe.name: probe.controllers[0] for probe in run.cluster.own_managers["kueue"]}


async def two_workloads(user) -> None:
    await queues(user, team=1)
    await create(user, workload("first", "team", 1), workload("second", "team", 1))
    await user.sleep(5)


@pytest.fixture(scope="module")
def both():
    return executed(two_workloads)


def test_one_replica_writes_and_both_count_and_queue_the_same(both):
    assert set(written(both)) == {"kueue"}
    found = processes(both)
    assert [each.leadership.role for each in found.values()] == [LEADER, FOLLOWER]
    for each in found.values():
        assert list(each.cache.tree.queues["team"].workloads) == ["default/first"]
        assert each.manager.cluster_queue("team").workloads.get("default/second") is not None


def test_the_lease_is_the_one_of_kueue(both):
    (lease,) = (
        each
        for each in both.cluster.objects("/registry/leases/")
        if each.namespace == "kueue-system"
    )
    assert lease.name == "c1f6bfd2.kueue.x-k8s.io"


def test_series_name_the_role_of_the_replica(both):
    roles = {
        name: {
            dict(sample.labels)["replica_role"]
            for family in each.families()
            for sample in family.samples
        }
        for name, each in processes(both).items()
    }
    assert roles == {"kueue": {LEADER}, "kueue-2": {FOLLOWER}}


async def leader_is_gone(user) -> None:
    await two_workloads(user)
    first = leader(user)
    user.crash(first)
    await user.attempt(delete(user, "Workload", "first", "default"))
    await user.sleep(40)
    user.notes["leaders"] = (first, leader(user))
    user.notes["admitted"] = admitted(user)
    user.restart(first)
    await user.sleep(20)


def test_another_replica_goes_on_where_the_leader_stopped():
    run = executed(leader_is_gone)
    assert run.notes["leaders"] == ("kueue", "kueue-2")
    assert run.notes["admitted"] == ["second"]
    assert set(written(run, since=10)) == {"kueue-2"}


async def leader_is_cut_off(user) -> None:
    await two_workloads(user)
    first = leader(user)
    user.notes["lives"] = [_incarnation(user, first)]
    user.cut("apiserver", first)
    await user.sleep(40)
    user.heal("apiserver", first)
    await user.sleep(20)
    user.notes["lives"].append(_incarnation(user, first))
    user.notes["leader"] = leader(user)


def _incarnation(user, name: str) -> int:
    probes = user.run.cluster.own_managers["kueue"]
    return next(each.incarnation for each in probes if each.name == name)


def test_a_leader_that_cannot_renew_its_lease_starts_anew_and_follows():
    run = executed(leader_is_cut_off)
    before, after = run.notes["lives"]
    assert after == before + 1
    assert run.notes["leader"] == "kueue-2"
    assert processes(run)["kueue"].leadership.role == FOLLOWER


def answering(setting):
    """Two replicas that answer for the visibility API."""
    config = two_kueues(setting)
    (kind,) = config.own_controllers
    more = type("Answering", (kind,), {"answers": True})
    return evolve(config, own_controllers=(more,), aggregated=(group("kueue", "kueue-2"),))


def test_every_replica_answers_for_the_visibility_api():
    found = []

    async def ask(user) -> None:
        await two_workloads(user)
        about = ("clusterqueues", "", "team", "pendingworkloads")
        for _ in range(3):
            answer = await user.client.call(Request("get", GROUP, "v1beta2", *about))
            found.append([each["metadata"]["name"] for each in answer.tree["items"]])

    class Second(Fifo):
        """Every request for the API goes to the second replica."""

        def choose(self, kind, options, label, *more):
            return 1 if kind == "endpoint" else super().choose(kind, options, label, *more)

    for strategy in (Fifo(), Second()):
        run = Execution(plan_of(Scenario("asked", workload=ask, build=answering)), strategy)
        assert run.execute("bare").ok
    assert found == [["second"]] * 6


# -- the decisions ---------------------------------------------------------------------------------


class Later:
    """A work queue that keeps the delays of its keys."""

    def __init__(self) -> None:
        self.delays: dict[str, int] = {}

    def add_after(self, key: str, delay_ns: int, *, idle: bool = False) -> None:
        self.delays[key] = delay_ns


def leadership(*there: str, lease: int | None = LEASE, **fixes: bool):
    """The leadership of a replica whose caches have these workloads, and its queue."""
    queue, caches = Later(), Caches()
    chosen = (
        FixGates({name: False for name, on in fixes.items() if not on}) if fixes else FixGates()
    )
    host = SimpleNamespace(queue=lambda _: queue, fixes=chosen)
    for name in there:
        tree = {"metadata": {"namespace": "default", "name": name}}
        caches.of(WORKLOADS).put(Object(tree))
    reader = SimpleNamespace(get=lambda kind, namespace, name: name in there or None)
    return Leadership(host, reader, caches, lease), queue


def reconciles(key: str):
    reconciled.append(key)
    return
    yield


reconciled: list[str] = []


def test_a_replica_that_follows_looks_at_its_keys_again_until_it_leads():
    reconciled.clear()
    there, queue = leadership("a")
    work = there.aware("Workload", Work("workloads", reconciles))
    assert work.on_followers
    for key in ("default/a", "default/gone"):
        assert list(work.reconcile(key)) == []
    assert (queue.delays, reconciled) == ({"default/a": LEASE}, [])
    there.elected()
    assert list(work.reconcile("default/a")) == []
    assert reconciled == ["default/a"]


def test_what_runs_on_the_leader_alone_hears_of_everything_when_it_is_elected():
    there, _ = leadership("b", "a")
    heard = []
    changes = there.only_when_leading(
        {WORKLOADS: lambda old, new: heard.append((old, new["metadata"]["name"]))}
    )
    changes[WORKLOADS](None, {"metadata": {"name": "c"}})
    assert heard == []
    there.elected()
    assert heard == [(None, "a"), (None, "b")]
    changes[WORKLOADS]("old", {"metadata": {"name": "c"}})
    assert heard[-1] == ("old", "c")


def test_one_replica_alone_works_everything_itself():
    there, _ = leadership(lease=None)
    work = Work("workloads", reconciles)
    assert (there.role, there.leads) == (STANDALONE, True)
    assert there.aware("Workload", work) is work
