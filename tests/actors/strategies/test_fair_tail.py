"""A fair tail: under priorities a task that asks again and again may starve who would answer; with it not."""

from __future__ import annotations

import pytest

from actors import EventLog, World, strategies


async def asker(ctx, box):
    """Turns in a circle until somebody has done his work."""
    while not box:
        await ctx.point("ask again")


async def worker(ctx, box):
    await ctx.point("work")
    box.append(1)


class Unfair:
    """The last of those that are ready, always."""

    name = "unfair"
    seed = 0
    footprint = None
    exhausted = False

    def begin(self):
        pass

    def choose(self, _kind, options, _step):
        return len(options) - 1

    def end(self):
        pass

    def parameters(self):
        return {}


def run(strategy):
    world = World(strategy=strategy, log=EventLog(keep=False), livelock_limit=500)
    box: list[int] = []
    world.actor("worker", worker, box)
    world.actor("z-asker", asker, box)
    return world.run("bare")


def test_without_a_tail_it_starves_and_with_one_it_ends() -> None:
    from actors.strategies.fair_tail import FairTail

    assert run(Unfair()).verdict == "livelock"
    result = run(FairTail(Unfair(), 100))
    assert result.ok
    assert 100 < result.steps < 200


def test_up_to_the_tail_the_strategy_answers() -> None:
    plain, tailed = (
        run(strategies.named("random-walk", 3, fair_after=after)) for after in (None, 10_000)
    )
    assert list(plain.choices) == list(tailed.choices)
    assert strategies.named("pct", 1, fair_after=7).parameters()["fair_after"] == 7


def test_what_enumerates_has_no_fair_tail() -> None:
    with pytest.raises(ValueError, match="strategy dpor enumerates"):
        strategies.named("dpor", 0, fair_after=10)


async def unhelpful(ctx, box):
    """Asks once a second, so that no instant lasts."""
    while not box:
        await ctx.sleep(1)


def test_an_instant_that_does_not_end_becomes_fair_and_the_next_one_begins_anew() -> None:
    from actors.strategies.fair_tail import FairTail

    world = World(log=EventLog(keep=False), livelock_limit=500)
    box: list[int] = []
    world.actor("worker", worker, box)
    world.actor("z-asker", asker, box)
    assert run(FairTail(Unfair(), within=100)).ok
    tail = FairTail(Unfair(), within=100)
    two = ["a", "b"]
    assert tail.choose("task", two, 100) == 1
    assert tail.choose("task", two, 101) == 0
    tail.time_passes()
    assert tail.choose("task", two, 201) == 1
    assert tail.choose("task", two, 202) == 0
    assert tail.choose("latency", two, 203) == 1, "only the schedule becomes fair"


def test_a_run_that_never_ends_is_abandoned_when_the_search_is_over() -> None:
    from actors.strategies.fair_tail import LOOK_EVERY, FairTail

    asked = []

    def over() -> bool:
        asked.append(1)
        return len(asked) > 2

    world = World(strategy=FairTail(Unfair(), over=over), log=EventLog(keep=False))
    world.actor("one", unhelpful, [])
    world.actor("two", unhelpful, [])
    result = world.run("bare")
    assert result.verdict == "abandoned"
    assert len(result.choices) <= 3 * LOOK_EVERY
