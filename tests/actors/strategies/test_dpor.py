"""Exactly one completed run for each causal trace: counted against plain enumeration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from actors import explore
from actors.footprint import Footprint
from actors.strategies.dpor import Dpor
from tests.actors.programs import Program, random_program, rich_program, world_of
from tests.actors.strategies.enumeration import Enumerate, estimated
from tests.actors.worlds import lost_update

if TYPE_CHECKING:
    from collections.abc import Callable

LIMIT = 300
SLOW_LIMIT = 4000


def classes_by_enumeration(program: Program, limit: int) -> dict[str, str] | None:
    """The causal classes of all schedules, with what came of them; None when there are too many."""
    strategy = Enumerate()
    found: dict[str, str] = {}
    for _ in range(limit):
        strategy.footprint = Footprint()
        world = world_of(program, strategy)
        name = world.run("bare").causal_class
        outcome = world.outcome()
        assert found.setdefault(name, outcome) == outcome, "one class, two outcomes"
        if strategy.exhausted:
            return found
    return None


def classes_by_dpor(program: Program) -> list[tuple[str, str]]:
    strategy = Dpor()
    found = []
    while not strategy.exhausted:
        world = world_of(program, strategy)
        result = world.run("bare")
        if not strategy.repeated:
            found.append((result.causal_class, world.outcome()))
    assert len(found) == strategy.completed
    return found


def compare(seeds: range, limit: int, make: Callable[[int], Program] = random_program) -> int:
    """How many programs were small enough to be compared; every one of them must agree."""
    compared = 0
    for seed in seeds:
        program = make(seed)
        if estimated(lambda probe, program=program: world_of(program, probe)) > 1.5 * limit:
            continue  # not to enumerate half of it in vain
        expected = classes_by_enumeration(program, limit)
        if expected is None:
            continue
        compared += 1
        found = classes_by_dpor(program)
        assert dict(found) == expected, (seed, program)
        assert len(found) == len(expected), (seed, program)
    return compared


@pytest.mark.slow
def test_one_run_for_each_causal_trace() -> None:
    assert compare(range(60), LIMIT) > 20


@pytest.mark.slow
def test_one_run_for_each_causal_trace_of_programs_that_wait_and_draw() -> None:
    assert compare(range(60), LIMIT, rich_program) > 30


@pytest.mark.parametrize(
    "block",
    [
        pytest.param(0, marks=pytest.mark.slow),
        *(pytest.param(each, marks=pytest.mark.nightly) for each in (1, 2)),
    ],
)
def test_one_run_for_each_causal_trace_of_larger_programs(block: int) -> None:
    assert compare(range(100 + 30 * block, 130 + 30 * block), SLOW_LIMIT) > 10
    assert compare(range(100 + 30 * block, 130 + 30 * block), SLOW_LIMIT, rich_program) > 20


def test_a_lost_update_is_found_and_the_space_is_used_up() -> None:
    strategy = Dpor()
    verdicts = []
    while not strategy.exhausted:
        verdicts.append(lost_update(strategy, clients=2, times=1).run("bare").verdict)
    assert "violated" in verdicts
    assert "quiescent" in verdicts
    assert strategy.completed == 6  # of 7,728 schedules: what reads and writes can do


@pytest.mark.slow
def test_requests_and_answers_are_reduced_rightly() -> None:
    plain = Enumerate()
    expected = set()
    while not plain.exhausted:
        plain.footprint = Footprint()
        expected.add(lost_update(plain, clients=2, times=1).run("bare").causal_class)
    strategy = Dpor()
    found = []
    while not strategy.exhausted:
        result = lost_update(strategy, clients=2, times=1).run("bare")
        if not strategy.repeated:
            found.append(result.causal_class)
    assert sorted(found) == sorted(expected)


def test_an_exploration_ends_when_the_space_is_used_up() -> None:
    strategy = Dpor()
    seen = explore(
        lambda answering: lost_update(answering, clients=2, times=1),
        10_000,
        strategy=lambda _seed: strategy,
        stop_at_first=False,
    )
    assert seen.exhausted
    assert seen.distinct == strategy.completed == 6
    assert seen.schedules == strategy.completed + strategy.blocked
