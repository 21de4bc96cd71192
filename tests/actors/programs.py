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


def rich_program(seed: int, *, actors: int = 2, length: int = 2) -> Program:
    """As `random_program`, and more: several steps between two messages, waits for each other, requests,
    steps that do not say what they touch, and draws.
    """
    draw = Random(f"rich program {seed}")

    def part() -> str:
        return "xy"[int(draw.random() * 2)]

    count = 2 + int(draw.random() * (actors - 1))
    sends = [0] * count
    program: list[list[tuple[Any, ...]]] = []
    for me in range(count):
        operations: list[tuple[Any, ...]] = []
        for _ in range(1 + int(draw.random() * length)):
            kind = int(draw.random() * 11)
            other = int(draw.random() * count)
            if kind <= 2 and other != me:
                operations.append(("send", other, draw.random() < 0.5))
                sends[other] += 1
            elif kind == 3:
                operations.append(("touch", part(), draw.random() < 0.5))
            elif kind == 4:
                operations.append(("blunt", part()))
            elif kind == 5:
                operations.append(("spawn", part(), draw.random() < 0.5))
            elif kind == 6:
                operations.append(("wait",))
            elif kind == 7:
                operations.append(("notify",))
            elif kind == 8 and other != me:
                operations.append(("crash", other))
            elif kind == 9:
                operations.append(("cancel",))
            else:
                operations.append(("draw",))
        program.append(operations)
    for me, operations in enumerate(program):
        operations += [("take", part(), draw.random() < 0.5)] * min(sends[me], 2)
    return tuple(tuple(operations) for operations in program)


class Memory:
    """What the tasks of one actor share, and what they saw."""

    def __init__(self) -> None:
        self.parts: dict[str, list[str]] = {"x": [], "y": []}
        self.seen: dict[str, list[Any]] = {}
        self.condition: Any = None

    def touch(self, task: str, part: str, write: bool) -> None:
        self.seen.setdefault(task, []).append(list(self.parts[part]))
        if write:
            self.parts[part].append(task)

    def outcome(self) -> str:
        return repr((self.parts, sorted(self.seen.items())))


async def _touch(ctx: Context, part: str, write: bool, memory: Memory) -> None:
    (ctx.writes if write else ctx.reads)(part)
    memory.touch(ctx.task.label, part, write)


async def _body(ctx: Context, operations: tuple[tuple[Any, ...], ...], memory: Memory) -> None:
    ctx.reads()
    memory.condition = ctx.condition()
    me = ctx.task.label
    seen = memory.seen.setdefault(me, [])
    for verb, *arguments in operations:
        if verb == "send":
            ctx.reads()
            ctx.send(f"actor-{arguments[0]}", me, ordered=len(arguments) < 2 or arguments[1])
            await ctx.point("sent")
        elif verb == "touch":
            await _touch(ctx, *arguments, memory)
            await ctx.point("touched")
        elif verb == "blunt":
            memory.touch(me, arguments[0], write=True)
            await ctx.point("blunt")
        elif verb == "spawn":
            ctx.spawn(_touch, *arguments, memory, name="child")
            await ctx.point("spawned")
        elif verb == "wait":
            ctx.spawn(_wait, memory, name="waiter")
            await ctx.point("waiting")
        elif verb == "notify":
            ctx.reads()
            memory.condition.notify_all()
            await ctx.point("notified")
        elif verb == "crash":
            ctx.reads()
            ctx.faults.crash(f"actor-{arguments[0]}")
            await ctx.point("crashed")
        elif verb == "cancel":
            ctx.cancel(ctx.spawn(_touch, "x", True, memory, name="child"))
            await ctx.point("cancelled")
            child = ctx.spawn(_touch, "y", True, memory, name="child")
            await ctx.point("cancelling")
            ctx.cancel(child)
            await ctx.point("cancelled")
        elif verb == "draw":
            ctx.reads()
            seen.append(ctx.choose("draw", 2))
            await ctx.point("drawn")
        elif verb == "take":
            message = await ctx.recv()
            ctx.reads()
            seen.append(message.payload)
            await ctx.point("taken")
            await _touch(ctx, *arguments, memory)
        else:
            for _ in range(arguments[0]):
                seen.append((await ctx.recv()).payload)
                ctx.reads()
    ctx.reads()


async def _wait(ctx: Context, memory: Memory) -> None:
    ctx.reads()
    await memory.condition.wait(idle=True)
    ctx.writes("x")
    memory.touch(ctx.task.label, "x", write=True)


class Programmed(World):
    """The world of a program."""

    def __init__(self, program: Program, strategy: Strategy) -> None:
        super().__init__(strategy=strategy, log=EventLog(keep=False))
        self.memories = [Memory() for _ in program]
        for number, operations in enumerate(program):
            self.actor(f"actor-{number}", _body, operations, self.memories[number])

    def outcome(self) -> str:
        """What everybody saw, and what was left."""
        return repr([memory.outcome() for memory in self.memories])


def world_of(program: Program, strategy: Strategy) -> Programmed:
    return Programmed(program, strategy)
