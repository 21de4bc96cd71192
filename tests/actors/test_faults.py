"""Faults are operations of the context, and the log tells of each."""

from __future__ import annotations

import pytest

from actors import Context, EventLog, LinkBroken, Timeout, UsageError, World

SECOND = 1_000_000_000


async def echo(ctx: Context) -> None:
    while True:
        message = await ctx.recv(idle=True)
        message.reply(message.payload)


async def count(ctx: Context, done: list[int]) -> None:
    """Adds to what is remembered, then answers."""
    while True:
        message = await ctx.recv(idle=True)
        done.append(message.payload)
        message.reply(None)


def faults(world: World) -> list[dict[str, object]]:
    return [dict(event.data or {}) for event in world.log if event.event == "fault"]


def run(main, server=echo, *args) -> World:
    world = World(log=EventLog())
    world.actor("server", server, *args)
    world.actor("user", main)
    result = world.run("bare")
    assert result.verdict == "quiescent", result.reason
    return world


def test_a_cut_holds_messages_until_it_is_healed_and_both_are_logged() -> None:
    heard: list[int] = []

    async def main(ctx: Context) -> None:
        ctx.faults.cut("user", "server")

        async def healer(ctx: Context) -> None:
            await ctx.sleep(5 * SECOND)
            ctx.faults.heal("user", "server")

        ctx.spawn(healer)
        assert await ctx.ask("server", 7) == 7
        heard.append(ctx.now)

    world = run(main)
    assert heard == [5 * SECOND]
    assert faults(world) == [
        {"fault": "cut", "a": "user", "b": "server"},
        {"fault": "heal", "a": "user", "b": "server"},
    ]


def test_a_delay_is_added_each_way_until_it_is_healed() -> None:
    heard: list[int] = []

    async def main(ctx: Context) -> None:
        ctx.faults.delay("user", "server", SECOND)
        await ctx.ask("server", 1)
        heard.append(ctx.now)
        ctx.faults.heal("user", "server")
        await ctx.ask("server", 2)
        heard.append(ctx.now)

    world = run(main)
    assert heard == [2 * SECOND, 2 * SECOND]
    assert [entry["fault"] for entry in faults(world)] == ["delay", "heal"]


def test_a_lost_request_never_happened_and_a_lost_answer_did() -> None:
    done: list[int] = []

    async def main(ctx: Context) -> None:
        ctx.faults.lose("user", "server")
        with pytest.raises(LinkBroken, match="lost"):
            await ctx.ask("server", 1)
        ctx.faults.lose("server", "user")
        with pytest.raises(LinkBroken, match="lost"):
            await ctx.ask("server", 2)
        await ctx.ask("server", 3)

    run(main, count, done)
    assert done == [2, 3]


def test_a_fault_of_an_unknown_actor_is_a_usage_error() -> None:
    async def main(ctx: Context) -> None:
        with pytest.raises(UsageError, match="no actor is called 'sever'"):
            ctx.faults.cut("user", "sever")
        with pytest.raises(UsageError, match="no actor is called 'sever'"):
            ctx.faults.crash("sever")

    run(main)


def test_a_restart_is_logged_with_its_incarnation() -> None:
    async def main(ctx: Context) -> None:
        ctx.faults.crash("server")
        ctx.faults.restart("server")
        await ctx.ask("server", 1)

    assert [(entry["fault"], entry.get("incarnation")) for entry in faults(run(main))] == [
        ("crash", None),
        ("restart", 2),
    ]


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_an_actor_joins_and_leaves_while_the_world_runs_without_a_fault(driver) -> None:
    seen: list[object] = []

    async def slow(ctx: Context) -> None:
        await ctx.recv(idle=True)
        await ctx.sleep(60 * SECOND)
        seen.append("never")

    async def main(ctx: Context) -> None:
        assert not world.has_actor("late")
        world.start("late", slow)
        task = ctx.spawn(asking, name="asking")
        await ctx.sleep(SECOND)
        seen.append(world.alive("late"))
        world.end("late")
        world.end("late")
        await ctx.join(task)
        seen.append((world.alive("late"), world.has_actor("late"), ctx.now))

    async def asking(ctx: Context) -> None:
        with pytest.raises(LinkBroken, match="reset"):
            await ctx.ask("late", 1)

    world = World(log=EventLog())
    world.actor("user", main)
    result = world.run(driver)
    assert result.verdict == "quiescent", result.reason
    assert seen == [True, (False, True, SECOND)]
    assert faults(world) == []


@pytest.mark.parametrize("driver", ["bare", "trio"])
@pytest.mark.parametrize("after", ["user", None])
def test_an_invariant_that_raises_ends_the_run_with_its_own_verdict(driver, after) -> None:
    def broken() -> str | None:
        raise KeyError("no such thing")

    async def main(ctx: Context) -> None:
        await ctx.point("here")
        await ctx.point("there")

    world = World()
    world.actor("user", main)
    world.invariant("asks wrongly", broken, after=after)
    result = world.run(driver)
    assert result.verdict == "invariant-error"
    assert "asks wrongly: KeyError" in result.reason
    assert isinstance(result.error, KeyError)
    assert result.error.__traceback__ is not None


def test_an_intercepted_request_never_arrives_and_the_next_one_does() -> None:
    done: list[int] = []

    async def main(ctx: Context) -> None:
        ctx.faults.intercept("user", "server", "busy", label="429")
        assert await ctx.ask("server", 1) == "busy"
        assert await ctx.ask("server", 2) is None

    world = run(main, count, done)
    assert done == [2]
    assert faults(world)[0]["answer"] == "429"


def test_an_altered_answer_is_told_after_what_was_asked_for_has_happened() -> None:
    done: list[int] = []

    async def main(ctx: Context) -> None:
        ctx.faults.alter("user", "server", "timed out", label="504")
        assert await ctx.ask("server", 1) == "timed out"
        assert await ctx.ask("server", 2) is None

    world = run(main, count, done)
    assert done == [1, 2]
    assert faults(world)[0]["answer"] == "504"


def test_what_was_to_strike_coming_messages_can_be_called_off() -> None:
    done: list[int] = []

    async def main(ctx: Context) -> None:
        ctx.faults.intercept("user", "server", "busy", count=2)
        ctx.faults.alter("user", "server", "timed out")
        ctx.faults.lose("server", "user", 3)
        assert await ctx.ask("server", 1) == "busy"
        ctx.faults.relent("user", "server")
        ctx.faults.relent("user", "server")  # nothing is left: not worth a word
        assert await ctx.ask("server", 2) is None

    world = run(main, count, done)
    assert done == [2]
    assert [each["fault"] for each in faults(world)][3:] == ["relent"]


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_a_fault_can_be_planned_for_any_step(driver: str) -> None:
    seen: list[int] = []

    async def victim(ctx: Context) -> None:
        while True:
            seen.append(ctx.step)
            await ctx.point("work")

    async def planner(ctx: Context) -> None:
        ctx.faults.at_step(7, lambda: ctx.faults.crash("victim"))

    world = World(log=EventLog())
    world.actor("victim", victim)
    world.actor("planner", planner)
    result = world.run(driver)
    assert result.verdict == "quiescent"
    assert max(seen) == 6
    (fault,) = [event for event in world.log if event.event == "fault"]
    assert fault.step == 6
    assert fault.data is not None
    assert fault.data["actor"] == "victim"


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_a_broken_stream_says_so_also_to_who_has_just_waited_in_vain(driver):
    told = []

    async def server(ctx):
        message = await ctx.recv()
        told.append(message.payload)
        await ctx.sleep(10)

    async def reader(ctx):
        await ctx.sleep(1)
        stream = ctx.open("server", "watch")
        try:
            await stream.recv(5)
        except Timeout:
            told.append("timeout")
        ctx.faults.break_link("reader", "server")
        try:
            await stream.recv(5)
        except (Timeout, LinkBroken) as error:
            told.append(type(error).__name__)

    world = World()
    world.actor("server", server)
    world.actor("reader", reader)
    world.run(driver)
    assert told == ["watch", "timeout", "LinkBroken"]
