"""Faults for clients outside, over the served address: refusals, and watches that are cut, expired or late."""

from __future__ import annotations

import pytest
import trio

from actors.pace import MAX, Pacer
from controlplane.scenarios.engine.execution import Execution
from controlplane.scenarios.search.replaying import replayed
from tests.apiserver.http.session import CONFIGMAPS, config, served, watching

PATH = "/controlplane/faults"
WATCH = f"{CONFIGMAPS}?watch=true&resourceVersion=0&fieldSelector=metadata.name%3Da"


async def rule(session, **asked):
    found = await session.ask("POST", PATH, asked)
    assert found.code == 200, found.body
    return found.tree["rules"]


async def test_a_request_is_refused_once_with_what_it_says_about_waiting():
    async with served(Pacer(MAX), nodes=0) as session:
        await rule(session, action="fail", code=429, verb="create", resource="configmaps")
        refused = await session.ask("POST", CONFIGMAPS, config("a"))
        assert (refused.code, refused.tree["reason"]) == (429, "TooManyRequests")
        assert refused.headers["retry-after"] == "1"
        assert (await session.ask("POST", CONFIGMAPS, config("a"))).code == 201


@pytest.mark.parametrize("action", ["cut", "expire"])
async def test_a_watch_ends_instead_of_the_event(action):
    async with served(Pacer(MAX), nodes=0) as session:
        with trio.fail_after(120):
            async with watching(session, WATCH) as lines:
                await rule(session, action=action, resource="configmaps")
                await session.ask("POST", CONFIGMAPS, config("a"))
                if action == "expire":
                    event = await lines.next()
                    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
                assert await lines.next() is None


async def test_the_events_of_a_watch_come_late_by_the_time_that_was_asked_for():
    async with served(Pacer(paused=True), nodes=0) as session:
        with trio.fail_after(120):
            async with watching(session, WATCH) as lines:
                await rule(session, action="lag", seconds=30, resource="configmaps")
                await session.ask("POST", CONFIGMAPS, config("a"))
                await session.ask("POST", "/controlplane/time", {"action": "step", "seconds": 20})
                with trio.move_on_after(0.2) as scope:
                    await lines.next()
                assert scope.cancelled_caught
                await session.ask("POST", "/controlplane/time", {"action": "step", "seconds": 11})
                assert (await lines.next())["object"]["metadata"]["name"] == "a"


async def test_a_session_with_faults_is_repeated_from_its_recording():
    async with served(Pacer(MAX), nodes=0, keep=True) as session:
        await rule(session, action="fail", code=500, times=0, resource="configmaps")
        assert (await session.ask("POST", CONFIGMAPS, config("a"))).code == 500
        assert (await session.ask("DELETE", PATH)).tree == {"rules": []}
        assert (await session.ask("POST", CONFIGMAPS, config("a"))).code == 201
        serving: Execution = session.serving
    recording = serving.recording()
    again = replayed(serving.plan, recording)
    assert again.execute("bare").trace_hash == serving.result.trace_hash


async def test_the_rules_hold_whichever_server_a_request_reaches():
    async with served(Pacer(MAX), nodes=0, apiservers=2, strategy="random-walk") as session:
        await rule(session, action="fail", code=409, times=0, resource="configmaps")
        codes = {(await session.ask("POST", CONFIGMAPS, config(f"c{n}"))).code for n in range(6)}
        assert codes == {409}
