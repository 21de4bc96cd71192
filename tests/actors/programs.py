"""Small random programs of actors: what searches over schedules are tried on."""

from __future__ import annotations

from random import Random
from typing import Any

from actors import Context, EventLog, Strategy, World

Program = tuple[tuple[tuple[Any, ...], ...], ...]


def random_program(seed: int, *, actors: int = 3, length: int = 3) -> Program:
    """Each actor's operations: send to another, receive, touch a part of its memory, spawn a task."""
    draw = Random(f"program {seed}")
    count = 2 + int(draw.random() * (actors - 1))
    sends = [0] * count
    program: list[tuple[tuple[Any, ...], ...]] = []
    for me in range(count):
        operations: list[tuple[Any, ...]] = []
        for _ in range(1 + int(draw.random() * length)):
            kind = int(draw.random() * 4)
            if kind <= 1:
                other = int(draw.random() * count)
                if other != me:
                    operations.append(("send", other))
                    sends[other] += 1
            elif kind == 2:
                operations.append(("touch", "xy"[int(draw.random() * 2)], draw.random() < 0.5))
            else:
                operations.append(("spawn", "xy"[int(draw.random() * 2)], draw.random() < 0.5))
        program.append(tuple(operations))
    return tuple(
        (*operations, ("receive", min(sends[me], 2))) for me, operations in enumerate(program)
    )


async def _touch(ctx: Context, part: str, write: bool) -> None:
    (ctx.writes if write else ctx.reads)(part)


async def _body(ctx: Context, operations: tuple[tuple[Any, ...], ...]) -> None:
    ctx.reads()
    for verb, *arguments in operations:
        if verb == "send":
            ctx.reads()
            ctx.send(f"actor-{arguments[0]}", "hello")
            await ctx.point("sent")
        elif verb == "touch":
            await _touch(ctx, *arguments)
            await ctx.point("touched")
        elif verb == "spawn":
            ctx.spawn(_touch, *arguments, name="child")
            await ctx.point("spawned")
        else:
            for _ in range(arguments[0]):
                await ctx.recv()
    ctx.reads()


def world_of(program: Program, strategy: Strategy) -> World:
    world = World(strategy=strategy, log=EventLog(keep=False))
    for number, operations in enumerate(program):
        world.actor(f"actor-{number}", _body, operations)
    return world
