"""HTTP as such: what is malformed, long, slow or half-closed gets the right answer and never a traceback."""

from __future__ import annotations

import gzip
import json

import msgpack
import pytest
import trio
from attrs import evolve

from controlplane.apiserver.loops.http_host import Limits
from tests.apiserver.http.session import (
    CONFIGMAPS,
    Answer,
    Lines,
    config,
    more,
    request,
    served,
    watching,
)

QUICK = Limits(linger_s=0.05)
SECOND = 1_000_000_000


@pytest.mark.parametrize(
    "raw",
    [
        b"GARBAGE\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /api/v1/pods/%f HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET nowhere HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nbad header line\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ten\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nnot a number\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40) + b"\r\n\r\n",
        b"\x00\xff\xfe" * 100 + b"\r\n\r\n",
    ],
)
async def test_malformed_requests_get_400_and_the_end(raw, capfd):
    async with served(limits=QUICK) as session:
        found = Answer(await session.raw(raw))
        assert found.code == 400
        assert found.headers["connection"] == "close"
        assert found.body == b"400 Bad Request"
        assert (await session.ask("GET", "/healthz")).body == b"ok"
    assert capfd.readouterr().err == ""


async def test_other_versions_of_http_are_refused():
    async with served(limits=QUICK) as session:
        assert Answer(await session.raw(b"GET / HTTP/9.9\r\nHost: x\r\n\r\n")).code == 505


async def test_a_request_cut_short_is_no_answer():
    async with served(limits=QUICK) as session:
        assert Answer(await session.raw(b"GET / HT", half_close=True)).code == 400
        cut = request("POST", CONFIGMAPS, b"{}", Content_Length="100")
        assert Answer(await session.raw(cut, half_close=True)).code == 400
        assert await session.raw(b"", half_close=True) == b""


async def test_keep_alive_and_pipelining():
    async with served() as session:
        stream = await session.connect()
        async with stream:
            await stream.send_all(request("GET", "/healthz") * 3)
            found = b""
            while found.count(b"\r\n\r\nok") < 3:
                found += await more(stream)
            await stream.send_all(request("GET", "/livez", Connection="close"))
            found = b""
            while piece := await stream.receive_some(65536):
                found += piece
        assert Answer(found).body == b"ok"


async def test_half_closed_connections_still_get_their_answer():
    async with served() as session:
        found = Answer(await session.raw(request("GET", "/healthz"), half_close=True))
        assert (found.code, found.body) == (200, b"ok")


async def test_http_1_0_gets_an_answer_and_the_end():
    async with served() as session:
        found = Answer(await session.raw(b"GET /version HTTP/1.0\r\n\r\n"))
        assert found.tree["major"] == "1"


async def test_expect_100_continue():
    async with served() as session:
        body = json.dumps(config("a")).encode()
        raw = request("POST", CONFIGMAPS, body, Expect="100-continue", Connection="close")
        head, _, rest = raw.partition(b"\r\n\r\n")
        stream = await session.connect()
        async with stream:
            await stream.send_all(head + b"\r\n\r\n")
            assert (await stream.receive_some(1000)).startswith(b"HTTP/1.1 100 ")
            await stream.send_all(rest)
            found = b""
            while piece := await stream.receive_some(65536):
                found += piece
        assert Answer(found).code == 201


async def test_long_headers_431_long_bodies_413():
    limits = evolve(QUICK, header_bytes=4096, body_bytes=1000)
    async with served(limits=limits) as session:
        long = request("GET", "/healthz", X_Long="x" * 10_000)
        assert Answer(await session.raw(long)).code == 431
        found = await session.ask("POST", CONFIGMAPS, config("a", x="y" * 2000))
        assert found.code == 413
        assert found.tree["message"] == "Request entity too large: limit is 1000"
        assert found.headers["connection"] == "close"
        chunked = (
            request("POST", CONFIGMAPS, Transfer_Encoding="chunked").replace(
                b"Content-Length: 0\r\n", b""
            )
            + b"400\r\n"
            + b"x" * 1024
            + b"\r\n0\r\n\r\n"
        )
        assert Answer(await session.raw(chunked)).code == 413


async def test_slow_requests_and_idle_connections_end():
    limits = evolve(QUICK, idle_s=0.1, read_s=0.1, unauthenticated_s=0.1)
    async with served(limits=limits) as session:
        assert Answer(await session.raw(b"GET / HTTP/1.1\r\nHo")).code == 408
        with trio.fail_after(120):
            assert await session.raw(b"") == b""
    async with served(limits=evolve(limits, unauthenticated_s=60.0)) as session:
        for rest, code in (b"GET / HTTP/1.1\r\nHo", b" 408 "), (b"", b""):
            stream = await session.connect()
            async with stream:
                await stream.send_all(request("GET", "/healthz"))
                assert b"200 OK" in await stream.receive_some(1000)
                await stream.send_all(rest)
                with trio.fail_after(120):
                    assert code in await stream.receive_some(1000)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "BREW"])
async def test_odd_methods_are_answered(method):
    async with served() as session:
        found = await session.ask(method, CONFIGMAPS)
        assert 400 <= found.code < 500
        assert (await session.ask("HEAD", "/healthz")).body == b""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe\x00",
        b'{"metadata": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b"{" * 100_000,
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"\\ud800"}}',
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":1e999}}',
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":' + b"9" * 5000 + b"}}",
    ],
)
async def test_malformed_bodies_are_the_clients_fault(body, capfd):
    async with served() as session:
        found = await session.ask("POST", CONFIGMAPS, body)
        assert 400 <= found.code < 500, found.body[:500]
        assert found.tree["kind"] == "Status"
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "target",
    [
        "//",
        "/api//v1",
        "/api/v1/%00",
        "/api/v1/namespaces/%2e%2e/pods",
        "/apis/a/b/c/d/e/f/g",
        "/api/v1/pods?limit=x",
        "/api/v1/pods?limit=-1",
        "/api/v1/pods?continue=%ff",
        "/api/v1/pods?watch=true&timeoutSeconds=" + "9" * 30,
        "/api/v1/pods?labelSelector=((",
        "/api/v1/pods?fieldSelector=%F0%9F%92%A9",
        "/api/v1/pods?resourceVersion=" + "1" * 40,
        "/api/v1/pods?%",
        "/api/v1/pods?=&&&",
        "/?" + "a=1&" * 2000,
        "http://elsewhere/healthz",
    ],
)
async def test_odd_targets_are_answered(target, capfd):
    async with served() as session:
        raw = request("GET", target, Connection="close")
        found = Answer(await session.raw(raw, seconds=3))
        assert found.code < 500
    assert capfd.readouterr().err == ""


async def test_large_answers_are_compressed_when_wanted():
    async with served() as session:
        for number in range(3):
            await session.ask("POST", CONFIGMAPS, config(f"c{number}", x="y" * 60_000))
        plain = await session.ask("GET", CONFIGMAPS)
        assert "content-encoding" not in plain.headers
        small = await session.ask("GET", "/version", Accept_Encoding="gzip")
        assert "content-encoding" not in small.headers
        packed = await session.ask("GET", CONFIGMAPS, Accept_Encoding="gzip")
        assert packed.headers["content-encoding"] == "gzip"
        assert len(packed.body) < 20_000
        assert gzip.decompress(packed.body) == plain.body


async def test_long_lists_leave_in_pieces_and_are_the_same():
    async with served() as session:
        for number in range(150):
            assert (await session.ask("POST", CONFIGMAPS, config(f"c{number:03}"))).code == 201
        found = await session.ask("GET", CONFIGMAPS)
        assert [item["metadata"]["name"] for item in found.tree["items"]] == [
            f"c{number:03}" for number in range(150)
        ]
        assert found.tree["kind"] == "ConfigMapList"


async def test_people_get_it_pretty():
    async with served() as session:
        assert b"\n  " in (await session.ask("GET", "/api", User_Agent="curl/8.0")).body
        assert b"\n  " in (await session.ask("GET", "/api?pretty=true")).body
        assert b"\n  " not in (await session.ask("GET", "/api?pretty=0", User_Agent="curl")).body


async def test_every_answer_has_an_audit_id_and_forbids_caching():
    async with served() as session:
        first, second = [(await session.ask("GET", "/healthz")).headers for _ in range(2)]
        assert first["audit-id"] != second["audit-id"]
        assert first["cache-control"] == "no-cache, private"
        kept = await session.ask("GET", "/healthz", Audit_Id="mine")
        assert kept.headers["audit-id"] == "mine"


async def test_a_watch_streams_lines_until_its_time_limit():
    async with served() as session:
        path = f"{CONFIGMAPS}?watch=true&timeoutSeconds=2&allowWatchBookmarks=true"
        session.pace.set_speed(20)
        async with watching(session, path) as lines:
            assert b"Transfer-Encoding: chunked" in lines.head
            assert b"Content-Type: application/json\r\n" in lines.head + b"\r\n"
            assert (await lines.next())["type"] == "BOOKMARK"
            await session.ask("POST", CONFIGMAPS, config("a"))
            event = await lines.next()
            assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "a")
            with trio.fail_after(3):
                seen = []
                while (event := await lines.next()) is not None:
                    seen.append(event["type"])
            assert set(seen) <= {"BOOKMARK"}


async def test_a_watch_as_table_is_rendered():
    async with served() as session:
        await session.ask("POST", CONFIGMAPS, config("a", x="y"))
        stream = await session.connect()
        async with stream:
            accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
            await stream.send_all(request("GET", f"{CONFIGMAPS}?watch=1", Accept=accept))
            lines = await Lines(stream).start()
            event = await lines.next()
            assert event["object"]["kind"] == "Table"
            assert event["object"]["rows"][0]["cells"][:2] == ["a", 1]


async def test_whoever_hangs_up_a_watch_is_forgotten():
    async with served(keep=True) as session:
        inlet = session.serving.cluster.world.inlet()
        async with watching(session, f"{CONFIGMAPS}?watch=true"):
            pass
        async with watching(session, f"{CONFIGMAPS}?watch=true") as lines:
            await lines.half_close()
            with pytest.raises(AssertionError, match="the connection was ended"):
                await lines.next()
        await session.ask("POST", CONFIGMAPS, config("a"))
        entered = [msgpack.unpackb(entry.payload) for entry in inlet.admitted]
        assert [entry["gone"] for entry in entered if "gone" in entry] == [1, 2]


async def test_without_a_log_no_input_is_kept():
    async with served() as session:
        await session.ask("POST", CONFIGMAPS, config("a"))
        assert session.serving.cluster.world.inlet().admitted == []


async def test_a_client_that_does_not_read_is_cut_off():
    limits = evolve(QUICK, stream_events=5, write_s=0.2)
    async with served(limits=limits) as session:
        async with watching(session, f"{CONFIGMAPS}?watch=true") as lines:
            for number in range(60):
                code = (
                    await session.ask("POST", CONFIGMAPS, config(f"c{number}", x="y" * 200_000))
                ).code
                assert code == 201
            with pytest.raises((AssertionError, trio.BrokenResourceError)), trio.fail_after(120):
                while True:
                    assert await lines.next() is not None, "the stream broke off"
        assert (await session.ask("GET", "/healthz")).code == 200


async def test_a_long_beginning_of_a_watch_is_no_backlog():
    async with served(limits=evolve(QUICK, stream_events=5)) as session:
        for number in range(20):
            await session.ask("POST", CONFIGMAPS, config(f"c{number:02}"))
        async with watching(session, f"{CONFIGMAPS}?watch=true") as lines:
            names = [(await lines.next())["object"]["metadata"]["name"] for _ in range(20)]
        assert names == [f"c{number:02}" for number in range(20)]


async def test_watches_end_cleanly_when_the_server_stops():
    async with served() as session, watching(session, f"{CONFIGMAPS}?watch=true") as lines:
        session.stop.set()
        with trio.fail_after(120):
            assert await lines.next() is None


async def test_no_connection_ended_with_a_defect(monkeypatch):
    from controlplane.apiserver.loops.http_listener import Listener

    made = []
    before = Listener.__init__

    def remember(self, *args, **kwargs):
        made.append(self)
        before(self, *args, **kwargs)

    monkeypatch.setattr(Listener, "__init__", remember)
    async with served(limits=QUICK) as session:
        for raw in (b"X", b"GET / HTTP/1.1\r\n\r\n", request("PATCH", CONFIGMAPS, b"{")):
            await session.raw(raw, half_close=True)
        async with watching(session, f"{CONFIGMAPS}?watch=true"):
            pass
    assert made[0].defects == 0


@pytest.mark.parametrize(("strategy", "within"), [("fifo", 1801), ("random-walk", 3600)])
async def test_a_watch_without_a_time_limit_ends_after_half_an_hour_to_an_hour(strategy, within):
    async with served(strategy=strategy) as session:
        session.pace.pause()
        async with watching(session, f"{CONFIGMAPS}?watch=true") as lines:
            arrived = trio.Event()
            session.pace.step(1799 * SECOND, arrived.set)
            await arrived.wait()
            await session.ask("POST", CONFIGMAPS, config("a"))
            assert (await lines.next())["type"] == "ADDED"
            session.pace.step((within - 1799) * SECOND)
            with trio.fail_after(120):
                assert await lines.next() is None


async def test_too_many_requests_under_way_are_refused_but_not_the_administrators():
    limits = evolve(QUICK, reads=1, writes=1)
    admin = {"Authorization": "Bearer secret"}
    async with served(token="secret", limits=limits) as session:
        anyone = {
            "kind": "Group",
            "apiGroup": "rbac.authorization.k8s.io",
            "name": "system:unauthenticated",
        }
        tree = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "anyone"},
            "subjects": [anyone],
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "ClusterRole",
                "name": "view",
            },
        }
        path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        assert (await session.ask("POST", path, tree, **admin)).code == 201
        for number in range(20):
            large = config(f"c{number}", x="y" * 900_000)
            assert (await session.ask("POST", CONFIGMAPS, large, **admin)).code == 201
        slow = await session.connect()
        async with slow:
            await slow.send_all(request("GET", CONFIGMAPS))
            assert await slow.receive_some(100)
            found = await session.ask("GET", f"{CONFIGMAPS}?limit=1")
            assert (found.code, found.headers["retry-after"]) == (429, "1")
            assert found.body == b"Too many requests, please try again later.\n"
            assert (await session.ask("GET", f"{CONFIGMAPS}?limit=1", **admin)).code == 200
            async with watching(session, f"{CONFIGMAPS}?watch=true&resourceVersion=0") as lines:
                assert b" 200 " in lines.head
        with trio.fail_after(120):
            while (await session.ask("GET", f"{CONFIGMAPS}?limit=1")).code == 429:
                await trio.sleep(0.01)


async def test_objects_of_all_sizes_are_listed_the_same_plain_whole_and_packed():
    async with served() as session:
        for number, size in enumerate((1, 100, 16_000, 17_000, 300_000, 20, 262_144, 900_000)):
            found = await session.ask(
                "POST", CONFIGMAPS, config(f"c{number}", x="\u00e9" * (size // 2))
            )
            assert found.code == 201, found.body
            assert found.headers["content-length"] == str(len(found.body))
        trees = [(await session.ask("GET", f"{CONFIGMAPS}/c{number}")).tree for number in range(8)]
        plain = await session.ask("GET", CONFIGMAPS)
        for tree in trees:
            assert tree.pop("kind") == "ConfigMap"
            assert tree.pop("apiVersion") == "v1"
        assert plain.tree["items"] == trees
        packed = await session.ask("GET", CONFIGMAPS, Accept_Encoding="gzip")
        assert gzip.decompress(packed.body) == plain.body
        pretty = await session.ask("GET", f"{CONFIGMAPS}?pretty=true")
        assert pretty.body == json.dumps(plain.tree, indent=2, ensure_ascii=False).encode()
        cluster = session.serving.cluster
        assert (await session.ask("GET", CONFIGMAPS)).body == plain.body
        async with watching(session, f"{CONFIGMAPS}?watch=true") as lines:
            for tree in trees:
                event = await lines.next()
                assert event["object"] == {"kind": "ConfigMap", "apiVersion": "v1", **tree}
        assert cluster.config.gates.fixed("129334")


async def test_a_list_as_a_whole_says_how_long_it_is():
    async with served(without=("129334",)) as session:
        for number in range(3):
            await session.ask("POST", CONFIGMAPS, config(f"c{number}", x="y" * 300_000))
        found = await session.ask("GET", CONFIGMAPS)
        assert found.headers["content-length"] == str(len(found.body))
        assert len(found.tree["items"]) == 3
    async with served() as session:
        for number in range(3):
            await session.ask("POST", CONFIGMAPS, config(f"c{number}", x="y" * 300_000))
        assert "content-length" not in (await session.ask("GET", CONFIGMAPS)).headers


async def test_a_watch_of_metadata_outlives_what_it_watches():
    """A bookmark was due on a kind that was served no more, and the whole session ended."""
    group = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    schema = {"openAPIV3Schema": {"type": "object"}}
    body = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "foos.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Foo", "plural": "foos"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    path = "/apis/example.com/v1/foos"
    async with served() as session:
        session.pace.set_speed(50)
        await session.ask("POST", group, body)
        await session.ask(
            "POST", path, {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}}
        )
        stream = await session.connect()
        async with stream:
            asked = f"{path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=8"
            await stream.send_all(request("GET", asked, Accept=accept))
            lines = await Lines(stream).start()
            assert (await lines.next())["object"]["kind"] == "PartialObjectMetadata"
            await session.ask("DELETE", f"{group}/foos.example.com")
            seen = []
            while (event := await lines.next()) is not None:
                seen.append(event["type"])
            *bookmarks, last = seen  # the number of bookmarks depends on the speed of the machine
            assert (set(bookmarks), last) == ({"BOOKMARK"}, "DELETED")
        assert (await session.ask("GET", "/healthz")).body == b"ok"


async def test_a_request_with_two_lengths_is_answered_and_the_connection_ends():
    raw = (
        b"POST "
        + CONFIGMAPS.encode()
        + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    )
    async with served(limits=QUICK) as session:
        found = await session.raw(raw + request("GET", "/healthz"))
        assert found.count(b"HTTP/1.1 ") == 1  # what follows may have been meant otherwise
        assert Answer(found).headers["connection"] == "close"
