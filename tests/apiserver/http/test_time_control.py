"""Time control over the served address."""

from __future__ import annotations

import pytest
import trio

from actors.pace import Pacer
from tests.apiserver.http.session import CONFIGMAPS, config, served, watching

PATH = "/controlplane/time"


async def control(session, **asked):
    found = await session.ask("POST", PATH, asked)
    assert found.code == 200, found.body
    return found.tree


async def test_pause_step_resume_speed():
    async with served(Pacer(paused=True)) as session:
        assert (await session.ask("GET", PATH)).tree == {
            "paused": True,
            "speed": 1.0,
            "virtual": 0.0,
        }
        assert await control(session, action="step", seconds=90.5) == {
            "paused": True,
            "speed": 1.0,
            "virtual": 90.5,
        }
        made = await session.ask("POST", CONFIGMAPS, config("a"))
        assert made.tree["metadata"]["creationTimestamp"] == "2026-01-01T00:01:30Z"
        assert (await control(session, action="speed", speed="max"))["speed"] == "max"
        assert not (await control(session, action="resume"))["paused"]
        assert (await control(session, action="pause"))["paused"]


async def test_nodes_go_on_beating_while_time_is_stepped():
    async with served(Pacer(paused=True), nodes=1) as session:
        await control(session, action="step", seconds=300)
        lease = (
            await session.ask(
                "GET", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1"
            )
        ).tree
        assert lease["spec"]["renewTime"] == "2026-01-01T00:05:00.000000Z"


@pytest.mark.parametrize(
    "asked",
    [
        None,
        1,
        [],
        {},
        {"action": "fly"},
        {"action": "step"},
        {"action": "step", "seconds": -1},
        {"action": "step", "seconds": True},
        {"action": "speed", "speed": 0},
        {"action": "speed", "speed": "fast"},
        {"action": "step", "seconds": 1e30},
    ],
)
async def test_wrong_orders_are_refused(asked):
    async with served() as session:
        found = await session.ask("POST", PATH, b"null" if asked is None else asked)
        assert found.code == 400
        assert "expected" in found.tree["message"]
        assert (await session.ask("DELETE", PATH)).code == 405


@pytest.mark.slow
async def test_a_watch_ends_at_its_time_limit_while_time_stands_still():
    async with (
        served(Pacer(paused=True)) as session,
        watching(session, f"{CONFIGMAPS}?watch=true&timeoutSeconds=1") as lines,
    ):
        with trio.fail_after(120):
            while await lines.next() is not None:
                pass
        assert lines.ended
