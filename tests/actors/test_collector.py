"""The garbage collector during searches."""

from __future__ import annotations

import gc
import weakref

import pytest

from actors import World, collector


@pytest.fixture
def thresholds():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    collector.leave_alone()  # as the tests begin


@pytest.mark.slow
@pytest.mark.usefixtures("thresholds")
def test_whoever_leaves_it_alone_first_ends_that():
    collector.look_again()
    with collector.frozen():
        assert gc.get_freeze_count() > 0
        with collector.frozen():
            pass
        assert gc.get_freeze_count() > 0
    assert gc.get_freeze_count() == 0
    collector.rest()
    with collector.frozen():
        pass
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("thresholds")
def test_during_a_search_it_looks_seldom_and_afterwards_as_before():
    gc.set_threshold(701, 11, 12)
    with collector.frozen():
        assert gc.get_threshold() == (collector.YOUNG_OF_SHORT_RUNS, 11, 12)
        assert gc.get_freeze_count() > 0
    assert gc.get_threshold() == (701, 11, 12)


@pytest.mark.usefixtures("thresholds")
def test_whoever_has_it_look_more_seldom_still_or_never_keeps_that():
    for young in (10 * collector.YOUNG_OF_SHORT_RUNS, 0):
        gc.set_threshold(young, 10, 10)
        with collector.frozen():
            assert gc.get_threshold()[0] == young


@pytest.mark.slow
@pytest.mark.usefixtures("thresholds")
def test_while_it_is_off_it_does_not_look_and_afterwards_it_does():
    collector.look_again()
    with collector.off():
        assert not gc.isenabled()
        assert gc.get_freeze_count() > 0
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("thresholds")
@pytest.mark.parametrize("left_alone", [collector.frozen, collector.off])
def test_what_other_code_has_it_leave_alone_is_not_looked_at_again(left_alone):
    looks = []
    gc.callbacks.append(lambda phase, told: looks.append((phase, told["generation"])))
    with collector.frozen():
        looks.clear()
        with left_alone():
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() > 0
    gc.callbacks.pop()
    assert looks == []


class _Circle:
    def __init__(self):
        self.itself = self


@pytest.mark.usefixtures("thresholds")
def test_what_a_run_left_goes_before_the_next_one():
    gc.set_threshold(10**6, 10, 10)
    gc.collect()
    left = weakref.ref(_Circle())
    assert left() is not None
    collector.sweep()
    assert left() is None


@pytest.mark.usefixtures("thresholds")
def test_what_outlived_a_look_is_looked_at_later():
    gc.set_threshold(10**6, 10, 10)
    gc.collect()
    circle = _Circle()
    collector.sweep()
    left = weakref.ref(circle)
    del circle
    for _ in range(200):
        collector.sweep()
    assert left() is None


@pytest.mark.usefixtures("thresholds")
def test_where_it_was_turned_off_it_does_not_look():
    looks = []
    gc.callbacks.append(lambda phase, _told: looks.append(phase))
    gc.set_threshold(0, 10, 10)
    collector.sweep()
    assert looks == []
    gc.set_threshold(700, 10, 10)
    with collector.off():
        looks.clear()
        collector.sweep()
        assert looks == []
    gc.callbacks.pop()


def test_what_a_task_had_goes_with_it_and_not_with_the_collector():
    left = []

    async def worker(ctx, given):
        mine = _Thing()
        left.append(weakref.ref(mine))
        await ctx.sleep(10**9, idle=True)

    async def main(ctx):
        given = _Thing()
        left.append(weakref.ref(given))
        ctx.spawn(worker, given)

    world = World()
    world.actor("one", main)
    with collector.off():
        assert world.run("bare").ok
        assert [each() for each in left] == [None, None]


class _Thing:
    pass
