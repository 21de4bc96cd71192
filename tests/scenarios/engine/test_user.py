"""The vocabulary of users: each word on a small cluster."""

from __future__ import annotations

import pytest

from actors import EventLog
from controlplane.client.errors import ApiError
from controlplane.cluster import ClusterConfig
from controlplane.scenarios import Run, Scenario, User
from controlplane.scenarios.authoring.faults import OPERATIONS, cut, heal, restarts, sometimes
from controlplane.scenarios.authoring.workloads import config_map, pod
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.scheduling import pods


def alone(setting) -> ClusterConfig:
    return ClusterConfig(nodes=setting.nodes(), kubelets=False, controllers=False)


def played(workload, verdict="quiescent", **more) -> Execution:
    run = Execution(plan_of(Scenario("test", workload=workload, **more)), log=EventLog())
    result = run.execute("bare")
    assert result.verdict == verdict, (result.reason, run.traceback)
    return run


def test_apply_creates_and_then_merges():
    async def user(user: User) -> None:
        await user.apply(config_map("a", one="1"))
        await user.apply(config_map("a", two="2"))
        assert (await user.get("ConfigMap", "a")).tree["data"] == {"one": "1", "two": "2"}

    played(user, build=alone)


def test_recreate_gives_the_same_object_with_another_identity_and_no_node():
    async def user(user: User) -> None:
        await user.sleep(1)
        first = await user.create(pod("web"))
        await user.sleep(5)
        bound = await user.get("Pod", "web")
        again = await user.recreate("Pod", "web")
        assert again.uid != first.uid
        assert bound.view.spec.node_name and not again.view.spec.node_name
        assert again.tree["spec"]["containers"] == first.tree["spec"]["containers"]

    played(user, build=alone)


def test_a_kind_may_be_named_with_its_version_and_an_unknown_one_is_refused():
    async def user(user: User) -> None:
        assert await user.list("apps/v1/Deployment") == []
        assert not await user.exists("batch/v1/Job", "none")
        assert not await user.attempt(user.delete("Pod", "none"))
        await user.get("Unicorn", "none")

    run = played(user, "failed", build=alone)
    assert "no built-in kind 'Unicorn'" in run.result.reason


def test_drain_empties_a_node_and_keeps_it_empty():
    async def user(user: User) -> None:
        await user.sleep(5)
        for number in range(3):
            await user.create(pod(f"web-{number}", "1"))
        assert await user.wait_until(lambda run: all(p.spec.node_name for p in pods(run).values()))
        assert await user.drain("node-1")
        await user.create(pod("late"))
        assert await user.wait_until(lambda run: pods(run)["late"].spec.node_name)
        await user.uncordon("node-1")

    run = played(user, defaults={"nodes": 2, "node_cpu": "4"})
    assert {each.spec.node_name for each in pods(run).values()} == {"node-2"}


def test_a_running_container_is_resized():
    async def user(user: User) -> None:
        await user.sleep(5)
        await user.create(pod("web", "1"))
        await user.wait_until(lambda run: pods(run)["web"].status.phase == "Running")
        await user.resize("web", "main", cpu="2")

    run = played(user)
    [container] = pods(run)["web"].spec.containers
    assert str(container.resources.requests["cpu"]) == "2"


def test_patience_ends():
    async def user(user: User) -> None:
        assert not await user.wait_until(lambda _run: False, patience_s=10)
        with pytest.raises(ApiError):
            await user.get("Pod", "none")

    assert played(user, build=alone).result.t_ns >= 10 * 10**9


def faults_of(run: Run) -> list[str]:
    return [event.data["fault"] for event in run.world.log if event.event == "fault"]


def test_faults_happen_and_leave_events():
    async def user(user: User) -> None:
        await user.sleep(60)

    faults = (
        restarts("scheduler", 2),
        sometimes(cut("user", "apiserver"), heal("user", "apiserver")),
    )
    run = played(user, build=alone, faults=faults)
    assert sorted(faults_of(run)) == ["crash", "crash", "cut", "heal", "restart", "restart"]


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_leaves_an_event_of_its_name(name):
    arguments = {"crash": ["user2"], "restart": ["user2"], "delay": ["user", "apiserver", 1]}

    async def user(user: User) -> None:
        await user.sleep(1)
        if name == "restart":
            user.crash("user2")
        OPERATIONS[name](*arguments.get(name, ["user", "apiserver"])).does(user)

    async def other(user: User) -> None:
        await user.sleep(5)

    run = played({"user": user, "user2": other}, build=alone)
    assert name in [{"break": "break_link"}.get(each, each) for each in faults_of(run)]


def test_at_a_point_a_process_is_held_while_the_user_does_something():
    async def user(user: User) -> None:
        await user.sleep(1)
        await user.create(pod("web", cpu="64"))
        async with user.at_point("scheduler", "scheduler.failure.read"):
            await user.delete("Pod", "web", grace_period_seconds=0)
            await user.create(pod("web", cpu="64"))
            await user.sleep(1)
        await user.sleep(60)
        await user.delete("Pod", "web", grace_period_seconds=0)

    from controlplane.scenarios.invariants.scheduling_queue import LEDGER, queue_holds

    more = {"build": alone, "invariants": queue_holds(LEDGER)}
    played(user, **more)
    scenario = Scenario("test", workload=user, **more)
    unfixed = Execution(plan_of(scenario, without_fix=("138324",))).execute("bare")
    assert unfixed.verdict == "violated"
    assert "no longer exists but is in flight" in unfixed.reason


def test_the_nth_time_a_task_comes_to_a_point_counts_from_the_wait_on():
    seen = []

    async def user(user: User) -> None:
        await user.sleep(1)
        user.spawn(creating)
        async with user.at_point("apiserver", "recv", 2):
            seen.append([each.name for each in user.run.objects("/registry/configmaps/")])

    async def creating(user: User) -> None:
        await user.create(config_map("a"))
        await user.create(config_map("b"))

    played(user, build=alone)
    assert seen == [["a"]]


def test_no_task_ever_comes_to_a_point():
    async def user(user: User) -> None:
        async with user.at_point("scheduler", "scheduler.nowhere"):
            pass

    run = played(user, "deadlock", build=alone)
    assert "user/main waits for scheduler at scheduler.nowhere" in run.result.reason


def test_who_is_held_at_a_point_may_be_killed_there():
    async def user(user: User) -> None:
        await user.sleep(1)
        await user.create(pod("web"))
        async with user.at_point("scheduler", "scheduler.cycle.assume"):
            user.crash("scheduler")
            await user.sleep(1)
        user.restart("scheduler")
        await user.sleep(10)
        assert (await user.get("Pod", "web")).view.spec.node_name

    played(user, build=alone)


def test_a_point_is_asked_for_of_a_process_that_there_is_and_from_the_first_time_on():
    async def nobody(user: User) -> None:
        async with user.at_point("nobody", "recv"):
            pass

    async def never(user: User) -> None:
        async with user.at_point("scheduler", "recv", 0):
            pass

    assert "no actor is called 'nobody'" in played(nobody, "failed", build=alone).result.reason
    assert "expected 1 or more" in played(never, "failed", build=alone).result.reason


def test_a_run_that_held_a_task_is_the_same_on_both_drivers_and_in_a_replay():
    from actors.strategies.random_walk import RandomWalk
    from actors.strategies.replay import Replay

    async def user(user: User) -> None:
        await user.sleep(1)
        await user.create(pod("web"))
        async with user.at_point("scheduler", "scheduler.cycle.snapshot"):
            await user.create(pod("other"))

    plan = plan_of(Scenario("test", workload=user, build=alone))
    bare = Execution(plan, RandomWalk(5)).execute("bare")
    trio = Execution(plan, RandomWalk(5)).execute("trio")
    again = Execution(plan, Replay(bare.choices, marks=bare.marks)).execute("bare")
    assert bare.ok
    assert bare.trace_hash == trio.trace_hash == again.trace_hash
