"""The reflector of a release's own library: streams of the state, pages, time limits (the plain one: test_informer)."""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context, EventLog, World
from controlplane.api.object import Object
from controlplane.api.request import Request, Response
from controlplane.apiserver.storage.watch_cache import WatchEvent
from controlplane.client.features import ClientFeatures, upstream
from controlplane.client.indexer import Indexer
from controlplane.client.loops.clientset import Client, Resource
from controlplane.client.loops.connection import Ping, RestConfig
from controlplane.client.loops.informer import Informer, WatchBatch
from controlplane.client.loops.reflector import INITIAL_END
from controlplane.cluster import Cluster, ClusterConfig
from tests.client.objects import obj

SECOND = 1_000_000_000
CONFIG_MAPS = Resource("", "v1", "configmaps")
STREAMING = ClientFeatures(watch_list_client=True)
PAGES = ClientFeatures(page_size=2)


def status(code: int, reason: str, **details: Any) -> dict[str, Any]:
    return {"kind": "Status", "code": code, "reason": reason, "message": reason, "details": details}


EXPIRED = status(410, "Expired")
TOO_LARGE = status(504, "Timeout", causes=[{"reason": "ResourceVersionTooLarge"}])
INVALID = status(422, "Invalid")
BUSY = status(429, "TooManyRequests")


def marker(version: int) -> WatchEvent:
    tree = {"metadata": {"resourceVersion": str(version), "annotations": {INITIAL_END: "true"}}}
    return WatchEvent("BOOKMARK", Object(tree), version)


class Server:
    """Knows lists in pages and streams of the state. `refusals` and `breaks` are used up first."""

    def __init__(self, *objects: Object) -> None:
        self.objects = list(objects)
        self.version = max((each.resource_version for each in objects), default=1)
        self.refusals: list[dict[str, Any]] = []
        self.page_refusals: list[dict[str, Any]] = []
        self.short_streams = 0
        self.asked: list[str] = []
        self.queries: list[dict[str, str]] = []
        self.times: list[int] = []
        self.streams: list[Any] = []

    async def run(self, ctx: Context) -> None:
        while True:
            message = await ctx.recv(idle=True)
            if isinstance(message.payload, Ping):
                message.reply(None)
                continue
            request: Request = message.payload
            query = request.query
            self.times.append(ctx.now)
            self.queries.append(query)
            told = [request.verb, *(query[name] for name in ("resourceVersion",) if name in query)]
            told += [name for name in ("sendInitialEvents", "limit", "continue") if name in query]
            self.asked.append(" ".join(told))
            if message.stream is not None:
                self._stream(ctx, query, message.stream)
            elif self.refusals:
                refusal = self.refusals.pop(0)
                message.reply(Response(refusal["code"], refusal))
            else:
                message.reply(self._page(query))

    def _stream(self, ctx: Context, query: dict[str, str], stream: Any) -> None:
        if "sendInitialEvents" not in query:
            self.streams.append(stream)
            return
        if self.refusals:
            ctx.send(stream, WatchBatch((), error=self.refusals.pop(0)))
            return
        state = [WatchEvent("ADDED", each, each.resource_version) for each in self.objects]
        if self.short_streams:
            self.short_streams -= 1
            ctx.send(stream, WatchBatch(tuple(state[:1]), end=True))
            return
        self.streams.append(stream)
        later = obj("later", self.version + 1)
        after = WatchEvent("ADDED", later, self.version + 1)
        ctx.send(stream, WatchBatch((*state, marker(self.version), after)))

    def _page(self, query: dict[str, str]) -> Response:
        limit = int(query.get("limit", "0")) if query.get("resourceVersion") != "0" else 0
        start = int(query.get("continue", "0"))
        if start and self.page_refusals:
            refusal = self.page_refusals.pop(0)
            return Response(refusal["code"], refusal)
        metadata = {"resourceVersion": str(self.version)}
        items = self.objects[start:]
        if limit and len(items) > limit:
            items = items[:limit]
            metadata["continue"] = str(start + limit)
        return Response(200, {"metadata": metadata}, items=items)


def play(
    server: Server, features: ClientFeatures, scene: Any = None
) -> tuple[Indexer, list[str], Any]:
    store = Indexer()
    told: list[str] = []

    async def component(ctx: Context) -> None:
        config = RestConfig(features=features)
        informer = Informer(ctx, CONFIG_MAPS, store, server=config)
        informer.add_handler(lambda each: told.append((each.new or each.old).name))
        informer.start()
        await informer.wait_synced()

    world = World(log=EventLog())
    world.actor("apiserver", server.run)
    world.actor("component", component)
    if scene is not None:
        world.experimenter("scene", scene)
    result = world.run("bare", until_ns=None if scene is None else 1200 * SECOND)
    assert result.ok, result.reason
    return store, told, result


# ---------------------------------------------------------------------- streams of the state


def test_a_stream_of_the_state_fills_the_store_at_its_bookmark_and_goes_on():
    server = Server(obj("a", 3), obj("b", 5))
    store, told, _ = play(server, STREAMING)
    assert server.asked == ["watch sendInitialEvents"]
    assert server.queries[0]["resourceVersionMatch"] == "NotOlderThan"
    assert told == ["a", "b", "later"]
    assert store.resource_version == "6"


def test_a_stream_that_ends_before_its_bookmark_is_asked_for_again():
    server = Server(obj("a", 3), obj("b", 5))
    server.short_streams = 2
    _, told, result = play(server, STREAMING)
    assert server.asked == ["watch sendInitialEvents"] * 3
    assert told == ["a", "b", "later"]
    assert result.t_ns == (800 + 1600) * SECOND // 1000


def test_a_server_that_cannot_stream_the_state_is_asked_for_a_list():
    server = Server(obj("a", 3))
    server.refusals = [INVALID]
    play(server, STREAMING)
    assert server.asked == ["watch sendInitialEvents", "list 0", "watch 3"]


@pytest.mark.parametrize("refusal", [EXPIRED, TOO_LARGE])
def test_a_relist_by_stream_asks_for_no_less_than_was_seen_and_then_for_the_newest(refusal):
    server = Server(obj("a", 3))

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        server.refusals = [refusal]
        ctx.send(server.streams[-1], WatchBatch((), error=EXPIRED))

    play(server, STREAMING, scene)
    assert server.asked == [
        "watch sendInitialEvents",
        "watch 4 sendInitialEvents",
        "watch sendInitialEvents",
    ]


def test_a_busy_server_is_asked_for_the_stream_later():
    server = Server(obj("a", 3))
    server.refusals = [BUSY]
    _, _, result = play(server, STREAMING)
    assert server.asked == ["watch sendInitialEvents"] * 2
    assert result.t_ns == 800_000_000


# ---------------------------------------------------------------------- lists


def test_the_first_list_takes_any_version_and_comes_whole():
    server = Server(*(obj(name, 3) for name in "abcde"))
    play(server, PAGES)
    assert server.asked == ["list 0 limit", "watch 3"]


def test_a_list_of_the_newest_state_comes_in_pages():
    server = Server(*(obj(name, 3) for name in "abcde"))
    server.refusals = [EXPIRED]
    _, told, _ = play(server, PAGES)
    assert server.asked == [
        "list 0 limit",
        "list limit",
        "list limit continue",
        "list limit continue",
        "watch 3",
    ]
    assert told == ["a", "b", "c", "d", "e"]


def test_a_page_that_is_too_old_makes_the_list_whole():
    server = Server(*(obj(name, 3) for name in "abcde"))
    server.refusals = [TOO_LARGE]
    server.page_refusals = [EXPIRED]
    _, told, _ = play(server, PAGES)
    assert server.asked == ["list 0 limit", "list limit", "list limit continue", "list", "watch 3"]
    assert told == ["a", "b", "c", "d", "e"]


def test_a_relist_from_a_version_is_one_request():
    server = Server(*(obj(name, 3) for name in "abcde"))

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        ctx.send(server.streams[-1], WatchBatch((), error=EXPIRED))

    play(server, PAGES, scene)
    assert server.asked[2] == "list 3"


# ---------------------------------------------------------------------- time limits, resyncs


def test_watches_ask_for_five_to_ten_minutes():
    server = Server(obj("a", 3))
    features = ClientFeatures(watch_timeouts=True)
    play(server, features)
    assert server.queries[-1]["timeoutSeconds"] == "300"


def test_the_real_server_ends_a_watch_in_time_and_it_is_opened_again_without_a_list():
    cluster = Cluster(
        ClusterConfig(kubelets=False, controllers=False, client=upstream()), log=EventLog()
    )
    told: list[str] = []

    async def user(ctx: Context) -> None:
        server = cluster.address("user")
        informer = Informer(ctx, CONFIG_MAPS, server=server)
        informer.add_handler(lambda each: told.append(each.new.name))
        informer.start()
        await informer.wait_synced()
        for name in ("a", "b", "c"):
            metadata = {"name": name, "namespace": "default"}
            tree = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
            await Client(ctx, server).create(CONFIG_MAPS, tree)
            await ctx.sleep(700 * SECOND)

    cluster.user("user", user)
    result = cluster.world.run("bare")
    assert result.verdict == "quiescent", result.reason
    assert told == ["a", "b", "c"]
    assert not [e for e in cluster.world.log if e.event == "reflector.error"]
    ends = [e for e in cluster.world.log if e.event == "apiserver.watch" and e.actor == "apiserver"]
    assert len(ends) >= 6


def test_a_resync_tells_handlers_of_everything_again():
    server = Server(obj("a", 3))

    async def scene(ctx: Context) -> None:
        await ctx.sleep(250 * SECOND)

    _, told, _ = play(server, ClientFeatures(resync_ns=500 * SECOND), scene)
    assert told == ["a"] * 3


@pytest.mark.parametrize("release", ["1.30", "1.33", "1.35", "1.36"])
def test_every_release_s_library_keeps_up_with_a_server(release):
    server = Server(obj("a", 3), obj("b", 5))

    async def scene(ctx: Context) -> None:
        await ctx.sleep(2 * SECOND)
        gone, fresh = obj("a", 7), obj("c", 8)
        events = (WatchEvent("DELETED", gone, 7), WatchEvent("ADDED", fresh, 8))
        ctx.send(server.streams[-1], WatchBatch(events))

    store, _, _ = play(server, upstream(release), scene)
    streamed = ["later"] if upstream(release).watch_list_client else []
    assert [each.name for each in store] == ["b", *streamed, "c"]
