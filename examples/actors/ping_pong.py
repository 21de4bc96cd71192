"""Two actors, one message each way. Run: python examples/actors/ping_pong.py"""

from actors import Context, World


async def server(ctx: Context) -> None:
    """Answers every ping."""
    while True:
        message = await ctx.recv(idle=True)
        ctx.log("ping", data={"number": message.payload})
        message.reply(f"pong {message.payload}")


async def client(ctx: Context) -> None:
    """Three pings, a virtual second apart."""
    for number in range(3):
        answer = await ctx.ask("server", number)
        print(f"t = {ctx.now / 1e9:.0f} s: {answer}")
        await ctx.sleep(1_000_000_000)


world = World()
world.actor("server", server)
world.actor("client", client)
result = world.run()
print(f"{result.verdict} after {result.steps} steps, trace {result.trace_hash}")
