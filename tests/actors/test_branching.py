"""A run that is forked amid a search: each leaf is a schedule of its own, and replays as a plain recording."""

from __future__ import annotations

import os

import pytest

from actors import Context, Replay, World, explore
from actors.branching import AVAILABLE
from actors.strategies import branching
from actors.strategies.branching import Branching

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the system cannot fork a process")


@pytest.fixture(autouse=True)
def short_runs_are_forked(monkeypatch) -> None:
    monkeypatch.setattr(branching, "SHORT", 20)


def world(strategy, breaks_at: str = "", interrupted_at: str = "") -> World:
    """Two clients take turns of their own choosing, and note in which order; one order may be forbidden."""
    made = World(strategy=strategy)
    order: list[str] = []
    parent = os.getpid()

    async def client(ctx: Context, name: str) -> None:
        for _ in range(20):
            await ctx.point("turn")
            order.append(name)
            if interrupted_at and "".join(order).endswith(interrupted_at) and os.getpid() != parent:
                raise KeyboardInterrupt

    made.actor("a", client, "a")
    made.actor("b", client, "b")
    if breaks_at:
        for actor in ("a", "b"):
            made.invariant(
                "the order is allowed",
                lambda: "forbidden" if "".join(order).endswith(breaks_at) else None,
                after=actor,
            )
    return made


def search(schedules: int, **options):
    strategy = Branching(7)
    branches = strategy.branch()
    stop = options.pop("stop_at_first", False)
    return explore(
        lambda answering: world(answering, **options),
        schedules,
        strategy=lambda _seed: strategy,
        branches=branches,
        stop_at_first=stop,
    )


@pytest.mark.slow
def test_leaves_count_as_schedules_and_differ() -> None:
    found = search(40)
    assert found.schedules == 40
    assert found.verdicts == {"quiescent": 40}
    assert found.distinct > 30


@pytest.mark.slow
def test_forking_takes_fewer_steps_than_whole_runs() -> None:
    found = search(40)
    one_run = world(Branching(7)).run("bare").steps
    assert found.steps < 40 * one_run * 0.7


@pytest.mark.slow
def test_the_same_seed_gives_the_same_leaves() -> None:
    one, other = search(40), search(40)
    assert (one.classes, one.steps) == (other.classes, other.steps)


@pytest.mark.slow
def test_a_leaf_that_broke_something_replays_from_its_choices() -> None:
    found = search(200, breaks_at="abbabba")
    assert found.findings
    assert found.verdicts["violated"] == len(found.findings)
    for each in found.findings:
        again = world(Replay(each.result.choices), breaks_at="abbabba").run("bare")
        assert (again.verdict, again.reason) == (each.result.verdict, each.result.reason)


def test_a_search_that_stops_at_its_first_finding_forks_no_more_then() -> None:
    found = search(200, breaks_at="abbabba", stop_at_first=True)
    assert len(found.findings) == 1
    assert found.schedules < 200


@pytest.mark.slow
def test_a_child_that_is_interrupted_ends_alone() -> None:
    found = search(60, interrupted_at="aabb")
    assert found.schedules == 60
    assert set(found.verdicts) == {"quiescent"}
