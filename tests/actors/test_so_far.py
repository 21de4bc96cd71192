"""A look at a run from outside, between two steps: its recording up to there, and its log as it grows."""

from __future__ import annotations

import pytest

from actors import Context, EventLog, Fifo, RandomWalk, Replay, UsageError, World
from actors.log import Tail

SECOND = 1_000_000_000


async def counter(ctx: Context) -> None:
    while True:
        message = await ctx.recv(idle=True)
        ctx.log("counted", data={"of": str(message.payload)})


async def teller(ctx: Context, name: str) -> None:
    for number in range(40):
        ctx.send("counter", f"{name}{number}")
        await ctx.sleep(SECOND if number % 3 else 0)


def look(world: World, every: int, call) -> None:
    """As somebody outside does who comes while a step is being taken."""
    world.observe(every, lambda: world._kernel.faults.at_step(world.steps + 1, call))


def build(strategy, **options) -> World:
    world = World(strategy=strategy, **options)
    world.actor("counter", counter)
    for name in "abc":
        world.actor(name, teller, name)
    return world


@pytest.mark.parametrize("driver", ["bare", "trio"])
@pytest.mark.parametrize("strategy", [Fifo, lambda: RandomWalk(7)])
def test_a_recording_of_any_moment_replays_to_there(driver, strategy):
    world = build(strategy())
    taken = []
    look(world, 7, lambda: taken.append(world.so_far("until here")))
    world.run(driver)
    assert len(taken) > 30  # and some of them end with a whole block of the trace
    for each in taken:
        replay = build(Replay(each.choices, marks=each.marks), inputs=each.inputs)
        again = replay.run("bare")
        assert (again.verdict, again.reason) == ("stopped", "until here")
        assert (again.steps, again.trace_hash) == (each.steps, each.trace_hash)


@pytest.mark.slow
def test_every_length_of_a_trace_has_its_marks():
    world = build(Fifo())
    taken = []
    look(world, 1, lambda: taken.append(world.so_far("here")))
    world.run("bare")
    for each in taken[-300:]:
        replay = build(Replay(each.choices, marks=each.marks), inputs=each.inputs)
        assert replay.run("bare").verdict == "stopped"


def test_of_what_is_not_kept_there_is_no_recording():
    world = build(Fifo())
    world.keep_no_recording()
    with pytest.raises(UsageError, match="nothing is kept"):
        world.so_far("here")


def test_a_tail_tells_each_event_once_and_in_order():
    world = build(RandomWalk(3))
    tail, told = Tail(world.log), []
    look(world, 5, lambda: told.extend(tail.news()))
    world.run("bare")
    told.extend(tail.news())
    assert told == list(world.log)
    assert {event.actor for event in told} == {"world", "counter", "a", "b", "c"}


def test_a_note_of_the_last_step_stands_before_the_verdict_for_a_tail_and_for_the_whole_log():
    async def noting(ctx: Context) -> None:
        await ctx.point("step")
        ctx.note("detail")

    world = World()
    world.actor("a", noting)
    tail, told = Tail(world.log), []
    look(world, 1, lambda: told.extend(tail.news()))
    world.run("bare")
    told.extend(tail.news())
    assert told == list(world.log)
    assert [event.event for event in told][-2:] == ["detail", "verdict"]


def test_a_log_that_keeps_nothing_has_no_tail():
    log = EventLog(keep=False)
    build(Fifo(), log=log).run("bare")
    assert list(Tail(log).news()) == []


def test_a_look_is_taken_at_once_when_no_step_is():
    world = build(Fifo())
    seen = []
    world.between_steps(lambda: seen.append(world.steps))
    world.run("bare")
    world.between_steps(lambda: seen.append(world.steps))
    assert seen == [0, world.steps]


def test_a_look_that_comes_in_a_step_waits_for_its_end():
    seen = []

    async def asking(ctx: Context) -> None:
        await ctx.sleep(0)
        now = world.steps
        world.between_steps(lambda: seen.append((now, world.steps)))
        assert not seen

    world = build(Fifo())
    world.actor("asking", asking)
    world.run("bare")
    ((asked, looked),) = seen
    assert asked == looked
