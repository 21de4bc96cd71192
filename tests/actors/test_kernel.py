"""Steps, time, messages, faults and verdicts."""

from __future__ import annotations

import pytest

from actors import (
    Cancelled,
    Context,
    Fifo,
    LinkBroken,
    RandomWalk,
    Replay,
    RunResult,
    Timeout,
    UsageError,
    World,
)
from tests.actors.worlds import counter, ticker

SECOND = 1_000_000_000
both = pytest.mark.parametrize("driver", ["bare", "trio"])


def run(driver, *actors, **world_options):
    world = World(**world_options)
    for name, body, *args in actors:
        world.actor(name, body, *args)
    return world, world.run(driver)


@both
def test_time_moves_only_to_timers_in_order(driver):
    heard: list[tuple[int, str]] = []
    _, result = run(
        driver, ("slow", ticker, 3 * SECOND, 2, heard), ("fast", ticker, 2 * SECOND, 3, heard)
    )
    assert [at // SECOND for at, _ in heard] == [2, 3, 4, 6, 6]
    assert heard[-2:] == [(6 * SECOND, "slow"), (6 * SECOND, "fast")]
    assert result.verdict == "quiescent"
    assert result.t_ns == 6 * SECOND


@both
def test_who_looks_as_time_passes_is_told_of_each_move_before_it(driver):
    moves: list[tuple[int, int]] = []
    plain = World()
    watched = World()
    watched.as_time_passes(lambda until: moves.append((watched.now // SECOND, until // SECOND)))
    for world in (plain, watched):
        world.actor("slow", ticker, 3 * SECOND, 2, [])
        world.actor("fast", ticker, 2 * SECOND, 3, [])
    assert plain.run(driver).trace_hash == watched.run(driver).trace_hash
    assert moves == [(0, 2), (2, 3), (3, 4), (4, 6)]


@both
def test_idle_sleeps_do_not_keep_a_run_from_settling(driver):
    async def heartbeat(ctx: Context) -> None:
        while True:
            await ctx.sleep(SECOND, idle=True)

    async def work(ctx: Context) -> None:
        await ctx.sleep(5 * SECOND)

    _, result = run(driver, ("heart", heartbeat), ("work", work))
    assert (result.verdict, result.t_ns) == ("quiescent", 5 * SECOND)


@both
def test_a_time_limit_ends_the_run_at_that_time(driver):
    world = World()
    heard: list[tuple[int, str]] = []
    world.actor("ticker", ticker, SECOND, 100, heard)
    result = world.run(driver, until_ns=3 * SECOND + 1)
    assert (result.verdict, result.t_ns, len(heard)) == ("until", 3 * SECOND + 1, 3)


@both
def test_waiting_for_what_never_comes_is_a_deadlock_that_names_the_waiter(driver):
    async def waits(ctx: Context) -> None:
        await ctx.event().wait(point="for.godot")

    _, result = run(driver, ("vladimir", waits))
    assert result.verdict == "deadlock"
    assert "vladimir/main waits for for.godot" in result.reason


@both
def test_spinning_without_time_is_a_livelock(driver):
    async def spins(ctx: Context) -> None:
        while True:
            await ctx.point("spin")

    _, result = run(driver, ("spinner", spins), livelock_limit=100)
    assert result.verdict == "livelock"
    _, result = run(driver, ("spinner", spins), step_limit=50)
    assert result.verdict == "step-limit"


@both
def test_an_exception_ends_the_run_and_names_the_task(driver):
    async def fails(ctx: Context) -> None:
        await ctx.point("before.trouble")
        raise ValueError("no good")

    _, result = run(driver, ("a", fails), ("b", counter))
    assert result.verdict == "failed"
    assert result.reason == "a/main at before.trouble: ValueError: no good"
    assert isinstance(result.error, ValueError)


@both
def test_messages_between_two_actors_keep_their_order(driver):
    got: list[int] = []

    async def sender(ctx: Context) -> None:
        for number in range(10):
            ctx.send("receiver", number)
            await ctx.point("sent")

    async def receiver(ctx: Context) -> None:
        while True:
            got.append((await ctx.recv(idle=True)).payload)

    for seed in range(5):
        got.clear()
        run(driver, ("receiver", receiver), ("sender", sender), strategy=RandomWalk(seed))
        assert got == list(range(10))


def test_unordered_messages_overtake_each_other_under_some_schedule():
    orders = set()
    for seed in range(20):
        got: list[int] = []

        async def sender(ctx: Context) -> None:
            for number in range(4):
                ctx.send("receiver", number, ordered=False)

        async def receiver(ctx: Context, got: list[int] = got) -> None:
            await ctx.point("late")
            await ctx.point("later")
            while True:
                got.append((await ctx.recv(idle=True)).payload)

        run("bare", ("receiver", receiver), ("sender", sender), strategy=RandomWalk(seed))
        assert sorted(got) == [0, 1, 2, 3]
        orders.add(tuple(got))
    assert len(orders) > 1


@both
def test_a_request_that_is_not_answered_times_out(driver):
    seen = []

    async def asks(ctx: Context) -> None:
        with pytest.raises(Timeout):
            await ctx.ask("silent", "hello", timeout_ns=2 * SECOND)
        seen.append(ctx.now)

    async def silent(ctx: Context) -> None:
        while True:
            await ctx.recv(idle=True)

    _, result = run(driver, ("silent", silent), ("asks", asks))
    assert seen == [2 * SECOND]
    assert result.verdict == "quiescent"


@both
def test_latency_delays_messages_and_keeps_them_in_order(driver):
    world = World(strategy=RandomWalk(1))
    got: list[tuple[int, int]] = []

    async def sender(ctx: Context) -> None:
        for number in range(5):
            ctx.send("receiver", number)

    async def receiver(ctx: Context) -> None:
        while True:
            message = await ctx.recv(idle=True)
            got.append((message.payload, ctx.now))

    world.actor("receiver", receiver)
    world.actor("sender", sender)
    world.link("sender", "receiver", latency_ns=SECOND, spread_ns=SECOND)
    assert world.run(driver).verdict == "quiescent"
    assert [number for number, _ in got] == list(range(5))
    assert all(SECOND <= at <= 2 * SECOND for _, at in got)


@both
def test_a_cut_link_holds_messages_until_it_is_healed(driver):
    world = World()
    got: list[int] = []

    async def sender(ctx: Context) -> None:
        ctx.send("receiver", 1)
        await ctx.sleep(SECOND)
        world.faults.heal("sender", "receiver")

    async def receiver(ctx: Context) -> None:
        await ctx.recv()
        got.append(ctx.now)

    world.actor("receiver", receiver)
    world.actor("sender", sender)
    world.faults.cut("sender", "receiver")
    assert world.run(driver).verdict == "quiescent"
    assert got == [SECOND]


@both
def test_a_crash_fails_requests_under_way_and_breaks_streams(driver):
    seen: list[str] = []

    async def server(ctx: Context) -> None:
        message = await ctx.recv(idle=True)
        assert message.stream is not None
        ctx.send(message.stream, "first")
        await ctx.sleep(100 * SECOND)

    async def client(ctx: Context) -> None:
        stream = ctx.open("server", "subscribe")
        seen.append((await stream.recv()).payload)
        try:
            await stream.recv()
        except LinkBroken:
            seen.append("stream broken")
        try:
            await ctx.ask("server", "hello")
        except LinkBroken:
            seen.append("refused")

    async def chaos(ctx: Context) -> None:
        await ctx.sleep(SECOND)
        ctx.faults.crash("server")

    _, result = run(driver, ("server", server), ("client", client), ("chaos", chaos))
    assert result.verdict == "quiescent", result.reason
    assert seen == ["first", "stream broken", "refused"]


@both
def test_a_crash_has_no_last_words_and_a_restart_finds_the_disk(driver):
    story: list[str] = []

    async def diarist(ctx: Context) -> None:
        story.append(f"incarnation {ctx.incarnation} remembers {ctx.disk.read('page')}")
        ctx.disk.write("page", ctx.incarnation)
        ctx.disk.sync()
        try:
            await ctx.sleep(100 * SECOND)
        finally:
            ctx.send("witness", "last words")

    async def witness(ctx: Context) -> None:
        while True:
            story.append((await ctx.recv(idle=True)).payload)

    async def chaos(ctx: Context) -> None:
        await ctx.sleep(SECOND)
        ctx.faults.crash("diarist")
        await ctx.sleep(SECOND)
        ctx.faults.restart("diarist")

    _, result = run(driver, ("witness", witness), ("diarist", diarist), ("chaos", chaos))
    assert result.verdict == "quiescent", result.reason
    assert story[:2] == ["incarnation 1 remembers None", "incarnation 2 remembers 1"]
    # The second incarnation ends in peace after its sleep and may speak.
    assert story[2:] == ["last words"]


@both
def test_a_task_that_has_not_begun_dies_with_its_actor(driver):
    begun: list[int] = []

    async def parent(ctx: Context) -> None:
        await ctx.recv(idle=True)
        ctx.spawn(child)
        ctx.spawn(child)
        await ctx.recv(idle=True)

    async def child(ctx: Context) -> None:
        begun.append(ctx.step)

    async def chaos(ctx: Context) -> None:
        ctx.send("parent", "go")
        await ctx.point("chaos")
        ctx.faults.crash("parent")

    _, result = run(driver, ("parent", parent), ("chaos", chaos))
    assert result.verdict == "quiescent", result.reason
    assert begun == []


@both
def test_unsynced_writes_may_be_lost_but_only_a_suffix(driver):
    outcomes = set()
    for seed in range(30):
        left: list[tuple[object, ...]] = []

        async def writer(ctx: Context, left: list[tuple[object, ...]] = left) -> None:
            if ctx.incarnation == 2:
                left.append(tuple(ctx.disk.read(key) for key in ("a", "b", "c")))
                return
            ctx.disk.write("a", 1)
            ctx.disk.sync()
            ctx.disk.write("b", 2)
            ctx.disk.write("c", 3)
            await ctx.sleep(10 * SECOND)

        async def chaos(ctx: Context) -> None:
            await ctx.sleep(SECOND)
            ctx.faults.crash("writer")
            ctx.faults.restart("writer")

        run(driver, ("writer", writer), ("chaos", chaos), strategy=RandomWalk(seed))
        outcomes.update(left)
    assert outcomes == {(1, 2, 3), (1, 2, None), (1, None, None)}


@both
def test_cancel_reaches_a_task_where_it_waits(driver):
    seen: list[str] = []

    async def child(ctx: Context) -> None:
        try:
            await ctx.sleep(100 * SECOND)
        except Cancelled:
            seen.append("cancelled")
            raise

    async def parent(ctx: Context) -> None:
        task = ctx.spawn(child)
        await ctx.sleep(SECOND)
        ctx.cancel(task)
        await ctx.join(task)
        seen.append("joined")

    _, result = run(driver, ("parent", parent))
    assert seen == ["cancelled", "joined"]
    assert (result.verdict, result.t_ns) == ("quiescent", SECOND)


@both
def test_join_brings_the_result_of_a_task(driver):
    seen: list[int] = []

    async def child(ctx: Context, number: int) -> int:
        await ctx.sleep(number * SECOND)
        return number * number

    async def parent(ctx: Context) -> None:
        tasks = [ctx.spawn(child, number) for number in range(4)]
        for task in tasks:
            seen.append(await ctx.join(task))

    run(driver, ("parent", parent))
    assert seen == [0, 1, 4, 9]


@both
def test_notify_wakes_the_longest_waiting_and_notify_all_everybody(driver):
    woken: list[str] = []

    async def main(ctx: Context) -> None:
        condition = ctx.condition()

        async def waiter(ctx: Context, name: str) -> None:
            await condition.wait(idle=True)
            woken.append(name)

        for name in "abcd":
            ctx.spawn(waiter, name)
        await ctx.sleep(SECOND)
        condition.notify()
        await ctx.sleep(SECOND)
        assert woken == ["a"]
        condition.notify_all()

    _, result = run(driver, ("main", main))
    assert woken == ["a", "b", "c", "d"]
    assert result.verdict == "quiescent"


async def _two_regions(ctx: Context, told: list[str]) -> None:
    async def one(ctx: Context, name: str) -> None:
        told.append(f"{name} first")
        await ctx.region("between")
        told.append(f"{name} second")

    ctx.spawn(one, "a")
    ctx.spawn(one, "b")


@both
def test_a_task_between_two_regions_just_goes_on_in_the_dull_run(driver):
    told: list[str] = []
    _, result = run(driver, ("main", _two_regions, told))
    assert told == ["a first", "a second", "b first", "b second"]
    assert result.verdict == "quiescent"


@both
def test_a_step_without_alternatives_is_recorded_like_any_other(driver):
    """An invariant has a look after every step, so with one every step is chosen."""
    traces = []
    for looks in (False, True):
        world = World()
        world.actor("main", _two_regions, [])
        if looks:
            world.invariant("nothing", lambda: None)
        result = world.run(driver)
        traces.append((result.trace_hash, result.steps, list(result.choices)))
    assert traces[0] == traces[1]
    assert traces[0][1] == 5


@both
def test_a_task_between_two_regions_is_overtaken_under_some_schedule(driver):
    seen: set[tuple[str, ...]] = set()
    for seed in range(40):
        told: list[str] = []
        run(driver, ("main", _two_regions, told), strategy=RandomWalk(seed))
        seen.add(tuple(told))
    assert ("a first", "b first", "a second", "b second") in seen
    assert len(seen) == 6, "every order that keeps each task's own"


@both
def test_a_crash_reaches_a_task_between_two_regions(driver):
    told: list[str] = []

    async def victim(ctx: Context) -> None:
        told.append("before")
        await ctx.region("between")
        told.append("after")

    async def killer(ctx: Context) -> None:
        ctx.faults.crash("victim")

    for seed in range(20):
        _, result = run(driver, ("victim", victim), ("killer", killer), strategy=RandomWalk(seed))
        assert result.verdict == "quiescent"
    assert told.count("before") > told.count("after") > 0


def test_eager_time_lets_a_timer_overtake_ready_work():
    orders = set()
    for seed in range(30):
        order: list[str] = []

        async def worker(ctx: Context, order: list[str] = order) -> None:
            for _ in range(3):
                await ctx.point("work")
            order.append("work")

        async def impatient(ctx: Context, order: list[str] = order) -> None:
            await ctx.sleep(SECOND)
            order.append("timeout")

        run(
            "bare",
            ("worker", worker),
            ("impatient", impatient),
            strategy=RandomWalk(seed),
            eager_time=True,
        )
        orders.add(tuple(order))
    assert orders == {("work", "timeout"), ("timeout", "work")}


def test_an_invariant_is_checked_after_the_steps_of_its_actor():
    world = World()
    state = {"value": 0}

    async def worker(ctx: Context) -> None:
        for _ in range(5):
            await ctx.point("count")
            state["value"] += 1

    world.actor("worker", worker)
    world.invariant(
        "below three", lambda: None if state["value"] < 3 else "it is three", after="worker"
    )
    result = world.run("bare")
    assert (result.verdict, result.reason, state["value"]) == (
        "violated",
        "below three: it is three",
        3,
    )


def test_wrong_use_says_what_was_expected():
    world = World()
    world.actor("a", counter)
    with pytest.raises(UsageError, match="exists already"):
        world.actor("a", counter)
    world.run("bare")
    with pytest.raises(UsageError, match="runs once"):
        world.run("bare")


async def test_a_cancellation_from_outside_stops_the_run_in_order():
    import trio

    async def endless(ctx: Context) -> None:
        while True:
            await ctx.point("again")

    world = World()
    for name in "abc":
        world.actor(name, endless)
    with trio.move_on_after(0.05) as scope:
        await world.run_async()
    assert scope.cancelled_caught


@both
def test_a_stream_asked_of_an_actor_that_is_down_is_broken(driver):
    seen: list[str] = []

    async def server(ctx: Context) -> None:
        await ctx.sleep(100 * SECOND)

    async def client(ctx: Context) -> None:
        await ctx.sleep(SECOND)
        ctx.faults.crash("server")
        stream = ctx.open("server", "subscribe")
        try:
            await stream.recv()
        except LinkBroken:
            seen.append("broken")

    run(driver, ("server", server), ("client", client))
    assert seen == ["broken"]


def test_who_waits_for_neither_time_nor_work_is_blocked():
    told: list[list[str]] = []
    world = World()

    async def worker(ctx: Context) -> None:
        ctx.spawn(idle, name="idle")
        ctx.spawn(late, name="late")
        await ctx.condition().wait(point="mutex")

    async def idle(ctx: Context) -> None:
        await ctx.condition().wait(idle=True, point="work")

    async def late(ctx: Context) -> None:
        await ctx.sleep(9 * SECOND)

    async def watcher(ctx: Context) -> None:
        await ctx.sleep(SECOND)
        told.append(world.blocked("worker"))

    world.actor("worker", worker)
    world.actor("watcher", watcher)
    world.run("bare")
    [[blocked]] = told
    assert blocked.startswith("worker/main waits for ")


@both
def test_an_interrupted_run_ends_before_its_next_step_and_repeats(driver):
    def build(strategy=None):
        world = World(strategy=strategy)
        heard: list[tuple[int, str]] = []
        for name in ("one", "other"):
            world.actor(name, ticker, SECOND, 100, heard)
        return world

    world = build(RandomWalk(7))
    world.invariant(
        "a signal comes in the midst of a step",
        lambda: world.interrupt("Ctrl-C") if world.steps == 30 else None,
        after="one",
    )
    result = world.run(driver)
    assert (result.verdict, result.reason) == ("stopped", "Ctrl-C")
    assert result.ok
    assert result.steps in (30, 31)
    again = build(Replay(result.choices, marks=result.marks))
    again.stop_after(result.steps, result.reason)
    assert again.run(driver).trace_hash == result.trace_hash


@pytest.mark.parametrize("strategy", [Fifo(), RandomWalk(5)], ids=["dull", "random"])
def test_a_region_that_passes_is_the_region_that_is_awaited(strategy):
    def run(*, asks: bool) -> RunResult:
        world = World(strategy=strategy)

        async def works(ctx: Context) -> None:
            for _ in range(5):
                await ctx.point("point")
                if not (asks and ctx.passes("region")):
                    await ctx.region("region")
                ctx.log("worked")

        for name in "abc":
            world.actor(name, works)
        return world.run("bare")

    asked, awaited = run(asks=True), run(asks=False)
    assert asked.trace_hash == awaited.trace_hash
    assert list(asked.choices) == list(awaited.choices)
