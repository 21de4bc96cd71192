"""HTTP/2 over TLS: the same answers as over HTTP/1.1, many at once, and an end only for what is malformed."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import httpx
import msgpack
import pytest
import trio
from attrs import evolve

from controlplane.api import identity
from controlplane.apiserver.loops.http_host import Limits
from tests.apiserver.http.http2_client import connected, raw, trusting
from tests.apiserver.http.session import CONFIGMAPS, PODS, config, request, served

QUICK = Limits(linger_s=0.05)
JSON = {"content_type": "application/json"}
NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, REFUSED, CANCEL, CALM = 0, 1, 3, 7, 8, 11


async def test_a_client_chooses_its_protocol_and_gets_the_same_answers():
    asked = [
        ("GET", "/version", None),
        ("POST", CONFIGMAPS, config("a", x="y" * 300_000)),
        ("GET", f"{CONFIGMAPS}/a", None),
        ("GET", f"{CONFIGMAPS}/absent", None),
        ("HEAD", f"{CONFIGMAPS}/a", None),
        ("OPTIONS", CONFIGMAPS, None),
        ("GET", CONFIGMAPS, None),
        ("POST", CONFIGMAPS, {"no": "object"}),
        ("DELETE", f"{CONFIGMAPS}/a", None),
        ("GET", "/nowhere", None),
    ]
    found = []
    for http2 in (False, True):
        async with served(tls=True, limits=QUICK) as session:
            verify = trusting("h2", "http/1.1")
            url = session.address.url
            async with httpx.AsyncClient(http1=not http2, http2=http2, verify=verify) as client:
                answers = [
                    await client.request(method, url + path, json=body)
                    for method, path, body in asked
                ]
            assert {answer.http_version for answer in answers} == {
                "HTTP/2" if http2 else "HTTP/1.1"
            }
            found.append([seen(answer) for answer in answers])
    assert found[0] == found[1]
    assert [code for code, _, _ in found[0]][:4] == [200, 201, 200, 404]


def seen(answer: httpx.Response):
    """What does not differ from one session to the next, nor by version."""
    headers = {
        name: value
        for name, value in answer.headers.items()
        if name not in ("date", "audit-id", "connection", "transfer-encoding")
    }
    assert answer.headers["audit-id"]
    return answer.status_code, headers, answer.content


async def test_http_1_1_alone_is_served_where_http2_is_not_offered():
    async with served(tls=True, http2=False) as session, raw(session, "h2", "http/1.1") as stream:
        assert stream.selected_alpn_protocol() == "http/1.1"
        await stream.send_all(request("GET", "/healthz", Connection="close"))
        assert (await stream.receive_some(65536)).startswith(b"HTTP/1.1 200")


async def test_requests_of_one_connection_are_answered_at_once():
    async with served(tls=True) as session, connected(session) as client:
        numbers = [
            client.begin("POST", CONFIGMAPS, json.dumps(config(f"c{each}")).encode(), **JSON)
            for each in range(50)
        ]
        assert {(await client.answer(number)).code for number in numbers} == {201}
        listed = await client.ask("GET", CONFIGMAPS)
        assert len(listed.tree["items"]) == 50


async def test_a_watch_is_a_stream_that_its_reset_ends():
    async with served(tls=True, keep=True, limits=QUICK) as session, connected(session) as client:
        watch = client.begin("GET", f"{CONFIGMAPS}?watch=true")
        await client.flush()
        found = client.streams[watch]
        await client.until(lambda: found.headers)
        assert found.headers["content-type"] == "application/json"
        assert "transfer-encoding" not in found.headers
        await client.ask("POST", CONFIGMAPS, config("a"), **JSON)
        await client.until(lambda: found.body.endswith(b"\n"))
        assert found.tree["type"] == "ADDED"
        client.http.reset_stream(watch, CANCEL)
        assert (await client.ask("GET", "/version")).code == 200
        with trio.fail_after(60):
            while not _gone(session):
                await trio.sleep(0.01)
        assert _gone(session) == [1]


def _gone(session):
    entered = [
        msgpack.unpackb(each.payload) for each in session.serving.cluster.world.inlet().admitted
    ]
    return [each["gone"] for each in entered if "gone" in each]


async def test_answers_wait_for_the_windows_of_their_client():
    async with served(tls=True) as session, connected(session) as client:
        assert (
            await client.ask("POST", CONFIGMAPS, config("a", x="y" * 900_000), **JSON)
        ).code == 201
        client.widens = False
        client.http.increment_flow_control_window(1 << 21)
        number = client.begin("GET", f"{CONFIGMAPS}/a")
        await client.flush()
        found = client.streams[number]
        await client.until(lambda: len(found.body) == 65_535)
        assert (await client.ask("GET", "/healthz")).body == b"ok"
        assert len(found.body) == 65_535
        client.http.increment_flow_control_window(1 << 21, number)
        assert len((await client.answer(number)).tree["data"]["x"]) == 900_000


async def test_a_window_that_never_opens_ends_its_stream_only():
    limits = evolve(QUICK, write_s=0.2)
    async with served(tls=True, limits=limits) as session, connected(session) as client:
        client.http.update_settings({4: 0})
        found = await client.ask("GET", "/version")
        assert (found.code, found.body, found.reset) == (200, b"", 2)
        client.http.update_settings({4: 65_535})
        assert (await client.ask("GET", "/version")).code == 200


async def test_a_long_body_is_refused_and_its_rest_not_wanted():
    limits = evolve(QUICK, body_bytes=100_000)
    async with served(tls=True, limits=limits) as session, connected(session) as client:
        number = client.begin("POST", CONFIGMAPS, b" " * 1000, last=False, **JSON)
        found = client.streams[number]
        for _ in range(4):
            client.http.send_data(number, b" " * 16_000)
        await client.flush()
        await client.until(lambda: client.http.local_flow_control_window(number) > 150_000)
        for _ in range(4):
            client.http.send_data(number, b" " * 16_000)
        await client.flush()
        await client.until(lambda: found.reset is not None)
        assert (found.code, found.ended, found.reset) == (413, True, NO_ERROR)
        assert (await client.ask("GET", "/version")).code == 200


async def test_a_late_body_gets_408():
    limits = evolve(QUICK, read_s=0.1)
    async with served(tls=True, limits=limits) as session, connected(session) as client:
        number = client.begin("POST", CONFIGMAPS, b"", **JSON)
        assert (await client.answer(number)).code == 400
        late = await client.answer(client.begin("POST", CONFIGMAPS, b"{", last=False, **JSON))
        assert (late.code, late.body) == (408, b"408 Request Timeout")


async def test_ping_is_answered_and_a_malformed_request_ends_its_stream_only():
    async with served(tls=True) as session, connected(session) as client:
        client.http.config.validate_outbound_headers = False
        client.http.config.normalize_outbound_headers = False
        assert (await client.ask("GET", "/version", Bad="x")).reset == PROTOCOL_ERROR
        refused = await client.ask("GET", "/version", connection="close")
        assert refused.code == 400
        assert b'"Connection" is not valid' in refused.body
        client.http.ping(b"12345678")
        await client.flush()
        await client.until(lambda: client.pings)
        assert (await client.ask("GET", "/version")).code == 200


async def test_a_malformed_frame_ends_its_connection_only():
    async with served(tls=True, limits=QUICK) as session, connected(session) as other:
        async with connected(session) as client:
            await client.ask("GET", "/version")
            await client.stream.send_all(b"\0\0\x05\x06\0\0\0\0\0hello")  # a PING of five bytes
            await client.until_closed()
            assert client.goaway not in (None, NO_ERROR)
        assert (await other.ask("GET", "/version")).code == 200


async def test_more_streams_than_offered_are_refused_one_by_one():
    limits = evolve(QUICK, http2_streams=3)
    async with served(tls=True, limits=limits) as session, connected(session) as client:
        await client.ask("GET", "/version")
        assert client.http.remote_settings.max_concurrent_streams == 3
        client.http.remote_settings[3] = 100
        client.http.remote_settings.acknowledge()
        watches = [client.begin("GET", f"{CONFIGMAPS}?watch=true&n={n}") for n in range(5)]
        await client.flush()
        await client.until(lambda: sum(client.streams[n].reset is not None for n in watches) == 2)
        assert [client.streams[n].reset for n in watches[3:]] == [PROTOCOL_ERROR] * 2
        await client.until(lambda: all(client.streams[n].headers for n in watches[:3]))
        client.http.reset_stream(watches[0], CANCEL)
        assert (await client.ask("GET", "/version")).code == 200


async def test_an_upgrade_is_not_offered():
    async with served(tls=True, nodes=1) as session, connected(session) as client:
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "m", "image": "app:1"}]},
        }
        assert (await client.ask("POST", PODS, pod, **JSON)).code == 201
        with trio.fail_after(60):
            while (await client.ask("GET", f"{PODS}/p")).tree["status"].get("phase") != "Running":
                await trio.sleep(0.01)
        found = await client.ask("POST", f"{PODS}/p/exec?command=ls&stdout=true", b"")
        assert (found.code, found.tree["message"]) == (400, "Upgrade request required")


async def test_a_client_that_is_not_known_gets_one_answer():
    async with served(tls=True, token="secret", limits=QUICK) as session:
        for headers, code in (({}, 403), ({"authorization": "Bearer guess"}, 401)):
            async with connected(session) as client:
                assert (await client.ask("GET", PODS, **headers)).code == code
                await client.until_closed()
                assert client.goaway == NO_ERROR
        async with connected(session) as client:
            for _ in range(3):
                found = await client.ask("GET", PODS, authorization="Bearer secret")
                assert found.code == 200


async def test_a_client_that_says_nothing_is_dropped_soon():
    limits = evolve(QUICK, unauthenticated_s=1.0)
    async with (
        served(tls=True, token="secret", limits=limits) as session,
        connected(session) as client,
    ):
        await client.until_closed()


async def test_long_headers_get_431_and_a_block_without_end_the_end():
    limits = evolve(QUICK, header_bytes=20_000, unauthenticated_header_bytes=20_000)
    async with served(tls=True, token="secret", limits=limits) as session:
        async with connected(session) as client:
            assert (await client.ask("GET", "/version", x="y" * 19_995)).code == 431
        async with connected(session) as client:
            frame = b"\0\x3f\xff\x01\0\0\0\0\x01" + b"\x82" * 0x3FFF
            more = b"\0\x3f\xff\x09\0\0\0\0\x01" + b"\x82" * 0x3FFF
            await client.stream.send_all(frame + more + more)
            await client.until_closed()
            assert client.goaway == CALM


async def test_the_server_says_goodbye_when_it_stops():
    async with served(tls=True, limits=QUICK) as session, connected(session) as client:
        watch = client.begin("GET", f"{CONFIGMAPS}?watch=true")
        await client.flush()
        await client.until(lambda: client.streams[watch].headers)
        session.stop.set()
        await client.until_closed()
        assert client.goaway == NO_ERROR
        assert client.streams[watch].ended


@pytest.mark.parametrize(
    ("announced", "sent", "reset"),
    [("5", b"{}     ", True), ("0", b"{}", True), ("many", b"{}", True), ("7", b"{}", False)],
)
async def test_a_body_of_another_length_than_announced_ends_its_stream_only(announced, sent, reset):
    async with served(tls=True) as session, connected(session) as client:
        client.http.config.validate_outbound_headers = False
        watch = client.begin("GET", f"{CONFIGMAPS}?watch=true")
        number = client.begin("POST", CONFIGMAPS, sent, content_length=announced, **JSON)
        found = await client.answer(number)
        assert (found.reset == PROTOCOL_ERROR) is reset
        if not reset:
            text = "request declared a Content-Length of 7 but only wrote 2 bytes"
            assert (found.code, found.tree["message"]) == (500, text)
        right = await client.ask("POST", CONFIGMAPS, b"{}", content_length="2", **JSON)
        assert right.code == 422
        assert not client.streams[watch].ended
        assert not client.closed


async def test_a_length_of_a_request_without_a_body_is_not_looked_at():
    async with served(tls=True) as session, connected(session) as client:
        found = await client.ask("GET", "/version", content_length="7")
        assert (found.code, found.reset) == (200, None)


async def test_a_client_is_told_now_and_then_to_open_another_connection():
    async with served(tls=True, limits=QUICK, goaway_chance=0.02) as session:
        requests = []
        for _ in range(3):
            async with connected(session) as client:
                count = 0
                while client.goaway is None:
                    assert (await client.ask("GET", "/version")).code == 200
                    count += 1
                    await client.stream.send_all(client.http.data_to_send())
                    with trio.move_on_after(0.02):
                        await client.more()
                assert client.goaway == NO_ERROR
                await client.until_closed()
                requests.append(count)
    assert requests == _until_drawn(0.02, 3)


async def test_a_watch_goes_on_when_its_client_is_told_to_open_another_connection():
    (first,) = _until_drawn(0.02, 1)
    async with (
        served(tls=True, limits=QUICK, goaway_chance=0.02) as session,
        connected(session) as other,
    ):
        for _ in range(first - 1):
            await other.ask("GET", "/version")
        async with connected(session) as client:
            watch = client.begin("GET", f"{CONFIGMAPS}?watch=true")
            await client.flush()
            await client.until(lambda: client.goaway is not None)
            assert client.streams[watch].code == 200
            assert (await other.ask("POST", CONFIGMAPS, config("a"), **JSON)).code == 201
            data = b""
            with trio.fail_after(10):
                while b"ADDED" not in data:
                    data += await client.stream.receive_some(65536)


def _until_drawn(chance: float, times: int) -> list[int]:
    """The numbers of requests up to each that a server draws."""
    drawn = [serial for serial in range(1, 2000) if identity.share(serial) < chance][:times]
    return [now - before for before, now in pairwise([0, *drawn])]


async def test_http_1_1_and_a_chance_of_none_end_no_connection():
    async with served(tls=True, http2=False, goaway_chance=0.02) as session:
        url = f"{session.address.url}/version"
        async with httpx.AsyncClient(verify=trusting("http/1.1")) as client:
            for _ in range(100):
                assert (await client.get(url)).headers.get("connection") != "close"
    async with served(tls=True) as session, connected(session) as client:
        for _ in range(200):
            await client.ask("GET", "/version")
        assert client.goaway is None


@pytest.mark.slow
async def test_thousands_of_resets_reach_neither_the_world_nor_other_clients():
    async with (
        served(tls=True, keep=True, limits=QUICK) as session,
        connected(session) as other,
        connected(session) as client,
    ):
        await client.ask("GET", "/version")
        for _ in range(40):
            for _ in range(50):
                number = client.begin("GET", PODS)
                client.http.reset_stream(number, CANCEL)
            await client.flush()
        with trio.fail_after(20):
            assert (await other.ask("GET", "/version")).code == 200
        entered = session.serving.cluster.world.inlet().admitted
        assert len(entered) < 200


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
async def test_random_frames_end_at_most_their_connection(seed):
    chance = random.Random(seed)
    async with served(tls=True, limits=QUICK) as session, connected(session) as other:
        for _ in range(8):
            async with connected(session) as client:
                await client.ask("GET", "/version")
                frames = b"".join(_frame(chance) for _ in range(chance.randrange(1, 60)))
                try:
                    await client.stream.send_all(frames)
                    with trio.move_on_after(0.2):
                        while await client.stream.receive_some(65536):
                            pass
                except trio.BrokenResourceError:
                    pass
            assert (await other.ask("GET", "/version")).code == 200
        log = session.serving.cluster.world.log
        assert [each.data for each in log if each.event == "apiserver.panic"] == []


def _frame(chance: random.Random) -> bytes:
    size = chance.choice((0, 1, 4, 5, 6, 8, 20, 200))
    body = bytes(chance.choice((0, 1, 0x82, 0x84, 0x87, 0x41, 255)) for _ in range(size))
    kind = chance.choice((*range(10), 10, 77))
    number = chance.choice((0, 1, 3, 5, 7, 101, 2, (1 << 31) - 1))
    head = size.to_bytes(3, "big") + bytes((kind, chance.choice((0, 1, 4, 5, 8, 32, 37, 255))))
    return head + number.to_bytes(4, "big") + body
