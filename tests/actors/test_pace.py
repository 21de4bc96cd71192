"""Paced time: real waits, pause, step and resume; and the same trace again from the recorded input."""

from __future__ import annotations

import pytest
import trio

from actors import Context, RandomWalk, Replay, UsageError, World
from actors.pace import MAX, Pacer

SECOND = 1_000_000_000


async def service(ctx: Context, heard: list[object]) -> None:
    while True:
        message = await ctx.recv(idle=True)
        heard.append((ctx.now, message.payload.value))
        message.payload.reply(ctx.now)


async def worker(ctx: Context, naps: int, period: int) -> None:
    for _ in range(naps):
        await ctx.sleep(period)
        ctx.choose("colour", 3)


async def heartbeat(ctx: Context, beats: list[int]) -> None:
    while True:
        await ctx.sleep(10 * SECOND, idle=True)
        beats.append(ctx.now)


def build(heard: list[object], beats: list[int] | None = None, **options: object) -> World:
    world = World(**options)
    world.actor("service", service, heard)
    for number in range(2):
        world.actor(f"worker-{number}", worker, 5, SECOND)
    world.actor("heart", heartbeat, [] if beats is None else beats)
    return world


class Served:
    """A paced world in a Trio test: `ask` puts input in, `stop` ends it."""

    def __init__(self, nursery: trio.Nursery, pace: Pacer, **options: object) -> None:
        self.heard: list[object] = []
        self.beats: list[int] = []
        self.pace = pace
        self.world = build(self.heard, self.beats, **options)
        self.inlet = self.world.inlet()
        self._ended = trio.Event()
        nursery.start_soon(self._run)

    async def _run(self) -> None:
        self.result = await self.world.run_async(pace=self.pace)
        self._ended.set()

    async def ask(self, value: object) -> int:
        came = trio.Event()
        times: list[int] = []

        def on_reply(now: int) -> None:
            times.append(now)
            came.set()

        self.inlet.put("service", value, on_reply)
        await came.wait()
        return times[0]

    async def stop(self, reason: str = "enough"):
        self.inlet.stop(reason)
        await self._ended.wait()
        return self.result


async def test_time_follows_the_wall_clock(autojump_clock, nursery):
    served = Served(nursery, Pacer(2.0))
    await trio.sleep(1.25)
    assert await served.ask("a") == round(2.5 * SECOND)
    await trio.sleep(10)
    assert served.beats == [10 * SECOND, 20 * SECOND]
    result = await served.stop()
    assert (result.verdict, result.reason) == ("stopped", "enough")
    assert result.t_ns == round(22.5 * SECOND)


async def test_a_settled_world_is_served_on(autojump_clock, nursery):
    served = Served(nursery, Pacer())
    await trio.sleep(1000)
    assert await served.ask("still there?") == 1000 * SECOND
    assert len(served.beats) == 100
    await served.stop()


async def test_max_leaps_while_work_is_under_way_and_then_follows_the_clock(
    autojump_clock, nursery
):
    served = Served(nursery, Pacer(MAX))
    await trio.sleep(0.5)
    assert await served.ask("a") == 5 * SECOND + SECOND // 2
    await trio.sleep(10)
    assert served.beats == [10 * SECOND]
    await served.stop()


async def test_pause_step_resume(autojump_clock, nursery):
    served = Served(nursery, Pacer(paused=True))
    await trio.sleep(5)
    assert await served.ask("paused") == 0
    arrived = trio.Event()
    served.pace.step(3 * SECOND // 2, arrived.set)
    await arrived.wait()
    assert served.pace.paused
    assert trio.current_time() == pytest.approx(5)
    assert await served.ask("stepped") == 3 * SECOND // 2
    served.pace.resume()
    await trio.sleep(2)
    assert await served.ask("running") == 7 * SECOND // 2
    served.pace.pause()
    await trio.sleep(100)
    assert await served.ask("paused again") == 7 * SECOND // 2
    served.pace.set_speed(10)
    served.pace.resume()
    await trio.sleep(1)
    assert await served.ask("faster") == 27 * SECOND // 2
    assert served.beats == [10 * SECOND]
    await served.stop()


async def test_steps_add_up(autojump_clock, nursery):
    served = Served(nursery, Pacer(paused=True))
    arrived = trio.Event()
    served.pace.step(20 * SECOND)
    served.pace.step(15 * SECOND, arrived.set)
    await arrived.wait()
    assert served.pace.now() == 35 * SECOND
    assert served.beats == [10 * SECOND, 20 * SECOND, 30 * SECOND]
    await served.stop()


async def paced_session(nursery, pace: Pacer, seed: int) -> Served:
    served = Served(nursery, pace, strategy=RandomWalk(seed))
    await trio.sleep(0.7)
    await served.ask({"n": 1})
    served.inlet.put("service", {"n": 2})
    served.inlet.put("service", {"n": 3})
    await trio.sleep(2.3)
    await served.ask(b"4")
    served.pace.pause()
    await served.ask("paused")
    served.pace.step(4 * SECOND)
    await served.ask("stepping")
    await trio.sleep(1)
    served.pace.resume()
    await trio.sleep(31.25)
    await served.ask("late")
    await trio.sleep(3.0)
    await served.stop()
    return served


@pytest.mark.parametrize("driver", ["bare", "trio"])
@pytest.mark.parametrize("speed", [0.5, 1.0, 10.0, MAX])
async def test_a_paced_session_replays_bit_for_bit(autojump_clock, nursery, speed, driver):
    for seed in range(3):
        served = await paced_session(nursery, Pacer(speed), seed)
        first = served.result
        heard: list[object] = []
        replay = build(heard, strategy=Replay(first.choices), inputs=first.inputs)
        if driver == "bare":
            again = replay.run("bare")
        else:
            again = await replay.run_async()
        assert heard == served.heard
        assert (again.verdict, again.reason) == (first.verdict, first.reason)
        assert (again.steps, again.t_ns) == (first.steps, first.t_ns)
        assert again.trace_hash == first.trace_hash


async def test_cancelling_ends_in_order_and_is_recorded(autojump_clock):
    heard: list[object] = []
    world = build(heard)
    with trio.move_on_after(12.5) as scope:
        await world.run_async(pace=Pacer())
    assert scope.cancelled_caught
    inputs = tuple(world.inlet().admitted)
    assert [(entry.t_ns, entry.actor) for entry in inputs] == [(25 * SECOND // 2, "")]
    again = build(heard, inputs=inputs).run("bare")
    assert (again.verdict, again.reason) == ("stopped", "cancelled from outside")
    assert again.t_ns == 25 * SECOND // 2


async def test_requests_while_paused_are_no_livelock(autojump_clock, nursery):
    served = Served(nursery, Pacer(paused=True), livelock_limit=50)
    for number in range(200):
        assert await served.ask(number) == 0
    assert (await served.stop()).verdict == "stopped"


async def test_input_for_an_actor_that_is_down_is_answered_with_nothing(autojump_clock, nursery):
    served = Served(nursery, Pacer())
    await served.ask(1)
    served.world.faults.crash("service")
    assert await served.ask(2) is None
    await served.stop()


async def test_an_earlier_recorded_input_never_enters_late():
    world = build([], inputs=())
    world.inlet()
    result = world.run("bare")
    from actors.inlet import Input

    odd = World(inputs=[Input(result.steps + 50, 0, "service", b"\x01")])
    odd.actor("service", service, [])
    again = odd.run("bare")
    assert again.verdict == "diverged"
    assert "settled" in again.reason


def test_a_replay_is_not_paced():
    from actors.inlet import Input

    world = build([], inputs=[Input(0, 0, "service", b"\x01")])

    async def main() -> None:
        await world.run_async(pace=Pacer())

    with pytest.raises(UsageError, match="not paced"):
        trio.run(main)


@pytest.mark.parametrize("speed", [0, -1, float("nan")])
def test_a_speed_is_positive(speed):
    with pytest.raises(UsageError, match="positive"):
        Pacer(speed)


def test_a_world_that_cannot_keep_up_is_where_it_is_and_not_where_it_should_be():
    wall = [0.0]
    pace = Pacer(1e9)
    pace.attach(lambda: wall[0], lambda: None, 0)
    wall[0] = 60.0
    beat = 10 * SECOND
    assert pace.reached(beat, 0, busy=False)
    assert pace.now() == pace.entry_time(beat) == beat  # else input would wait for 1,900 years
    arrived: list[int] = []
    pace.step(SECOND, lambda: arrived.append(pace.now()))
    assert not pace.reached(2 * beat, beat, busy=False)
    assert arrived == [beat + SECOND]


def test_a_world_that_caught_up_follows_the_clock_again():
    wall = [0.0]
    pace = Pacer(2.0)
    pace.attach(lambda: wall[0], lambda: None, 0)
    wall[0] = 1.0
    assert pace.reached(SECOND, 0, busy=False)
    assert not pace.reached(100 * SECOND, SECOND, busy=False)
    assert pace.now() == 2 * SECOND
    pace.set_speed(1.0)
    wall[0] = 3.0
    assert pace.now() == 4 * SECOND


def test_a_request_to_the_outside_is_timed_from_when_the_world_made_it():
    wall = [0.0]
    pace = Pacer(1000.0)
    pace.attach(lambda: wall[0], lambda: None, 0)
    wall[0] = 0.5  # the world is at 0 s while the clock asks for 500 s
    pace.ask_outside(0)
    assert not pace.reached(10 * SECOND, 0, busy=True)
    assert pace.wait_s == 10
    pace.answered_outside()
    wall[0] = 0.51
    assert pace.reached(10 * SECOND, 0, busy=True)
