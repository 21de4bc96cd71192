"""What would make a run depend on something else than its choices is refused, and named."""

from __future__ import annotations

import threading
import types

import pytest
import trio

from actors import Context, World


@types.coroutine
def foreign():
    yield


def play(driver: str, *mains):
    world = World()
    for number, main in enumerate(mains):
        world.actor(f"actor-{number}", main)
    return world.run(driver)


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_a_raw_await_ends_the_run_and_names_the_task(driver: str) -> None:
    async def main(ctx: Context) -> None:
        await ctx.point("before")
        await (foreign() if driver == "bare" else trio.sleep(0))

    async def other(ctx: Context) -> None:
        for _ in range(5):
            await ctx.point("work")

    result = play(driver, main, other)
    assert result.verdict == "failed"
    assert "actor-0/main at before" in result.reason
    assert "not its context's" in result.reason


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_another_thread_is_named(driver: str) -> None:
    async def main(ctx: Context) -> None:
        errors: list[BaseException] = []

        def intrude() -> None:
            try:
                ctx.send("actor-0", "hello")
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        raise errors[0]

    result = play(driver, main)
    assert result.verdict == "failed"
    assert "from another thread" in result.reason


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_a_send_in_another_actors_name_is_named(driver: str) -> None:
    borrowed: list[Context] = []

    async def lender(ctx: Context) -> None:
        borrowed.append(ctx)
        await ctx.recv(idle=True)

    async def borrower(ctx: Context) -> None:
        await ctx.point("later")
        borrowed[0].send("actor-0", "hello")

    result = play(driver, lender, borrower)
    assert result.verdict == "failed"
    assert "actor-0/main: its context is used from a step of actor-1/main" in result.reason


def test_a_send_after_the_run_is_refused() -> None:
    kept: list[Context] = []

    async def main(ctx: Context) -> None:
        kept.append(ctx)

    world = World()
    world.actor("only", main)
    world.run("bare")
    with pytest.raises(Exception, match="outside of any step"):
        kept[0].choose("late", 2)


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_a_request_in_the_name_of_another_task_of_the_actor_is_named(driver: str) -> None:
    """Its answer would go to that task, even if that has ended: it would begin again."""

    async def main(ctx: Context) -> None:
        async def other(_own: Context) -> None:
            await ctx.ask("actor-0", "anything")

        ctx.spawn(other)

    result = play(driver, main)
    assert result.verdict == "failed"
    assert "actor-0/main: its context is used from a step of actor-0/other" in result.reason
