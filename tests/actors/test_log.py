"""The event log: what is kept, and the JSON lines that come of it."""

from __future__ import annotations

import io
import json

import jsonschema
import pytest

from actors import Context, EventLog, RandomWalk, Replay, Unheard, UsageError, World
from actors.jsonl import schema, seconds, write
from actors.log import INFO
from tests.actors.worlds import lost_update


def test_every_line_fits_the_published_schema():
    world = lost_update(RandomWalk(1))
    world.run("bare")
    out = io.StringIO()
    count = write(world.log, out, "abc")
    lines = out.getvalue().splitlines()
    assert len(lines) == count > 50
    check = jsonschema.Draft202012Validator(schema())
    for line in lines:
        check.validate(json.loads(line))
        keys = list(json.loads(line))
        assert keys == sorted(keys)


def test_a_level_keeps_only_what_is_at_or_above_it():
    async def talks(ctx: Context) -> None:
        await ctx.point("step")
        ctx.log("remark", obj="Pod/default/x", uid="u", rv=7, data={"why": "because"})

    world = World(log=EventLog(INFO))
    world.actor("a", talks)
    world.run("bare")
    events = [event for event in world.log if event.event != "task"]
    assert [event.event for event in events] == ["remark", "verdict"]
    assert events[0].obj == "Pod/default/x"
    assert (events[0].actor, events[0].task, events[0].rv) == ("a", "main", 7)


def test_nothing_is_kept_when_nothing_is_wanted():
    world = World(log=EventLog(keep=False))
    world.run("bare")
    assert list(world.log) == []


def test_data_that_has_no_order_is_refused():
    async def careless(ctx: Context) -> None:
        ctx.log("bad", data={"names": {"a", "b"}})
        await ctx.point("never")

    world = World()
    world.actor("a", careless)
    assert "TypeError" in world.run("bare").reason


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0"),
        (1_500_000_000, "1.5"),
        (1, "0.000000001"),
        (12 * 10**9, "12"),
        (12_902_960_000_000_001, "12902960.000000001"),
    ],
)
def test_seconds_are_exact(ns, text):
    assert seconds(ns) == text
    out = io.StringIO()
    assert out.getvalue() == ""


def test_causes_lead_back_to_the_step_that_sent():
    world = World()

    async def sender(ctx: Context) -> None:
        await ctx.point("sender.before")
        ctx.send("receiver", "hi")

    async def receiver(ctx: Context) -> None:
        await ctx.recv()

    world.actor("receiver", receiver)
    world.actor("sender", sender)
    world.run("bare")
    events = list(world.log)
    sent = next(event for event in events if event.event == "sender.before")
    got = next(event for event in events if event.event == "message")
    assert got.cause == sent.step


def test_notes_are_read_with_their_step_and_move_no_hash() -> None:
    def build(keep: bool, note: bool) -> World:
        world = World(log=EventLog(keep=keep))

        async def main(ctx: Context) -> None:
            for number in range(3):
                if note:
                    ctx.note("looked", obj="Pod/default/a", uid="u", rv=number)
                await ctx.point("work")

        world.actor("only", main)
        return world

    kept = build(keep=True, note=True)
    noted = kept.run("bare")
    found = [(event.step, event.rv) for event in kept.log if event.event == "looked"]
    assert found == [(1, 0), (2, 1), (3, 2)]
    steps = [event.step for event in kept.log]
    assert steps == sorted(steps)
    assert noted.marks == build(keep=True, note=False).run("bare").marks
    assert noted.trace_hash == build(keep=False, note=True).run("bare").trace_hash


@pytest.mark.parametrize("driver", ["bare", "trio"])
@pytest.mark.parametrize("strategy", [None, RandomWalk(3)], ids=["dull", "random"])
def test_a_run_without_listeners_goes_the_same_way(driver, strategy):
    def run(log: EventLog) -> tuple[World, list[tuple[str, int, int]]]:
        order: list[tuple[str, int, int]] = []
        world = World(log=log, strategy=strategy)

        async def talks(ctx: Context) -> None:
            for number in range(4):
                await ctx.point("point")
                order.append((ctx.actor, number, ctx.step))
                await ctx.region("region")
                ctx.log("remark", data={"number": number})
                order.append((ctx.actor, number, ctx.step))

        for name in "abc":
            world.actor(name, talks)
        world.run(driver)
        return world, order

    heard, order = run(EventLog())
    unheard, again = run(Unheard())
    assert order == again
    assert heard.steps == unheard.steps
    assert len(heard.choices) > 0
    assert len(unheard.choices) == 0
    assert list(unheard.log) == []


def test_a_run_without_listeners_has_no_trace_hash():
    world = lost_update(RandomWalk(1), log=Unheard())
    assert world.run("bare").trace_hash == ""


def test_a_replay_is_compared_with_a_trace():
    first = lost_update(RandomWalk(1)).run("bare")
    with pytest.raises(UsageError, match="needs a log"):
        lost_update(Replay(first.choices, marks=first.marks), log=Unheard()).run("bare")
