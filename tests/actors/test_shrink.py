"""A finding is shrunk to the few decisions that matter, and fails in the same way."""

from __future__ import annotations

import pytest

from actors import Context, EventLog, RandomWalk, Replay, World
from actors.shrink import failure, identity, replayed, shrink
from actors.strategies import named
from tests.actors.worlds import lost_update


def build(strategy) -> World:
    return lost_update(strategy, clients=4, times=3)


def run(strategy):
    return build(strategy).run("bare")


def found(name: str):
    for seed in range(200):
        result = run(named(name, seed))
        if result.verdict == "violated":
            return result
    raise AssertionError("nothing was found")


@pytest.mark.parametrize("name", ["random-walk", "pct", "pct-actor", "pos"])
def test_a_lost_update_comes_down_to_few_deviations(name: str) -> None:
    result = found(name)
    shrunk = shrink(run, result.choices)
    assert shrunk.deviations <= 3
    assert identity(shrunk.result) == identity(result)
    assert shrunk.deviations < result.choices.deviations() or result.choices.deviations() <= 3


def test_the_shrunk_run_replays() -> None:
    shrunk = shrink(run, found("random-walk").choices)
    again = replayed(run, shrunk)
    assert again.trace_hash == shrunk.result.trace_hash


def test_a_budget_is_kept() -> None:
    shrunk = shrink(run, found("random-walk").choices, runs=5)
    assert shrunk.runs <= 5
    assert identity(shrunk.result)[0] == "violated"


def race(strategy) -> World:
    """Breaks only when the writer is late *and* the workload drew 3 somewhere: data and schedule matter."""
    world = World(strategy=strategy, log=EventLog())
    state = {"value": 0, "drawn": 0, "read": -1}

    async def writer(ctx: Context) -> None:
        for _ in range(10):
            state["drawn"] = max(state["drawn"], ctx.choose("workload", 5, "how many"))
        await ctx.point("write")
        state["value"] = 1

    async def reader(ctx: Context) -> None:
        for _ in range(4):
            await ctx.point("idle")
        state["read"] = state["value"]

    world.actor("writer", writer)
    world.actor("reader", reader)
    world.invariant(
        "reads what was written",
        lambda: "stale" if state["read"] == 0 and state["drawn"] >= 3 else None,
    )
    return world


def test_what_users_do_is_made_dull_where_it_does_not_matter() -> None:
    result = next(
        result
        for seed in range(300)
        if (result := race(RandomWalk(seed)).run("bare")).verdict == "violated"
    )
    shrunk = shrink(lambda strategy: race(strategy).run("bare"), result.choices)
    assert sum(1 for number in shrunk.data["workload"] if number) == 1
    assert len(shrunk.demotions) == 1
    assert "writer" in str(shrunk.demotions[0])


def test_another_failure_is_not_taken_for_the_same() -> None:
    result = found("random-walk")
    shrunk = shrink(run, result.choices, wanted=("deadlock", ""))
    assert shrunk.deviations == result.choices.deviations()


def test_a_strict_replay_of_the_finding_is_left_as_it_was() -> None:
    result = found("random-walk")
    assert run(Replay(result.choices)).trace_hash == result.trace_hash


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a/main at x.y: KeyError: 'k'", "b/task#7 at x.y: KeyError: 'other'", True),
        ("a/main at x.y: KeyError: 'k'", "a/main at x.y: ValueError: k", False),
        ("a/main at x.y: KeyError: 'k'", "a/main at x.z: KeyError: 'k'", False),
        ("a/main at x: m.Lost", "a/main at x: m.Lost: a\nb: c", True),
        ("a/main at patch pods/scale: E: at z: F", "a/main at patch pods/scale: E: at y: G", True),
    ],
)
def test_exceptions_are_told_apart_by_type_and_place_and_not_by_task_or_text(one, other, same):
    assert (failure("failed", one) == failure("failed", other)) is same
    assert failure("failed", one)[1]
