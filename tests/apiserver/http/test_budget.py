"""A request that computes too much is interrupted, whole or not at all, and others are answered."""

from __future__ import annotations

import pytest
import trio

from actors.pace import MAX, Pacer
from controlplane.apiserver.schema import work
from tests.apiserver.http.session import CONFIGMAPS, config, served

APPLY = "application/apply-patch+yaml"


@pytest.fixture
def little(monkeypatch):
    """What only a few thousand parts are made of is too much."""
    monkeypatch.setattr(work.Budget.__init__, "__defaults__", (20_000,))


def many(count, name="a"):
    return config(name, **{f"k{n}": "v" for n in range(count)})


def wrong(count):
    tree = config("a")
    tree["metadata"]["labels"] = {f"-{n}-": "v" for n in range(count)}
    return tree


async def test_what_computes_too_long_is_told_so_and_did_not_happen(little):
    async with served(Pacer(MAX)) as session:
        refused = await session.ask("POST", CONFIGMAPS, wrong(3000))
        assert refused.code == 504
        assert refused.tree == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "Timeout: request did not complete within requested timeout - "
            "context deadline exceeded",
            "reason": "Timeout",
            "details": {},
            "code": 504,
        }
        assert (await session.ask("GET", f"{CONFIGMAPS}/a")).code == 404
        assert (await session.ask("POST", CONFIGMAPS, many(3))).code == 201
        target = f"{CONFIGMAPS}/a?fieldManager=x"
        refused = await session.ask("PATCH", target, many(9000), Content_Type=APPLY)
        assert refused.code == 504
        assert len((await session.ask("GET", f"{CONFIGMAPS}/a")).tree["data"]) == 3


async def test_each_request_has_a_budget_of_its_own(little):
    answers = []

    async def ask(session, name):
        answers.append((await session.ask("POST", CONFIGMAPS, many(2000, name))).code)

    async with served(Pacer(MAX)) as session, trio.open_nursery() as nursery:
        for n in range(12):  # some of them come between the parts of others
            nursery.start_soon(ask, session, f"m{n}")
    assert answers == [201] * 12


async def test_others_are_answered_while_very_many_are_deleted():
    told = []

    async with served(Pacer(MAX)) as session:
        for n in range(60):
            assert (await session.ask("POST", CONFIGMAPS, config(f"a{n}"))).code == 201

        async def delete():
            assert (await session.ask("DELETE", CONFIGMAPS)).code == 200
            told.append("deleted")

        async def look():
            while "deleted" not in told:
                assert (await session.ask("GET", "/healthz")).code == 200
                told.append("health")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(delete)
            nursery.start_soon(look)
        found = (await session.ask("GET", CONFIGMAPS)).tree["items"]
    assert [each["metadata"]["name"] for each in found] == ["kube-root-ca.crt"] or not found
    assert told.index("deleted") >= 2  # in one go, one answer at most could come before
