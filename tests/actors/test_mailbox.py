"""Mailboxes: who counts what waits in one."""

from __future__ import annotations

import pytest

from actors import Context, Message, UsageError, World


def test_a_census_is_told_of_what_waits_arrives_and_is_taken() -> None:
    """It counts what `waiting` would list, also when the link behind a mailbox breaks."""
    seen: list[tuple[list[str], list[str]]] = []

    class Count:
        def __init__(self) -> None:
            self.waits: list[str] = []

        def arrived(self, message: Message) -> None:
            self.waits.append(message.payload)

        def taken(self, message: Message) -> None:
            self.waits.remove(message.payload)

    async def reader(ctx: Context) -> None:
        await ctx.sleep(1)
        count = Count()
        ctx.inbox.count(count)

        def look() -> None:
            seen.append((sorted(count.waits), sorted(each.payload for each in ctx.inbox.waiting())))

        look()
        await ctx.recv()
        look()
        await ctx.sleep(10)
        look()
        await ctx.recv()
        look()
        ctx.inbox.break_now()
        look()

    async def writer(ctx: Context, name: str) -> None:
        ctx.send("reader", f"{name} first")
        ctx.send("reader", f"{name} second")
        await ctx.sleep(5)
        ctx.send("reader", f"{name} third")

    world = World()
    world.actor("reader", reader)
    for name in ("a", "b"):
        world.actor(f"writer-{name}", writer, name)
    assert world.run("bare").verdict == "quiescent"
    assert [len(waits) for waits, _ in seen] == [4, 3, 5, 4, 0]
    assert all(counted == listed for counted, listed in seen)


def test_a_listener_hears_what_an_interceptor_takes() -> None:
    """Both are asked for each message and answer, the listener first; a second listener is refused."""
    heard: list[str] = []

    class Listener:
        def hears(self, message: Message, target: object) -> None:
            heard.append(f"message {message.payload}")

        def hears_answer(self, request: object, value: object, error: object) -> None:
            heard.append(f"answer {value}")

    class Interceptor:
        def takes(self, message: Message, target: object, key: object) -> bool:
            heard.append(f"decides {message.payload}")
            return message.payload == "lost"

        def takes_answer(self, request: object, value: object, error: object, cause: int) -> bool:
            return False

    got: list[str] = []

    async def server(ctx: Context) -> None:
        while True:
            message = await ctx.recv()
            got.append(message.payload)
            if message.request is not None:
                message.reply("yes")

    async def client(ctx: Context) -> None:
        ctx.send("server", "lost")
        await ctx.ask("server", "asked")

    for order in ("listener first", "interceptor first"):
        heard.clear()
        got.clear()
        world = World()
        world.actor("server", server)
        world.actor("client", client)
        for each in order.split()[0], "":
            if each == "listener" or (not each and order.startswith("interceptor")):
                world.overhear(Listener())
            else:
                world.intercept(Interceptor())
        world.run("bare")
        assert got == ["asked"]
        assert heard == [
            "message lost",
            "decides lost",
            "message asked",
            "decides asked",
            "answer yes",
        ]
        with pytest.raises(UsageError):
            world.intercept(Interceptor())


def test_each_of_several_listeners_hears_everything() -> None:
    heard: list[str] = []

    class Listener:
        def __init__(self, name: str) -> None:
            self.name = name

        def hears(self, message: Message, target: object) -> None:
            heard.append(f"{self.name} {message.payload}")

        def hears_answer(self, request: object, value: object, error: object) -> None:
            heard.append(f"{self.name} {value}")

    async def server(ctx: Context) -> None:
        (await ctx.recv()).reply("yes")

    async def client(ctx: Context) -> None:
        await ctx.ask("server", "asked")

    world = World()
    world.actor("server", server)
    world.actor("client", client)
    for name in "one", "two":
        world.overhear(Listener(name))
    world.run("bare")
    assert heard == ["one asked", "two asked", "one yes", "two yes"]
