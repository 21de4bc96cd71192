"""Plans at the connections of clients outside: each action once, against a served session."""

from __future__ import annotations

import pytest
import trio

from actors.pace import Pacer
from controlplane.api.request import ADMIN, User
from controlplane.scenarios.plans.outside import Clients
from controlplane.scenarios.search.replaying import replayed
from tests.apiserver.http.session import CONFIGMAPS, config, request, served, watching

ONE = f"{CONFIGMAPS}/one"
WATCH = f"{CONFIGMAPS}?watch=true"


def test_clients_are_named_by_their_account_and_numbered_by_their_pod():
    def account(pod):
        extra = (("authentication.kubernetes.io/pod-name", (pod,)),) if pod else ()
        return User("system:serviceaccount:ops:operator", extra=extra)

    clients = Clients(lambda name: name == "scheduler")
    assert clients.name_of(ADMIN) == "admin"
    assert [clients.name_of(account(pod)) for pod in ("a", "b", "a", "")] == [
        "operator", "operator-2", "operator", "operator"
    ]  # fmt: skip
    assert clients.name_of(User("system:serviceaccount:x:scheduler")) == "outside-scheduler"
    assert clients.pods == {"operator": "a", "operator-2": "b"}


def test_components_have_the_names_of_the_processes_whose_place_they_take():
    clients = Clients(lambda name: name == "controller-manager")
    users = ("system:kube-scheduler", "system:node:node-1", "system:kube-controller-manager")
    names = [clients.name_of(User(each)) for each in users]
    assert names == ["scheduler", "node-1", "system:kube-controller-manager"]


async def test_a_request_is_refused_and_an_answer_replaced_though_its_effect_stays():
    lines = (
        "fail request admin create configmaps default/one with 409",
        "fail answer admin create configmaps default/one #2 with 504",
    )
    async with served(plan=lines) as session:
        refused = await session.ask("POST", CONFIGMAPS, config("one"))
        assert (refused.code, refused.tree["reason"]) == (409, "Conflict")
        assert (await session.ask("GET", ONE)).code == 404
        # The first answer counts, too: the plan's own refusal passes as none.
        made = await session.ask("POST", CONFIGMAPS, config("one"))
        assert made.code == 201
        again = await session.ask("POST", CONFIGMAPS, config("one"))
        assert again.code == 504
        assert (await session.ask("GET", ONE)).code == 200


async def test_a_lost_answer_cuts_the_connection_after_the_effect_and_a_lost_request_before():
    lines = (
        "lose request admin create configmaps default/two",
        "lose answer admin create configmaps default/one",
    )
    async with served(plan=lines) as session:
        assert await session.raw(request("POST", CONFIGMAPS, config("one"))) == b""
        assert (await session.ask("GET", ONE)).code == 200
        assert await session.raw(request("POST", CONFIGMAPS, config("two"))) == b""
        assert (await session.ask("GET", f"{CONFIGMAPS}/two")).code == 404


async def test_a_process_is_ended_after_the_effect_of_its_write():
    killed = []
    async with served(plan=("kill admin before answer admin create configmaps",)) as session:
        outside = session.serving.control.outside
        outside.on_kill = killed.append
        assert await session.raw(request("POST", CONFIGMAPS, config("one"))) == b""
        assert killed == ["admin"]
        assert (await session.ask("GET", ONE)).code == 200


async def test_a_held_request_waits_for_another_one():
    held = "hold request admin create configmaps default/one until answer admin create configmaps default/two"
    async with served(Pacer(paused=True), plan=(held,)) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.ask, "POST", CONFIGMAPS, config("one"))
            await trio.sleep(0.05)
            assert (await session.ask("GET", ONE)).code == 404
            await session.ask("POST", CONFIGMAPS, config("two"))
        assert (await session.ask("GET", ONE)).code == 200


async def test_swallowed_states_do_not_reach_a_watch():
    line = (
        "swallow event admin MODIFIED configmaps default/one where data.at=1"
        " until event admin * configmaps default/one where data.at=2"
    )
    async with served(plan=(line,)) as session, watching(session, WATCH) as lines:
        await session.ask("POST", CONFIGMAPS, config("one", at="0"))
        for at in ("1", "2"):
            await session.ask("PUT", ONE, config("one", at=at))
            await session.ask("POST", CONFIGMAPS, config(f"c{at}"))
        told = []
        while ("c2", None) not in told:
            event = await lines.next()
            if event["object"]["metadata"]["name"] != "kube-root-ca.crt":
                found = event["object"]
                told.append((found["metadata"]["name"], (found.get("data") or {}).get("at")))
        assert told == [("one", "0"), ("c1", None), ("one", "2"), ("c2", None)]


async def test_a_frozen_resource_shows_its_old_state_in_lists_from_the_cache_and_watches_alone():
    line = (
        "freeze admin configmaps from answer admin create configmaps default/one"
        " until answer admin create configmaps default/two"
    )
    async with served(plan=(line,)) as session, watching(session, WATCH) as lines:
        await session.ask("POST", CONFIGMAPS, config("one", at="0"))
        await session.ask("PUT", ONE, config("one", at="1"))

        async def at(path):
            items = (await session.ask("GET", path)).tree["items"]
            return [each["data"]["at"] for each in items if each["metadata"]["name"] == "one"]

        assert await at(f"{CONFIGMAPS}?resourceVersion=0") == ["0"]
        assert await at(CONFIGMAPS) == ["1"]
        await session.ask("POST", CONFIGMAPS, config("two"))
        assert await at(f"{CONFIGMAPS}?resourceVersion=0") == ["1"]
        told = []
        while "two" not in told:
            told.append((await lines.next())["object"]["metadata"]["name"])
        assert told[-3:] == ["one", "one", "two"]


async def test_a_watch_that_ends_while_its_events_are_held_is_forgotten():
    held = "hold event admin ADDED configmaps default/one until answer admin create configmaps default/two"
    async with served(Pacer(paused=True), plan=(held,)) as session:
        async with watching(session, WATCH):
            await session.ask("POST", CONFIGMAPS, config("one"))
        outside = session.serving.control.outside
        with trio.fail_after(120):
            while outside._streams:
                await trio.sleep(0.005)
        await session.ask("POST", CONFIGMAPS, config("two"))
        assert session.serving.control.reached
        assert (await session.ask("GET", ONE)).code == 200


async def test_requests_under_way_are_counted_to_their_answers():
    counts = []
    line = "hold request admin create configmaps default/one until answer admin create configmaps default/two"
    async with served(Pacer(paused=True), plan=(line,)) as session:
        session.serving.control.outside.on_request = lambda _client, change: counts.append(change)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.ask, "POST", CONFIGMAPS, config("one"))
            await trio.sleep(0.05)
            assert sum(counts) == 0  # held: its client waits for the plan, not for the server
            await session.ask("POST", CONFIGMAPS, config("two"))
        await session.ask("GET", "/api/v1/namespaces/default/pods/none/log")
        assert sum(counts) == 0


async def test_a_lost_event_breaks_the_watch_before_it():
    async with (
        served(plan=("lose event admin ADDED configmaps default/one",)) as session,
        watching(session, WATCH) as lines,
    ):
        await session.ask("POST", CONFIGMAPS, config("one"))
        with pytest.raises(AssertionError, match="the connection was ended"):
            while (await lines.next())["object"]["metadata"]["name"] != "one":
                pass


async def test_a_session_with_a_plan_replays_without_its_client():
    lines = (
        "fail request admin create configmaps default/one with 409",
        "swallow event admin ADDED configmaps default/two until event admin DELETED configmaps default/two",
    )
    async with served(plan=lines, keep=True) as session:
        async with watching(session, WATCH):
            await session.ask("POST", CONFIGMAPS, config("one"))
            await session.ask("POST", CONFIGMAPS, config("two"))
            await session.ask("DELETE", f"{CONFIGMAPS}/two")
            await trio.sleep(0.02)
        run = session.serving
    recording = run.recording()
    again = replayed(run.plan, recording)
    again.execute("bare")
    assert again.result.trace_hash == run.result.trace_hash
    assert [each.note for each in again.control.outcomes()] == [
        "reached",
        "reached, held and released",
    ]
