"""External input enters at step boundaries, is recorded, and comes back in a replay."""

from __future__ import annotations

import pytest

from actors import Context, RandomWalk, Replay, UsageError, World
from actors.inlet import Input

SECOND = 1_000_000_000


async def service(ctx: Context, heard: list[object]) -> None:
    while True:
        message = await ctx.recv(idle=True)
        external = message.payload
        heard.append((ctx.now, external.value))
        external.reply(len(heard))


async def busy(ctx: Context) -> None:
    for _ in range(20):
        await ctx.sleep(SECOND)


def build(heard: list[object], **options: object) -> World:
    world = World(**options)
    world.actor("service", service, heard)
    for number in range(3):
        world.actor(f"busy-{number}", busy)
    return world


@pytest.mark.parametrize("driver", ["bare", "trio"])
def test_a_session_with_input_replays_bit_for_bit(driver):
    heard: list[object] = []
    replies: list[object] = []
    world = build(heard, strategy=RandomWalk(1))
    inlet = world.inlet()

    async def outside_world(ctx: Context) -> None:
        # Stands for a socket: offers input while the run goes on.
        await ctx.sleep(3 * SECOND + 5)
        inlet.put("service", {"verb": "GET"}, replies.append)
        await ctx.sleep(4 * SECOND)
        inlet.put("service", {"verb": "PUT"}, replies.append)

    world.actor("outside-world", outside_world)
    first = world.run(driver)
    assert replies == [1, 2]
    assert len(first.inputs) == 2

    again_heard: list[object] = []

    async def silent(ctx: Context) -> None:
        await ctx.sleep(3 * SECOND + 5)
        await ctx.sleep(4 * SECOND)

    replay = build(again_heard, strategy=Replay(first.choices), inputs=first.inputs)
    replay.actor("outside-world", silent)
    again = replay.run(driver)
    assert again.reason == first.reason
    assert again_heard == heard
    assert again.trace_hash == first.trace_hash


def test_what_will_not_be_replayed_is_not_kept():
    heard: list[object] = []
    kept, forgotten = (build(heard, strategy=RandomWalk(1)) for _ in range(2))
    forgotten.keep_no_recording()
    results = []
    for world in (kept, forgotten):
        inlet = world.inlet()

        async def outside_world(ctx: Context, inlet=inlet) -> None:
            await ctx.sleep(3 * SECOND + 5)
            inlet.put("service", {"verb": "GET"})

        world.actor("outside-world", outside_world)
        results.append(world.run("bare"))
    assert results[0].trace_hash == results[1].trace_hash
    assert (len(results[0].inputs), len(results[1].inputs)) == (1, 0)
    assert len(results[0].choices) > 0
    assert len(results[1].choices) == 0


def test_a_replay_takes_no_other_input():
    heard: list[object] = []
    world = build(heard)
    world.inlet().put("service", 1)
    result = world.run("bare")
    replay = build(heard, inputs=result.inputs)
    with pytest.raises(UsageError, match="replay"):
        replay.inlet().put("service", 2)


@pytest.mark.parametrize("step", [0, 7, 40])
def test_what_is_put_after_a_step_enters_there_and_is_recorded(step):
    heard: list[object] = []
    world = build(heard, strategy=RandomWalk(1))
    world.inlet().put_after(step, "service", "late")
    first = world.run("bare")
    (entry,) = first.inputs
    assert entry.step == step
    assert entry.actor == "service"
    assert [value for _, value in heard] == ["late"]

    again_heard: list[object] = []
    again = build(again_heard, strategy=Replay(first.choices), inputs=first.inputs).run("bare")
    assert again.trace_hash == first.trace_hash
    assert again_heard == heard


def test_what_is_put_after_a_step_waits_for_recorded_input():
    heard: list[object] = []
    world = build(heard, inputs=[Input(3, 2 * SECOND, "service", b"\xa1a")])
    world.inlet().put_after(3, "service", "b")
    world.run("bare")
    assert [value for _, value in heard] == ["a", "b"]
