"""The debug mode finds what two actors share, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from attrs import define, field, frozen

from actors import Context, DebugChecks, RunResult, World


@define
class Counter:
    value: int = 0


@frozen
class Wrapped:
    inner: object = field()


@dataclass(frozen=True, slots=True)
class Plain:
    inner: object = None


@dataclass
class Loose:
    inner: object = None


async def keep(ctx: Context, thing: object) -> None:
    await ctx.sleep(1)
    kept = thing
    await ctx.recv(idle=True)
    assert kept is thing


async def take(ctx: Context) -> None:
    kept = []
    while True:
        kept.append((await ctx.recv(idle=True)).payload)


async def give(ctx: Context, thing: object) -> None:
    ctx.send("taker", thing)
    await ctx.recv(idle=True)
    assert thing


def settle(world: World) -> RunResult:
    return world.run("bare")


def shared(thing: object, *, values: tuple[type, ...] = ()) -> RunResult:
    world = World(checks=DebugChecks(sharing=True, values=values))
    world.actor("one", keep, thing)
    world.actor("two", keep, thing)
    return settle(world)


@pytest.mark.parametrize(
    "thing",
    [Counter(), {1, 2}, {"set": {1}}, bytearray(b"x"), Wrapped(Counter()), (1, Counter())],
    ids=lambda thing: type(thing).__name__,
)
def test_a_mutable_start_argument_of_two_actors_is_found(thing: object) -> None:
    result = shared(thing)
    assert result.verdict == "violated"
    assert "actors share nothing" in result.reason
    assert "reached by one" in result.reason
    assert "by two" in result.reason


def test_what_a_closure_holds_is_found() -> None:
    counter = Counter()

    async def count(ctx: Context) -> None:
        counter.value += 1
        await ctx.recv(idle=True)

    world = World(checks=DebugChecks(sharing=True))
    world.actor("one", count)
    world.actor("two", count)
    assert "Counter is reached by one" in settle(world).reason


def test_a_mutable_object_in_a_message_is_found() -> None:
    world = World(checks=DebugChecks(sharing=True))
    world.actor("taker", take)
    world.actor("giver", give, Counter(1))
    assert "Counter is reached by" in settle(world).reason


@pytest.mark.parametrize(
    "thing", [None, "text", (1, "two"), frozenset({1}), Wrapped((1, 2)), Plain((1, 2)), len]
)
def test_values_may_be_shared(thing: object) -> None:
    assert shared(thing).verdict == "quiescent"


@pytest.mark.parametrize("thing", [Plain(Counter()), Loose(1)])
def test_a_frozen_dataclass_is_no_better_than_what_it_holds(thing: object) -> None:
    assert "is reached by" in shared(thing).reason


def test_a_class_may_be_declared_a_value() -> None:
    assert shared(Counter(), values=(Counter,)).verdict == "quiescent"


def test_a_shared_tree_may_not_change() -> None:
    assert shared({"spec": {"replicas": 1}}).verdict == "quiescent"
    tree = {"spec": {"replicas": 1}}

    async def change(ctx: Context) -> None:
        for _ in range(3000):
            await ctx.point("work")
        tree["spec"]["replicas"] = 2
        await ctx.recv(idle=True)

    world = World(checks=DebugChecks(sharing=True))
    world.actor("one", keep, tree)
    world.actor("two", change)
    assert "a shared tree has changed" in settle(world).reason


def test_an_actor_may_keep_what_it_likes_to_itself() -> None:
    world = World(checks=DebugChecks(sharing=True))
    for name in ("one", "two"):
        world.actor(name, keep, Counter())
    assert settle(world).verdict == "quiescent"


def test_a_check_moves_no_step() -> None:
    def trace(check: bool) -> str:
        world = World(checks=DebugChecks(sharing=check))
        world.actor("taker", take)
        world.actor("giver", give, (1, 2))
        return settle(world).trace_hash

    assert trace(True) == trace(False)
