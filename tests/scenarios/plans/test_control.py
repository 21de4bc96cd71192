"""Plans carried out: each action once, on a small cluster, with the default schedule."""

from __future__ import annotations

import pytest

from actors import EventLog, Fifo, Replay
from controlplane.cluster import ClusterConfig
from controlplane.errors import UsageError
from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.worlds import lagging_servers
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.engine.plan import plan_of

MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"at": "0"}}


def executed(main, *lines: str, build=None, **options):
    """A run of `main` as the user of an API server alone, under a plan."""
    build = build or (
        lambda _setting: ClusterConfig(nodes=(), scheduler=False, kubelets=False, controllers=False)
    )
    scenario = Scenario("plans", workload=main, build=build, defaults={"nodes": 0})
    run = Execution(plan_of(scenario, plan=lines, **options), Fifo(), log=EventLog())
    run.execute("bare")
    return run


def outcome(run) -> str:
    return run.control.outcomes()[0].note


def test_a_held_request_goes_on_when_what_it_waits_for_has_passed() -> None:
    seen = []

    async def main(user):
        await user.create(MAP)

        async def patch(user):
            await user.patch("ConfigMap", "one", {"data": {"at": "1"}})
            seen.append(("patched", user.ctx.now))

        task = user.spawn(patch)
        await user.sleep(5)
        await user.create({**MAP, "metadata": {"name": "two"}})
        await user.join(task)

    run = executed(
        main, "hold request user patch configmaps one until answer user create configmaps two"
    )
    assert run.result.ok, run.result.reason
    assert seen == [("patched", 5_000_000_000)]
    assert outcome(run) == "reached, held and released"
    assert run.control.reached


def test_what_does_not_come_is_not_waited_for_longer_than_the_plan_says() -> None:
    seen = []

    async def main(user):
        await user.create(MAP)
        seen.append(user.ctx.now)

    run = executed(
        main, "hold answer user create configmaps until request user delete pods at most 7"
    )
    assert seen == [7_000_000_000]
    assert outcome(run) == "held for 7 s; what was waited for did not come"
    assert not run.control.reached


def test_a_line_that_nothing_meets_is_told() -> None:
    async def main(user):
        await user.create(MAP)

    run = executed(main, "lose answer user delete configmaps")
    assert outcome(run) == "not reached"
    assert not run.control.reached


@pytest.mark.parametrize(("kind", "stored"), [("request", 0), ("answer", 1)])
def test_a_lost_message_breaks_the_connection_with_and_without_effect(kind, stored) -> None:
    async def main(user):
        assert not await user.attempt(user.create(MAP))
        await user.sleep(1)
        assert len(user.run.objects("/registry/configmaps/")) == stored
        await user.attempt(user.create(MAP))

    run = executed(main, f"lose {kind} user create configmaps")
    assert run.result.ok, run.result.reason
    assert run.control.reached


def test_a_failed_request_is_refused_and_has_no_effect() -> None:
    from controlplane.client.errors import ApiError

    async def main(user):
        with pytest.raises(ApiError) as error:
            await user.create(MAP)
        assert (error.value.code, error.value.reason) == (409, "Conflict")
        await user.create(MAP)

    run = executed(main, "fail request user create configmaps with 409")
    assert run.result.ok, run.result.reason


def test_a_delayed_answer_comes_later() -> None:
    seen = []

    async def main(user):
        await user.create(MAP)
        seen.append(user.ctx.now)
        await user.patch("ConfigMap", "one", {"data": {"at": "1"}})
        seen.append(user.ctx.now)

    executed(main, "delay answer user create configmaps for 2.5")
    assert seen == [2_500_000_000, 2_500_000_000]


def _watching(seen):
    async def main(user):
        from controlplane.client.loops.clientset import Resource
        from controlplane.client.loops.informer import Informer, handler

        informer = Informer(user.ctx, Resource("", "v1", "configmaps"), immediate=True)

        def note(shown, *, gone=False):
            seen.append((user.ctx.now // 1_000_000_000, shown.name, gone))

        informer.add_handler(
            handler(note, lambda _old, new: note(new), lambda old, _unknown: note(old, gone=True)),
            "test",
        )
        informer.start()
        await informer.wait_synced()
        for name in ("one", "two"):
            await user.create({**MAP, "metadata": {"name": name}})
        await user.sleep(4)
        await user.delete("ConfigMap", "two")
        await user.sleep(20)

    return main


def test_a_held_event_holds_those_behind_it() -> None:
    seen: list[tuple[int, str, bool]] = []
    run = executed(
        _watching(seen),
        "hold event user ADDED configmaps one until answer user delete configmaps two",
    )
    assert run.result.ok, run.result.reason
    assert [each for each in seen if each[1] in ("one", "two")] == [
        (4, "one", False), (4, "two", False), (4, "two", True),
    ]  # fmt: skip


def test_a_delayed_event_delays_those_behind_it() -> None:
    seen: list[tuple[int, str, bool]] = []
    executed(_watching(seen), "delay event user ADDED configmaps one for 10")
    assert [each for each in seen if each[1] in ("one", "two")] == [
        (10, "one", False), (10, "two", False), (10, "two", True),
    ]  # fmt: skip


def test_a_lost_event_breaks_the_watch_which_reads_on() -> None:
    seen: list[tuple[int, str, bool]] = []
    run = executed(_watching(seen), "lose event user ADDED configmaps one")
    assert run.result.ok, run.result.reason
    assert [name for _, name, gone in seen if not gone and name in ("one", "two")] == ["one", "two"]


@pytest.mark.parametrize(("when", "made"), [("before", 0), ("after", 1)])
def test_a_process_is_killed_before_and_after_its_request(when, made) -> None:
    starts = []

    async def main(user):
        starts.append(len(user.run.objects("/registry/configmaps/")))
        if len(starts) == 1:
            await user.attempt(user.create(MAP))
            await user.sleep(1)

    run = executed(main, f"kill user {when} request user create configmaps for 3")
    assert run.result.ok, run.result.reason
    assert starts == [0, made]


def test_a_task_is_held_at_a_point() -> None:
    seen = []

    async def main(user):
        async def other(ctx):
            await ctx.point("there")
            seen.append(ctx.now)

        user.ctx.spawn(other)
        await user.sleep(6)
        await user.create(MAP)
        await user.sleep(1)

    run = executed(main, "hold step user there until answer user create configmaps")
    assert run.result.ok, run.result.reason
    assert seen == [6_000_000_000]
    assert run.control.reached


def test_a_cache_of_one_of_several_servers_is_frozen() -> None:
    async def main(user):
        await user.create(MAP)
        await user.patch("ConfigMap", "one", {"data": {"at": "1"}})
        await user.sleep(3)
        await user.create({**MAP, "metadata": {"name": "two"}})
        await user.sleep(5)

    line = (
        "freeze apiserver-2 configmaps from answer user create configmaps one"
        " until answer user create configmaps two"
    )
    run = executed(
        main, line, build=lagging_servers(scheduler=False, kubelets=False, controllers=False)
    )
    assert run.control.reached, outcome(run)
    with pytest.raises(UsageError, match="expected one of several API servers"):
        executed(main, line)


def test_a_run_with_a_plan_replays_from_its_recording() -> None:
    async def main(user):
        await user.create(MAP)
        await user.attempt(user.patch("ConfigMap", "one", {"data": {"at": "1"}}))
        await user.sleep(3)

    first = executed(
        main, "lose answer user patch configmaps", "delay answer user create configmaps for 1"
    )
    again = Execution(first.plan, Replay(first.result.choices), log=EventLog())
    again.execute("bare")
    assert again.result.trace_hash == first.result.trace_hash
    header = first.recording().header
    assert header["options"]["plan"] == [
        "lose answer user patch configmaps",
        "delay answer user create configmaps for 1",
    ]
