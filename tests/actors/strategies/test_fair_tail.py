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
