"""What every strategy owes: the same runs for the same seed, and a race that it finds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from actors import Context, EventLog, World
from actors.strategies import LEARNING, NAMES, named
from actors.strategies.bounded import Bounded
from actors.strategies.pct import Pct
from tests.actors.programs import random_program, world_of
from tests.actors.strategies.enumeration import Enumerate
from tests.actors.worlds import lost_update

SEARCHING = tuple(name for name in NAMES if name != "fifo")


def runs(name: str, count: int) -> list[tuple[str, str]]:
    """Verdict and trace of so many runs of a search."""
    found = []
    searching = named(name, 0)
    for number in range(count):
        strategy = searching if name in LEARNING else named(name, number)
        world: World = lost_update(strategy, clients=2, times=1)
        result = world.run("bare")
        found.append((result.verdict, result.trace_hash))
        if getattr(strategy, "exhausted", False):
            break
    return found


@pytest.mark.parametrize("name", SEARCHING)
def test_it_finds_a_lost_update(name: str) -> None:
    assert "violated" in {verdict for verdict, _ in runs(name, 40)}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_runs(name: str) -> None:
    assert runs(name, 8) == runs(name, 8)


@pytest.mark.parametrize("name", ["random-walk", "pct", "pos", "coverage", "portfolio"])
def test_seeds_differ(name: str) -> None:
    assert len({trace for _, trace in runs(name, 20)}) > 3


def traces(strategy, program, limit: int = 20_000) -> list[str]:
    found = []
    while not strategy.exhausted and len(found) < limit:
        world = world_of(program, strategy)
        found.append(world.run("bare").trace_hash)
    return found


@pytest.mark.parametrize("cost", ["delay", "preemption"])
@pytest.mark.parametrize("seed", range(6))
def test_an_unbounded_bounded_search_runs_every_schedule_once(cost, seed) -> None:
    program = random_program(seed, actors=2, length=2)
    everything = traces(Enumerate(), program)
    found = traces(Bounded(cost, bound=60), program)
    assert sorted(found) == sorted(everything)


def test_runs_come_in_the_order_of_their_cost() -> None:
    spent = []
    strategy = Bounded("delay", bound=2)
    while not strategy.exhausted:
        lost_update(strategy, clients=2, times=1).run("bare")
        spent.append(strategy._spent)
    assert spent == sorted(spent)
    assert spent[0] == 0
    assert spent[-1] == 2


def test_a_chain_of_low_priority_waits_until_no_other_task_can_go_on() -> None:
    """With depth 1 nothing changes: the actors run one after the other, as far as each can."""
    world = lost_update(Pct(3, by="actor", depth=1), clients=3, times=2)
    world.run("bare")
    order = [
        event.actor
        for event in world.log
        if event.actor.startswith("client") and event.event == "ask"
    ]
    switches = sum(one != other for one, other in pairwise(order))
    assert switches <= 2


def test_a_log_of_a_portfolio_names_whose_turn_it_was() -> None:
    strategy = named("portfolio", 5)
    for _ in range(3):
        World(strategy=strategy, log=EventLog()).run("bare")
    assert strategy.parameters()["member"] == "pct"


@pytest.mark.parametrize("by", ["task", "actor", "channel"])
def test_no_task_turns_in_a_circle_for_ever_while_others_wait(by) -> None:
    """One actor works until another one says stop: priorities alone would never let the other one speak."""

    async def busy(ctx: Context) -> None:
        while not ctx.inbox.ready():
            await ctx.point("work")

    async def calm(ctx: Context) -> None:
        ctx.send("busy", "stop")

    for seed in range(20):
        world = World(strategy=Pct(seed, by=by), livelock_limit=2_000)
        world.actor("busy", busy)
        world.actor("calm", calm)
        assert world.run("bare").verdict == "quiescent"
