"""Mailboxes: who counts what waits in one."""

from __future__ import annotations

from actors import Context, Message, World


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
