"""Small scenarios that the tests of the runtime share."""

from __future__ import annotations

from actors import Context, EventLog, Strategy, World


async def counter(ctx: Context) -> None:
    """A server that holds one number: get, set, and an atomic add."""
    value = 0
    while True:
        message = await ctx.recv(idle=True)
        verb, argument = message.payload
        if verb == "set":
            value = argument
        elif verb == "add":
            value += argument
        message.reply(value)


async def careless(ctx: Context, times: int) -> None:
    """Adds one by reading and writing: two of these can lose an update."""
    for _ in range(times):
        seen = await ctx.ask("counter", ("get", None))
        await ctx.ask("counter", ("set", seen + 1))


async def careful(ctx: Context, times: int) -> None:
    """Adds one atomically."""
    for _ in range(times):
        await ctx.ask("counter", ("add", 1))


def lost_update(
    strategy: Strategy | None = None,
    *,
    body=careless,
    clients: int = 3,
    times: int = 3,
    log: EventLog | None = None,
) -> World:
    """Clients that count together; the world settles, and then the count must be right."""
    world = World(strategy=strategy, log=log or EventLog())
    seen: dict[str, int] = {}

    async def reader(ctx: Context) -> None:
        await ctx.sleep(1_000_000_000)
        seen["total"] = await ctx.ask("counter", ("get", None))

    world.actor("counter", counter)
    for number in range(clients):
        world.actor(f"client-{number}", body, times)
    world.actor("reader", reader)

    def complete() -> str | None:
        total = seen.get("total")
        return None if total == clients * times else f"counted {total}, expected {clients * times}"

    world.invariant("no update is lost", complete)
    return world


async def ticker(ctx: Context, period_ns: int, times: int, heard: list[tuple[int, str]]) -> None:
    """Notes the time every period."""
    for _ in range(times):
        await ctx.sleep(period_ns)
        heard.append((ctx.now, ctx.actor))
