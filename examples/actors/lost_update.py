"""A lost update that exploration finds, and its replay. Run: python examples/actors/lost_update.py"""

from actors import Context, Replay, Strategy, World, explore


async def register(ctx: Context) -> None:
    """One number, with read and write."""
    value = 0
    while True:
        message = await ctx.recv(idle=True)
        if message.payload is not None:
            value = message.payload
        message.reply(value)


async def adder(ctx: Context) -> None:
    """Adds one: reads, then writes. Between the two another adder may do the same."""
    seen = await ctx.ask("register", None)
    await ctx.ask("register", seen + 1)


def build(strategy: Strategy | None = None) -> World:
    """Two adders; once everything has settled the register must say two."""
    world = World(strategy=strategy)
    final: list[int] = []

    async def reader(ctx: Context) -> None:
        await ctx.sleep(1)
        final.append(await ctx.ask("register", None))

    world.actor("register", register)
    world.actor("adder-1", adder)
    world.actor("adder-2", adder)
    world.actor("reader", reader)
    world.invariant(
        "both were counted", lambda: None if final == [2] else f"the register says {final}"
    )
    return world


print("first in, first out:", build().run("bare").verdict)
campaign = explore(build, schedules=100)
finding = campaign.findings[0]
print(f"schedule {finding.schedule}: {finding.result.reason}")
again = build(Replay(finding.result.choices)).run("bare")
print("replayed:", again.reason, "- same trace:", again.trace_hash == finding.result.trace_hash)
