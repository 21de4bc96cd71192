from __future__ import annotations

from typing import Any

import pytest

from actors import Context, EventLog, RandomWalk, World
from controlplane.controllers.loops.worker import Retry, Workers

SECOND = 1_000_000_000
MS = 1_000_000


def run(body: Any, sync: Any = None, *, strategy: Any = None, **options: Any):
    """Run workers in a world; `body(ctx, workers)` drives them. What was synced, when, and the result."""
    seen: list[tuple[int, str]] = []

    async def main(ctx: Context) -> None:
        async def one(ctx: Context, key: str) -> None:
            seen.append((ctx.now, key))
            if sync is not None:
                await sync(ctx, key)

        workers = Workers(ctx, "test", one, **options)
        workers.start(3)
        await body(ctx, workers)

    world = World(strategy=strategy, log=EventLog())
    world.actor("controller", main)
    return seen, world.run("bare")


def test_added_keys_are_synced():
    async def body(_ctx: Context, workers: Workers) -> None:
        for key in "abc":
            workers.add(key)

    seen, result = run(body)
    assert (sorted(key for _, key in seen), result.verdict) == (["a", "b", "c"], "quiescent")


def test_a_delayed_key_is_synced_when_its_time_has_come():
    async def body(_ctx: Context, workers: Workers) -> None:
        workers.add_after("late", 5 * SECOND)
        workers.add_after("soon", 2 * SECOND)
        workers.add_after("late", 3 * SECOND)
        workers.add_after("now", 0)

    seen, result = run(body)
    assert seen == [(0, "now"), (2 * SECOND, "soon"), (3 * SECOND, "late")]
    assert result.t_ns == 3 * SECOND


def test_one_task_waits_for_all_delayed_keys():
    world_tasks: list[str] = []

    async def body(ctx: Context, workers: Workers) -> None:
        for number in range(50):
            workers.add_after(str(number), number * SECOND + 1)
        world_tasks.extend(task.name for task in ctx.task.actor.tasks.values())

    run(body)
    assert sum("delay" in name for name in world_tasks) == 1


def test_an_idle_delay_does_not_keep_the_run_from_settling():
    async def body(_ctx: Context, workers: Workers) -> None:
        workers.add_after("deadline", 600 * SECOND, idle=True)

    seen, result = run(body)
    assert (seen, result.verdict, result.t_ns) == ([], "quiescent", 0)


def test_an_idle_delay_fires_while_something_else_keeps_the_run_going():
    async def body(ctx: Context, workers: Workers) -> None:
        workers.add_after("deadline", 6 * SECOND, idle=True)
        await ctx.sleep(10 * SECOND)

    seen, _ = run(body)
    assert seen == [(6 * SECOND, "deadline")]


def test_a_key_waited_for_in_both_ways_is_not_idle():
    async def body(_ctx: Context, workers: Workers) -> None:
        workers.add_after("a", 6 * SECOND, idle=True)
        workers.add_after("a", 9 * SECOND)

    seen, result = run(body)
    assert (seen, result.t_ns) == ([(6 * SECOND, "a")], 6 * SECOND)


def test_a_failed_key_is_tried_again_with_backoff():
    tries = 0

    async def sync(_ctx: Context, _key: str) -> None:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise Retry("not yet")

    async def body(_ctx: Context, workers: Workers) -> None:
        workers.add("a")

    seen, _ = run(body, sync)
    assert [at for at, _ in seen] == [0, 5 * MS, 15 * MS, 35 * MS]


def test_a_key_is_dropped_after_too_many_failures():
    async def sync(_ctx: Context, _key: str) -> None:
        raise Retry("never")

    async def body(_ctx: Context, workers: Workers) -> None:
        workers.add("a")

    seen, result = run(body, sync, max_retries=15)
    assert (len(seen), result.verdict) == (16, "quiescent")


@pytest.mark.parametrize("seed", range(20))
def test_a_key_is_never_synced_twice_at_once_and_never_lost(seed):
    busy: set[str] = set()
    asked: dict[str, int] = {}
    served: dict[str, int] = {}

    async def sync(ctx: Context, key: str) -> None:
        assert key not in busy
        busy.add(key)
        served[key] = asked[key]
        await ctx.point("work")
        await ctx.point("work")
        busy.remove(key)

    async def body(ctx: Context, workers: Workers) -> None:
        for number in range(30):
            key = "abc"[number % 3]
            asked[key] = number
            workers.add(key)
            await ctx.point("ask")

    _, result = run(body, sync, strategy=RandomWalk(seed))
    assert result.verdict == "quiescent", result.reason
    assert served == asked
