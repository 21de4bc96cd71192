"""Clients are warned of kinds on which nothing in the served cluster acts."""

from typing import Any

import pytest

from controlplane.api.request import Request
from controlplane.apiserver.requests.notices import Notices
from controlplane.apiserver.schema.resources import builtin_resources
from tests.apiserver.http.session import Lines, request, served

INGRESS = {
    "apiVersion": "networking.k8s.io/v1",
    "kind": "IngressClass",
    "metadata": {"generateName": "a"},
    "spec": {"controller": "example.com/a"},
}
JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "a"},
    "spec": {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}
        }
    },
}
JOBS = "/apis/batch/v1/namespaces/default/jobs"


@pytest.mark.slow
async def test_creating_what_nothing_acts_on_warns_and_the_session_goes_on():
    async with served() as session:
        classes = "/apis/networking.k8s.io/v1/ingressclasses"
        made = await session.ask("POST", classes, INGRESS)
        assert made.code == 201
        assert (
            "nothing in this emulated control plane acts on IngressClass" in made.headers["warning"]
        )
        named = made.tree["metadata"]["name"]
        assert "warning" not in (await session.ask("GET", f"{classes}/{named}")).headers
        made = await session.ask("POST", JOBS, JOB)  # this session has no controller for jobs
        assert "acts on Job.batch objects" in made.headers["warning"]
        while session.serving.world.steps < 1100:  # the rooms are looked into after 1024 steps
            assert (await session.ask("GET", "/healthz")).body == b"ok"


CLASSES = "/apis/networking.k8s.io/v1/ingressclasses"


async def test_a_client_hears_of_a_kind_once_and_another_client_hears_it_too():
    async with served() as session:

        async def warned(agent: str, path: str = CLASSES, body: Any = INGRESS) -> bool:
            made = await session.ask("POST", path, body, User_Agent=agent)
            assert made.code == 201, made.body
            return "warning" in made.headers

        assert [await warned("one/1") for _ in range(3)] == [True, False, False]
        assert [await warned("two/1") for _ in range(2)] == [True, False]
        assert await warned("one/1", JOBS, JOB)


async def test_no_client_is_warned_of_a_kind_that_one_watches():
    async with served() as session:
        stream = await session.connect()
        async with stream:
            await stream.send_all(request("GET", f"{CLASSES}?watch=1", User_Agent="operator"))
            lines = await Lines(stream).start()
            made = await session.ask("POST", CLASSES, INGRESS, User_Agent="kubectl")
            assert (made.code, made.headers.get("warning")) == (201, None)
            assert (await lines.next())["type"] == "ADDED"
        made = await session.ask("POST", JOBS, JOB, User_Agent="kubectl")
        assert "acts on Job.batch objects" in made.headers["warning"]


def test_notices_are_forgotten_when_there_are_too_many():
    info = next(iter(builtin_resources()))
    notices = Notices(lambda info, tree, watched: "" if watched else "text")

    def given(agent: str) -> str:
        return notices.at_creation(info, Request("create", user_agent=agent, path="/"), {})

    assert [given("a"), given("a"), given("b")] == ["text", "", "text"]
    for number in range(2000):
        assert given(f"other {number}")
    assert given("a")
    assert notices.at_creation(info, Request("create"), {}) == ""  # a component of the world
    notices.watch_opened(info, Request("watch"))
    assert given("c")
    notices.watch_opened(info, Request("watch", path="/"))
    assert not given("d")


async def test_a_kind_with_its_controller_warns_of_nothing():
    async with served(controllers="*") as session:
        made = await session.ask("POST", JOBS, JOB)
        assert (made.code, made.headers.get("warning")) == (201, None)
