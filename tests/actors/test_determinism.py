"""The determinism self-tests of the runtime: facts/simulation, section 5, on small scenarios."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors import Context, EventLog, RandomWalk, Replay, World, explore
from actors.log import LEVELS
from actors.testing import NotDeterministic, OneRunnable, assert_deterministic
from tests.actors.worlds import lost_update

ROOT = Path(__file__).parents[2]


def test_one_seed_gives_one_trace_a_hundred_times_in_one_process():
    hashes = {lost_update(RandomWalk(7)).run("bare").trace_hash for _ in range(100)}
    assert len(hashes) == 1


def test_other_seeds_give_other_traces():
    hashes = {lost_update(RandomWalk(seed)).run("bare").trace_hash for seed in range(20)}
    assert len(hashes) > 10


@pytest.mark.parametrize("seed", range(5))
def test_both_drivers_give_the_same_trace_and_the_same_choices(seed):
    bare = lost_update(RandomWalk(seed)).run("bare")
    trio = lost_update(RandomWalk(seed)).run("trio")
    assert (bare.trace_hash, bare.steps, bare.verdict) == (
        trio.trace_hash,
        trio.steps,
        trio.verdict,
    )
    assert bare.choices == trio.choices


def test_every_log_level_gives_the_same_trace():
    hashes = set()
    for level in LEVELS.values():
        world = lost_update(RandomWalk(3))
        world_with_level = _with_log(world, EventLog(level))
        hashes.add(world_with_level.run("bare").trace_hash)
    assert len(hashes) == 1


def _with_log(world: World, log: EventLog) -> World:
    world.log = log
    world._kernel.log = log
    return world


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_a_replay_without_the_seed_gives_the_same_trace(driver):
    first = lost_update(RandomWalk(11)).run("bare")
    again = lost_update(Replay(first.choices)).run(driver)
    assert again.trace_hash == first.trace_hash


@pytest.mark.parametrize("hash_seed", ["0", "1", "12345", "random", "random"])
def test_fresh_processes_with_any_hash_seed_give_the_same_trace(hash_seed):
    program = (
        "from actors import RandomWalk\n"
        "from tests.actors.worlds import lost_update\n"
        "print(lost_update(RandomWalk(5)).run('trio').trace_hash)\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.strip() == lost_update(RandomWalk(5)).run("bare").trace_hash


async def _iterates_a_set(ctx: Context, order: list[str]) -> None:
    for name in order:
        await ctx.point(f"visit.{name}")


def test_an_actor_that_iterates_a_set_is_detected():
    orders = iter([["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]])

    def build() -> World:
        world = World()
        world.actor("broken", _iterates_a_set, next(orders))
        return world

    with pytest.raises(NotDeterministic, match=r"visit\.a.*visit\.b"):
        assert_deterministic(build)


def test_an_actor_that_draws_from_global_random_is_detected():
    import random

    async def broken(ctx: Context) -> None:
        for _ in range(20):
            if random.random() < 0.5:
                await ctx.point("heads")
            else:
                await ctx.point("tails")

    def build() -> World:
        world = World()
        world.actor("broken", broken)
        return world

    with pytest.raises(NotDeterministic):
        assert_deterministic(build, runs=10)


async def test_trio_never_has_two_of_our_tasks_to_choose_from():
    import trio

    instrument = OneRunnable()
    trio.lowlevel.add_instrument(instrument)
    try:
        result = await lost_update(RandomWalk(2)).run_async()
    finally:
        trio.lowlevel.remove_instrument(instrument)
    assert result.steps > 10
    assert instrument.violations == []


def test_exploration_finds_the_lost_update_and_nothing_in_the_careful_version():
    from tests.actors.worlds import careful

    found = explore(lambda strategy: lost_update(strategy), 50)
    assert found.findings
    assert found.findings[0].result.verdict == "violated"
    assert "no update is lost" in found.findings[0].result.reason
    clean = explore(lambda strategy: lost_update(strategy, body=careful), 50)
    assert clean.findings == ()
    assert clean.verdicts == {"quiescent": 50}
    assert clean.distinct > 40


def test_a_finding_replays_on_both_drivers():
    finding = explore(lambda strategy: lost_update(strategy), 50).findings[0]
    for driver in ("bare", "trio"):
        again = lost_update(Replay(finding.result.choices)).run(driver)
        assert (again.verdict, again.trace_hash) == (
            finding.result.verdict,
            finding.result.trace_hash,
        )


def test_an_exploration_can_check_that_only_choices_decide() -> None:
    drifts = iter(range(1000))

    def build(strategy):
        world = World(strategy=strategy, log=EventLog())
        drift = next(drifts)

        async def main(ctx: Context) -> None:
            await ctx.point("work")
            ctx.log("number", data={"value": drift})

        world.actor("main", main)
        return world

    assert explore(build, 5).verdicts == {"quiescent": 5}
    seen = explore(build, 5, check_every=2)
    assert seen.findings[0].result.verdict == "diverged"
    assert (
        "the trace differs from the recording" in seen.findings[0].result.reason
        or "step" in seen.findings[0].result.reason
    )
