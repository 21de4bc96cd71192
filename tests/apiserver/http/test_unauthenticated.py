"""Who has not said who they are: few, short-lived, and in nobody's way."""

from __future__ import annotations

import contextlib
import tracemalloc

import pytest
import trio
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from controlplane.apiserver.http.unauthenticated import UnauthenticatedConnections
from controlplane.apiserver.loops.http_host import Limits
from tests.apiserver.http.session import CONFIGMAPS, PODS, Answer, config, request, served

QUICK = Limits(linger_s=0.05, unauthenticated=8, unauthenticated_of_one=6)
ADMIN = {"Authorization": "Bearer secret"}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=60))
def test_there_are_never_more_than_allowed_and_the_oldest_of_the_most_gives_way(steps):
    unauthenticated: UnauthenticatedConnections[int] = UnauthenticatedConnections(5, 3)
    here: dict[int, str] = {}
    left: list[int] = []
    for key, (address, leaves) in enumerate(steps):
        mine = [each for each, where in here.items() if where == address]
        if leaves and mine:
            unauthenticated.depart(address, mine[0])
            unauthenticated.depart(address, mine[0])
            del here[mine[0]]
            continue
        counts = {each: [*here.values(), address].count(each) for each in {*here.values(), address}}
        here[key] = address
        unauthenticated.arrive(address, key, lambda key=key: left.append(key))
        known = {each for where in unauthenticated._waiting.values() for each in where}
        told = set(here) - known
        assert len(told) == (len(here) > 5 or counts[address] > 3)
        assert told == {*left[-1:]} or not told
        for each in told:
            assert here[each] == address or counts[here[each]] == max(counts.values())
            assert each == min(other for other, where in here.items() if where == here[each])
            del here[each]
        assert len(unauthenticated) == len(here) <= 5


async def test_idle_unauthenticated_connections_do_not_lock_out_a_client_with_a_token():
    async with served(token="secret", limits=QUICK) as session:
        keeper = await session.connect()
        async with keeper:
            await keeper.send_all(request("GET", PODS, **ADMIN))
            assert (await keeper.receive_some(65536)).startswith(b"HTTP/1.1 200")
            idle = [await session.connect() for _ in range(40)]
            assert (await session.ask("GET", PODS, **ADMIN)).code == 200
            with trio.fail_after(120):
                for stream in idle[:30]:
                    assert await gone(stream)
            await keeper.send_all(request("GET", PODS, **ADMIN))
            assert (await keeper.receive_some(65536)).startswith(b"HTTP/1.1 200")
            for stream in idle:
                await stream.aclose()


async def gone(stream) -> bool:
    try:
        return await stream.receive_some(100) == b""
    except trio.BrokenResourceError:
        return True


async def test_a_client_that_never_finishes_its_headers_is_dropped_soon():
    limits = evolve(QUICK, unauthenticated_s=0.2)
    async with served(token="secret", limits=limits) as session:
        stream = await session.connect()
        async with stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\n")
            with trio.fail_after(120):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(drip, stream)
                    found = await stream.receive_some(100)
                    nursery.cancel_scope.cancel()
            assert found.startswith(b"HTTP/1.1 408")
        silent = await session.connect()
        async with silent:
            with trio.fail_after(120):
                assert await gone(silent)


async def drip(stream) -> None:
    try:
        while True:
            await stream.send_all(b"X-A: b\r\n")
            await trio.sleep(0.05)
    except trio.BrokenResourceError:
        pass


async def test_long_headers_are_refused_early_before_authentication_only():
    async with served(token="secret", limits=QUICK) as session:
        stream = await session.connect()
        async with stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 200_000)
            assert (await stream.receive_some(100)).startswith(b"HTTP/1.1 431")
        keeper = await session.connect()
        async with keeper:
            await keeper.send_all(request("GET", "/healthz", **ADMIN))
            assert (await keeper.receive_some(65536)).startswith(b"HTTP/1.1 200")
            await keeper.send_all(request("GET", "/healthz", X_A="a" * 200_000, **ADMIN))
            assert (await keeper.receive_some(65536)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(("headers", "code"), [({}, 403), ({"Authorization": "Bearer guess"}, 401)])
async def test_the_body_of_a_request_that_is_not_allowed_is_not_read(headers, code):
    """It is answered although not a byte of its body came, and a long body is not kept."""
    async with served(token="secret", limits=QUICK) as session:
        head = request("POST", CONFIGMAPS, Content_Length="3000000", **headers)
        with trio.fail_after(120):
            assert Answer(await session.raw(head)).code == code
        expect = request(
            "POST", CONFIGMAPS, Content_Length="3000000", Expect="100-continue", **headers
        )
        found = await session.raw(expect)
        assert found.startswith(f"HTTP/1.1 {code}".encode())
        chunked = request("POST", CONFIGMAPS, Transfer_Encoding="chunked", **headers)
        chunked = chunked.replace(b"Content-Length: 0\r\n", b"")
        assert Answer(await session.raw(chunked)).code == code


async def test_the_roles_are_asked_before_the_body_is_read():
    async with served(token="secret", limits=QUICK) as session:
        robot = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
        accounts = "/api/v1/namespaces/default/serviceaccounts"
        assert (await session.ask("POST", accounts, robot, **ADMIN)).code == 201
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        made = await session.ask("POST", f"{accounts}/robot/token", asked, **ADMIN)
        mine = {"Authorization": f"Bearer {made.tree['status']['token']}"}
        head = request("POST", CONFIGMAPS, Content_Length="3000000", **mine)
        with trio.fail_after(120):
            found = Answer(await session.raw(head))
        assert (found.code, found.headers["connection"]) == (403, "close")
        assert found.tree["message"] == (
            'configmaps is forbidden: User "system:serviceaccount:default:robot" cannot create resource '
            '"configmaps" in API group "" in the namespace "default"'
        )
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "robot"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "edit",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
        }
        path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings"
        assert (await session.ask("POST", path, binding, **ADMIN)).code == 201
        assert (await session.ask("POST", CONFIGMAPS, config("a"), **mine)).code == 201


async def test_unfinished_bodies_of_unauthenticated_requests_cost_nothing():
    limits = evolve(QUICK, unauthenticated=64, unauthenticated_of_one=64, unauthenticated_s=30)
    async with served(token="secret", limits=limits) as session:
        head = request("POST", CONFIGMAPS, Content_Length="3000000")
        tracemalloc.start()
        try:
            streams = []
            for _ in range(30):
                streams.append(await session.connect())
                with trio.move_on_after(5):
                    with contextlib.suppress(trio.BrokenResourceError):
                        await streams[-1].send_all(head + b"x" * 1_000_000)
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()
        for stream in streams:
            await stream.aclose()
        assert (await session.ask("GET", PODS, **ADMIN)).code == 200
