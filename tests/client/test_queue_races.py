"""The published races of the delta queue, found by search: an informer and a server whose objects come and go.

Nothing tells the search where to look. Time may pass while a task stands ready (a busy process),
which is what lets a relist overtake what is queued.
"""

from __future__ import annotations

from typing import Any

import pytest

from actors import Context, EventLog, World
from actors.explore import explore
from controlplane.api.request import Response
from controlplane.client.deltas import Notification
from controlplane.client.features import ClientFeatures
from controlplane.client.indexer import Indexer
from controlplane.client.loops.connection import RestConfig
from controlplane.client.loops.informer import Informer, WatchBatch
from controlplane.gates import fix_gates
from tests.client.loops.test_informer import CONFIG_MAPS, EXPIRED, SECOND, Script

SCHEDULES = 600


class Life(Script):
    """A server with a history: a watch gets everything after its version, unless it is told to list anew."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[Any] = []

    async def run(self, ctx: Context) -> None:
        ctx.spawn(self.live)
        while True:
            message = await ctx.recv(idle=True)
            if message.stream is None:
                tree = {"metadata": {"resourceVersion": str(self.version)}}
                message.reply(Response(200, tree, items=list(self.objects.values())))
                continue
            since = int(message.payload.query["resourceVersion"])
            missed = [event for event in self.history if event.revision > since]
            if missed:
                ctx.send(message.stream, WatchBatch(tuple(missed)))
            self.streams = [message.stream]

    async def live(self, ctx: Context) -> None:
        """Objects come and go under two names; now and then the stream expires."""
        await ctx.sleep(SECOND)
        for number in range(8):
            name = ("a", "b")[ctx.choose("workload", 2, "which")]
            what = ctx.choose("workload", 3, "what")
            if name not in self.objects:
                event = self.put(name, uid=f"{name}{number}")
            elif what:
                event = self.remove(name)
            else:
                event = self.put(name, uid=self.objects[name].uid)
            self.history.append(event)
            for stream in self.streams:
                ctx.send(stream, WatchBatch((event,)))
            what = ctx.choose("workload", 3, "what next")
            if what == 1:
                streams, self.streams = self.streams, []
                for stream in streams:
                    ctx.send(stream, WatchBatch((), error=EXPIRED))
            elif what == 2:
                await ctx.sleep(SECOND // 4)
            else:
                await ctx.point("life")


def follower(strategy: Any, features: ClientFeatures) -> World:
    script = Life()
    store = Indexer()
    heard: dict[str, int] = {}

    def hear(told: Notification) -> None:
        if told.new is not None:
            heard[told.new.key] = told.new.resource_version

    async def component(ctx: Context) -> None:
        config = RestConfig(features=features)
        informer = Informer(ctx, CONFIG_MAPS, store, server=config)
        informer.add_handler(hear)
        informer.start()

    def right() -> str | None:
        cached = {each.key: each.uid for each in store}
        there = {each.key: each.uid for each in script.objects.values()}
        if ghosts := [key for key in cached if key not in there]:
            return f"ghosts: {ghosts}"
        if missing := [key for key in there if cached.get(key) != there[key]]:
            return f"missing: {missing}"
        if untold := [each.key for each in store if heard[each.key] != each.resource_version]:
            return f"untold: {untold}"
        return None

    world = World(strategy=strategy, log=EventLog(), eager_time=True)
    world.actor("apiserver", script.run)
    world.actor("component", component)
    world.invariant("the cache is what the server holds", right)
    return world


def search(features: ClientFeatures) -> str:
    found = explore(lambda strategy: follower(strategy, features), SCHEDULES)
    for finding in found.findings:
        assert finding.result.verdict == "violated", finding.result.reason
    return found.findings[0].result.reason if found.findings else ""


def old_queue(*without: str) -> ClientFeatures:
    return ClientFeatures(in_order_informers=False, fixes=fix_gates(without=without))


def test_115620_search_finds_an_object_that_stays_in_the_cache_for_ever():
    assert "ghosts" in search(old_queue("115620"))


def test_83911_search_finds_an_object_that_is_never_heard_of():
    assert "missing" in search(old_queue("83911"))


def test_86015_search_finds_a_change_that_no_handler_is_told_of():
    assert "untold" in search(old_queue("86015"))


@pytest.mark.parametrize(
    "features",
    [old_queue(), ClientFeatures(atomic_fifo=False), ClientFeatures()],
    ids=["DeltaFIFO", "RealFIFO", "AtomicFIFO"],
)
def test_with_the_fixes_no_queue_keeps_or_loses_anything(features):
    assert search(features) == ""
