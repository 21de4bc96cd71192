"""Steps per second of the runtime, both drivers, with the full log kept."""

from __future__ import annotations

from collections.abc import Iterator

from actors import Context, EventLog, Fifo, RandomWalk, World
from bench.harness import Row, rate

ACTORS = 20


async def _points(ctx: Context, count: int) -> None:
    for _ in range(count):
        await ctx.point("bench.point")


async def _server(ctx: Context) -> None:
    while True:
        message = await ctx.recv(idle=True)
        message.reply(message.payload)


async def _asker(ctx: Context, count: int) -> None:
    for number in range(count):
        await ctx.ask("server", number)


def _world(body, count: int, *, random: bool, keep: bool = True) -> World:
    world = World(strategy=RandomWalk(1) if random else Fifo(), log=EventLog(keep=keep))
    world.actor("server", _server)
    for number in range(ACTORS):
        world.actor(f"actor-{number}", body, count)
    return world


def rows(repeat: int) -> Iterator[Row]:
    for title, body, count in (("points", _points, 4000), ("requests", _asker, 2000)):
        for driver in ("bare", "trio"):
            for random in (False, True):
                kind = "random walk" if random else "first in first out"
                yield rate(
                    f"{title}, {ACTORS} actors, {kind}, {driver}",
                    "steps/s",
                    repeat,
                    lambda body=body, count=count, driver=driver, random=random: (
                        _world(body, count, random=random).run(driver).steps
                    ),
                )
