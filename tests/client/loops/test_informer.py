"""Reflector, processor and listeners against a server that follows a script."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context, EventLog, RandomWalk, World
from controlplane.api.object import Object
from controlplane.api.request import Request, Response
from controlplane.apiserver.storage.watch_cache import WatchEvent
from controlplane.client.indexer import Indexer
from controlplane.client.loops.clientset import Resource
from controlplane.client.loops.informer import Informer, WatchBatch
from controlplane.client.loops.reflector import Backoff
from tests.client.objects import obj

SECOND = 1_000_000_000
CONFIG_MAPS = Resource("", "v1", "configmaps")
EXPIRED = {
    "kind": "Status",
    "code": 410,
    "reason": "Expired",
    "message": "too old resource version",
}
BUSY = {"kind": "Status", "code": 429, "reason": "TooManyRequests", "message": "later"}


class Script:
    """What the server holds and does. `answers` and `openings` are used up before the rule applies."""

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.version = 0
        self.streams: list[Any] = []
        self.answers: list[dict[str, Any]] = []
        self.openings: list[WatchBatch] = []
        self.requests: list[tuple[int, str, str]] = []

    async def run(self, ctx: Context) -> None:
        while True:
            message = await ctx.recv(idle=True)
            request: Request = message.payload
            asked = request.query.get("resourceVersion", "")
            self.requests.append((ctx.now, request.verb, asked))
            if message.stream is not None:
                if self.openings:
                    ctx.send(message.stream, self.openings.pop(0))
                else:
                    self.streams.append(message.stream)
            elif self.answers:
                status = self.answers.pop(0)
                message.reply(Response(status["code"], status))
            else:
                tree = {"metadata": {"resourceVersion": str(self.version)}}
                message.reply(Response(200, tree, items=list(self.objects.values())))

    def put(self, name: str, **more: Any) -> WatchEvent:
        self.version += 1
        kind = "MODIFIED" if name in self.objects else "ADDED"
        made = self.objects[name] = obj(name, self.version, **more)
        return WatchEvent(kind, made, self.version)

    def remove(self, name: str) -> WatchEvent:
        self.version += 1
        return WatchEvent("DELETED", self.objects.pop(name), self.version)

    def send(self, ctx: Context, *events: WatchEvent, **more: Any) -> None:
        ctx.send(self.streams[-1], WatchBatch(events, **more))

    def verbs(self) -> list[tuple[str, str]]:
        return [(verb, version) for _, verb, version in self.requests]


class Follower:
    """A component with an informer; `told` is what its handler heard."""

    def __init__(self) -> None:
        self.store = Indexer()
        self.told: list[tuple[str, str, bool]] = []
        self.synced_at: int | None = None
        self.ahead: list[bool] = []

    def handle(self, notification: Any) -> None:
        old, new = notification.old, notification.new
        if new is None:
            self.told.append(("delete", old.name, notification.final_state_unknown))
        elif old is None:
            self.told.append(("add", new.name, notification.initial))
        else:
            self.told.append(("update", new.name, old.uid != new.uid))
        if new is not None:
            self.ahead.append(self.store.get(new.key) is not new)

    async def run(self, ctx: Context) -> None:
        informer = Informer(ctx, CONFIG_MAPS, self.store)
        informer.add_handler(self.handle)
        informer.start()
        await informer.wait_synced()
        self.synced_at = ctx.now


def play(script: Script, scene: Any, strategy: Any = None) -> tuple[Follower, Any]:
    """Run a scene: `scene(ctx)` is an actor that moves the script on."""
    follower = Follower()
    world = World(strategy=strategy, log=EventLog())
    world.actor("apiserver", script.run)
    world.actor("component", follower.run)
    world.experimenter("scene", scene)
    result = world.run("bare")
    assert result.verdict == "quiescent", result.reason
    assert [each.name for each in follower.store] == list(script.objects) or strategy is not None
    return follower, result


async def nothing(_ctx: Context) -> None:
    pass


def test_the_first_list_is_initial_and_syncs():
    script = Script()
    script.put("a")
    script.put("b")
    follower, _ = play(script, nothing)
    assert follower.told == [("add", "a", True), ("add", "b", True)]
    assert follower.synced_at == 0
    assert script.verbs() == [("list", "0"), ("watch", "2")]


def test_an_empty_list_syncs_too():
    assert play(Script(), nothing)[0].synced_at == 0


def test_events_are_told_in_order():
    script = Script()

    async def scene(ctx: Context) -> None:
        await ctx.sleep(SECOND)
        script.send(ctx, script.put("a"), script.put("b"))
        script.send(ctx, script.put("a"), script.remove("b"))

    follower, _ = play(script, scene)
    assert follower.told == [
        ("add", "a", False),
        ("add", "b", False),
        ("update", "a", False),
        ("delete", "b", False),
    ]


def test_a_bookmark_moves_the_version_only():
    script = Script()

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        script.version = 40
        script.send(ctx, WatchEvent("BOOKMARK", obj("", 40), 40), end=True)

    follower, _ = play(script, scene)
    assert follower.told == []
    assert follower.store.resource_version == "40"
    assert script.verbs()[-1] == ("watch", "40")


def test_after_410_the_list_still_asks_for_no_less_than_was_seen():
    script = Script()
    script.put("a")

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        script.remove("a")
        script.put("b")
        script.send(ctx, error=EXPIRED)

    follower, result = play(script, scene)
    assert script.verbs() == [("list", "0"), ("watch", "1"), ("list", "1"), ("watch", "3")]
    assert follower.told[1:] == [("delete", "a", True), ("add", "b", False)]
    assert result.t_ns == 2 * SECOND + 800_000_000


def test_an_error_event_ends_the_watch_after_what_came_before_it():
    script = Script()

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        script.send(ctx, script.put("a"), WatchEvent("ERROR", Object(EXPIRED), 0))

    follower, _ = play(script, scene)
    assert script.verbs() == [("list", "0"), ("watch", "0"), ("list", "1"), ("watch", "1")]
    assert follower.told == [("add", "a", False)]


def test_an_expired_list_is_asked_again_without_a_version():
    script = Script()
    script.answers = [EXPIRED]
    play(script, nothing)
    assert script.verbs() == [("list", "0"), ("list", ""), ("watch", "0")]


def test_unchanged_objects_of_a_relist_are_not_told_again():
    script = Script()
    script.put("a")

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        script.send(ctx, error=EXPIRED)

    follower, _ = play(script, scene)
    assert follower.told == [("add", "a", True)]


def test_delete_and_recreate_during_a_gap_come_as_one_update_of_two_uids():
    script = Script()
    script.put("a", uid="u1")

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        script.remove("a")
        script.put("a", uid="u2")
        script.send(ctx, error=EXPIRED)

    follower, _ = play(script, scene)
    assert follower.told[1:] == [("update", "a", True)]


def test_a_broken_connection_is_opened_again_where_it_broke():
    script = Script()
    script.put("a")

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        ctx.faults.break_link("component", "apiserver")
        await ctx.sleep(SECOND)
        script.send(ctx, script.put("b"))

    follower, _ = play(script, scene)
    assert script.verbs() == [("list", "0"), ("watch", "1"), ("watch", "1")]
    assert follower.told[1:] == [("add", "b", False)]


def test_a_server_that_is_down_is_tried_with_growing_waits():
    script = Script()

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        script.streams.clear()
        ctx.faults.crash("apiserver")
        await ctx.sleep(5 * SECOND)
        ctx.faults.restart("apiserver")

    play(script, scene)
    milliseconds = [at // 1_000_000 for at, verb, _ in script.requests if verb == "watch"]
    assert milliseconds == [0, 2000 + 800 + 1600 + 3200]


def test_a_very_short_watch_needs_a_new_list_after_a_wait():
    script = Script()
    script.openings = [WatchBatch((), end=True)]
    _, result = play(script, nothing)
    assert script.verbs() == [("list", "0"), ("watch", "0"), ("list", "0"), ("watch", "0")]
    assert result.t_ns == 800_000_000


def test_a_watch_that_ends_in_order_is_opened_again_at_once():
    script = Script()

    async def scene(ctx: Context) -> None:
        await ctx.sleep(300 * SECOND)
        script.send(ctx, end=True)

    _, result = play(script, scene)
    assert script.verbs() == [("list", "0"), ("watch", "0"), ("watch", "0")]
    assert result.t_ns == 300 * SECOND


def test_a_busy_server_is_asked_for_the_same_watch_later():
    script = Script()
    script.openings = [WatchBatch((), error=BUSY)]
    _, result = play(script, nothing)
    assert script.verbs() == [("list", "0"), ("watch", "0"), ("watch", "0")]
    assert result.t_ns == 800_000_000


def test_backoff_doubles_to_its_limit_and_starts_anew_after_two_minutes():
    backoff = Backoff()
    waits = [backoff.next(0) // 1_000_000 for _ in range(8)]
    assert waits == [800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]
    assert backoff.next(121 * SECOND) == 800_000_000


@pytest.mark.parametrize("seed", range(10))
def test_whatever_the_schedule_a_handler_hears_everything_in_order(seed):
    script = Script()
    script.put("a")

    async def scene(ctx: Context) -> None:
        await ctx.sleep(SECOND)
        for number in range(10):
            script.send(ctx, script.put("a"), script.put(f"b{number}"))
            await ctx.point("scene")

    follower, _ = play(script, scene, RandomWalk(seed))
    assert [name for kind, name, _ in follower.told if kind == "add"] == [
        "a",
        *(f"b{number}" for number in range(10)),
    ]
    assert sum(kind == "update" for kind, _, _ in follower.told) == 10
    assert {each.name for each in follower.store} == set(script.objects)


def test_the_store_may_be_ahead_of_a_handler():
    ahead = False
    for seed in range(20):
        script = Script()
        script.put("a")

        async def scene(ctx: Context, script: Script = script) -> None:
            await ctx.sleep(SECOND)
            for _ in range(4):
                script.send(ctx, script.put("a"))

        ahead = ahead or any(play(script, scene, RandomWalk(seed))[0].ahead)
    assert ahead


def test_an_immediate_informer_tells_in_the_step_in_which_it_hears():
    script = Script()
    script.put("a")
    heard: list[str] = []
    store = Indexer()

    async def component(ctx: Context) -> None:
        informer = Informer(ctx, CONFIG_MAPS, store, immediate=True)
        informer.add_handler(lambda told: heard.append(told.new.name))
        informer.start()
        await informer.wait_synced()

    world = World(log=EventLog())
    world.actor("apiserver", script.run)
    world.actor("component", component)
    assert world.run("bare").verdict == "quiescent"
    assert heard == ["a"]
    assert store.keys() == ["default/a"]
