"""Linearizability per key: the search agrees with trying every order, and the API server passes it."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.scenarios import Scenario
from controlplane.scenarios.authoring.nemesis import nemesis
from controlplane.scenarios.authoring.workloads import config_map
from controlplane.scenarios.authoring.worlds import lagging_servers, scheduler_alone
from controlplane.scenarios.engine.linearizability import OPEN, Call, Version, check, next_states
from controlplane.scenarios.engine.plan import plan_of
from controlplane.scenarios.invariants.linearizability import linearizable
from controlplane.scenarios.search.exploring import Campaign


def call(verb, answer, begin, end=OPEN, seen=0, expected=0):
    version = Version("u", seen) if seen else None
    return Call(verb, answer, begin, end, version, Version("", expected))


CREATED = call("create", "ok", 1, 2, seen=1)


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        ([CREATED, call("get", "ok", 3, 4, seen=1)], "ok"),
        ([CREATED, call("get", "not-found", 3, 4)], "violation"),
        ([call("create", "ok", 1, 4, seen=1), call("get", "not-found", 2, 3)], "ok"),
        (
            [CREATED, call("update", "ok", 3, 4, seen=2), call("get", "ok", 5, 6, seen=1)],
            "violation",
        ),
        ([CREATED, call("update", "ok", 3, 6, seen=2), call("get", "ok", 4, 5, seen=1)], "ok"),
        ([CREATED, call("update", "unknown", 3), call("get", "ok", 4, 5, seen=2)], "ok"),
        ([CREATED, call("update", "unknown", 3), call("get", "ok", 4, 5, seen=1)], "ok"),
        ([CREATED, call("update", "unknown", 6), call("get", "ok", 4, 5, seen=2)], "violation"),
        ([CREATED, call("delete", "unknown", 3), call("get", "not-found", 8, 9)], "ok"),
        ([CREATED, call("update", "conflict", 3, 4, expected=1)], "violation"),
        ([CREATED, call("create", "exists", 3, 4)], "ok"),
        ([CREATED, call("create", "ok", 3, 4, seen=2)], "violation"),
        (
            [
                CREATED,
                call("update", "ok", 3, 5, seen=2, expected=1),
                call("update", "ok", 4, 6, seen=3, expected=1),
            ],
            "violation",
        ),
    ],
)
def test_verdicts(calls, verdict) -> None:
    assert check(calls).verdict == verdict


def by_hand(calls) -> bool:
    """Every order of every subset that leaves out only calls of unknown outcome."""
    if not [each for each in calls if each.answer != "unknown"]:
        return True
    for order in permutations(calls):
        respected = all(
            not (later.end <= earlier.begin)
            for at, earlier in enumerate(order)
            for later in order[at + 1 :]
        )
        states = {None}
        for each in order if respected else ():
            states = {after for state in states for after in next_states(state, each)}
        if respected and states:
            return True
    return False


@st.composite
def histories(draw):
    calls = []
    for _ in range(draw(st.integers(1, 5))):
        verb = draw(st.sampled_from(["get", "create", "update", "delete"]))
        answers = {
            "get": ["ok", "not-found"],
            "create": ["ok", "exists", "unknown"],
            "update": ["ok", "conflict", "not-found", "unknown"],
            "delete": ["ok", "not-found", "unknown"],
        }
        answer = draw(st.sampled_from(answers[verb]))
        begin = draw(st.integers(1, 12))
        end = OPEN if answer == "unknown" else begin + draw(st.integers(1, 6))
        seen = draw(st.integers(1, 3)) if answer == "ok" and verb != "delete" else 0
        expected = draw(st.integers(0, 2)) if verb == "update" else 0
        calls.append(call(verb, answer, begin, end, seen, expected))
    return calls


@pytest.mark.slow
@settings(max_examples=300)
@given(histories())
def test_the_search_agrees_with_trying_every_order(calls) -> None:
    assert (check(calls).verdict == "ok") is by_hand(calls)


def test_too_long_a_search_is_undecided() -> None:
    calls = [call("update", "unknown", 1 + at) for at in range(12)]
    assert (
        check([CREATED, *calls, call("get", "not-found", 20, 21)], visits=50).verdict == "undecided"
    )


async def writers(user) -> None:
    """Two tasks write and read one config map, on whichever server their process is connected to."""
    other = user.spawn(writer)
    await writer(user)
    await user.join(other)


async def writer(user) -> None:
    for _ in range(4):
        what = user.choose(4, "what")
        if what == 0:
            await user.attempt(user.create(config_map("c")))
        elif what == 1:
            change = {"data": {"n": str(user.ctx.serial())}}
            await user.attempt(user.patch("ConfigMap", "c", change))
        elif what == 2:
            await user.attempt(user.delete("ConfigMap", "c"))
        await user.attempt(user.get("ConfigMap", "c"))


async def cached_reader(user) -> None:
    """Reads what a cache has after its own writes."""
    from controlplane.client.loops.clientset import Resource

    maps = Resource("", "v1", "configmaps")
    await user.create(config_map("c"))
    for _ in range(3):
        await user.attempt(user.client.get(maps, "default", "c", resourceVersion="0"))
        await user.patch("ConfigMap", "c", {"data": {"n": str(user.ctx.serial())}})


@pytest.mark.slow
def test_the_api_is_linearizable_under_faults() -> None:
    scenario = Scenario(
        "writers",
        workload={"one": writers, "two": writers},
        build=scheduler_alone(),
        faults=[nemesis(3, horizon=60)],
        invariants=[linearizable("configmaps")],
    )
    found = Campaign(plan_of(scenario, nodes=0)).explore(150)
    assert not found.findings, found.findings[0].result.reason
    assert found.schedules == 150


def test_reads_from_a_lagging_cache_are_not() -> None:
    scenario = Scenario(
        "cached reads",
        workload=cached_reader,
        build=lagging_servers(kubelets=False, controllers=False),
        invariants=[linearizable("configmaps", cached_reads=True)],
    )
    found = Campaign(plan_of(scenario, nodes=0)).explore(50)
    assert found.findings
    assert "configmaps default/c: no order fits" in found.findings[0].result.reason
